/** Who may do what: one table, read by the gate and nowhere else. */
import type { PrincipalKind } from '../model/principal.ts'

/** What a caller must be allowed, to call an operation that names it. */
export const rights = [
  'recv',
  'send',
  'upload',
  'download',
  'history',
  'events',
  'conversations',
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
  'tools',
  'metrics',
  'health',
  'shared',
] as const
export type Right = (typeof rights)[number]

/** How the service is, and what a signed link leads to. */
const ofAnybody: readonly Right[] = ['health', 'shared']

/** An agent on stdio has its tools, and sees who writes. Names, marks, yeses and webhooks are for people to give. */
const ofAgents: readonly Right[] = [
  ...ofAnybody,
  'tools',
  'recv',
  'send',
  'download',
  'history',
  'sessions',
  'users',
  'set_default',
  'login',
  'logout',
  'rename',
]

const grants: Readonly<Record<PrincipalKind, ReadonlySet<Right>>> = {
  owner: new Set(rights),
  panel: new Set(rights),
  stdio: new Set(ofAgents),
  webhook: new Set(['send']),
  open: new Set(ofAnybody),
}

export const holds = (kind: PrincipalKind, right: Right): boolean => grants[kind].has(right)
