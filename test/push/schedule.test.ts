/** When an endpoint is tried, by the rules alone. */
import { expect, test } from 'bun:test'
import {
  afterSuccess,
  afterTrouble,
  dueInMs,
  eventLadderMs,
  eventTrouble,
  type Failure,
  freshPulse,
  isGivenUp,
  type Pulse,
  probeLadderMs,
  retryAfterOf,
  roomOf,
  slotsOf,
  switchOffMs,
  verdictOf,
} from '../../src/push/schedule.ts'

const latest = 1
const failure = (now: number, more: Partial<Failure> = {}): Failure => ({
  beganAt: now,
  now,
  slow: false,
  again: false,
  ...more,
})

test('while nothing succeeds, one event is tried after 5 s, 30 s, 2 min, 5 min, then every 15 min', () => {
  let pulse: Pulse = freshPulse
  let now = 1000
  const waits: number[] = []
  for (let round = 0; round < 7; round++) {
    pulse = afterTrouble(pulse, failure(now), latest)
    waits.push(pulse.until - now)
    now = pulse.until
  }
  expect(waits).toEqual([...probeLadderMs, 900_000, 900_000])
  expect(slotsOf(pulse, now - 1)).toBe(0)
  expect(slotsOf(pulse, now)).toBe(1)
  expect(afterSuccess(pulse)).toMatchObject({ rounds: 0, failing: false })
})

test('no wait is longer than told, whatever the chance', () => {
  for (const random of [0, 0.3, 1]) {
    const { until } = afterTrouble(freshPulse, failure(0), random)
    expect(until).toBeLessThanOrEqual(5000)
    expect(until).toBeGreaterThanOrEqual(4000)
  }
})

test('what takes long leaves its place to others, one a second, up to all that may be under way', () => {
  const began = [0, 0, 1500, 1600]
  expect(roomOf(freshPulse, began, 900)).toEqual({ room: 0, moreInMs: 100 })
  expect(roomOf(freshPulse, began, 1000)).toEqual({ room: 1, moreInMs: 1000 })
  expect(roomOf(freshPulse, began, 2000)).toEqual({ room: 2, moreInMs: 1000 })
  expect(roomOf(freshPulse, [0, 1500], 2000)).toEqual({ room: 3, moreInMs: 500 })
  const many = Array.from({ length: 63 }, () => 0)
  expect(roomOf(freshPulse, many, 70_000)).toMatchObject({ room: 1 })
  expect(roomOf(freshPulse, [...many, 0], 70_000)).toMatchObject({ room: 0 })
  const failing = { ...freshPulse, failing: true }
  expect(roomOf(failing, [], 5000)).toMatchObject({ room: 1 })
  expect(roomOf(failing, [0], 5000)).toMatchObject({ room: 0 })
})

test('the first failure stops nobody else; a second one without a success between does', () => {
  const one = afterTrouble(freshPulse, failure(100), latest)
  expect(one.failing).toBe(false)
  expect(slotsOf(one, 101)).toBeGreaterThan(1)
  const two = afterTrouble(one, failure(200), latest)
  expect(two).toMatchObject({ failing: true, rounds: 1, until: 5100 })
  const between = afterTrouble(afterSuccess(one), failure(200), latest)
  expect(between.failing).toBe(false)
})

test('a try again of the event that began the wait ends it, however soon it came', () => {
  const one = afterTrouble(freshPulse, failure(100), latest)
  const again = afterTrouble(one, failure(4200, { again: true }), latest)
  expect(again).toMatchObject({ failing: true, rounds: 2, until: 34_200 })
})

test('what was under way when the wait began does not lengthen it', () => {
  let pulse = afterTrouble(freshPulse, failure(100), latest)
  for (let more = 0; more < 60; more++) pulse = afterTrouble(pulse, failure(150, { beganAt: 50 }), latest)
  expect(pulse).toMatchObject({ rounds: 1, until: 5100, failing: true })
})

