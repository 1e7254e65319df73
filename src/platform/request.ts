/**
 * One request of node:http, for those who choose the address that it goes to. A file of its own: the library's types lead to
 * `public-fetch.ts`, and a program that compiles with them need not have the types of Node.
 */
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { request as httpsRequest, type RequestOptions } from 'node:https'
import { Readable } from 'node:stream'

/** What a request may carry. A stream wants a Content-Length among the headers. */
type RequestBody = string | Uint8Array | AsyncIterable<Uint8Array>

/** An honest server says one or two things before its answer (103 Early Hints); each costs the main thread 4 µs, without end. */
const mostInterim = 20

/** Sends a request. @returns the answer as its head is there. It throws what the connection fails with; the signal's reason */
export function headOf(
  url: URL,
  options: RequestOptions,
  signal: AbortSignal,
  body?: RequestBody,
): Promise<IncomingMessage> {
  signal.throwIfAborted()
  return new Promise((resolve, reject) => {
    const send = url.protocol === 'https:' ? httpsRequest : httpRequest
    const request = send(url.href, options, resolve)
    const abort = () => request.destroy(signal.reason)
    signal.addEventListener('abort', abort, { once: true })
    let interim = 0
    request.on('information', () => {
      interim++
      if (interim > mostInterim) request.destroy(new Error('it never comes to its answer (HTTP 1xx)'))
    })
    // Stays on: an error that comes after the answer began is told by the answer's stream, and must not end us.
    request.on('error', reject)
    request.once('close', () => {
      signal.removeEventListener('abort', abort)
      reject(new Error('the connection was closed'))
    })
    if (body === undefined || typeof body === 'string' || body instanceof Uint8Array) {
      request.end(body)
      return
    }
    const source = Readable.from(body, { objectMode: false })
    source.once('error', error => request.destroy(error))
    request.once('close', () => source.destroy())
    source.pipe(request)
  })
}
