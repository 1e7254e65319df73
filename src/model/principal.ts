/** Who makes a call: every call has one, made at the door that it came through. */
export const principalKinds = ['owner', 'stdio', 'panel', 'webhook', 'open'] as const

/**
 * owner: the command line, the library and a program with the token, or on this machine where none is needed.
 * stdio: the program that started `svc mcp -t stdio`. panel: a browser that signed in to the panel.
 * webhook: an endpoint whose answer to a delivery is sent to the user. open: nobody in particular.
 */
export type PrincipalKind = (typeof principalKinds)[number]

export interface Principal {
  readonly kind: PrincipalKind
  /** Of a webhook: its id. */
  readonly id?: string
}

/** A principal as the store keeps it: `owner`, `webhook:<id>`. */
export const principalText = ({ kind, id }: Principal): string => (id === undefined ? kind : `${kind}:${id}`)

export const owner: Principal = { kind: 'owner' }
export const stdio: Principal = { kind: 'stdio' }
export const panel: Principal = { kind: 'panel' }
export const open: Principal = { kind: 'open' }
