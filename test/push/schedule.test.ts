/** When an endpoint is tried, by the rules alone. */
import { expect, test } from 'bun:test'
import {
  type AttemptFailure,
  capacityOf,
  concurrencyOf,
  disableAfterMs,
  type EndpointState,
  endpointDelaysMs,
  eventDelaysMs,
  initialState,
  meaningOf,
  mustDisable,
  nextRetryOf,
  remainingWaitOf,
  retryAfterOf,
  withFailure,
  withSuccess,
} from '../../src/push/schedule.ts'

const latest = 1
const failure = (now: number, more: Partial<AttemptFailure> = {}): AttemptFailure => ({
  beganAt: now,
  now,
  slow: false,
  isRepeat: false,
  ...more,
})

test('while nothing succeeds, one event is tried after 5 s, 30 s, 2 min, 5 min, then every 15 min', () => {
  let pulse: EndpointState = initialState
  let now = 1000
  const waits: number[] = []
  for (let round = 0; round < 7; round++) {
    pulse = withFailure(pulse, failure(now), latest)
    waits.push(pulse.until - now)
    now = pulse.until
  }
  expect(waits).toEqual([...endpointDelaysMs, 900_000, 900_000])
  expect(concurrencyOf(pulse, now - 1)).toBe(0)
  expect(concurrencyOf(pulse, now)).toBe(1)
  expect(withSuccess(pulse)).toMatchObject({ backoffSteps: 0, isFailing: false })
})

test('no wait is longer than told, whatever the chance', () => {
  for (const random of [0, 0.3, 1]) {
    const { until } = withFailure(initialState, failure(0), random)
    expect(until).toBeLessThanOrEqual(5000)
    expect(until).toBeGreaterThanOrEqual(4000)
  }
})

test('what takes long leaves its place to others, one a second, up to all that may be under way', () => {
  const began = [0, 0, 1500, 1600]
  expect(capacityOf(initialState, began, 900)).toEqual({ free: 0, moreInMs: 100 })
  expect(capacityOf(initialState, began, 1000)).toEqual({ free: 1, moreInMs: 1000 })
  expect(capacityOf(initialState, began, 2000)).toEqual({ free: 2, moreInMs: 1000 })
  expect(capacityOf(initialState, [0, 1500], 2000)).toEqual({ free: 3, moreInMs: 500 })
  const many = Array.from({ length: 63 }, () => 0)
  expect(capacityOf(initialState, many, 70_000)).toMatchObject({ free: 1 })
  expect(capacityOf(initialState, [...many, 0], 70_000)).toMatchObject({ free: 0 })
  const failing = { ...initialState, isFailing: true }
  expect(capacityOf(failing, [], 5000)).toMatchObject({ free: 1 })
  expect(capacityOf(failing, [0], 5000)).toMatchObject({ free: 0 })
})

test('the first failure stops nobody else; a second one without a success between does', () => {
  const one = withFailure(initialState, failure(100), latest)
  expect(one.isFailing).toBe(false)
  expect(concurrencyOf(one, 101)).toBeGreaterThan(1)
  const two = withFailure(one, failure(200), latest)
  expect(two).toMatchObject({ isFailing: true, backoffSteps: 1, until: 5100 })
  const between = withFailure(withSuccess(one), failure(200), latest)
  expect(between.isFailing).toBe(false)
})

test('a try again of the event that began the wait ends it, however soon it came', () => {
  const one = withFailure(initialState, failure(100), latest)
  const again = withFailure(one, failure(4200, { isRepeat: true }), latest)
  expect(again).toMatchObject({ isFailing: true, backoffSteps: 2, until: 34_200 })
})

test('what was under way when the wait began does not lengthen it', () => {
  let pulse = withFailure(initialState, failure(100), latest)
  for (let more = 0; more < 60; more++) pulse = withFailure(pulse, failure(150, { beganAt: 50 }), latest)
  expect(pulse).toMatchObject({ backoffSteps: 1, until: 5100, isFailing: true })
})

test('429, 502 and 504 halve what is under way, and Retry-After is waited for, a day at most', () => {
  let pulse: EndpointState = { ...initialState, concurrency: 3 }
  pulse = withFailure(pulse, failure(0, { slow: true }), latest)
  expect(pulse).toMatchObject({ isFailing: true, concurrency: 1, until: 5000 })
  pulse = withFailure(initialState, failure(0, { slow: true, retryAfterMs: 60_000 }), latest)
  expect(concurrencyOf(pulse, 59_999)).toBe(0)
  expect(concurrencyOf(pulse, 60_000)).toBe(1)
  pulse = withFailure(initialState, failure(0, { slow: true, retryAfterMs: 1e12 }), latest)
  expect(pulse.until).toBe(24 * 3_600_000)
})

test('each success lets one more go at a time, up to a bound', () => {
  let pulse: EndpointState = initialState
  for (let count = 0; count < 1000; count++) pulse = withSuccess(pulse)
  expect(concurrencyOf(pulse, 0)).toBe(64)
})

test('an event that fails alone has tries of its own, and then is given up', () => {
  let now = 0
  let trouble = nextRetryOf(undefined, { event: 'e', now, isOwn: false }, latest)
  const waits: number[] = []
  while (trouble) {
    waits.push(trouble.retry_at - now)
    now = trouble.retry_at
    trouble = nextRetryOf(trouble, { event: 'e', now, isOwn: true }, latest)
  }
  expect(waits).toEqual([...eventDelaysMs])
})

test('failures while nothing else succeeds are not the event’s, and another event begins anew', () => {
  let trouble = nextRetryOf(undefined, { event: 'e', now: 0, isOwn: false }, latest)
  for (let more = 0; more < 50; more++)
    trouble = nextRetryOf(trouble, { event: 'e', now: more, isOwn: false }, latest)
  expect(trouble?.tries).toBe(1)
  expect(nextRetryOf({ ...trouble!, tries: 4 }, { event: 'f', now: 0, isOwn: true }, latest)?.tries).toBe(1)
})

test('an event that failed by a clock ahead of this one is due: that clock was set back, or is another machine’s', () => {
  const trouble = { event: 'e', tries: 1, failed_at: 1000, retry_at: 6000 }
  expect([0, 999, 1000, 5000, 6000, 7000].map(now => remainingWaitOf(trouble, now))).toEqual([
    0, 0, 5000, 1000, 0, 0,
  ])
})

test('it is switched off after 5 days without a success, and had all its chances by then', () => {
  const tired: EndpointState = { ...initialState, backoffSteps: endpointDelaysMs.length }
  const since = { failing_since: 1000 }
  expect(mustDisable(tired, since, 1000 + disableAfterMs, true)).toBe(true)
  expect(mustDisable(tired, since, 999 + disableAfterMs, true)).toBe(false)
  expect(mustDisable({ ...tired, backoffSteps: 1 }, since, 1000 + disableAfterMs, true)).toBe(false)
  expect(mustDisable(tired, since, 1000 + disableAfterMs, false)).toBe(false)
  expect(mustDisable(tired, {}, 1e15, true)).toBe(false)
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
  expect(by(status => meaningOf(status).done)).toEqual(Array.from({ length: 100 }, (_, nth) => 200 + nth))
  expect(by(status => meaningOf(status).gone)).toEqual([410])
  expect(by(status => meaningOf(status).slow)).toEqual([429, 502, 504])
})
