/** How conversations with agents, their turns and their questions read. */
import type { Question } from '../answers.ts'
import type { Answer } from '../api.ts'
import { type TextKey, t } from '../i18n.ts'
import type { Look } from '../ui/marks.tsx'

export type AgentTalk = Answer<'list_agent_conversations'>[number]
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
