/** What this caller may do. A caller without a right gets neither the page nor the button that needs it. */
import { signal } from '@preact/signals'
import type { Right } from '../src/model/access.ts'
import type { Me } from '../src/model/key.ts'
import { type TextKey, t } from './i18n.ts'
import { start } from './service-urls.ts'

/** The caller. It comes with the page; else it is undefined until it is loaded. */
export const me = signal<Me | undefined>(start.me)

/** Whether the caller has the right. Until the caller is known, it has none. */
export const may = (right: Right): boolean => me.value?.rights.includes(right) === true

/** How the caller may answer: `draft` means that a person approves each message. */
export function answering(): 'send' | 'draft' | undefined {
  if (may('send')) return 'send'
  if (may('draft')) return 'draft'
  return me.value?.tools.includes('send') ? 'send' : undefined
}

/** Whether the caller may see all sends that wait. Others see and cancel only their own. */
export const seesQueue = (): boolean => may('outbox') || may('approve')

const isOwn = (maker: string): boolean => {
  const [, own] = me.value?.principal.split(':') ?? []
  return own !== undefined && maker.split(':')[1] === own
}

/** Whether the caller may cancel or decline a send. @param maker the principal that made it */
export const mayCancel = (maker = ''): boolean => seesQueue() || isOwn(maker)

/** Whether the caller may approve a send. Nobody approves their own. @param maker the principal that made it */
export const mayApprove = (maker = ''): boolean => may('approve') && !isOwn(maker)

/** Whether the caller signed in without a key, so nothing limits it. */
export const isOwner = (): boolean => me.value !== undefined && !me.value.principal.includes(':')

/** The rights that only the role of an owner contains. */
export const ownRights = [
  'login',
  'logout',
  'rename',
  'webhooks',
  'approve',
  'keys',
  'invitations',
  'topics',
  'notify',
  'relay',
  'audit',
  'agents',
  'forget',
  'metrics',
  'backup',
  'export',
] as const satisfies readonly Right[]

/** Every caller has the others. */
type GivenRight = Exclude<Right, 'health' | 'me' | 'shared' | 'tools'>

export const rightName = (right: string): string => t(`access.right_${right as GivenRight}`)

const kinds: Readonly<Record<string, TextKey>> = {
  owner: 'caller.owner',
  panel: 'caller.owner',
  stdio: 'caller.stdio',
  webhook: 'caller.webhook',
  topic: 'caller.topic',
  question: 'caller.question',
  open: 'caller.open',
}

/**
 * Returns who made a call, for people: the name of the key with its principal, or the kind of the caller.
 *
 * @param principal such as `owner` or `key:<id>`
 */
export function callerName(principal: string, name?: string): string {
  const [kind = '', id = ''] = principal.split(':')
  if (name !== undefined) return `${name} · ${principal}`
  if (kind === 'agent') return id
  const key = kind === 'key' || (kind === 'panel' && id !== '') ? undefined : kinds[kind]
  return key ? t(key) : principal
}
