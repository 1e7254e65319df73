/** Long work makes way for others. */
import { expect, test } from 'bun:test'
import { SharedTurns } from '../../src/platform/clock.ts'

/** Rounds of the event loop, counted until it is stopped. */
function rounds() {
  let count = 0
  let timer = setImmediate(function next() {
    count++
    timer = setImmediate(next)
  })
  return { now: () => count, [Symbol.dispose]: () => clearImmediate(timer) }
}

test('of many who work long one works in a round of the event loop, in the order in which they asked', async () => {
  let now = 0
  const turns = new SharedTurns({ monotonic: () => now })
  using loop = rounds()
  const worked: { who: number; round: number }[] = []
  await Promise.all(
    Array.from({ length: 5 }, async (_, who) => {
      const turn = turns.join()
      for (let piece = 0; piece < 3; piece++) {
        await turn()
        worked.push({ who, round: loop.now() })
        now += 10
      }
    }),
  )
  expect(worked.map(({ who }) => who)).toEqual([0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4])
  expect(new Set(worked.map(({ round }) => round)).size).toBe(15)
})

test('who works alone goes on until its time is over, and is not kept waiting at its beginning', async () => {
  let now = 0
  const turns = new SharedTurns({ monotonic: () => now })
  using loop = rounds()
  const turn = turns.join()
  const seen: number[] = []
  for (let piece = 0; piece < 8; piece++) {
    await turn()
    seen.push(loop.now())
    now += 3
  }
  expect(new Set(seen.slice(0, 3))).toEqual(new Set([0]))
  expect(new Set(seen).size).toBe(3)
})
