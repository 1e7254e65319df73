/** What two processes let through for a key, each of which knows what the other one used. */
import { expect, test } from 'bun:test'
import { KeyUsage } from '../../src/access/usage.ts'
import type { KeyLimits } from '../../src/model/access.ts'
import { testClock } from '../support/clock.ts'
import { failure } from '../support/failure.ts'

const dayMs = 24 * 60 * 60_000

function processes(limits: KeyLimits) {
  const clock = testClock({ runs: false })
  const [a, b] = [new KeyUsage(limits, clock), new KeyUsage(limits, clock)]
  /** What each reported last, as the store has it. */
  const rows: ReturnType<KeyUsage['report']>[] = []
  /** @returns whether each had something to report */
  const share = () =>
    [a, b].map((usage, nth) => {
      const report = usage.report()
      if (!report) return false
      rows[nth] = report
      usage.noteOthers(rows[1 - nth])
      return true
    })
  /** Each asks so often within the second. @returns how many calls each may make */
  const second = (asked: readonly [number, number]) => {
    const made = [0, 0]
    for (let step = 0; step < 100; step++) {
      clock.advance(10)
      for (const [nth, usage] of [a, b].entries()) {
        const calls = Math.floor(((step + 1) * asked[nth]!) / 100) - Math.floor((step * asked[nth]!) / 100)
        for (let call = 0; call < calls; call++) if (!usage.countCall()) made[nth]!++
      }
    }
    share()
    return made
  }
  return { a, b, clock, second, share }
}

test('calls: all together stay within the limit a second later, and nobody gets nothing', () => {
  const { second } = processes({ calls_per_second: 20 })
  expect(second([10, 0])).toEqual([10, 0])
  for (const asked of [
    [100, 100],
    [200, 50],
    [15, 15],
  ] as const) {
    second(asked)
    second(asked)
    const made = Array.from({ length: 10 }, () => second(asked))
    const sums = [0, 1].map(nth => made.reduce((sum, one) => sum + one[nth]!, 0))
    const sum = (sums[0]! + sums[1]!) / 10
    expect(sum).toBeGreaterThan(18)
    expect(sum).toBeLessThan(22)
    // As in one process: who asks more often gets more.
    expect(sums[0]! / sums[1]!).toBeCloseTo(asked[0] / asked[1], 0)
  }
  // What is left, the other one gets.
  second([4, 100])
  second([4, 100])
  expect(second([4, 100])[1]).toBeGreaterThan(14)
})

test('a limit of one call per second is shared too', () => {
  const { second } = processes({ calls_per_second: 1 })
  second([10, 10])
  const made = Array.from({ length: 20 }, () => second([10, 10])).flat()
  expect(made.reduce((sum, one) => sum + one, 0)).toBeGreaterThan(14)
  expect(made.reduce((sum, one) => sum + one, 0)).toBeLessThan(26)
})

test('streams: one that another process has counts until it ends', async () => {
  const { a, b, share } = processes({ open: 1 })
  const end = a.beginWait()
  b.countCall()
  share()
  expect(await failure(Promise.try(() => b.beginWait()))).toMatchObject({ code: 'rate_limited' })
  end()
  share()
  b.beginWait()()
})

test('bytes: of the day that the first of them began', async () => {
  const { a, b, clock, share } = processes({ bytes_per_day: 1000 })
  a.countBytes(600)
  b.countCall()
  share()
  b.countBytes(400)
  expect(await failure(Promise.try(() => b.countBytes(1)))).toMatchObject({ code: 'rate_limited' })
  share()
  expect(share()).toEqual([false, false])
  clock.advance(dayMs)
  b.countBytes(1000)
  expect(await failure(Promise.try(() => b.countBytes(1)))).toMatchObject({ retryAfter: dayMs / 1000 })
})

test('a key, the keys below it and those made again share every limit of each key above them', async () => {
  const clock = testClock({ runs: false })
  const top = new KeyUsage({ calls_per_second: 4, open: 3, bytes_per_day: 100 }, clock)
  const child = new KeyUsage({ calls_per_second: 3, open: 2, bytes_per_day: 100 }, clock, top)
  const sibling = new KeyUsage({}, clock, top)
  const grandchild = new KeyUsage({ calls_per_second: 3, open: 2, bytes_per_day: 60 }, clock, child)
  const made = (...callers: KeyUsage[]) => callers.map(usage => usage.countCall() === undefined)
  expect(made(grandchild, child, grandchild, child)).toEqual([true, true, true, false])
  // What was refused costs the keys above nothing.
  expect([top.left().calls_per_second, sibling.left().calls_per_second]).toEqual([1, 1])
  expect(made(sibling, top, new KeyUsage({ calls_per_second: 4 }, clock, top))).toEqual([true, false, false])
  const headers = new Headers()
  new KeyUsage({ calls_per_second: 2 }, clock, top).describeIn(headers)
  expect([...headers.values()].toSorted()).toEqual(['"key";q=2;w=1', '"key";r=0;t=1'])
  clock.advance(1000)
  expect(made(sibling, sibling, sibling, sibling, sibling)).toEqual([true, true, true, true, false])

  const isRefused = async (work: () => unknown) =>
    (await failure(Promise.try(work)).catch(() => undefined)) !== undefined
  const ends = [grandchild.beginWait(), child.beginWait(), sibling.beginWait()]
  for (const usage of [grandchild, child, sibling, top])
    expect(await isRefused(() => usage.beginWait())).toBe(true)
  ends[2]!()
  ends[2]!()
  expect([child.left().open, sibling.left().open]).toEqual([0, 1])
  for (const end of ends) end()
  expect([grandchild.left().open, top.left().open]).toEqual([2, 3])

  grandchild.countBytes(60)
  sibling.countBytes(30)
  expect([top, child, sibling, grandchild].map(usage => usage.left().bytes_per_day)).toEqual([10, 10, 10, 0])
  expect(await isRefused(() => child.countBytes(11))).toBe(true)
  expect(await isRefused(() => grandchild.countBytes(1))).toBe(true)
  child.countBytes(10)
  // Each process reports the whole of what is below a key, so that other processes know it.
  expect([top, child, sibling, grandchild].map(usage => usage.report()?.bytes)).toEqual([100, 70, 30, 60])
})
