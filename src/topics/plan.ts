/** Decides what goes to a person now, and what waits until when. A function of facts: no clock, no store. */
import { mayUse } from '../model/answers.ts'
import { type Priority, priorities, type WaitReason } from '../model/topic.ts'

/** What `default` waits for others that come beside it. */
export const besideMs = 5000
/**
 * What follows the first bulletin is gathered behind it for so long; each further one doubles it. A bulletin holds back only
 * what is not more urgent than itself, and nothing once the person wrote.
 */
export const gatherMs = 30_000
const longestGatherMs = 8 * 60_000
/** Bulletins that belong together: each that went out within this time makes the next one wait longer. */
export const burstMs = 15 * 60_000
/** What is not urgent goes with the next bulletin, and at the latest after this time. */
export const digestMs = 4 * 60 * 60_000
/** Most files of a bulletin: each takes an answer. */
const mostFiles = 3

export interface PlannedTopic {
  readonly id: number
  readonly min_priority: Priority
  readonly digest: boolean
  readonly answers: number
  /** Unix ms: its quiet hours or its pause end then; absent: they are not now. */
  readonly quiet_until?: number | undefined
  /** Whether that is its pause. */
  readonly isPaused?: boolean
  /** How many notices it only counts. */
  readonly missed: number
}

export interface PlannedNotice {
  readonly id: number
  /** Id of its topic. */
  readonly topic: number
  /** As far as the topic allows. */
  readonly priority: Priority
  readonly received_at: number
  readonly has_media: boolean
  /** It was sent, and came again since: it goes with others only. */
  readonly wasSent: boolean
  /** An earlier content of it was sent. */
  readonly isRepeat?: boolean
  /** Only its file is left to send. */
  readonly isFile: boolean
}

export interface PlanFacts {
  /** Unix ms. */
  readonly now: number
  /** Answers left; 0 once the window is closed. */
  readonly remaining: number
  /** How many of them topics took since the person wrote. */
  readonly used: number
  /** Whether a bulletin is on its way. */
  readonly isSending: boolean
  /** Whether the account is connected. */
  readonly isConnected: boolean
  /** Most files of a bulletin; absent: three. */
  readonly mostFiles?: number | undefined
  /** Those within `burstMs` and since the person wrote, the oldest first: when, in Unix ms, and its highest priority. */
  readonly bulletins: readonly { readonly at: number; readonly priority: Priority }[]
  readonly topics: readonly PlannedTopic[]
  readonly notices: readonly PlannedNotice[]
}

interface PlannedWait {
  readonly id: number
  readonly why: WaitReason
  /** Unix ms, as far as it is known. */
  readonly until?: number
}

export interface Plan {
  /** Ids of the notices that go now. */
  readonly go: readonly number[]
  /** Ids of those of them whose files go, too. */
  readonly files: readonly number[]
  /** Ids of the topics whose counts go. */
  readonly missed: readonly number[]
  /** How many answers it takes; 0: nothing goes. */
  readonly answers: number
  /** The highest priority that goes. */
  readonly priority: Priority
  /** Whether topics may take no further answer until the person writes. */
  readonly isLast: boolean
  readonly waits: readonly PlannedWait[]
  /** Unix ms: before that nothing goes, unless something comes or the person writes. */
  readonly until: number
}

export const isUrgent = (priority: Priority): boolean => priority === 'high' || priority === 'max'
const isBelow = (one: Priority, other: Priority): boolean =>
  priorities.indexOf(one) < priorities.indexOf(other)

const mostUrgent = (all: readonly Priority[]): Priority =>
  priorities.findLast(one => all.includes(one)) ?? 'default'