test('429, 502 and 504 halve what is under way, and Retry-After is waited for, a day at most', () => {
  let pulse: Pulse = { ...freshPulse, width: 3 }
  pulse = afterTrouble(pulse, failure(0, { slow: true }), latest)
  expect(pulse).toMatchObject({ failing: true, width: 1, until: 5000 })
  pulse = afterTrouble(freshPulse, failure(0, { slow: true, retryAfterMs: 60_000 }), latest)
  expect(slotsOf(pulse, 59_999)).toBe(0)
  expect(slotsOf(pulse, 60_000)).toBe(1)
  pulse = afterTrouble(freshPulse, failure(0, { slow: true, retryAfterMs: 1e12 }), latest)
  expect(pulse.until).toBe(24 * 3_600_000)
})

test('each success lets one more go at a time, up to a bound', () => {
  let pulse: Pulse = freshPulse
  for (let count = 0; count < 1000; count++) pulse = afterSuccess(pulse)
  expect(slotsOf(pulse, 0)).toBe(64)
})

test('an event that fails alone has tries of its own, and then is given up', () => {
  let now = 0
  let trouble = eventTrouble(undefined, { event: 'e', now, othersSucceeded: false }, latest)
  const waits: number[] = []
  while (trouble) {
    waits.push(trouble.retry_at - now)
    now = trouble.retry_at
    trouble = eventTrouble(trouble, { event: 'e', now, othersSucceeded: true }, latest)
  }
  expect(waits).toEqual([...eventLadderMs])
})

test('failures while nothing else succeeds are not the event’s, and another event begins anew', () => {
  let trouble = eventTrouble(undefined, { event: 'e', now: 0, othersSucceeded: false }, latest)
  for (let more = 0; more < 50; more++)
    trouble = eventTrouble(trouble, { event: 'e', now: more, othersSucceeded: false }, latest)
  expect(trouble?.tries).toBe(1)
  expect(
    eventTrouble({ ...trouble!, tries: 4 }, { event: 'f', now: 0, othersSucceeded: true }, latest)?.tries,
  ).toBe(1)
})

test('a clock that was set back makes an event wait no longer than its step', () => {
  expect(dueInMs({ event: 'e', tries: 1, failed_at: 1e12, retry_at: 1e12 + 5000 }, 0)).toBe(5000)
  expect(dueInMs({ event: 'e', tries: 1, failed_at: 0, retry_at: 5000 }, 6000)).toBe(0)
})

test('it is switched off after 5 days without a success, and had all its chances by then', () => {
  const tired: Pulse = { ...freshPulse, rounds: probeLadderMs.length }
  const since = { failing_since: 1000 }
  expect(isGivenUp(tired, since, 1000 + switchOffMs, true)).toBe(true)
  expect(isGivenUp(tired, since, 999 + switchOffMs, true)).toBe(false)
  expect(isGivenUp({ ...tired, rounds: 1 }, since, 1000 + switchOffMs, true)).toBe(false)
  expect(isGivenUp(tired, since, 1000 + switchOffMs, false)).toBe(false)
  expect(isGivenUp(tired, {}, 1e15, true)).toBe(false)
})

test('Retry-After is seconds or a date', () => {
  const now = Date.UTC(2026, 0, 1)
  expect(retryAfterOf('120', now)).toBe(120_000)
  expect(retryAfterOf(' 0 ', now)).toBe(0)
  expect(retryAfterOf('Thu, 01 Jan 2026 00:01:00 GMT', now)).toBe(60_000)
  expect(retryAfterOf('Wed, 31 Dec 2025 00:00:00 GMT', now)).toBe(0)
  for (const none of [undefined, '', 'soon', '-5x']) expect(retryAfterOf(none, now)).toBeUndefined()
})

test('only 2xx is done; 410 switches off; 429, 502 and 504 slow down', () => {
  const by = (pick: (status: number) => boolean) =>
    Array.from({ length: 500 }, (_, nth) => 100 + nth).filter(pick)
  expect(by(status => verdictOf(status).done)).toEqual(Array.from({ length: 100 }, (_, nth) => 200 + nth))
  expect(by(status => verdictOf(status).gone)).toEqual([410])
  expect(by(status => verdictOf(status).slow)).toEqual([429, 502, 504])
})
