/** Messages of another program in the log: once each, and for no reader. */
import { expect, test } from 'bun:test'
import type { ImportedMessage } from '../../src/storage/messages.ts'
import { onEach } from './engines.ts'
import { byMessageId, insert, message, nthOf } from './support.ts'

const past = (text: string, more: Partial<ImportedMessage> = {}): ImportedMessage => ({
  ...message(text),
  session: 'work',
  bot_id: 'b@im.bot',
  direction: 'received',
  ...more,
})
const sent = (text: string, derived_id: string): ImportedMessage => {
  const { message_id: _, ...rest } = past(text, { direction: 'sent', derived_id })
  return rest
}

onEach((it, openStore) => {
  it('a message is added once, whether svc or another program received it first', async test => {
    const { store } = test
    const [live, old] = [message('live'), past('old')]
    await insert(test, [live], 'work', 'b@im.bot')
    const batch = [
      old,
      old,
      { ...past('live'), ...live },
      sent('answer', 'x-1'),
      sent('answer', 'x-1'),
      sent('answer', 'x-2'),
    ]
    expect(await store.intake.has(batch)).toEqual([false, false, true, false, false, false])
    expect(await store.intake.add(batch)).toBe(3)
    expect(await store.intake.add(batch)).toBe(0)
    expect(await insert(test, [old], 'work', 'b@im.bot')).toEqual(['duplicate'])
    expect(await store.intake.count()).toBe(4)
    expect(
      (await store.log.listAfter(0, { limit: 10 })).map(({ id, text, direction }) => [
        nthOf(id),
        text,
        direction,
      ]),
    ).toEqual([
      [1, 'live', 'received'],
      [2, 'old', 'received'],
      [3, 'answer', 'sent'],
      [4, 'answer', 'sent'],
    ])
  })

  it('each imported message is its own batch, and none makes a polled message a repeat', async t => {
    const more = { timestamp: 1_800_000_000_001 }
    const own = { session: 's', bot_id: 'b', direction: 'received' } as const
    const equal = () => ({ ...message('same', more), ...own })
    await insert(t, [message('same', more)])
    expect(await t.store.intake.add([equal()])).toBe(0)
    t.clock.at += 60_000
    expect(await t.store.intake.has([equal(), equal()])).toEqual([false, false])
    expect(await t.store.intake.add([equal(), equal()])).toBe(2)
    expect(await insert(t, [message('same', more)])).toEqual([t.id(4)])
  })

  it('the same id with another content of another bot is kept beside', async test => {
    const { store } = test
    const one = past('one', { message_id: '77' })
    const other = past('other', { message_id: '77', bot_id: 'c@im.bot' })
    expect(await store.intake.add([one, other])).toBe(2)
    expect(await store.intake.add([one, other])).toBe(0)
    expect(await byMessageId(store, 'c@im.bot:77')).toMatchObject({ text: 'other' })
  })

  it('readers skip imported messages anywhere in the log, and lose no other row', async test => {
    const { store } = test
    await insert(test, [message('before')], 'work', 'b@im.bot')
    await store.intake.add([past('old 1'), past('old 2'), sent('x', 'x-1')])
    await insert(test, [message('after')], 'work', 'b@im.bot')
    for (const options of [{}, { session: 'work' }]) {
      const claim = await store.consumers.claim('default', { limit: 10, ...options })
      if (options.session === undefined) {
        expect(claim?.rows.map(({ text }) => text)).toEqual(['before', 'after'])
        await store.consumers.ack(claim!.lease)
      } else expect(claim).toBeUndefined()
    }
    expect(
      (await store.log.listAfter(0, { limit: 10, direction: 'received' })).map(({ text }) => text),
    ).toEqual(['before', 'after'])
    const texts = async (filter: object) =>
      (await store.log.search({ limit: 10, offset: 0, ...filter })).rows.map(({ text }) => text)
    expect(await texts({ direction: 'received' })).toEqual(['after', 'old 2', 'old 1', 'before'])
    expect(await texts({ direction: 'sent' })).toEqual(['x'])
    expect(await texts({ text_contains: 'old' })).toEqual(['old 2', 'old 1'])
  })

  test('retention counts imported messages from their import, and removes them without a warning about readers', async () => {
    await using test = await openStore({ maxAgeDays: 1 })
    const { store, clock, lines } = test
    await store.consumers.claim('default', { limit: 1 })
    await store.intake.add([past('ages old', { timestamp: 1 })])
    await store.maintenance.prune()
    expect(await store.intake.count()).toBe(1)
    clock.at += 25 * 60 * 60_000
    await store.maintenance.prune()
    expect(await store.intake.count()).toBe(0)
    expect(lines.join()).not.toContain('consumer=')
  })
})
