import { expect, test } from 'bun:test'
import {
  admit,
  causeOfRefusal,
  holdAfterRefusal,
  type SendFacts,
  type SendRules,
} from '../../src/model/admission.ts'

const minute = 60_000
const now = 1_800_000_000_000
const rules: SendRules = {
  quota: 10,
  windowMs: 24 * 60 * minute,
  pace: { perSecond: 1, perWindow: 3, windowMs: 5 * minute },
  patienceMs: 30_000,
}
const calm: SendFacts = {
  ...{ now, receivedAt: now - minute, used: 0 },
  ahead: { messages: 0, unslotted: 0 },
  slots: { user: [] },
}
const off = { ...rules, pace: 'off' as const }
const hold = (since: number, forMs: number) => ({ since, until: now + forMs, count: 1 })

const table: [what: string, facts: Partial<SendFacts>, count: number, rules: SendRules, verdict: object][] = [
  ['a user who wrote', {}, 1, rules, { go: 'now', slot: now }],
  ['without a pace there is no slot', {}, 1, off, { go: 'now' }],
  ['one who never wrote may be tried', { receivedAt: undefined }, 1, off, { go: 'now' }],
  [
    'a day after the last message',
    { receivedAt: now - rules.windowMs },
    1,
    off,
    { go: 'no', why: 'window', idleMs: rules.windowMs },
  ],
  ['just before', { receivedAt: now - rules.windowMs + 1 }, 1, off, { go: 'now' }],
  ['the last answer', { used: 9 }, 1, off, { go: 'now' }],
  ['one more', { used: 10 }, 1, off, { go: 'no', why: 'quota', left: 0 }],
  ['more than are left', { used: 8 }, 3, off, { go: 'no', why: 'quota', left: 2 }],
  [
    'what waits ahead counts',
    { used: 5, ahead: { messages: 4, unslotted: 4 } },
    2,
    off,
    { go: 'no', why: 'quota', left: 1 },
  ],
  [
    'after a refusal',
    { hold: hold(now - minute, 10 * minute) },
    1,
    off,
    { go: 'no', why: 'held', waitMs: 10 * minute },
  ],
  ['the user wrote since', { hold: hold(now - 2 * minute, 10 * minute) }, 1, off, { go: 'now' }],
  ['the hold is over', { hold: hold(now - minute, 0) }, 1, off, { go: 'now' }],
  [
    'a hold of another time of the clock',
    { hold: hold(now - minute, 9 * 60 * minute) },
    1,
    off,
    { go: 'now' },
  ],
  [
    'refused before the user ever wrote',
    { receivedAt: undefined, hold: hold(0, minute) },
    1,
    off,
    { go: 'no', why: 'never_wrote', waitMs: minute },
  ],
  [
    'no pace opens a window: who never wrote is told that',
    { receivedAt: undefined, slots: { last: now - 3000, user: [now - 9000, now - 6000, now - 3000] } },
    1,
    rules,
    { go: 'no', why: 'never_wrote', waitMs: 5 * minute - 9000 },
  ],
  [
    'the session sent just now',
    { slots: { last: now - 400, user: [] } },
    1,
    rules,
    { go: 'later', slot: now + 600 },
  ],
  [
    'others of the session wait',
    { slots: { last: now + 5000, user: [] } },
    1,
    rules,
    { go: 'later', slot: now + 6000 },
  ],
  [
    'the window of the user is full',
    { slots: { last: now - 3000, user: [now - 9000, now - 6000, now - 3000] } },
    1,
    rules,
    { go: 'no', why: 'pace', waitMs: 5 * minute - 9000 },
  ],
  [
    'or frees itself in time',
    { slots: { last: now - 3000, user: [now - 5 * minute + 20_000, now - 6000, now - 3000] } },
    1,
    rules,
    { go: 'later', slot: now + 20_000 },
  ],
  ['of several the last has no room', { slots: { user: [now - 9000] } }, 3, rules, { go: 'no', why: 'pace' }],
  [
    'those ahead go first',
    { ahead: { messages: 2, unslotted: 2 } },
    1,
    rules,
    { go: 'later', slot: now + 2000 },
  ],
  ['those with a slot are counted by it', { ahead: { messages: 2, unslotted: 0 } }, 1, rules, { go: 'now' }],
  [
    'its slot is there',
    { slot: now - 10, slots: { last: now, user: [now, now, now] } },
    1,
    rules,
    { go: 'now', slot: now - 10 },
  ],
  [
    'its slot was missed: another one',
    { slot: now - 2000, slots: { last: now - 100, user: [] } },
    1,
    rules,
    { go: 'later', slot: now + 900 },
  ],
  [
    'missed, and none is free: it is not refused any more',
    { slot: now - 2000, slots: { last: now - 3000, user: [now - 9000, now - 6000, now - 3000] } },
    1,
    rules,
    { go: 'later', slot: now + 30_000 },
  ],
  ['a slot does not open a window', { slot: now - 10, used: 10 }, 1, rules, { go: 'no', why: 'quota' }],
]

test.each(table)('%s', (_what, facts, count, how, verdict) => {
  expect(admit({ ...calm, ...facts }, count, how)).toMatchObject(verdict)
})

test('a refusal is told by the counters', () => {
  const reason = (facts: Partial<SendFacts>) => causeOfRefusal({ ...calm, ...facts }, rules)
  expect(reason({ receivedAt: undefined })).toBe('never_wrote')
  expect(reason({ receivedAt: now - rules.windowMs })).toBe('window')
  expect(reason({ used: 10 })).toBe('quota')
  expect(reason({ used: 9 })).toBe('unexplained')
})

test('a hold doubles from half an hour to six, and begins anew when the user wrote', () => {
  let held = undefined as ReturnType<typeof holdAfterRefusal>['hold'] | undefined
  const lasted: number[] = []
  for (let n = 0; n < 6; n++) {
    const after = holdAfterRefusal({ now, receivedAt: now - minute, hold: held }, n)
    expect(after.giveUp).toBe(false)
    held = after.hold
    lasted.push((held.until - now) / minute)
  }
  expect(lasted).toEqual([30, 60, 120, 240, 360, 360])
  const wrote = { now, receivedAt: now, hold: held }
  expect(holdAfterRefusal(wrote, 0)).toMatchObject({ giveUp: false, hold: { until: now + 30 * minute } })
})

test('refused again right after the user wrote it is given up, and the next one may try once', () => {
  const before = { now, receivedAt: now, hold: hold(now - minute, minute) }
  const { giveUp, hold: after } = holdAfterRefusal(before, 1)
  expect(giveUp).toBe(true)
  expect(admit({ ...calm, receivedAt: now, hold: after }, 1, off)).toEqual({ go: 'now' })
  expect(holdAfterRefusal({ now, receivedAt: now, hold: after }, 1)).toMatchObject({
    giveUp: false,
    hold: { until: now + 30 * minute },
  })
})
