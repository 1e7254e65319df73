import { expect, test } from 'bun:test'
import { Permits, permitsOf } from '../../src/platform/permits.ts'
import { defaultFetchLimit } from '../../src/platform/process.ts'
import { failure } from '../support/failure.ts'

test('so many at a time, and those that wait come in their order', async () => {
  const slots = new Permits(2)
  const [first, second] = [await slots.take(), await slots.take()]
  const order: string[] = []
  const third = slots.take().then(slot => {
    order.push('third')
    return slot
  })
  const fourth = slots.take().then(() => order.push('fourth'))
  await Promise.resolve()
  expect(order).toEqual([])
  // Disposed of twice it counts once.
  first[Symbol.dispose]()
  first[Symbol.dispose]()
  await third
  expect(order).toEqual(['third'])
  second[Symbol.dispose]()
  await fourth
  expect(order).toEqual(['third', 'fourth'])
})

test('who leaves the queue takes no slot with it', async () => {
  const slots = new Permits(1)
  const held = await slots.take()
  const leaving = new AbortController()
  const left = slots.take(leaving.signal)
  const staying = slots.take()
  leaving.abort(new Error('left'))
  expect(await failure(left)).toMatchObject({ message: 'left' })
  expect(await failure(slots.take(leaving.signal))).toMatchObject({ message: 'left' })
  held[Symbol.dispose]()
  using _slot = await staying
})

test('the kinds together stay within the limit of the runtime', () => {
  for (const limit of [defaultFetchLimit, 60_000]) {
    const sizes = Object.values(permitsOf(limit)).map((slots: Permits) => slots.size)
    expect(sizes.reduce((sum, size) => sum + size)).toBeLessThanOrEqual(limit)
  }
})
