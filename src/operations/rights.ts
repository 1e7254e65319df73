/** Table of the rights of each kind of caller. Only the gate reads it. */
import type { PrincipalKind } from '../model/principal.ts'

/** The rights. Each operation names the one that its caller needs. */
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

/** Rights of every caller: read the health of the service, and open signed links. */
const anonymousRights: readonly Right[] = ['health', 'shared']

/**
 * Rights of an agent on stdio: the tools, and the list of users. Names, marks, approvals and webhooks are for
 * people.
 */
const agentRights: readonly Right[] = [
  ...anonymousRights,
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
  stdio: new Set(agentRights),
  webhook: new Set(['send']),
  open: new Set(anonymousRights),
}

/** Returns whether callers of this kind have the right. */
export const hasRight = (kind: PrincipalKind, right: Right): boolean => grants[kind].has(right)
