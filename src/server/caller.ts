/** Who made a request, and from where. The check of callers notes it on the request, for the routes. */
import type { Principal } from '../model/principal.ts'
import type { Peer } from '../platform/serve.ts'
import { addressOf } from './behind-proxy.ts'

interface Caller {
  readonly by: Principal
  readonly peer: Peer | undefined
}
/** Key of a `Caller` on its request. A property, because a weak map costs more. */
const callerKey = Symbol('caller')
interface NotedRequest extends Request {
  [callerKey]?: Caller
}

/** Notes on a request who made it. */
export function noteCaller(request: NotedRequest, by: Principal, peer: Peer | undefined): void {
  request[callerKey] = { by, peer }
}

/** Returns who made a request; undefined at a door that does not note it. */
export const principalOf = (request: NotedRequest): Principal | undefined => request[callerKey]?.by

/** Returns the network address of the caller, if it is known. */
export const callerAddressOf = (request: NotedRequest): string | undefined =>
  addressOf(request, request[callerKey]?.peer)

/** Gives a copy of a request what is noted about the caller. @returns the copy */
export const withCallerOf = (copy: NotedRequest, request: NotedRequest): Request => {
  copy[callerKey] = request[callerKey]
  return copy
}
