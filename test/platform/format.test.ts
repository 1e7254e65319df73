import { expect, test } from 'bun:test'
import { parseTime } from '../../src/operations/schema.ts'
import {
  formatBytes,
  formatCount,
  formatDuration,
  formatList,
  formatLocalTime,
} from '../../src/platform/format.ts'

test('sizes, counts, spans, moments and lists in words', () => {
  expect([0, 999, 1000, 48_213, 2_000_000, 3.2e12, 5e15].map(formatBytes)).toEqual([
    '0 B',
    '999 B',
    '1.0 kB',
    '48 kB',
    '2.0 MB',
    '3.2 TB',
    '5000 TB',
  ])
  expect([
    formatCount(1, 'message'),
    formatCount(2000, 'message'),
    formatCount(2, 'entry', 'entries'),
  ]).toEqual(['1 message', '2,000 messages', '2 entries'])
  expect([0, 1000, 90_000, 3_600_000, -86_400_000].map(formatDuration)).toEqual([
    '0 seconds',
    '1 second',
    '2 minutes',
    '1 hour',
    '1 day',
  ])
  expect([formatLocalTime(undefined), formatLocalTime(Number.NaN), formatLocalTime(9e15)]).toEqual([
    '–',
    '–',
    '–',
  ])
  expect([[], ['a'], ['a', 'b'], ['a', 'b', 'c', 'd', 'e', 'f']].map(names => formatList(names))).toEqual([
    '',
    'a',
    'a and b',
    'a, b, c, d and 2 more',
  ])
})

test('a local time bears its offset, and is read as it is printed', () => {
  const zone = process.env.TZ
  try {
    for (const [name, printed] of [
      ['UTC', '2026-01-31 08:05:09+00:00'],
      ['Asia/Kolkata', '2026-01-31 13:35:09+05:30'],
      ['America/St_Johns', '2026-01-31 04:35:09-03:30'],
    ] as const) {
      process.env.TZ = name
      const at = Date.UTC(2026, 0, 31, 8, 5, 9)
      expect([name, formatLocalTime(at)]).toEqual([name, printed])
      expect(parseTime(printed)).toBe(at)
    }
  } finally {
    if (zone === undefined) delete process.env.TZ
    else process.env.TZ = zone
  }
})
