/**
 * Serves on Bun.
 *
 * What a connection may do on Bun 1.4.5, as measured (its timers tick every 4 s):
 * - Before its first request no handler sees it. Bun closes it after 12 s: with no byte, with half a header,
 *   or with a header that drips. Until then it costs an open file: keep `ulimit -Hn` above what strangers can
 *   hold open (Bun raises the soft limit).
 * - After a request it may be silent for `strangerSeconds`, also within a body, which must come at a fair
 *   pace.
 * - An accepted call waits as long as it takes. The reader of its body sets a deadline (`server/body.ts`).
 *   Its response may stand still for `defaultAnswerSeconds`, so a reader of 10 KB/s or more is never cut off.
 * - Pipelined requests are answered in order while each response is there at once. Behind a response that
 *   waits or is still being written, Bun closes the connection with a FIN, and no handler sees the next
 *   request. Deno answers all.
 */
import { type AcceptedRequest, flushMs, peerOf } from './flush.ts'
import {
  createHostCheck,
  createStop,
  formatUrl,
  type Peer,
  type RunningServer,
  type ServeOptions,
  withLastHeader,
} from './http-server.ts'
import { type Listener, openListeners } from './listeners.ts'
import { RoomPart } from './runtime.ts'
import type { ActivatedSocket } from './socket-activation.ts'

/**
 * A connection whose last call was not accepted is closed after this many seconds of silence, together with
 * that call, or up to 4 s sooner. A body that stands still ends before that (`server/body.ts`), so that its
 * caller gets an answer.
 */
const strangerSeconds = 20
/**
 * A response is given up, with its connection, after this many seconds in which nothing of it could be
 * written; 255 is the maximum. The kernel asks for more only when a third of its buffer is free: for a reader
 * of 16 KB/s that was every 69 s.
 */
const defaultAnswerSeconds = 240

/** @param activated the socket that systemd holds at the port */
export function serveOnBun(options: ServeOptions, activated?: ActivatedSocket): RunningServer {
  const checkHost = createHostCheck()
  const { socket, hostname } = options
  const state: BunServerState = {
    answerSeconds: options.answerSeconds ?? defaultAnswerSeconds,
    isDraining: false,
    pending: new Set(),
    // A Unix socket has no addresses.
    ...(socket === undefined && { watched: new Set() }),
  }
  const start = (port: number, tls?: { cert: string; key: string }): Listener => {
    const own = { isOld: false }
    const held = port === options.port ? activated : undefined
    const place = { hostname, port: held ? 0 : port, tls }
    const common = {
      development: false as const,
      // The REST and MCP handlers count body bytes themselves.
      maxRequestBodySize: Number.MAX_SAFE_INTEGER,
      fetch(request: Request, running: BunServer) {
        const rejection = checkHost(request)
        if (rejection) return rejection
        const peer = new BunPeer({ server: running, request, state, listener: own })
        const { held } = listeners
        const answer = held ? held.then(() => options.fetch(request, peer)) : options.fetch(request, peer)
        return answer instanceof Promise ? answer.then(peer.finish) : peer.finish(answer)
      },
    }
    const server =
      socket === undefined
        ? // Without `reusePort: false`, `development: false` shares the port with any other such server (Bun 1.4.5).
          Bun.serve({ ...common, ...place, reusePort: false, idleTimeout: strangerSeconds })
        : Bun.serve({ ...common, unix: socket })
    held?.give(server.port ?? 0)
    return {
      port: held ? port : (server.port ?? port),
      finish() {
        own.isOld = true
        return server.stop(false)
      },
      cut: () => server.stop(true),
    }
  }
  const listeners = openListeners(start, options.port, options.certificate)
  const liftTimer = setInterval(() => {
    for (const peer of state.pending) peer.liftLimit()
  }, state.answerSeconds * 250)
  liftTimer.unref()
  const stop = createStop({
    async finish() {
      await listeners.finish()
      await Promise.all(state.watched ?? [])
    },
    cut: listeners.cut,
  })
  const { port } = listeners
  return {
    url: formatUrl(hostname, port, options.certificate !== undefined),
    hostname,
    port,
    drain() {
      state.isDraining = true
      activated?.release()
    },
    stop: graceMs => stop(graceMs).finally(() => clearInterval(liftTimer)),
  }
}

interface BunServer {
  requestIP(request: Request): { address: string; port: number } | null
  timeout(request: Request, seconds: number): void
}

/** What all connections of one server share. */
interface BunServerState {
  answerSeconds: number
  /** After `drain`. */
  isDraining: boolean
  /** Accepted calls without a response yet. */
  pending: Set<BunPeer>
  /** Responses whose completion is watched; absent where it cannot be known. */
  watched?: Set<Promise<boolean>>
}

/**
 * If a response ended because its client hung up, the signal aborts within this time: 1.4 ms on a busy
 * machine.
 */
const hangUpMs = 5
/** Longest interval between two checks of a response that waits for its reader. */
const pollEveryMs = 50

interface PeerPorts {
  server: BunServer
  request: AcceptedRequest
  state: BunServerState
  listener: { readonly isOld: boolean }
}

/** Reads the address only when it is needed: that costs a tenth of a small request. */
class BunPeer extends RoomPart<PeerPorts> implements Peer {
  #lifted = false
  #isAnswered = false

  get remoteAddress(): string | undefined {
    return this.ports.server.requestIP(this.ports.request)?.address
  }

  get connection(): string | undefined {
    const peer = this.ports.server.requestIP(this.ports.request)
    return peer ? `${peer.address} ${peer.port}` : undefined
  }

  accept(): void {
    // It would be pending for ever.
    if (this.#isAnswered) return
    this.ports.server.timeout(this.ports.request, this.ports.state.answerSeconds)
    this.ports.state.pending.add(this)
    if (this.ports.state.watched) this.ports.request[peerOf] = this
  }

  /** See `waitUntilWritten`. */
  waitUntilWritten(): Promise<boolean> {
    const { watched } = this.ports.state
    const written = this.#pollWritten().finally(() => watched?.delete(written))
    watched?.add(written)
    return written
  }

  /**
   * Bun 1.4.5 reports an address for as long as the response is being written: for 30 MB to a slow reader
   * until the kernel has taken the last byte, and for a reader that resets until the reset. The signal aborts
   * a moment later.
   */
  async #pollWritten(): Promise<boolean> {
    for (let waitMs = flushMs; ; waitMs = Math.min(waitMs * 2, pollEveryMs)) {
      await new Promise(resolve => setTimeout(resolve, waitMs))
      if (this.remoteAddress === undefined) break
    }
    await new Promise(resolve => setTimeout(resolve, hangUpMs))
    await new Promise(resolve => setImmediate(resolve))
    return !this.ports.request.signal.aborted
  }

  /**
   * Removes the time limit of a slow call. Most calls end before this: each use of the runtime's timer costs
   * 1 µs.
   */
  liftLimit(): void {
    this.#lifted = true
    this.ports.server.timeout(this.ports.request, 0)
  }

  /** From now on Bun's limit applies between two bytes, and until the next request on the connection. */
  readonly finish = (answer: Response): Response => {
    this.#isAnswered = true
    this.ports.state.pending.delete(this)
    if (this.#lifted) this.ports.server.timeout(this.ports.request, this.ports.state.answerSeconds)
    return this.ports.listener.isOld || this.ports.state.isDraining ? withLastHeader(answer) : answer
  }
}
