/**
 * The listeners of one address. A runtime cannot change the certificate of a listener (Bun 1.4.5, Deno 2.9.6),
 * so a new certificate gets a new one, at the same port: connections with running calls go on with the old
 * one until these end.
 *
 * Bun takes 0.2 ms from one listener to the next, Deno some 12 ms. A connection that is made in that moment, or
 * whose handshake is under way, is refused or reset, and an idle one is closed. So new calls are held for a
 * moment before: then the clients that call most wait for their answers, and neither connect nor write. Ten
 * replacements among 3,000 calls per second broke 36 calls without that, and none with 20 ms.
 *
 * New and old at the same time (SO_REUSEPORT) would hide a second service on the port, and Deno 2.9.6 does not
 * allow it.
 */
import type { Certificate, LiveCertificate } from './certificate.ts'
import { endsWithin, systemClock } from './clock.ts'

/** A listener of the runtime. */
export interface Listener {
  readonly port: number
  /** Accepts no new calls, and resolves when the running ones have ended. Its port is soon free. */
  finish(): Promise<unknown>
  /** Ends the running calls. */
  cut(): Promise<unknown>
}

/** The listeners of one address, new and old, as one. */
export interface Listeners extends Listener {
  /** Set while a new listener starts: calls must not be answered before it resolves. */
  readonly held: Promise<void> | undefined
}

/** How long calls are held before a new listener starts. */
const holdMs = 100
/** How long to wait for a listener that nobody uses. */
const trialMs = 1000
/** Longest interval between two tries to listen again. */
const againMs = 1000

/**
 * Listens at once.
 *
 * @param start starts a listener, for https if it gets a certificate
 * @throws what `start` throws
 */
export function openListeners(
  start: (port: number, certificate?: Certificate) => Listener,
  requestedPort: number,
  certificate?: LiveCertificate,
): Listeners {
  const open = new Set<Listener>()
  let isEnding = false
  let held: Promise<void> | undefined
  let current = start(requestedPort, certificate?.current)
  open.add(current)
  const { port } = current
  const listenAgain = async (next: Certificate) => {
    for (let waitMs = 1; !isEnding; waitMs = Math.min(waitMs * 2, againMs)) {
      try {
        current = start(port, next)
        open.add(current)
        return
      } catch {
        // Deno frees the port after some milliseconds.
        await systemClock.sleep(waitMs)
      }
    }
  }
  certificate?.onReplace(async next => {
    if (isEnding) return
    // The runtime may reject what passed the checks: then the old listener stays.
    await endsWithin(trialMs, start(0, next).finish())
    const { promise, resolve } = Promise.withResolvers<void>()
    held = promise
    await systemClock.sleep(holdMs)
    // Connections that wait are accepted first.
    await new Promise(accepted => setImmediate(accepted))
    const old = current
    void old.finish().finally(() => open.delete(old))
    const listening = listenAgain(next)
    await endsWithin(againMs, listening)
    held = undefined
    resolve()
    await listening
  })
  return {
    port,
    get held() {
      return held
    },
    finish() {
      isEnding = true
      return Promise.all([...open].map(listener => listener.finish()))
    },
    cut: () => Promise.all([...open].map(listener => listener.cut())),
  }
}
