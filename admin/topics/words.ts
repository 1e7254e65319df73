/** Texts for urgencies, states, and why something waits. */
import type { WaitReason } from '../../src/model/topic.ts'
import { isolated, listed, type TextKey, t } from '../i18n.ts'
import { nameOf } from '../live.ts'
import { clock, day, timeNow } from '../times.ts'
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

const reasons: Readonly<Record<WaitReason, Look>> = {
  gathering: { tone: '', text: 'topics.gathering' },
  digest: { tone: '', text: 'topics.in_digest' },
  below_min: { tone: '', text: 'topics.below_min' },
  quiet: { tone: '', text: 'topics.in_quiet' },
  paused: { tone: '', text: 'topics.in_pause' },
  window_closed: { tone: 'warn', text: 'topics.closed' },
  kept_answers: { tone: 'warn', text: 'topics.kept_answers' },
  topic_answers: { tone: 'warn', text: 'topics.used_answers' },
  sending: { tone: '', text: 'topics.after_message' },
  not_connected: { tone: 'bad', text: 'topics.disconnected' },
  not_running: { tone: 'bad', text: 'topics.not_running' },
}

/** Whether a person has to write first. The others have to log in. */
const mustWrite = ({ kind }: Right): boolean => kind === 'closed' || kind === 'used' || kind === 'unknown'

/** The name of the contact, or a short id. */
export const contactOf = ({ name, session, user_id }: Person): string =>
  nameOf(session, user_id) ?? name ?? shortIdOf(user_id)

export const contactsOf = ({ people }: Topic): string => listed(people.map(contactOf))

/** A far time: a pause until then ends when a person says so. */
export const untilSaid = 999_999_999_999_999

const namesOf = (person: Person) => ({ account: isolated(person.session), name: isolated(contactOf(person)) })

/** A time to come: the time of day, with the day if it is more than a day ahead. */
const whenText = (at: number): string => (at - timeNow() < 86_400_000 ? clock(at) : `${day(at)} ${clock(at)}`)

/** Until when, or for what, something waits. */
export function reasonText(
  { until, why = 'sending' }: Pick<Person, 'until' | 'why'>,
  person: Person,
): string {
  if (why === 'paused' && until === undefined) return t('topics.in_open_pause')
  return t(reasons[why].text, { ...namesOf(person), when: whenText(until ?? 0) })
}

/** The state of a topic for these people: that of the one for whom most waits, or whom nothing reaches now. */
export function lookOf({ paused_until, people }: Pick<Topic, 'paused_until' | 'people'>): Look {
  if (paused_until === untilSaid) return { tone: '', text: 'topics.paused' }
  if (paused_until !== undefined)
    return { tone: '', text: 'topics.paused_until', params: { when: whenText(paused_until) } }
  const [most] = people.toSorted((one, other) => other.waiting - one.waiting)
  if (most && most.waiting > 0) {
    const why = reasonText(most, most)
    const same = people.filter(one => reasonText(one, one) === why)
    const count = same.reduce((sum, one) => sum + one.waiting, 0)
    return { tone: reasons[most.why ?? 'sending'].tone, text: 'topics.wait', params: { count, why } }
  }
  for (const person of people) {
    const right = rightOf(person.session, person.user_id)
    const params = namesOf(person)
    if (mustWrite(right)) return { tone: 'warn', text: 'topics.must_write', params }
    if (right.kind !== 'open') return { tone: 'bad', text: 'topics.must_log_in', params }
  }
  return { tone: 'good', text: 'topics.ready' }
}
