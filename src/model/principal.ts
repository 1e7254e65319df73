/** Who makes a call. Every call has a principal, created by the door that it came through. */
import type { Grant, Right, Scope } from './access.ts'

export const principalKinds = [
  'owner',
  'key',
  'agent',
  'stdio',
  'panel',
  'webhook',
  'topic',
  'question',
  'open',
] as const

/**
 * owner: the command line, the library, and a program with the master token (or on this machine, if no token
 * is needed). key: a program with a key. agent: a part of a program on this machine that limited itself to a grant.
 * stdio: the program that started `svc mcp -t stdio`. panel: a browser that is signed in to the panel. webhook: an
 * endpoint whose reply to a delivery is sent to the user. topic: what
 * senders said to topics. question: what svc says about one that it asked. open: any caller of a route that needs no token.
 */
export type PrincipalKind = (typeof principalKinds)[number]

export interface Principal {
  readonly kind: PrincipalKind
  /**
   * The id of the webhook or key, or the name of the agent. A browser that signed in with a key has the id of the
   * key.
   */
  readonly id?: string
  /** The name of the key. */
  readonly name?: string
  /** The id of the key that made it, if one did. */
  readonly maker?: string
  /** What the key or agent may do. Without a grant, the kind decides (`operations/rights.ts`). */
  readonly grant?: Grant
  /** Which secret of the key the caller had: the beginning of its hash. */
  readonly secret?: string
  /** Aborts when the key ends, or this secret of it, with the error for its calls in progress. */
  readonly ended?: AbortSignal
}

/** Returns a principal as the store keeps it: `owner`, `webhook:<id>`, `key:<id>`, `panel:<id of the key>`. */
export const formatPrincipal = ({ kind, id }: Principal): string =>
  id === undefined ? kind : `${kind}:${id}`

/** Returns a stored principal for people, with the name of its key beside it. */
export const formatCaller = (principal: string, name?: string): string =>
  name === undefined ? principal : `${principal} (${name})`

/** Returns a principal from its stored form. */
export function parsePrincipal(text: string): Pick<Principal, 'kind' | 'id'> {
  const [kind = '', id] = text.split(':')
  const known = principalKinds.find(one => one === kind) ?? 'open'
  return id === undefined ? { kind: known } : { kind: known, id }
}

/** Returns the id of the key that a principal acts with, if any. */
export const keyIdOf = ({ grant, id }: Principal): string | undefined =>
  grant === undefined ? undefined : id

/** Returns the accounts and users that a principal may see. */
export const scopeOf = ({ grant }: Principal): Scope => grant ?? {}

/** Whether a person must approve every send of the principal. */
export const onlyDrafts = ({ grant }: Principal): boolean =>
  grant !== undefined &&
  !grant.rights.includes('send') &&
  !(grant.rights.includes('relay') && !grant.rights.includes('draft')) &&
  grant.tools?.includes('send') !== true

/** Whether a grant has the right. */
export const grantsRight = ({ rights }: Grant, right: Right): boolean => rights.includes(right)

export const owner: Principal = { kind: 'owner' }
export const stdio: Principal = { kind: 'stdio' }
export const panel: Principal = { kind: 'panel' }
export const anyCaller: Principal = { kind: 'open' }
