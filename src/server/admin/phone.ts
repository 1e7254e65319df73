/**
 * Makes the sandbox's phone available below the panel's address, for users of the panel. The phone itself
 * answers only this machine, so a browser of another machine could not open it.
 */

import { sandboxError } from '../../gateway/sandbox-fetch.ts'

/** Whether a path belongs to the phone. */
export const isPhonePath = (path: string): boolean => path === '/phone' || path.startsWith('/phone/')

/** Headers that identify the caller. The panel has checked them, and the phone does not get them. */
const callerHeaders = [
  'host',
  'origin',
  'referer',
  'cookie',
  'authorization',
  'svc-panel',
  'connection',
  'accept-encoding',
]

/**
 * Forwards a request to the phone and returns its answer, also streams.
 *
 * @param phone `http://host:port/phone`, its URL on this machine
 * @throws SvcError `upstream_error` if nothing answers there: the process that ran the phone may have ended
 */
export async function forwardToPhone(request: Request, phone: string): Promise<Response> {
  const { pathname, search } = new URL(request.url)
  const headers = new Headers(request.headers)
  for (const name of [...headers.keys()])
    if (callerHeaders.includes(name) || name.startsWith('sec-')) headers.delete(name)
  const answer = fetch(new URL(`${pathname}${search}`, phone), {
    method: request.method,
    headers,
    body: request.body,
    redirect: 'manual',
    signal: request.signal,
  })
  return answer.catch(error => {
    throw request.signal.aborted ? error : sandboxError(error, phone)
  })
}
