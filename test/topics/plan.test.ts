/** Which notices go now, and what the others wait for (`src/topics/plan.ts`). */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { type Priority, priorities } from '../../src/model/topic.ts'
import {
  besideMs,
  digestMs,
  gatherMs,
  isUrgent,
  type PlanFacts,
  type PlannedNotice,
  type PlannedTopic,
  planBulletin,
  quietUntil,
} from '../../src/topics/plan.ts'

const now = 1_800_000_000_000
const topic = (more: Partial<PlannedTopic> = {}): PlannedTopic => ({
  id: 1,
  min_priority: 'min',
  digest: false,
  answers: 5,
  missed: 0,
  ...more,
})
const notice = (more: Partial<PlannedNotice> = {}): PlannedNotice => ({
  id: 1,
  topic: 1,
  priority: 'default',
  received_at: now,
  has_media: false,
  wasSent: false,
  isFile: false,
  ...more,
})
const facts = (notices: readonly PlannedNotice[], more: Partial<PlanFacts> = {}): PlanFacts => ({
  now,
  remaining: 10,
  used: 0,
  isSending: false,
  isConnected: true,
  bulletins: [],
  topics: [topic()],
  notices,
  ...more,
})

/** What becomes of one notice: `goes`, or why it waits and for how long. */
function fateOf(one: Partial<PlannedNotice>, more: Partial<PlanFacts> = {}): unknown {
  const { answers, go, waits } = planBulletin(facts([notice(one)], more))
  expect(answers > 0).toBe(go.length > 0)
  const [wait] = waits
  return go.length > 0 ? 'goes' : wait?.until === undefined ? wait?.why : [wait.why, wait.until - now]
}

const old = now - besideMs
const sent = (priority: Priority, at = now) => ({ at, priority })
const quiet = [topic({ quiet_until: now + 3_600_000 })]
const paused = [topic({ quiet_until: now + 3_600_000, isPaused: true })]
const rows: [what: string, one: Partial<PlannedNotice>, more: Partial<PlanFacts>, fate: unknown][] = [
  ['the first urgent one goes at once', { priority: 'high' }, {}, 'goes'],
  ['a usual one waits some seconds for others', {}, {}, ['gathering', besideMs]],
  ['and goes then', { received_at: old }, {}, 'goes'],
  [
    'what follows is gathered',
    { priority: 'max' },
    { bulletins: [sent('max', now - 1000)] },
    ['gathering', gatherMs - 1000],
  ],
  [
    'each further one longer',
    { priority: 'high' },
    { bulletins: [sent('high', now - 2000), sent('high')] },
    ['gathering', 2 * gatherMs],
  ],
  [
    'not for long',
    { priority: 'high' },
    { bulletins: Array(9).fill(sent('high')) },
    ['gathering', 16 * gatherMs],
  ],
  [
    'less urgent ones hold no urgent one back',
    { priority: 'max' },
    { bulletins: [sent('high'), sent('default')] },
    'goes',
  ],
  [
    'but usual ones are held by urgent ones',
    { received_at: old },
    { bulletins: [sent('max')] },
    ['gathering', gatherMs],
  ],
  ['what cannot go then says so', {}, { remaining: 5, used: 5 }, 'topic_answers'],
  ['a low one waits for a digest', { priority: 'low' }, {}, ['digest', digestMs]],
  [
    'a digest topic keeps usual ones',
    { received_at: old },
    { topics: [topic({ digest: true })] },
    ['digest', digestMs - besideMs],
  ],
  ['and no urgent ones', { priority: 'high' }, { topics: [topic({ digest: true })] }, 'goes'],
  [
    'what is below the least waits for others',
    { priority: 'low' },
    { topics: [topic({ min_priority: 'default' })] },
    'below_min',
  ],
  ['quiet hours hold urgent ones', { priority: 'high' }, { topics: quiet }, ['quiet', 3_600_000]],
  ['but not the most urgent', { priority: 'max' }, { topics: quiet }, 'goes'],
  ['a pause, too', { priority: 'high' }, { topics: paused }, ['paused', 3_600_000]],
  ['nor the most urgent', { priority: 'max' }, { topics: paused }, 'goes'],
  ['a closed window', { priority: 'max' }, { remaining: 0 }, 'window_closed'],
  ['a lost account', { priority: 'max' }, { isConnected: false }, 'not_connected'],
  ['one is on its way', { priority: 'max' }, { isSending: true }, 'sending'],
  ['the last two are kept', { priority: 'max' }, { remaining: 2 }, 'kept_answers'],
  ['with three left urgent ones go', { priority: 'high' }, { remaining: 3 }, 'goes'],
  ['and no others', { received_at: old }, { remaining: 3 }, 'kept_answers'],
  ['topics have used theirs', { priority: 'max' }, { remaining: 5, used: 5 }, 'topic_answers'],
  ['what was sent goes with others only', { received_at: 0, wasSent: true }, {}, 'below_min'],
]

test.each(rows)('%s', (_what, one, more, fate) => {
  expect(fateOf(one, more)).toEqual(fate)
})

