/** Texts for urgencies, states, and why something waits. */
import type { WaitReason } from '../../src/model/topic.ts'
import type { TextKey } from '../i18n.ts'
import { nameOf } from '../live.ts'
import type { Look } from '../ui/marks.tsx'
import { shortIdOf } from '../users/avatar.tsx'
import type { Right } from '../users/reply-permission.tsx'
import type { Priority, Topic } from './topics.ts'

export const priorityTexts: Readonly<Record<Priority, TextKey>> = {
  min: 'topics.min',
  low: 'topics.low',
  default: 'topics.default',
  high: 'topics.high',
  max: 'topics.max',
}

export const reasons: Readonly<Record<WaitReason, TextKey>> = {
  gathering: 'topics.gathering',
  digest: 'topics.in_digest',
  below_min: 'topics.below_min',
  quiet: 'topics.in_quiet',
  window_closed: 'topics.closed',
  kept_answers: 'topics.kept_answers',
  topic_answers: 'topics.used_answers',
  sending: 'delivery.sending',
  not_connected: 'topics.disconnected',
}

export const looks: Readonly<Record<Right['kind'], Look>> = {
  open: { tone: 'good', text: 'topics.ready' },
  closed: { tone: 'warn', text: 'topics.window_closed' },
  used: { tone: 'warn', text: 'topics.used_up' },
  expired: { tone: 'bad', text: 'topics.disconnected' },
  damaged: { tone: 'bad', text: 'topics.disconnected' },
  gone: { tone: 'bad', text: 'topics.disconnected' },
}

/** The name of the contact, or a short id. */
export const contactOf = ({ session, user_id }: Topic): string =>
  nameOf(session, user_id) ?? shortIdOf(user_id)
