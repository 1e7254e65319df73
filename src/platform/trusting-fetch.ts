/**
 * Requests to an https server whose certificate is known. It uses node:https, because the `fetch` of Deno
 * 2.9.6 rejects a certificate that signs itself, and one that does not name the host.
 */
import { Readable } from 'node:stream'
import type { ReadableStream as NodeStream } from 'node:stream/web'
import { sendRequest } from './request.ts'

/** Statuses of responses without a body. */
const bodiless = new Set([204, 205, 304])

/** See `fetchTrusting` of fetch.ts. */
export async function fetchTrusting(
  fingerprint: string,
  url: string | URL,
  { method = 'GET', headers, body, signal }: RequestInit,
): Promise<Response> {
  const options = {
    method,
    headers: Object.fromEntries(new Headers(headers ?? {})),
    agent: false,
    rejectUnauthorized: false,
  }
  const text = typeof body === 'string' ? body : undefined
  const trusts = (given: string | undefined) => fingerprint === 'any' || given === fingerprint
  const response = await sendRequest(
    new URL(url),
    options,
    signal ?? new AbortController().signal,
    text,
    trusts,
  )
  const { headers: received, statusCode: status = 0 } = response
  const answer = bodiless.has(status) ? null : (Readable.toWeb(response) as NodeStream<Uint8Array>)
  const found = new Response(answer as BodyInit | null, { status })
  for (const [name, value] of Object.entries(received))
    if (value !== undefined) found.headers.set(name, String(value))
  return found
}
