/** Who makes a call. Every call has a principal, created by the door that it came through. */
export const principalKinds = ['owner', 'stdio', 'panel', 'webhook', 'open'] as const

/**
 * owner: the command line, the library, and a program with the token (or on this machine, if no token is
 * needed). stdio: the program that started `svc mcp -t stdio`. panel: a browser that is signed in to the
 * panel. webhook: an endpoint whose reply to a delivery is sent to the user. open: any caller of a route
 * that needs no token.
 */
export type PrincipalKind = (typeof principalKinds)[number]

export interface Principal {
  readonly kind: PrincipalKind
  /** The id of a webhook. */
  readonly id?: string
}

/** Returns a principal as the store keeps it: `owner`, `webhook:<id>`. */
export const formatPrincipal = ({ kind, id }: Principal): string =>
  id === undefined ? kind : `${kind}:${id}`

export const owner: Principal = { kind: 'owner' }
export const stdio: Principal = { kind: 'stdio' }
export const panel: Principal = { kind: 'panel' }
export const anyCaller: Principal = { kind: 'open' }
