/** Who may do what: one table, read by the gate and nowhere else. */
import type { PrincipalKind } from '../model/principal.ts'

/** What a caller must be allowed, to call an operation that names it. */
export const rights = [
  'recv',
  'send',
  'download',
  'history',
  'sessions',
  'check',
  'users',
  'outbox',
  'names',
  'set_default',
  'login',
  'logout',
  'rename',
  'webhooks',
  'approve',
] as const
export type Right = (typeof rights)[number]

/** An agent on stdio has its tools. Names, yeses and webhooks are for people to give. */
const ofTools: readonly Right[] = [
  'recv',
  'send',
  'download',
  'history',
  'sessions',
  'set_default',
  'login',
  'logout',
  'rename',
]

const grants: Readonly<Record<PrincipalKind, ReadonlySet<Right>>> = {
  owner: new Set(rights),
  panel: new Set(rights),
  stdio: new Set(ofTools),
  webhook: new Set(['send']),
  open: new Set(),
}

export const holds = (kind: PrincipalKind, right: Right): boolean => grants[kind].has(right)
