/** Who made a request, from where, and its id. They are noted on the request, for the routes and the log. */
import { hasKeyForm } from '../access/secret.ts'
import type { Principal } from '../model/principal.ts'
import type { Peer } from '../platform/serve.ts'
import { addressOf } from './behind-proxy.ts'

interface Caller {
  readonly by: Principal
  readonly peer: Peer | undefined
}
/** Key of a `Caller` on its request. A property, because a weak map costs more. */
const callerKey = Symbol('caller')
const idKey = Symbol('id')
interface NotedRequest extends Request {
  [callerKey]?: Caller
  [idKey]?: string
}

/** Contains the id of a request, in both directions. */
export const requestIdHeader = 'x-request-id'

/** Returns the id of a request: the caller's own if it is short and harmless, and cannot be a key. */
export function requestIdOf(request: NotedRequest): string {
  const known = request[idKey]
  if (known !== undefined) return known
  const given = request.headers.get(requestIdHeader)
  const isTaken = given !== null && /^[\w.-]{1,64}$/.test(given) && !hasKeyForm(given)
  request[idKey] = isTaken ? given : crypto.randomUUID()
  return request[idKey]
}

/** Notes on a request who made it. @param peer by default the one that was noted before */
export function noteCaller(request: NotedRequest, by: Principal, peer = request[callerKey]?.peer): void {
  request[callerKey] = { by, peer }
}

/** Returns who made a request; undefined at a door that does not note it. */
export const principalOf = (request: NotedRequest): Principal | undefined => request[callerKey]?.by

/** Returns the network address of the caller, if it is known. */
export const callerAddressOf = (request: NotedRequest): string | undefined =>
  addressOf(request, request[callerKey]?.peer)

/** Gives a copy of a request what is noted about the caller, and the id. @returns the copy */
export const withCallerOf = (copy: NotedRequest, request: NotedRequest): Request => {
  copy[callerKey] = request[callerKey]
  copy[idKey] = request[idKey]
  return copy
}
