/** Lines of the audit log in words: who did what, and to whom. */
import { keys } from '../access/keys.ts'
import type { Answer } from '../api.ts'
import { whyOf } from '../errors.ts'
import { type TextKey, t } from '../i18n.ts'
import { conversationOf, nameOf, userOf } from '../live.ts'
import { hrefOf } from '../place.ts'
import { callerName, may } from '../rights.ts'
import { accountOf, accountPath } from '../sessions/names.ts'
import type { Look } from '../ui/marks.tsx'
import { shortIdOf } from '../users/avatar.tsx'
import { endpoints } from '../webhooks/endpoints.ts'

export type Line = Answer<'list_audit'>[number]

type DeedOf<K> = K extends `audit.to_${infer Deed}` ? Deed : never
type Deed = Exclude<DeedOf<TextKey>, 'call'>

/** What people call the operations. Operations that do the same for different callers share a deed. */
const deeds: Readonly<Record<string, Deed>> = {
  send: 'send',
  ask: 'question',
  add_question: 'question',
  cancel_question: 'question_cancel',
  approve_outbox: 'approve',
  decline_outbox: 'decline',
  cancel_outbox: 'cancel',
  name_user: 'name',
  forget: 'forget',
  export: 'export',
  upload_media: 'upload',
  login: 'login',
  start_login: 'login',
  give_login_code: 'login_code',
  cancel_login: 'login_cancel',
  forget_login: 'login_forget',
  logout: 'logout',
  logout_account: 'logout',
  rename_session: 'rename',
  rename_account: 'rename',
  set_default: 'default',
  check_sessions: 'check',
  add_key: 'key_add',
  rotate_key: 'key_rotate',
  revoke_key: 'key_revoke',
  add_relay: 'key_add',
  remove_relay: 'key_revoke',
  allow_relay: 'key_add',
  relay_login: 'key_rotate',
  add_invitation: 'invite',
  revoke_invitation: 'invite_revoke',
  join: 'join',
  add_webhook: 'webhook_add',
  remove_webhook: 'webhook_remove',
  test_webhook: 'webhook_test',
  pause_webhook: 'webhook_pause',
  resume_webhook: 'webhook_resume',
  rotate_webhook: 'webhook_rotate',
  replay_webhook: 'webhook_replay',
  add_topic: 'topic_add',
  change_topic: 'topic_change',
  remove_topic: 'topic_remove',
  notify: 'notify',
  accept_notices: 'notify',
  subscribe_events: 'subscribe',
  unsubscribe_events: 'unsubscribe',
  link_events: 'events',
  remove_consumer: 'reader',
  choose_agent: 'agent_steer',
  steer_agent: 'agent_steer',
  inject_agent_turn: 'agent_prompt',
  answer_agent_question: 'agent_answer',
  add_agent_time: 'agent_time',
  cancel_agent_time: 'agent_time_end',
  stop_agent_turn: 'agent_stop',
  sign_in: 'sign_in',
  sign_out: 'sign_out',
  create_panel_link: 'link',
  backup: 'backup',
  restore: 'restore',
  encrypt_secrets: 'secrets_on',
  rotate_secrets: 'secrets_rotate',
  decrypt_secrets: 'secrets_off',
  move_store: 'store_move',
  adopt_store: 'store_adopt',
  set_store_aside: 'store_aside',
  set_retention: 'retention',
  authenticate: 'access',
}

/** The operations in groups, each as `operation` of `list_audit` takes it, with its name. */
export function deedOptions(): [operations: string, name: string][] {
  const all = Map.groupBy(Object.entries(deeds), ([, deed]) => deed)
  return [...all].map(([deed, entries]) => [
    entries.map(([operation]) => operation).join(','),
    capital(t(`audit.to_${deed}`)),
  ])
}

const capital = (text: string): string => text.charAt(0).toLocaleUpperCase() + text.slice(1)

/** What a line is about. */
export interface Subject {
  /** '' if the line does not say it. */
  name: string
  account?: string
  /** The person, by id, or by the hash of an erased one. */
  user?: string
  /** Where it is in the panel, if the caller may see it. */
  href?: string | undefined
  isChat?: boolean
}

const isOfAccount = /^(start_)?login$|^logout|^rename|^set_default|^check_sessions/

export function subjectOf({ operation, subject = '' }: Line): Subject {
  const [id = ''] = subject.split(' ')
  if (operation.endsWith('_key')) {
    const key = keys.value?.find(one => one.id === id)
    return { name: key?.name ?? id, href: key && `/keys?key=${id}` }
  }
  if (operation.endsWith('_webhook')) {
    const endpoint = endpoints.value?.find(one => one.id === id)
    return { name: endpoint ? new URL(endpoint.url).host : id, href: endpoint && `/webhooks?webhook=${id}` }
  }
  if (/_topic$|^notify$|^accept_notices$/.test(operation)) {
    return { name: subject, href: may('topics') ? `/topics?topic=${subject}` : undefined }
  }
  if (operation === 'join') {
    const account = subject.slice(id.length + 1)
    return { name: account, href: accountOf(account) && accountPath(account) }
  }
  if (isOfAccount.test(operation)) {
    const href = accountOf(subject) && accountPath(subject)
    return { name: subject || t('audit.all_accounts'), href }
  }
  if (operation === 'export' && subject === '') return { name: t('audit.all_contacts') }
  return personOf(subject)
}

