/** Messages of another program in the log: once each, and for no reader. */
import { expect, test } from 'bun:test'
import type { PastMessage } from '../../../src/storage/sqlite/store.ts'
import { message, openStore } from './support.ts'

const past = (text: string, more: Partial<PastMessage> = {}): PastMessage => ({
  ...message(text),
  ...{ session: 'work', bot_id: 'b@im.bot', direction: 'received' },
  ...more,
})
const sent = (text: string, derived_id: string): PastMessage => {
  const { message_id: _, ...rest } = past(text, { direction: 'sent', derived_id })
  return rest
}

test('a message is added once, whether svc or another program received it first', async () => {
  await using test = await openStore()
  const { store } = test
  const [live, old] = [message('live'), past('old')]
  store.insertReceived('work', 'b@im.bot', [live])
  const batch = [
    old,
    old,
    { ...past('live'), ...live },
    sent('answer', 'x-1'),
    sent('answer', 'x-1'),
    sent('answer', 'x-2'),
  ]
  expect(batch.map(one => store.past(log => log.isKnown(one)))).toEqual([
    false,
    false,
    true,
    false,
    false,
    false,
  ])
  expect(store.past(log => log.add(batch))).toBe(3)
  expect(store.past(log => log.add(batch))).toBe(0)
  expect(store.insertReceived('work', 'b@im.bot', [old])).toEqual(['duplicate'])
  expect(store.past(log => log.count())).toBe(4)
  expect(store.after(0, { limit: 10 }).map(({ id, text, direction }) => [id, text, direction])).toEqual([
    [1, 'live', 'received'],
    [2, 'old', 'received'],
    [3, 'answer', 'sent'],
    [4, 'answer', 'sent'],
  ])
})

test('the same id with another content of another bot is kept beside', async () => {
  await using test = await openStore()
  const { store } = test
  const one = past('one', { message_id: '77' })
  const other = past('other', { message_id: '77', bot_id: 'c@im.bot' })
  expect(store.past(log => log.add([one, other]))).toBe(2)
  expect(store.past(log => log.add([one, other]))).toBe(0)
  expect(store.byMessageId('c@im.bot:77')).toMatchObject({ text: 'other' })
})

test('readers go past them, wherever they stand, and lose nothing of their own', async () => {
  await using test = await openStore()
  const { store } = test
  store.insertReceived('work', 'b@im.bot', [message('before')])
  store.past(log => log.add([past('old 1'), past('old 2'), sent('x', 'x-1')]))
  store.insertReceived('work', 'b@im.bot', [message('after')])
  for (const options of [{}, { session: 'work' }]) {
    const claim = store.claim('default', { limit: 10, ...options })
    if (options.session === undefined) {
      expect(claim?.rows.map(({ text }) => text)).toEqual(['before', 'after'])
      store.confirm(claim!.lease)
    } else expect(claim).toBeUndefined()
  }
  expect(store.after(0, { limit: 10, direction: 'received' }).map(({ text }) => text)).toEqual([
    'before',
    'after',
  ])
  const texts = async (filter: object) =>
    (await store.history({ limit: 10, offset: 0, ...filter })).rows.map(({ text }) => text)
  expect(await texts({ direction: 'received' })).toEqual(['after', 'old 2', 'old 1', 'before'])
  expect(await texts({ direction: 'sent' })).toEqual(['x'])
  expect(await texts({ text_contains: 'old' })).toEqual(['old 2', 'old 1'])
})

test('retention counts them from the day they came, and takes them without a word to readers', async () => {
  await using test = await openStore({ maxAgeDays: 1 })
  const { store, clock, lines } = test
  store.claim('default', { limit: 1 })
  store.past(log => log.add([past('ages old', { timestamp: 1 })]))
  await store.prune()
  expect(store.past(log => log.count())).toBe(1)
  clock.at += 25 * 60 * 60_000
  await store.prune()
  expect(store.past(log => log.count())).toBe(0)
  expect(lines.join()).not.toContain('has not read')
})
