/**
 * The sandbox's phone for whoever may use the panel, under the panel's own address: by itself it answers programs and
 * browsers of this machine alone, and a link there would lead the browser of another one nowhere.
 */

import { sandboxError } from '../../gateway/sandbox-fetch.ts'

/** Whether this is a path of the phone. */
export const isPhonePath = (path: string): boolean => path === '/phone' || path.startsWith('/phone/')

/** What says who asks, and from where: judged here, and none of the phone's business. */
const own = ['host', 'origin', 'referer', 'cookie', 'authorization', 'connection', 'accept-encoding']

/**
 * Passes the request on and the answer back, streams too.
 *
 * @param phone `http://host:port/phone`, as this machine reaches it
 * @throws SvcError `upstream_error` where nothing answers there: another process may have run it
 */
export async function askPhone(request: Request, phone: string): Promise<Response> {
  const { pathname, search } = new URL(request.url)
  const headers = new Headers(request.headers)
  for (const name of [...headers.keys()])
    if (own.includes(name) || name.startsWith('sec-')) headers.delete(name)
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
