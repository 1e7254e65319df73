/** What every engine must do for programs that speak WeChat's protocol to svc (`src/storage/relays.ts`). */
import { expect } from 'bun:test'
import type { ListedRelayClient } from '../../src/storage/relays.ts'
import { failure } from '../support/failure.ts'
import { onEach } from './engines.ts'
import { bot, insert, message, type Opened, outgoing, rename, sending } from './support.ts'

/** Adds a key with its client, of an account that is logged in. */
async function add({ clock, storage, store }: Opened, key: string, more: { answers?: 5 } = {}) {
  await storage.state.sessions.save('work', bot('work'))
  await store.keys.add({
    ...{ id: key, name: `name of ${key}`, hash: 'aa'.repeat(32), can: ['relay'], made_by: 'owner' },
    ...{ grant: { rights: ['relay'], bots: ['work@im.bot'] }, created_at: clock.now() },
  })
  await store.relays.add({ key, session: 'work', answers: 'all', created_at: clock.now(), ...more })
}
const unread = async ({ store }: Opened) =>
  (await store.backlog.listLags(9)).map(({ consumer, messages }) => [consumer, messages])

onEach(it => {
  it('a client has its place from when it was added, and is there after a restart', async t => {
    await insert(t, [message('before')])
    await add(t, 'a')
    await add(t, 'b', { answers: 5 })
    const [now, next] = [message('now'), message('next')]
    await insert(t, [now, next])
    await t.reopen()
    const { acknowledgements, relays } = t.store
    const client = {
      ...{ key: 'a', name: 'name of a', consumer: 'a/relay', session: 'work', answers: 'all' },
      ...{ created_at: t.clock.at, refused: 0, answered: 0 },
    } as const satisfies ListedRelayClient
    const other: ListedRelayClient = {
      ...client,
      key: 'b',
      name: 'name of b',
      consumer: 'b/relay',
      answers: 5,
    }
    expect(await relays.list()).toEqual([client, other])
    const { answered: _, ...stored } = other
    expect(await relays.get('b')).toEqual(stored)
    expect(await relays.get('c')).toBeUndefined()
    expect(await unread(t)).toEqual([
      ['a/relay', 2],
      ['b/relay', 2],
    ])
    const { rows } = await acknowledgements.readAfter('a/relay', 0, { limit: 9 })
    expect(rows.map(({ message_id }) => message_id)).toEqual([now.message_id!, next.message_id!])
  })

  it('what happened to it is noted, each refusal once more', async t => {
    await add(t, 'a')
    const { relays } = t.store
    await relays.note('a', { polled_at: 5, source: 'one' })
    await relays.note('a', { polled_at: 7, doubled_at: 6 })
    t.clock.at += 1000
    await relays.note('a', { refusal: 'window_closed' })
    await relays.note('a', { refusal: 'quota_exhausted' })
    await relays.note('b', { refusal: 'window_closed' })
    expect(await relays.list()).toMatchObject([
      {
        ...{ polled_at: 7, source: 'one', doubled_at: 6 },
        ...{ refused: 2, refused_at: t.clock.at, refusal: 'quota_exhausted' },
      },
    ])
  })

  it('its sends to the person who wrote last count until that person writes again, in the list as for the share', async t => {
    await add(t, 'a')
    const { outbox, relays } = t.store
    const [one, two] = ['one@im.wechat', 'two@im.wechat']
    const answer = async (text: string, made_by: string, to_user = one) => {
      const sent = await sending(t.store, 'work', 'work@im.bot', outgoing(text, { to_user }), { made_by })
      await outbox.settle(sent, { status: 'accepted', message_id: text, spent: true })
    }
    const expectCount = async (count: number, of: string) => {
      const listed = (await relays.list())[0]!.answered
      expect([listed, await relays.countAnswers('a', of)]).toEqual([count, count])
    }
    expect((await relays.list())[0]!.answered).toBe(0)
    await insert(t, [message('first', { from_user: one })], 'work')
    await answer('1', 'key:a')
    await answer('2', 'key:a')
    await answer('3', 'key:ab')
    await answer('4', 'owner')
    await answer('5', 'key:a', two)
    await expectCount(2, one)
    await insert(t, [message('of another', { from_user: two })], 'work')
    await expectCount(0, two)
    await answer('6', 'key:a', two)
    await answer('7', 'key:a')
    await expectCount(1, two)
    expect(await relays.countAnswers('a', one)).toBe(3)
    await insert(t, [message('second', { from_user: one })], 'work')
    await expectCount(0, one)
  })

  it('it ends with its key, and follows a rename of its account', async t => {
    await add(t, 'a')
    await add(t, 'b')
    const { keys, relays } = t.store
    await rename(t, 'work', 'office')
    expect(await relays.list()).toMatchObject([{ session: 'office' }, { session: 'office' }])
    expect(await keys.revoke('a', t.clock.now())).toEqual(['a'])
    expect(await relays.list()).toMatchObject([{ key: 'b' }])
    expect(await relays.get('a')).toBeUndefined()
    expect(await unread(t)).toEqual([['b/relay', 0]])
    const again = relays.add({ key: 'a', session: 'work', answers: 'all', created_at: 1 })
    expect(await failure(again)).toMatchObject({ code: 'unauthorized' })
    expect(await relays.list()).toHaveLength(1)
  })
})
