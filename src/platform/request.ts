/**
 * Sends one request of node:http to an address of the caller's choice. This is a separate file because the
 * library's types reach `public-fetch.ts`, and a program that compiles with them may not have Node's types.
 */
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { request as httpsRequest, type RequestOptions } from 'node:https'
import { Readable } from 'node:stream'
import type { TLSSocket } from 'node:tls'

/** The body of a request. A stream needs a Content-Length header. */
type RequestBody = string | Uint8Array | AsyncIterable<Uint8Array>

/** A normal server sends one or two interim responses (103 Early Hints). Each costs the main thread 4 µs, and a bad server sends them without end. */
const maxInterim = 20

/**
 * Sends a request.
 *
 * @param trusts decides on the fingerprint of the server's certificate, instead of the usual checks
 * @returns the response as soon as its head is there
 * @throws the connection's error; the signal's reason
 */
export function sendRequest(
  url: URL,
  options: RequestOptions,
  signal: AbortSignal,
  body?: RequestBody,
  trusts?: (fingerprint: string | undefined) => boolean,
): Promise<IncomingMessage> {
  signal.throwIfAborted()
  return new Promise((resolve, reject) => {
    const send = url.protocol === 'https:' ? httpsRequest : httpRequest
    const request = send(url.href, options, resolve)
    const abort = () => request.destroy(signal.reason)
    signal.addEventListener('abort', abort, { once: true })
    if (trusts)
      request.once('socket', (socket: TLSSocket) =>
        // Before the request is written.
        socket.prependOnceListener('secureConnect', () => {
          if (trusts(socket.getPeerCertificate()?.fingerprint256)) return
          const error = new Error('the server has another certificate')
          request.destroy(Object.assign(error, { code: 'ERR_CERT_INVALID' }))
        }),
      )
    let interim = 0
    request.on('information', () => {
      interim++
      if (interim > maxInterim)
        request.destroy(new Error('the server sends only interim responses (HTTP 1xx)'))
    })
    // This listener stays: an error after the head is reported by the response stream, and must not crash the
    // process.
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
