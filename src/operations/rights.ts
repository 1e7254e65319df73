/** Who has which right. The gate checks it, and lists of tools show it. */
import { anonymousRights, commonKeyRights, presets, type Right, rights } from '../model/access.ts'
import type { Principal, PrincipalKind } from '../model/principal.ts'

/**
 * Rights of an agent on stdio: the tools, and the list of users. Names, marks, approvals, keys and webhooks
 * are for people.
 */
const agentRights: readonly Right[] = [
  ...anonymousRights,
  'tools',
  'me',
  'recv',
  'events',
  'send',
  'ask',
  'download',
  'history',
  'sessions',
  'users',
  'typing',
  'set_default',
  'login',
  'logout',
  'rename',
]

const rightsByKind: Readonly<Record<PrincipalKind, ReadonlySet<Right>>> = {
  owner: new Set(presets.all),
  panel: new Set(presets.all),
  // Besides, a key and an agent have the rights of their grants.
  key: new Set(commonKeyRights),
  agent: new Set(commonKeyRights),
  stdio: new Set(agentRights),
  webhook: new Set(['send']),
  topic: new Set(['send']),
  question: new Set(['send']),
  open: new Set(anonymousRights),
}

/** The part of an operation that the gate decides by. */
interface GuardedOperation {
  readonly name: string
  readonly right: Right | readonly Right[]
  readonly partOf?: string
}

/** Returns the rights of an operation; a caller needs one of them. */
export const rightsOf = ({ right }: Pick<GuardedOperation, 'right'>): readonly Right[] =>
  typeof right === 'string' ? [right] : right

/** Returns the rights of a principal. */
export const rightsHeldBy = (by: Principal): Right[] => rights.filter(right => hasRight(by, right))

/** Returns whether a principal has the right. */
export const hasRight = ({ kind, grant }: Principal, right: Right): boolean =>
  grant === undefined
    ? rightsByKind[kind].has(right)
    : rightsByKind.key.has(right) || grant.rights.includes(right)

/** Returns whether a principal may call the operation. */
export const mayCall = (by: Principal, operation: GuardedOperation): boolean =>
  rightsOf(operation).some(right => hasRight(by, right)) ||
  by.grant?.tools?.includes(operation.partOf ?? operation.name) === true
