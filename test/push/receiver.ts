/** A receiver of webhooks on loopback, which answers as the test says. */
import { Webhook } from 'standardwebhooks'

export interface Delivered {
  id: string
  body: { id: string; type: string; timestamp: string; data: Record<string, unknown> }
  headers: Headers
  /** Aborts when the sender closes the connection before the answer. */
  signal: AbortSignal
  /** What was answered. */
  status: number
  text: string
}

type Answer = number | Response | Promise<Response>

export interface Receiver extends Disposable {
  readonly url: string
  readonly port: number
  /** In the order of their answers. */
  readonly got: Delivered[]
  /** Texts of messages that were answered with 2xx, repeats apart. */
  texts(): string[]
  answer: (delivered: Delivered) => Answer
}

/** @param port one of `freePort`, for who is to have it again later */
export function receiver(answer: Receiver['answer'] = () => 200, port = 0): Receiver {
  const got: Delivered[] = []
  const server = Bun.serve({
    ...{ port, hostname: '127.0.0.1', idleTimeout: 0 },
    async fetch(request) {
      const text = await request.text()
      const { headers } = request
      const one: Delivered = {
        id: headers.get('webhook-id') ?? '',
        body: JSON.parse(text),
        headers,
        signal: request.signal,
        status: 0,
        text,
      }
      const answered = await own.answer(one)
      const response = typeof answered === 'number' ? new Response(null, { status: answered }) : answered
      one.status = response.status
      got.push(one)
      return response
    },
  })
  const own: Receiver = {
    ...{ url: `http://127.0.0.1:${server.port}/hook`, port: server.port!, got, answer },
    texts: () => [
      ...new Map(
        got.filter(one => one.status < 300).map(({ id, body }) => [id, String(body.data.text)]),
      ).values(),
    ],
    [Symbol.dispose]: () => void server.stop(true),
  }
  return own
}

/** Throws for what was not signed with that secret. */
export const verify = ({ text, headers }: Delivered, secret: string): unknown =>
  new Webhook(secret).verify(text, Object.fromEntries(headers))
