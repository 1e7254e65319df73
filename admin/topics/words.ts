/** Texts for urgencies, states, and why something waits. */
import type { WaitReason } from '../../src/model/topic.ts'
import { listed, type TextKey } from '../i18n.ts'
import { nameOf } from '../live.ts'
import type { Look } from '../ui/marks.tsx'
import { shortIdOf } from '../users/avatar.tsx'
import { type Right, rightOf } from '../users/reply-permission.tsx'
import type { Person, Priority, Topic } from './topics.ts'

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
  not_running: 'topics.not_running',
}

export const looks: Readonly<Record<Right['kind'], Look>> = {
  open: { tone: 'good', text: 'topics.ready' },
  closed: { tone: 'warn', text: 'topics.window_closed' },
  used: { tone: 'warn', text: 'topics.used_up' },
  expired: { tone: 'bad', text: 'topics.disconnected' },
  damaged: { tone: 'bad', text: 'topics.disconnected' },
  gone: { tone: 'bad', text: 'topics.disconnected' },
  unknown: { tone: 'warn', text: 'topics.window_closed' },
}

/** The name of the contact, or a short id. */
export const contactOf = ({ name, session, user_id }: Person): string =>
  nameOf(session, user_id) ?? name ?? shortIdOf(user_id)

export const contactsOf = ({ people }: Topic): string => listed(people.map(contactOf))

/** The state of a topic: that of the first person whom nothing reaches now. */
export function lookOf({ people }: Topic): Look {
  const kinds = people.map(({ session, user_id }) => rightOf(session, user_id).kind)
  return looks[kinds.find(kind => kind !== 'open') ?? 'open']
}
