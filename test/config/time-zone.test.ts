/** What TZ may say, as the C library reads it. */
import { describe, expect, test } from 'bun:test'
import process from 'node:process'
import { parseTypedEnd, parseTypedTime } from '../../src/cli/typed-time.ts'
import { localZone, readTimeZone } from '../../src/config/time-zone.ts'
import { failure } from '../support/failure.ts'

const january = Date.UTC(2026, 0, 15)
const hourIn = (timeZone: string) =>
  new Intl.DateTimeFormat('en', { timeZone, hour: 'numeric', minute: '2-digit', hourCycle: 'h23' }).format(
    january,
  )

describe('what is read', () => {
  test.each([
    ['CST-8', '08:00'],
    ['HKT-08', '08:00'],
    ['XYZ-8:00:00', '08:00'],
    ['UTC+8', '16:00'],
    ['GMT+3', '21:00'],
    ['<+08>-8', '08:00'],
    ['<-03>3', '21:00'],
    ['UTC0', '00:00'],
    ['', '00:00'],
    [':Asia/Shanghai', '08:00'],
    ['Asia/Kolkata', '05:30'],
    ['/usr/share/zoneinfo/Asia/Shanghai', '08:00'],
    [':/usr/share/zoneinfo/posix/America/New_York', '19:00'],
    ['EST5EDT', '19:00'],
  ])('%p', (text, hour) => {
    const read = readTimeZone(text)
    expect('zone' in read && hourIn(read.zone!)).toBe(hour)
  })

  test('without TZ it is the zone of the system', () => {
    expect(readTimeZone(undefined)).toEqual({ zone: undefined })
  })
})

describe('what is refused, with the zone to write', () => {
  test.each([
    ['+08:00', '08:00', '08:00'],
    ['-3', '21:00', '21:00'],
    ['<+0530>-5:30', '05:30', '05:30'],
    ['CET-1CEST,M3.5.0,M10.5.0/3', '01:00', '02:00'],
    ['AEST-10AEDT,M10.1.0,M4.1.0/3', '11:00', '10:00'],
    ['Asia/Nowhere', '08:00', '08:00'],
    ['/nowhere/at/all', '08:00', '08:00'],
    ['rubbish', '08:00', '08:00'],
  ])('%s', async (text, winter, summer) => {
    const before = process.env.TZ
    try {
      process.env.TZ = text
      for (const refuse of [
        localZone,
        () => parseTypedEnd('14:00', january),
        () => parseTypedTime('2026-01-31 08:00', january),
        () => parseTypedTime('yesterday', january),
      ])
        expect(await failure(Promise.try<unknown, []>(refuse))).toMatchObject({ code: 'invalid_arguments' })
      expect(parseTypedTime('30m', january)).toBe(january - 1_800_000)
    } finally {
      if (before === undefined) delete process.env.TZ
      else process.env.TZ = before
    }
    const read = readTimeZone(text)
    const timeZone = 'hint' in read ? read.hint : ''
    const july = new Intl.DateTimeFormat('en', {
      timeZone,
      hour: '2-digit',
      minute: '2-digit',
      hourCycle: 'h23',
    })
    expect([hourIn(timeZone), july.format(Date.UTC(2026, 6, 15))]).toEqual([winter, summer])
  })
})
