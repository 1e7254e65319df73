/** Times as people type them. */
import { expect, test } from 'bun:test'
import { parseTypedEnd, parseTypedTime } from '../../src/cli/typed-time.ts'
import { formatLocalTime } from '../../src/platform/format.ts'

const now = Date.parse('2026-11-20T12:34:56Z')
const local = (...at: [number, number, number, number?, number?]) => new Date(...at).getTime()

test.each([
  ['1h', now - 3_600_000],
  ['30m ago', now - 1_800_000],
  ['3 d', now - 3 * 86_400_000],
  ['2W', now - 14 * 86_400_000],
  ['2026-01-31', local(2026, 0, 31)],
  ['2026-01-31 08:00', local(2026, 0, 31, 8)],
  ['2026-07-31T08:30', local(2026, 6, 31, 8, 30)],
  ['2026-01-31 08:00:00+08:00', Date.parse('2026-01-31T00:00:00Z')],
  ['2026-01-31T08:00Z', Date.parse('2026-01-31T08:00:00Z')],
  ['2026-01-31T08:00-0330', Date.parse('2026-01-31T11:30:00Z')],
  ['1767225600000', 1767225600000],
  ['last week', undefined],
  ['2026-02-30', undefined],
  ['1y', undefined],
  ['', undefined],
])('%s', (text, time) => {
  expect(parseTypedTime(text, now)).toBe(time as number)
})

test('days begin at midnight here, also where clocks were changed in between', () => {
  for (const at of [now, Date.parse('2026-03-29T12:00:00Z'), Date.parse('2026-10-25T12:00:00Z')]) {
    const today = new Date(parseTypedTime('today', at)!)
    const yesterday = new Date(parseTypedTime('Yesterday', at)!)
    expect([today.getHours(), yesterday.getHours()]).toEqual([0, 0])
    expect([today.getDate(), yesterday.getDate()]).toEqual([
      new Date(at).getDate(),
      new Date(new Date(at).setDate(new Date(at).getDate() - 1)).getDate(),
    ])
  }
})

test('what is printed is read as printed', () => {
  const second = Math.floor(now / 1000) * 1000
  expect(parseTypedTime(formatLocalTime(second), 0)).toBe(second)
})

test('a time of day is the next one by the clock of this machine', () => {
  const at = (hour: number, minute: number, day = 15) => new Date(2026, 5, day, hour, minute).getTime()
  const now = at(12, 30)
  expect(parseTypedEnd('14:00', now)).toBe(at(14, 0))
  expect(parseTypedEnd('9:05', now)).toBe(at(9, 5, 16))
  expect(parseTypedEnd('12:30', now)).toBe(at(12, 30, 16))
  expect(parseTypedEnd('tomorrow 14:00', now)).toBe(at(14, 0, 16))
  expect(parseTypedEnd('2h', now)).toBe(at(14, 30))
  expect(parseTypedEnd('2026-06-20 08:00', now)).toBe(at(8, 0, 20))
  for (const text of ['24:00', '14:60', '14', 'noon', '']) expect(parseTypedEnd(text, now)).toBeUndefined()
})
