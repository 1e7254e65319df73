/** Rights, and grants: what a key may do, with which accounts and users. */

/** The rights. Each operation names those that its caller needs. */
export const rights = [
  'recv',
  'send',
  'ask',
  'draft',
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
  'typing',
  'set_default',
  'login',
  'logout',
  'rename',
  'invitations',
  'topics',
  'notify',
  'relay',
  'webhooks',
  'approve',
  'tools',
  'metrics',
  'keys',
  'audit',
  'agents',
  'backup',
  'export',
  'forget',
  'health',
  'shared',
  'me',
] as const
export type Right = (typeof rights)[number]

/** Rights of every caller: read the health of the service, and open signed links. */
export const anonymousRights: readonly Right[] = ['health', 'shared']

/** Rights of every key, in addition to its grant. */
export const commonKeyRights: readonly Right[] = [...anonymousRights, 'tools', 'me']

/** Rights about the whole service. A key that is limited to accounts or users cannot have them. */
export const serviceRights: readonly Right[] = [
  'metrics',
  'audit',
  'agents',
  'backup',
  'forget',
  'invitations',
  'topics',
  'notify',
]

const read: readonly Right[] = ['recv', 'history', 'download', 'sessions', 'users', 'events', 'conversations']
const reply: readonly Right[] = [...read, 'upload', 'send']

/** Rights by the words of `--can`. `draft`: a person must approve every send. */
export const presets = {
  read,
  draft: [...read, 'upload', 'draft'],
  reply,
  operate: [...reply, 'outbox', 'names', 'typing', 'check', 'set_default'],
  all: rights.filter(right => right !== 'draft'),
} as const satisfies Record<string, readonly Right[]>
export type Preset = keyof typeof presets

/** The rights that `--can` may name beside the presets. */
export const grantableRights: readonly Right[] = rights.filter(right => !commonKeyRights.includes(right))

/** The accounts and users that a caller may see. An absent list means all; an empty list means none. */
export interface Scope {
  /** Bot ids. */
  readonly bots?: readonly string[]
  /** User ids. */
  readonly users?: readonly string[]
}

/** Limits of a key, in each process. */
export interface KeyLimits {
  readonly calls_per_second?: number
  /** Maximum number of long polls and streams at a time. */
  readonly open?: number
  /** Maximum bytes of uploads and media per day. */
  readonly bytes_per_day?: number
}

/** What a key may do. */
export interface Grant extends Scope {
  readonly rights: readonly Right[]
  /** Tools that it may call without having their rights. */
  readonly tools?: readonly string[]
  /** Topics that it may notify. An absent list means all; an empty list means none. */
  readonly topics?: readonly string[]
  readonly limits?: KeyLimits
}

/** Whether a grant allows to send, at least what a person approves. */
export const maySend = ({ rights, tools = [] }: Grant): boolean =>
  rights.includes('send') || rights.includes('draft') || tools.includes('send')

/** Whether a grant allows nothing but to notify topics. Such a key may stand in an address. */
export const onlyNotifies = ({ rights, tools = [] }: Grant): boolean =>
  tools.length === 0 && rights.every(right => right === 'notify')

/** Whether a scope leaves nothing out. */
export const isWhole = ({ bots, users }: Scope): boolean => bots === undefined && users === undefined

/** Whether the scope contains a user. */
export const grantsUser = ({ users }: Scope, user: string): boolean => users?.includes(user) !== false

/** Whether the scope contains an account and, if it is given, a user. */
export const isInScope = ({ bots, users }: Scope, bot: string | undefined, user?: string): boolean =>
  (bots === undefined || (bot !== undefined && bots.includes(bot))) &&
  (users === undefined || user === undefined || users.includes(user))

/** Whether a message, by its account and the user of its conversation, is in the scope. */
export const hasMessage = ({ bots, users }: Scope, bot: string, user: string): boolean =>
  bots?.includes(bot) !== false && users?.includes(user) !== false