test('what waits for a digest goes along; files go as far as the answers allow', () => {
  const picture = { has_media: true, priority: 'high' as const }
  const notices = [notice(picture), notice({ ...picture, id: 2 }), notice({ id: 3, priority: 'min' })]
  expect(planBulletin(facts(notices))).toMatchObject({
    go: [1, 2, 3],
    files: [1, 2],
    answers: 3,
    isLast: false,
  })
  expect(planBulletin(facts(notices, { remaining: 4 }))).toMatchObject({
    files: [1],
    answers: 2,
    isLast: true,
  })
  expect(planBulletin(facts(notices, { used: 4 }))).toMatchObject({ files: [], answers: 1, isLast: true })
})

test('a file that is left goes if an answer is left for it, and takes none without it', () => {
  const file = notice({ has_media: true, isFile: true, priority: 'high' })
  expect(planBulletin(facts([file], { remaining: 4 }))).toMatchObject({ go: [1], files: [1], answers: 2 })
  expect(planBulletin(facts([file], { remaining: 3 }))).toMatchObject({
    answers: 0,
    waits: [{ id: 1, why: 'kept_answers' }],
  })
  const other = notice({ id: 2, priority: 'high' })
  expect(planBulletin(facts([file, other], { used: 4 }))).toMatchObject({
    go: [2],
    files: [],
    waits: [{ id: 1, why: 'topic_answers' }],
  })
})

test('what is only counted goes, too, also alone', () => {
  const topics = [topic({ missed: 3 }), topic({ id: 2 })]
  expect(planBulletin(facts([], { topics }))).toMatchObject({ go: [], missed: [1], answers: 1 })
  expect(planBulletin(facts([], { topics, remaining: 3 }))).toMatchObject({ missed: [], answers: 0 })
})

describe('quiet hours', () => {
  test.each([
    ['23:00-07:00', '23:30', 450],
    ['23:00-07:00', '06:59', 1],
    ['23:00-07:00', '07:00', undefined],
    ['13:00-14:00', '13:15', 45],
    ['13:00-13:00', '13:00', undefined],
    [undefined, '13:00', undefined],
  ])('%s at %s', (hours, at, minutes) => {
    const [hour, minute] = at.split(':').map(Number)
    const until = quietUntil(hours, hour! * 60 + minute!, 0)
    expect(until).toBe(minutes === undefined ? undefined : minutes * 60_000)
  })
})

const anyTime = fc.integer({ min: now - 2 * digestMs, max: now })
const anyFacts: fc.Arbitrary<PlanFacts> = fc.record({
  now: fc.constant(now),
  remaining: fc.integer({ min: 0, max: 10 }),
  used: fc.integer({ min: 0, max: 10 }),
  isSending: fc.boolean(),
  isConnected: fc.boolean(),
  bulletins: fc
    .array(fc.record({ at: anyTime, priority: fc.constantFrom(...priorities) }), { maxLength: 4 })
    .map(all => all.sort((a, b) => a.at - b.at)),
  topics: fc.tuple(...[1, 2].map(id => anyTopic(id))),
  notices: fc
    .array(anyNotice(), { maxLength: 12 })
    .map(all => all.map((one, nth) => ({ ...one, id: nth + 1 }))),
})
function anyTopic(id: number): fc.Arbitrary<PlannedTopic> {
  return fc.record({
    id: fc.constant(id),
    min_priority: fc.constantFrom(...priorities),
    digest: fc.boolean(),
    answers: fc.integer({ min: 1, max: 8 }),
    quiet_until: fc.constantFrom(undefined, now + 60_000),
    missed: fc.integer({ min: 0, max: 2 }),
  })
}
function anyNotice(): fc.Arbitrary<PlannedNotice> {
  return fc
    .record({
      id: fc.constant(0),
      topic: fc.constantFrom(1, 2),
      priority: fc.constantFrom(...priorities),
      received_at: anyTime,
      has_media: fc.boolean(),
      wasSent: fc.boolean(),
      isFile: fc.boolean(),
    })
    .map(one => ({ ...one, isFile: one.isFile && one.has_media && !one.wasSent }))
}

test('whatever waits: the budget holds, quiet hours hold, and nothing is lost', () => {
  fc.assert(
    fc.property(anyFacts, facts => {
      const { answers, files, go, waits } = planBulletin(facts)
      const { remaining, topics, used } = facts
      expect([...go, ...waits.map(({ id }) => id)].sort((a, b) => a - b)).toEqual(
        facts.notices.map(({ id }) => id),
      )
      const going = facts.notices.filter(({ id }) => go.includes(id))
      expect(files.every(id => going.some(one => one.id === id && one.has_media))).toBe(true)
      if (answers === 0) return expect(go).toEqual([])
      expect(answers).toBe(1 + files.length)
      expect(facts.isConnected && !facts.isSending).toBe(true)
      expect(remaining - answers).toBeGreaterThanOrEqual(2)
      expect(used + answers).toBeLessThanOrEqual(Math.max(...topics.map(one => one.answers)))
      if (remaining === 3) expect(going.some(({ priority }) => isUrgent(priority))).toBe(true)
      for (const { priority, topic } of going)
        if (topics.find(({ id }) => id === topic)?.quiet_until !== undefined) expect(priority).toBe('max')
    }),
    { numRuns: 300 },
  )
})
