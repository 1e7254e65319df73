/**
 * Clients and proxies that take JSON only (`Accept: application/json`, or anything): the stream of an answer becomes one
 * JSON text. Its notifications are left out, and nothing can be asked over it.
 */
import { rpcErrorResponse } from './exchange.ts'

/** Requests whose answers are JSON. */
const jsonOnly = new WeakSet<Request>()

/** Methods whose answer never ends. */
const endless = ['events/stream', 'subscriptions/listen']

/** Whether the client of a request reads streams, so that it can be asked while its call runs. */
export const readsStream = (request: Request | undefined): boolean =>
  request === undefined || !jsonOnly.has(request)

/** Takes the kinds of answers that a POST accepts. `answerAsRead` then gives one of them. */
export function noteAccepted(request: Request): void {
  const kinds = (request.headers.get('accept') ?? '*/*').toLowerCase()
  if (request.method !== 'POST' || !/application\/(json|\*)|\*\/\*|text\/event-stream/.test(kinds)) return
  if (!kinds.includes('text/event-stream')) jsonOnly.add(request)
  // The SDK answers only those who accept both. The headers of a server's request cannot be changed on every runtime.
  const headers = new Headers([...request.headers, ['accept', 'application/json, text/event-stream']])
  Object.defineProperty(request, 'headers', { value: headers })
}

/** Returns an answer in the form that its client reads. @param body the parsed request */
export function answerAsRead(request: Request, body: unknown, response: Response): Response {
  const isStream = response.headers.get('content-type') === 'text/event-stream'
  if (!isStream || !response.body || readsStream(request)) return response
  const headers = new Headers(response.headers)
  headers.set('content-type', 'application/json')
  const answers: unknown[] = []
  let rest = ''
  const toJson = new TransformStream<string, string>({
    transform(chunk, output) {
      const events = (rest + chunk).split('\n\n')
      rest = events.pop() ?? ''
      for (const event of events) {
        const [, data = ''] = /^data: (.+)$/m.exec(event) ?? []
        const message = data && JSON.parse(data)
        if (message && !('method' in message)) answers.push(message)
        // A sign of life, before the JSON.
        else output.enqueue('\n')
      }
    },
    flush: output => output.enqueue(JSON.stringify(Array.isArray(body) ? answers : answers[0])),
  })
  const text = response.body.pipeThrough(new TextDecoderStream()).pipeThrough(toJson)
  return new Response(text.pipeThrough(new TextEncoderStream()), { status: response.status, headers })
}

/** Rejects what only a stream can answer; undefined if the client reads one. */
export function rejectEndless(request: Request, body: unknown): Response | undefined {
  const { method } = (body ?? {}) as { method?: unknown }
  return readsStream(request) || !endless.includes(String(method))
    ? undefined
    : rpcErrorResponse(406, -32000, `${method} is answered by a stream: accept text/event-stream`)
}
