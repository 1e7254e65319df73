/** What the decoder gets of a SILK file: whole frames, at most ten minutes. */
import { expect, test } from 'bun:test'
import { checkSilk } from '../../src/media/silk.ts'
import { stopwatch } from '../support/stopwatch.ts'
import { silkOf } from '../support/voice.ts'

const frames = (count: number, size: number, fill = 7) =>
  Array.from({ length: count }, () => new Uint8Array(size).fill(fill))

test('whole frames, behind the byte that WeChat writes', () => {
  const good = silkOf(frames(3, 20))
  expect(checkSilk(good)).toEqual(good)
  expect(checkSilk(silkOf(frames(3, 20), '#!SILK_V3'))).toEqual(good)
  // A part of a larger buffer.
  expect(checkSilk(Buffer.concat([Buffer.alloc(9), good]).subarray(9))).toEqual(good)
  const ending = Buffer.concat([good, Buffer.from([0xff, 0xff]), Buffer.alloc(50)])
  expect(checkSilk(ending)).toEqual(good)
  for (const cut of [1, 2, 20]) expect(checkSilk(good.subarray(0, -cut))).toEqual(silkOf(frames(2, 20)))
  expect(checkSilk(silkOf(frames(30_000, 1)))).toHaveLength(10 + 90_000)
  // A pause in the speech may be frames without bytes.
  const pause = silkOf([...frames(1, 20), ...frames(5, 0), ...frames(1, 20)])
  expect(checkSilk(pause)).toEqual(pause)
})

test.each<[string, Buffer]>([
  ['nothing', Buffer.alloc(0)],
  ['the magic alone', silkOf([])],
  ['half the magic', Buffer.from('\x02#!SILK')],
  ['another magic', silkOf(frames(3, 20), '\x02#!AMR_V3x')],
  ['a magic too late', Buffer.concat([Buffer.alloc(20), silkOf(frames(3, 20))])],
  ['one byte of a length', Buffer.concat([silkOf([]), Buffer.alloc(1)])],
  ['frames without bytes', silkOf(frames(50, 0))],
  ['2 MB of zeros', Buffer.concat([silkOf([]), Buffer.alloc(2_000_000)])],
  ['900 kB of tiny frames', silkOf(frames(300_000, 1))],
  ['more than ten minutes', silkOf(frames(30_001, 1))],
])('not decoded: %s', (_what, file) => {
  const watch = stopwatch()
  expect(() => checkSilk(file)).toThrow()
  expect(watch.ms).toBeLessThan(1000)
})
