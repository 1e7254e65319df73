/** Messages that come shortly after each other. */
import { expect, test } from 'bun:test'
import { Burst } from '../../src/agent/burst.ts'
import type { Message, OpenMessage } from '../../src/index.ts'
import { testClock } from '../support/clock.ts'

function play() {
  const clock = testClock({ runs: false })
  const ended: number[][] = []
  const take = () => burst.take().map(({ message }) => message.id)
  const burst = new Burst(clock, 1500, () => ended.push(take()))
  const beganAt = clock.monotonic()
  return {
    burst,
    ended,
    take,
    at: async (ms: number) => {
      clock.advance(beganAt + ms - clock.monotonic())
      await Bun.sleep(0)
    },
  }
}

const message = (id: number): OpenMessage => ({ message: { id } as Message, settle: async () => {} })

test('a pause ends it; each message starts the pause again', async () => {
  const { at, burst, ended } = play()
  burst.add(message(2))
  await at(1000)
  burst.add(message(1))
  await at(2400)
  expect(ended).toEqual([])
  await at(2500)
  expect(ended).toEqual([[1, 2]])
  burst.add(message(3))
  await at(3999)
  expect(ended).toHaveLength(1)
  await at(4000)
  expect(ended).toEqual([[1, 2], [3]])
})

test('one that goes on ends after ten seconds', async () => {
  const { at, burst, ended } = play()
  for (let ms = 0; ms < 10_000; ms += 1000) {
    await at(ms)
    burst.add(message(ms))
  }
  await at(9999)
  expect(ended).toEqual([])
  await at(10_000)
  expect(ended[0]).toHaveLength(10)
})

test('taken before its end, it does not end; the next one has a whole pause', async () => {
  const { at, burst, ended, take } = play()
  burst.add(message(1))
  await at(1000)
  expect(take()).toEqual([1])
  expect(burst.isEmpty).toBe(true)
  burst.add(message(2))
  await at(1600)
  expect(ended).toEqual([])
  await at(2500)
  expect(ended).toEqual([[2]])
})