/** A person is named by account and id, in any order. The id of an erased person is a hash. */
function personOf(subject: string): Subject {
  const words = subject.split(' ')
  const at = words.findIndex(word => /.@.|^user:/.test(word))
  if (at < 0) return { name: subject }
  const id = words[at]!
  if (id.startsWith('user:')) return { name: t('audit.erased'), user: id }
  const account = words.slice(at + 1).join(' ') || words.slice(0, at).join(' ')
  const isChat = (conversationOf(account, id) ?? userOf(account, id)) !== undefined
  return {
    name: nameOf(account, id) ?? shortOf(id),
    account,
    user: id,
    isChat,
    href: isChat ? hrefOf({ session: account, userId: id }) : undefined,
  }
}

/** An id without its middle. */
function shortOf(id: string): string {
  const short = shortIdOf(id)
  return short.length > 14 ? `${short.slice(0, 8)}…${short.slice(-4)}` : short
}

/** Who made a call, in a word or two. */
export const whoOf = ({ principal, name }: { principal: string; name?: string | undefined }): string =>
  name ?? callerName(principal)

const endings = new Set(['accepted', 'done', 'queued', 'sending'])

/** Parameters that stay in a text, for what comes in their place. */
const slots = { who: '{who}', name: '{name}', account: '{account}' }

/** Returns the sentence of a line as a text, with `{who}`, `{name}` and `{account}` in it. */
function patternOf({ operation, outcome = '' }: Line, { name, account }: Subject): string {
  const deed = deeds[operation]
  const what = deed ? t(`audit.to_${deed}`) : t('audit.to_call', { operation })
  // A message that waits has answered nobody yet.
  const did = deed && (outcome === 'queued' ? t('audit.did_write', slots) : t(`audit.did_${deed}`, slots))
  const isWhole = did && (name !== '' || !did.includes('{name}')) && (account || !did.includes('{account}'))
  if (isWhole && endings.has(outcome)) return did
  if (endings.has(outcome)) return t('audit.ran', { ...slots, what })
  return t(name === '' ? 'audit.tried' : 'audit.tried_on', { ...slots, what })
}

/** A piece of a sentence. `part` says what it names. */
interface Piece {
  text: string
  part?: 'who' | 'name' | 'account'
}

/** Returns the sentence of a line in pieces. */
export function sentenceOf(line: Line, subject: Subject): Piece[] {
  const names = { who: whoOf(line), name: subject.name, account: subject.account ?? '' }
  const pieces = patternOf(line, subject)
    .split(/\{(who|name|account)\}/)
    .map((text, nth) => {
      const part = nth % 2 === 1 ? (text as keyof typeof names) : undefined
      return part === undefined ? { text } : { text: names[part], part }
    })
    .filter(({ text }) => text !== '')
  // Chinese has a space only between its own and other letters.
  return pieces.map(({ text, ...rest }, nth) => {
    const before = pieces[nth - 1]?.text ?? ''
    const after = pieces[nth + 1]?.text ?? ''
    const start = isHan(before.at(-1)) && isHan(text.trimStart()[0]) ? text.trimStart() : text
    return { ...rest, text: isHan(after[0]) && isHan(start.trimEnd().at(-1)) ? start.trimEnd() : start }
  })
}

const isHan = (char = ''): boolean => /\p{Script=Han}/u.test(char)

const outcomes: Readonly<Record<string, Look>> = {
  done: { tone: 'good', text: 'audit.done' },
  accepted: { tone: 'good', text: 'audit.done' },
  queued: { tone: '', text: 'delivery.queued' },
  sending: { tone: '', text: 'delivery.sending' },
  denied: { tone: 'bad', text: 'audit.denied' },
}

/** How the outcome of a line looks. Without one, the call still runs or its process died. */
export const lookOf = ({ outcome }: Line): Look =>
  outcome === undefined
    ? { tone: '', text: 'audit.open' }
    : (outcomes[outcome] ?? { tone: 'warn', text: 'audit.failed' })

const reasons: Readonly<Record<string, TextKey>> = {
  session_not_found: 'audit.no_account',
  invalid_arguments: 'audit.invalid',
  refused: 'delivery.refused',
  suspect: 'delivery.suspect',
  unknown: 'delivery.unknown',
}

/** Why it failed, in words; '' if it did not. */
export function reasonOf({ outcome = '' }: Line): string {
  if (outcome === '' || outcomes[outcome]) return ''
  return reasons[outcome] ? t(reasons[outcome]) : whyOf(outcome) || outcome.replaceAll('_', ' ')
}