export function planBulletin(facts: PlanFacts): Plan {
  const { now, topics } = facts
  const topicOf = new Map(topics.map(topic => [topic.id, topic]))
  const dues = facts.notices.flatMap(notice => {
    const topic = topicOf.get(notice.topic)
    return topic ? [{ notice, topic, ...dueOf(notice, topic, facts) }] : []
  })
  const counted = topics.filter(({ missed, quiet_until }) => missed > 0 && quiet_until === undefined)
  const isDue = ({ until }: { until: number }) => until <= now
  const takesOf = ({ isFile }: PlannedNotice) => (isFile ? 2 : 1)
  const callers = dues
    .filter(isDue)
    .map(({ notice, topic }) => ({ priority: notice.priority, topic, takes: takesOf(notice) }))
  const all = [...callers, ...counted.map(topic => ({ priority: 'default' as const, topic, takes: 1 }))]
  const allowed = all.filter(({ priority, takes, topic }) => isAllowed(facts, priority, topic, takes))
  const until = Math.min(...dues.map(one => one.until).filter(at => at > now))
  const idle = { go: [], files: [], missed: [], answers: 0, priority: 'min' as const, isLast: false, until }
  const closed = whyClosed(facts)
  if (closed !== undefined || allowed.length === 0) {
    const why = closed ?? whyNot(facts)
    const mayGo = ({ notice, topic }: (typeof dues)[number]) =>
      closed === undefined && isAllowed(facts, notice.priority, topic, takesOf(notice))
    const isHeld = (due: (typeof dues)[number]) => isDue(due) || (due.why === 'gathering' && !mayGo(due))
    const waits = dues.map(due => ({ id: due.notice.id, ...(isHeld(due) ? { why } : waitOf(due)) }))
    return { ...idle, waits }
  }
  // What is held by quiet hours or a pause stays; everything else goes along, since that costs nothing.
  const free = dues.filter(({ notice, topic, until }) => until <= now || !isQuiet(notice.priority, topic))
  const files = filesOf(
    facts,
    free.map(({ notice }) => notice),
    allowed,
  )
  const going = free.filter(({ notice }) => !notice.isFile || files.includes(notice.id))
  const answers = 1 + files.length
  const most = Math.max(...topics.map(topic => topic.answers))
  const { remaining, used } = facts
  return {
    ...idle,
    go: going.map(({ notice }) => notice.id),
    files,
    missed: counted.map(({ id }) => id),
    answers,
    priority: mostUrgent(going.map(({ notice }) => notice.priority)),
    isLast: !mayUse('topic', { remaining: remaining - answers, used: used + answers, most, isUrgent: true }),
    waits: dues
      .filter(one => !going.includes(one))
      .map(({ notice, ...due }) => ({
        id: notice.id,
        ...(isDue(due) ? { why: whyNot(facts) } : waitOf(due)),
      })),
  }
}

const isQuiet = (priority: Priority, { quiet_until }: PlannedTopic): boolean =>
  quiet_until !== undefined && priority !== 'max'

const waitOf = ({ until, why }: { until: number; why: WaitReason }) => ({
  why,
  ...(Number.isFinite(until) && { until }),
})

/** Returns when a notice would cause a bulletin, and what it waits for until then. */
function dueOf(
  { isRepeat, priority, received_at, wasSent }: PlannedNotice,
  topic: PlannedTopic,
  { bulletins }: PlanFacts,
): { until: number; why: WaitReason } {
  if (wasSent || isBelow(priority, topic.min_priority))
    return { until: Number.POSITIVE_INFINITY, why: 'below_min' }
  const isCalm = isRepeat || isBelow(priority, 'default') || (topic.digest && !isUrgent(priority))
  const before = bulletins.filter(one => !isBelow(one.priority, priority))
  const last = before.at(-1)?.at ?? Number.NEGATIVE_INFINITY
  const gather = Math.min(longestGatherMs, gatherMs * 2 ** Math.max(0, before.length - 1))
  const gathered = Math.max(received_at + (isUrgent(priority) ? 0 : besideMs), last + gather)
  const until = isCalm ? received_at + digestMs : gathered
  if (isQuiet(priority, topic) && topic.quiet_until! > until)
    return { until: topic.quiet_until!, why: topic.isPaused ? 'paused' : 'quiet' }
  return { until, why: isCalm ? 'digest' : 'gathering' }
}

const isAllowed = (
  { remaining, used }: PlanFacts,
  priority: Priority,
  { answers }: PlannedTopic,
  takes: number,
) => mayUse('topic', { remaining, used, takes, most: answers, isUrgent: isUrgent(priority) })

/** Returns what keeps everything back. */
function whyClosed({ isConnected, isSending, remaining }: PlanFacts): WaitReason | undefined {
  if (!isConnected) return 'not_connected'
  if (remaining === 0) return 'window_closed'
  return isSending ? 'sending' : undefined
}

/** Returns why what is due may not take an answer. */
const whyNot = ({ remaining }: PlanFacts): WaitReason =>
  mayUse('topic', { remaining, isUrgent: false }) ? 'topic_answers' : 'kept_answers'

/** Chooses the files that go, as far as the answers allow. */
function filesOf(
  facts: PlanFacts,
  going: readonly PlannedNotice[],
  callers: readonly { priority: Priority; topic: PlannedTopic }[],
): number[] {
  const ids = going.filter(({ has_media, wasSent }) => has_media && !wasSent).map(({ id }) => id)
  for (let count = Math.min(facts.mostFiles ?? mostFiles, ids.length); count > 0; count--)
    if (callers.some(({ priority, topic }) => isAllowed(facts, priority, topic, 1 + count)))
      return ids.slice(0, count)
  return []
}

/**
 * Returns when the quiet hours end that are now.
 *
 * @param quiet as `23:00-07:00`
 * @param minutes minutes of the day, where the topic is
 * @param now Unix ms
 */
export function quietUntil(quiet: string | undefined, minutes: number, now: number): number | undefined {
  const [from, to] = (quiet ?? '').split('-').map(text => {
    const [hours = 0, rest = 0] = text.split(':').map(Number)
    return hours * 60 + rest
  })
  if (!quiet || from === undefined || to === undefined || from === to) return undefined
  const isNow = from < to ? minutes >= from && minutes < to : minutes >= from || minutes < to
  if (!isNow) return undefined
  const left = (to - minutes + 1440) % 1440
  return now - (now % 60_000) + left * 60_000
}
