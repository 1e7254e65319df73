/** How conversations with agents, their turns and their questions read. */
import type { Question } from '../answers.ts'
import type { Answer } from '../api.ts'
import { listed, type TextKey, t, timeFormat } from '../i18n.ts'
import { clock, every, timeNow } from '../times.ts'
import type { Look } from '../ui/marks.tsx'

export type AgentTalk = Answer<'list_agent_conversations'>[number]
export type AgentTime = Answer<'list_agent_times'>[number]
export type Turn = Answer<'list_agent_turns'>[number]

export const talkLooks: Readonly<Record<AgentTalk['status'], Look>> = {
  idle: { tone: '', text: 'agents.idle' },
  waiting: { tone: '', text: 'agents.waiting' },
  running: { tone: 'good', text: 'agents.running' },
  asking: { tone: 'warn', text: 'agents.asking' },
}

const turnLooks: Readonly<Record<Turn['status'], Look>> = {
  waiting: talkLooks.waiting,
  running: talkLooks.running,
  answering: { tone: 'good', text: 'agents.turn_answering' },
  answered: { tone: '', text: 'agents.turn_answered' },
  more: { tone: '', text: 'agents.turn_more' },
  stopped: { tone: '', text: 'agents.turn_stopped' },
  interrupted: { tone: 'warn', text: 'agents.turn_interrupted' },
  failed: { tone: 'bad', text: 'agents.turn_failed' },
}

const approvalLooks: Readonly<Record<NonNullable<Turn['approval']>, Look>> = {
  waits: { tone: 'warn', text: 'delivery.approval_note' },
  declined: { tone: '', text: 'delivery.declined_note' },
}

export const lookOf = ({ approval, status }: Turn): Look =>
  approval === undefined ? turnLooks[status] : approvalLooks[approval]

export const isOpen = ({ status }: Turn): boolean =>
  status === 'waiting' || status === 'running' || status === 'answering'

/** The key of a conversation, for the URL. */
export const keyOf = ({ agent, session, user_id }: AgentTalk): string => `${agent}/${session}/${user_id}`

/** The key of a person in an account. */
export const personOf = ({ session, user_id }: Pick<AgentTalk, 'session' | 'user_id'>): string =>
  `${session}/${user_id}`

const kinds: Readonly<Record<string, TextKey>> = {
  IMAGE: 'chat.picture',
  VIDEO: 'chat.video',
  VOICE: 'chat.voice',
  FILE: 'chat.file',
}

/** Returns what was asked or answered, as text. */
export const wordsOf = (parts: NonNullable<Turn['prompt']>): string =>
  parts.map(({ kind, text }) => text || t(kinds[kind] ?? 'chat.unknown_kind')).join('\n')

const wishes: Readonly<Record<string, TextKey>> = {
  execute: 'agents.asks_execute',
  edit: 'agents.asks_edit',
  delete: 'agents.asks_delete',
  move: 'agents.asks_move',
  read: 'agents.asks_read',
  fetch: 'agents.asks_fetch',
}

/** Returns the sentence for what an agent wants to do, and what is to be read beside it. */
export function wishOf(text: string): { key: TextKey; what: string; folder?: string | undefined } {
  const [, kind = '', what = '', folder] = /^([a-z_]+): (.+?)(?:; in ([^;]+))?$/s.exec(text) ?? []
  const key = wishes[kind]
  return key ? { key, what, folder } : { key: 'agents.asks', what: text }
}

const shortLength = 120
const endLength = 50

/** Returns a text in a line or two. Its end matters as much as its beginning. */
export function shortOf(text: string): string {
  const chars = [...text.replace(/\s+/g, ' ')]
  if (chars.length <= shortLength) return chars.join('')
  return `${chars.slice(0, shortLength - endLength).join('')} … ${chars.slice(-endLength).join('')}`
}

/** Returns the options in the order of their buttons. */
export function rejectsFirst(options: Question['options']): Question['options'] {
  const rejects = options.filter(({ kind }) => kind.startsWith('reject'))
  return [...rejects, ...options.filter(one => !rejects.includes(one))]
}

const days = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat']
/** A Sunday in 2026, by the clock of the browser. */
const shownAt = (day: number, time = '12:00'): number => {
  const [hour = 0, minute = 0] = time.split(':').map(Number)
  return new Date(2026, 2, 1 + day, hour, minute).getTime()
}

/** Returns how often a time comes. A form that is not known here is shown as the service writes it. */
export function ruleOf({ when }: AgentTime): string {
  if (/^\d{4}-/.test(when)) return t('agents.once')
  const [, count, unit] = /^every (\d+) (min|h)$/.exec(when) ?? []
  if (count !== undefined) return every(Number(count) * (unit === 'h' ? 3_600_000 : 60_000))
  const [, on = '', at] = /^every (.+) (\d\d:\d\d)$/.exec(when) ?? []
  const [, day] = /^month on day (\d+)$/.exec(on) ?? []
  const inWeek = on
    .replace('weekend', 'sat,sun')
    .split(',')
    .map(one => days.indexOf(one))
  if (on !== 'day' && on !== 'weekday' && day === undefined && inWeek.includes(-1)) return when
  const names = timeFormat({ weekday: 'short' })
  const series =
    on === 'day'
      ? t('time.every_day', { count: 1 })
      : day !== undefined
        ? t('agents.monthly', { day })
        : on === 'weekday'
          ? names.formatRange(shownAt(1), shownAt(5))
          : listed(inWeek.map(one => names.format(shownAt(one))))
  return `${series} ${clock(shownAt(0, at))}`
}

const onDay = { weekday: 'short', day: 'numeric', month: 'short' } as const

/** Mon, 5 Oct, 14:05 */
export const nextText = (at: number, timeZone: string): string =>
  timeFormat({ ...onDay, hour: 'numeric', minute: '2-digit', timeZone }).format(at)

/** A time is looked at every few seconds. */
const lateMs = 60_000

/** Returns why a time is not simply waited for. */
export function lookOfTime({ next_at, paused }: AgentTime): Look | undefined {
  if (paused === 'answer') return { tone: 'warn', text: 'agents.paused_answer' }
  if (paused === 'copy') return { tone: 'warn', text: 'agents.paused_copy' }
  const isLate = next_at !== undefined && next_at < timeNow() - lateMs
  return isLate ? { tone: 'bad', text: 'agents.overdue' } : undefined
}
