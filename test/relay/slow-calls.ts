/** Calls whose bodies trickle in. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { RelayProgram } from './protocol.ts'

/** A POST whose body has begun. */
export class SlowCall implements Disposable {
  answer = ''
  isClosed = false
  readonly #socket: Socket

  constructor(socket: Socket) {
    this.#socket = socket
    socket.on('data', data => {
      this.answer += data
    })
    socket.on('error', () => {})
    socket.on('close', () => {
      this.isClosed = true
    })
  }

  static async open(url: string, token?: string): Promise<SlowCall> {
    const { host, hostname, pathname, port, search } = new URL(url)
    const socket = connect(Number(port), hostname)
    const call = new SlowCall(socket)
    await once(socket, 'connect')
    const lines = [
      `POST ${pathname}${search} HTTP/1.1`,
      `Host: ${host}`,
      'Content-Type: application/json',
      'Transfer-Encoding: chunked',
      ...(token === undefined ? [] : [`Authorization: Bearer ${token}`]),
    ]
    socket.write(`${lines.join('\r\n')}\r\n\r\n`)
    call.trickle()
    return call
  }

  trickle(): void {
    this.#socket.write('1\r\n \r\n')
  }

  get status(): number {
    return Number(/^HTTP\/1.1 (\d+)/.exec(this.answer)?.[1] ?? 0)
  }

  [Symbol.dispose](): void {
    this.#socket.destroy()
  }
}

/** Begins calls until one is refused, and keeps their bodies coming. */
export async function openMany(most: number, open: () => Promise<SlowCall>) {
  const calls: SlowCall[] = []
  for (let nth = 0; nth < most; nth++) calls.push(await open())
  const timer = setInterval(() => {
    for (const call of calls) if (!call.isClosed) call.trickle()
  }, 100)
  return {
    calls,
    [Symbol.dispose]() {
      clearInterval(timer)
      for (const call of calls) call[Symbol.dispose]()
    },
  }
}

/** @returns an address for a file of that size */
export const uploadAddress = async (program: RelayProgram, user: string, size = 15): Promise<string> => {
  const { body } = await program.post('getuploadurl', {
    ...{ filekey: 'f', media_type: 3, to_user_id: user, rawsize: size, filesize: size - (size % 16) + 16 },
    ...{ rawfilemd5: '0'.repeat(32), aeskey: '0'.repeat(32) },
  })
  return body.upload_full_url
}
