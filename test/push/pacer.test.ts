import { expect, test } from 'bun:test'
import { systemClock } from '../../src/platform/clock.ts'
import { DeliveryPacer } from '../../src/push/pacer.ts'
import { testClock } from '../support/clock.ts'
import { until } from '../support/until.ts'

test('what is due at once begins a few at a time, in order, and between them others have their turn', async () => {
  const turns = new DeliveryPacer(systemClock)
  const begun: number[] = []
  const all = Promise.all(
    Array.from({ length: 100 }, async (_, nth) => {
      await turns.waitForStart()
      begun.push(nth)
    }),
  )
  let rounds = 0
  for (; begun.length < 100; rounds++) {
    const before = begun.length
    await new Promise(resolve => setImmediate(resolve))
    expect(begun.length - before).toBeLessThan(10)
  }
  await all
  expect(begun).toEqual([...begun].sort((a, b) => a - b))
  expect(rounds).toBeGreaterThan(10)
  await turns.waitForStart()
})

test('while a backlog comes in nothing begins, but for every other two seconds', async () => {
  const clock = testClock({ runs: false })
  const turns = new DeliveryPacer(clock)
  const startedAt = clock.monotonic()
  let begunAt: number | undefined
  turns.pause()
  void turns.waitForStart().then(() => {
    begunAt = clock.monotonic() - startedAt
  })
  for (let ms = 0; ms < 6000 && begunAt === undefined; ms += 50) {
    await until('it waits, or has begun', 10_000, () => begunAt !== undefined || clock.sleeps(1, 100))
    clock.advance(50)
    turns.pause()
    await new Promise(resolve => setImmediate(resolve))
  }
  expect(begunAt).toBeGreaterThanOrEqual(2000)
  // The hold is over before its time once no more comes.
  clock.advance(2001)
  turns.pause()
  const calm = turns.waitForPauseEnd()
  await until('it waits', 10_000, () => clock.sleeps(1, 100))
  clock.advance(100)
  await calm
})
