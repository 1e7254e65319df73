/** A proxy between a program and a server on 127.0.0.1, for faults of the network between them. */
import { createConnection, createServer, type Server, type Socket } from 'node:net'
import { freePort } from './port.ts'

/** Bytes that one direction of a connection holds before the proxy stops reading. */
const maxHeldBytes = 256 * 1024

interface Directions {
  toServer?: boolean
  toClient?: boolean
}

export interface FreezingProxy extends AsyncDisposable {
  readonly port: number
  /** Connections that clients have open. */
  readonly connections: number
  /** Bytes that the proxy has read and not passed on. */
  readonly held: Readonly<Record<keyof Directions, number>>
  /**
   * Holds all bytes and ends of connections of these directions, in addition to those already held; both if
   * none is named. Connections stay open. New ones are accepted.
   */
  freeze(directions?: Directions): void
  /** Passes on what was held. */
  thaw(): void
  /** Destroys all connections. New ones are refused until `mend`. */
  cut(): Promise<void>
  mend(): Promise<void>
  /** Passes new connections to another port. Those that are open stay. */
  retarget(port: number): void
  /** Makes a round trip longer by `ms`, half in each direction, for bytes that arrive from now on. */
  delay(ms: number): void
  close(): Promise<void>
}

/** One direction of one connection. */
interface Pipe {
  /** Bytes held. */
  readonly bytes: number
  /** Passes on what is due. */
  flush(): void
}

/** Starts a proxy to a port of 127.0.0.1. `await using` closes it. */
export async function freezingProxy(firstPort: number): Promise<FreezingProxy> {
  const port = freePort()
  let targetPort = firstPort
  const frozen = { toServer: false, toClient: false }
  let delayMs = 0
  const sockets = new Set<Socket>()
  const clients = new Set<Socket>()
  const pipes = { toServer: new Set<Pipe>(), toClient: new Set<Pipe>() }

  function join(from: Socket, to: Socket, direction: keyof Directions): void {
    /** Chunks, then perhaps the end of the stream or the loss of the connection. */
    const queue: { dueAt: number; item: Buffer | 'end' | 'loss' }[] = []
    let bytes = 0
    let isFull = false
    let lastDueAt = 0
    let timer: ReturnType<typeof setTimeout> | undefined
    const hold = (item: Buffer | 'end' | 'loss') => {
      lastDueAt = Math.max(lastDueAt, performance.now() + delayMs / 2)
      queue.push({ dueAt: lastDueAt, item })
      if (typeof item !== 'string') bytes += item.length
      if (bytes >= maxHeldBytes) from.pause()
      pipe.flush()
    }
    const pipe: Pipe = {
      get bytes() {
        return bytes
      },
      flush() {
        clearTimeout(timer)
        while (!frozen[direction] && !isFull && queue[0]) {
          const { dueAt, item } = queue[0]
          const waitMs = dueAt - performance.now()
          if (waitMs > 0) {
            timer = setTimeout(pipe.flush, Math.ceil(waitMs))
            return
          }
          queue.shift()
          if (item === 'end') to.end()
          else if (item === 'loss') to.end(() => to.destroy())
          else {
            bytes -= item.length
            isFull = !to.write(item) && !to.destroyed
          }
        }
        if (bytes < maxHeldBytes && !from.destroyed) from.resume()
      },
    }
    pipes[direction].add(pipe)
    from.on('data', hold)
    from.on('end', () => hold('end'))
    from.on('error', () => hold('loss'))
    from.on('close', () => hold('loss'))
    to.on('drain', () => {
      isFull = false
      pipe.flush()
    })
    to.on('close', () => {
      clearTimeout(timer)
      queue.length = 0
      bytes = 0
      pipes[direction].delete(pipe)
    })
  }

  function accept(client: Socket): void {
    if (!listener) {
      client.destroy()
      return
    }
    const server = createConnection({ host: '127.0.0.1', port: targetPort, allowHalfOpen: true })
    clients.add(client)
    client.on('close', () => clients.delete(client))
    for (const socket of [client, server]) {
      sockets.add(socket)
      socket.setNoDelay(true)
      socket.on('close', () => sockets.delete(socket))
    }
    join(client, server, 'toServer')
    join(server, client, 'toClient')
  }

  let listener: Server | undefined
  const proxy: FreezingProxy = {
    port,
    get connections() {
      return clients.size
    },
    get held() {
      const sum = (direction: keyof Directions) =>
        [...pipes[direction]].reduce((total, pipe) => total + pipe.bytes, 0)
      return { toServer: sum('toServer'), toClient: sum('toClient') }
    },
    freeze(directions = { toServer: true, toClient: true }) {
      frozen.toServer ||= directions.toServer === true
      frozen.toClient ||= directions.toClient === true
    },
    thaw() {
      frozen.toServer = false
      frozen.toClient = false
      for (const pipe of [...pipes.toServer, ...pipes.toClient]) pipe.flush()
    },
    async cut() {
      const closing = listener
      listener = undefined
      const closed = [...sockets].map(socket => new Promise(resolve => socket.once('close', resolve)))
      if (closing) closed.push(new Promise(resolve => closing.close(resolve)))
      for (const socket of sockets) socket.destroy()
      await Promise.all(closed)
    },
    async mend() {
      if (listener) return
      const opening = createServer({ allowHalfOpen: true }, accept)
      listener = opening
      await new Promise<void>((resolve, reject) => {
        opening.once('error', reject).listen(port, '127.0.0.1', resolve)
      })
    },
    retarget(port) {
      targetPort = port
    },
    delay(ms) {
      delayMs = ms
    },
    close: () => proxy.cut(),
    [Symbol.asyncDispose]: () => proxy.cut(),
  }
  await proxy.mend()
  return proxy
}
