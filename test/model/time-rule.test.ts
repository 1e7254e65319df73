/** Times by the clock of a zone, also where the clock is changed. */
import { describe, expect, test } from 'bun:test'
import { clockIn, momentOf, nextOf, type TimeRule } from '../../src/model/time-rule.ts'

const utc = (text: string) => Date.parse(`${text}Z`)
const shown = (at: number | undefined) =>
  at === undefined ? 'none' : new Date(at).toISOString().slice(0, 16)
/** The next times of a rule after a time, in UTC. */
function next(rule: TimeRule, zone: string, after: string, count: number): string[] {
  const times: (number | undefined)[] = []
  let at: number | undefined = utc(after)
  while (times.length < count && at !== undefined) {
    at = nextOf(rule, zone, at)
    times.push(at)
  }
  return times.map(shown)
}

describe('a clock time that a change of the clock skips is the moment of the change, and one that comes twice the first', () => {
  test.each([
    ['Europe/Berlin', '2026-03-29T02:30', '2026-03-29T01:00'],
    ['Europe/Berlin', '2026-03-29T01:59', '2026-03-29T00:59'],
    ['Europe/Berlin', '2026-03-29T03:00', '2026-03-29T01:00'],
    ['Europe/Berlin', '2026-10-25T02:30', '2026-10-25T00:30'],
    ['Europe/Berlin', '2026-10-25T03:00', '2026-10-25T02:00'],
    ['America/New_York', '2026-03-08T02:30', '2026-03-08T07:00'],
    ['America/New_York', '2026-11-01T01:30', '2026-11-01T05:30'],
    ['Australia/Lord_Howe', '2026-10-04T02:15', '2026-10-03T15:30'],
    ['Pacific/Apia', '2011-12-30T08:00', '2011-12-30T10:00'],
    ['Asia/Shanghai', '2026-03-29T02:30', '2026-03-28T18:30'],
    ['Asia/Kathmandu', '2026-03-29T02:30', '2026-03-28T20:45'],
    ['UTC', '2026-03-29T02:30', '2026-03-29T02:30'],
  ])('%s %s', (zone, clock, at) => {
    expect(shown(momentOf(zone, utc(clock)))).toBe(at)
  })
})

test('a daily time is once a day over both changes of the clock', () => {
  const daily = { hour: 2, minute: 30 }
  expect(next(daily, 'Europe/Berlin', '2026-03-27T12:00', 3)).toEqual([
    '2026-03-28T01:30',
    '2026-03-29T01:00',
    '2026-03-30T00:30',
  ])
  expect(next(daily, 'Europe/Berlin', '2026-10-23T12:00', 3)).toEqual([
    '2026-10-24T00:30',
    '2026-10-25T00:30',
    '2026-10-26T01:30',
  ])
  // Between the two, it has been done.
  expect(next({ hour: 1, minute: 30 }, 'America/New_York', '2026-11-01T06:00', 1)).toEqual([
    '2026-11-02T06:30',
  ])
  expect(next({ hour: 8, minute: 0 }, 'America/New_York', '2026-03-07T14:00', 2)).toEqual([
    '2026-03-08T12:00',
    '2026-03-09T12:00',
  ])
  expect(next(daily, 'Asia/Shanghai', '2026-03-28T12:00', 2)).toEqual([
    '2026-03-28T18:30',
    '2026-03-29T18:30',
  ])
})

test('for each zone and hour of two years the next time is one that the clock shows, or where it was changed', () => {
  for (const zone of ['Europe/Berlin', 'America/New_York', 'Asia/Shanghai', 'Australia/Lord_Howe']) {
    let at = utc('2026-01-01T00:00')
    for (let nth = 0; nth < 730; nth++) {
      const after = at
      at = nextOf({ hour: nth % 24, minute: 30 }, zone, after)!
      expect(at).toBeGreaterThan(after)
      const clock = new Date(clockIn(zone, at))
      const isShown = clock.getUTCHours() === nth % 24 && clock.getUTCMinutes() === 30
      expect(isShown || clockIn(zone, at) - clockIn(zone, at - 1000) > 1000).toBe(true)
    }
  }
})

test('days of the week and of the month; a month without the day has its last one', () => {
  const zone = 'Asia/Shanghai'
  expect(next({ hour: 8, minute: 0, weekdays: [1, 5] }, zone, '2026-12-02T00:00', 3)).toEqual([
    '2026-12-04T00:00',
    '2026-12-07T00:00',
    '2026-12-11T00:00',
  ])
  expect(next({ hour: 8, minute: 0, day: 31 }, zone, '2027-01-31T00:00', 4)).toEqual([
    '2027-02-28T00:00',
    '2027-03-31T00:00',
    '2027-04-30T00:00',
    '2027-05-31T00:00',
  ])
  expect(next({ hour: 8, minute: 0, day: 29 }, zone, '2028-02-01T00:00', 1)).toEqual(['2028-02-29T00:00'])
})

test('minutes are counted from the time before, also after a long while, and once is once', () => {
  const from = utc('2026-01-01T00:10')
  const after = (text: string) => shown(nextOf({ minutes: 90 }, 'UTC', utc(text), from))
  expect(after('2026-01-01T00:09')).toBe('2026-01-01T00:10')
  expect(after('2026-01-01T00:10')).toBe('2026-01-01T01:40')
  expect(after('2027-01-01T00:00')).toBe('2027-01-01T00:10')
  expect(nextOf({ at: 5 }, 'UTC', 4)).toBe(5)
  expect(nextOf({ at: 5 }, 'UTC', 5)).toBeUndefined()
})
