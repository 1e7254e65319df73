/** What every engine's state must do (`src/storage/state.ts`), on those there are. */
import { expect, test } from 'bun:test'
import type { Inbound } from '../../src/model/session.ts'
import type { StoredLogin } from '../../src/storage/logins.ts'
import type { PolledMessage } from '../../src/storage/messages.ts'
import type { Ingested, PolledBatch, Storage } from '../../src/storage/storage.ts'
import { failure } from '../support/failure.ts'
import { knownUsers } from '../support/known-users.ts'
import { until } from '../support/until.ts'
import { onEach } from './engines.ts'
import { bot, message, nthOf, type Opened, open as openRules, sending } from './support.ts'

const sent = { client_id: 'c', to_user: 'u', msg_type: 'TEXT', text: '', timestamp: 1, raw: '' } as const

type Engine = Storage & Pick<Opened, 'second'>

/** A message that says this of who wrote it. */
const from = ({ user_id, token, received_at, again }: Inbound, more: Partial<PolledMessage> = {}) => ({
  ...message('x', { from_user: user_id, written_at: received_at }),
  contextToken: token,
  repeated: again ? { received_at, again } : { received_at },
  ...more,
})

let cursors = 0

onEach(
  (_it, open) => {
    type Ingest = (messages: readonly PolledMessage[], more?: Partial<PolledBatch>) => Promise<Ingested>
    type Commit = (inbound: Inbound[], more?: Partial<PolledBatch>) => Promise<'moved' | 'gone'>
    /** `work` with an engine, and a batch for session `s` upon its cursor of then. */
    const withStorage = async (work: (storage: Engine, ingest: Ingest) => Promise<void>) => {
      await using t = await open()
      const storage = { ...t.storage, second: t.second }
      const { sessions } = storage.state
      const ingest: Ingest = async (messages, more) => {
        const { bot_id: botId = 'b@im.bot', token = '', cursor = '' } = (await sessions.get('s'))?.bot ?? {}
        const own = {
          id: `${++cursors}`,
          session: 's',
          token,
          botId,
          cursorFrom: cursor,
          cursorTo: `n${cursors}`,
        }
        const done = await storage.ingest({ ...own, messages, now: Number.POSITIVE_INFINITY, ...more })
        return { ...done, rows: done.rows.map(nthOf) }
      }
      await work(storage, ingest)
    }
    const withState = (work: (state: Storage['state'], commit: Commit) => Promise<void>) =>
      withStorage(({ state }, ingest) =>
        work(
          state,
          async (inbound, more) =>
            (
              await ingest(
                inbound.map(one => from(one)),
                more,
              )
            ).cursor,
        ),
      )
    const names = async (state: Storage['state']) =>
      (await state.sessions.list()).map(({ name }) => name).sort()

    test('the first session is the default; when it is removed, the oldest becomes the default', () =>
      withState(async ({ sessions }) => {
        await sessions.save('c', bot('c', { created_at: 3 }))
        await sessions.save('a', bot('a', { created_at: 2 }))
        await sessions.save('b', bot('b', { created_at: 1 }))
        expect(await sessions.getDefaultName()).toBe('c')
        await sessions.remove('c')
        expect(await sessions.getDefaultName()).toBe('b')
        await sessions.setDefault('a')
        await sessions.rename('a', 'z')
        expect(await sessions.getDefaultName()).toBe('z')
        await sessions.remove('z')
        await sessions.remove('b')
        expect(await sessions.getDefaultName()).toBeUndefined()
        expect(await sessions.list()).toEqual([])
      }))

    test('listing changes returns, by name, the sessions that changed since the previous call', () =>
      withState(async ({ sessions }) => {
        await sessions.save('a', bot('a'))
        await sessions.save('b', bot('b'))
        let { changed, revision } = await sessions.listChangedSince()
        expect([...changed.keys()].sort()).toEqual(['a', 'b'])
        const look = async () => {
          ;({ changed, revision } = await sessions.listChangedSince(revision))
          return [...changed].map(([name, record]) => `${name}: ${record?.bot?.token}`)
        }
        await sessions.save('a', bot('a', { token: 'a@im.bot:2' }))
        expect(await look()).toContain('a: a@im.bot:2')
        await sessions.rename('a', 'c')
        const found = await look()
        for (const one of ['a: undefined', 'c: a@im.bot:2']) expect(found).toContain(one)
        await sessions.remove('c')
        expect(await look()).toContain('c: undefined')
        await sessions.mark('b', 'b@im.bot:secret', { poll_error: 'x' })
        expect(await look()).toContain('b: b@im.bot:secret')
        // What was written just now may be told of again.
        await until('nothing changes any more', 5000, async () => (await look()).length === 0)
      }))

    test('names: case and accents do not make two sessions; a rename may change the case', () =>
      withState(async state => {
        const { sessions } = state
        await sessions.save('Cafe\u0301', bot('b'))
        expect((await sessions.get('café'))?.name).toBe('Café')
        await sessions.save('CAFÉ', bot('b', { token: 'b@im.bot:2' }))
        expect(await sessions.list()).toHaveLength(1)
        await sessions.rename('café', 'café')
        expect(await names(state)).toEqual(['café'])
        await sessions.save('other', bot('o'))
        expect(await failure(sessions.rename('other', 'CAFÉ'))).toMatchObject({ code: 'session_exists' })
        const failing = [sessions.rename('nobody', 'x'), sessions.remove('x'), sessions.setDefault('x')]
        for (const error of await Promise.all(failing.map(failure)))
          expect(error).toMatchObject({ code: 'session_not_found' })
        for (const name of ['', '..', 'a/b']) expect(await sessions.get(name)).toBeUndefined()
      }))

    test('a session that was logged out and comes back in another spelling has what it had', () =>
      withStorage(async ({ state, store }, ingest) => {
        const { sessions } = state
        await sessions.save('Work', bot('b'))
        const own = { session: 'Work', botId: 'b@im.bot', token: bot('b').token }
        await ingest([from({ user_id: 'u', received_at: 1000 })], { ...own, cursorFrom: '' })
        await store.names.set('Work', 'u', 'Ann')
        const entry = {
          session: 'Work',
          bot_id: 'b@im.bot',
          user: 'u',
          mode: 'queue',
          made_by: 'owner',
        } as const
        const parts = [{ kind: 'text', waiting: { message: { ...sent, to_user: 'u' } } }] as const
        await store.outbox.enqueue({ ...entry, parts }, openRules)
        await sessions.remove('Work')
        await sessions.save('work', bot('b'))
        const rows = await store.log.listAfter(0, { limit: 9 })
        expect(rows.map(({ session }) => session)).toEqual(['work', 'work'])
        expect(await store.names.find('Ann')).toEqual([{ session: 'work', user_id: 'u' }])
        expect((await store.outbox.list()).map(({ session }) => session)).toEqual(['work'])
        const { lanes } = await store.outbox.listWaiting(openRules)
        expect(lanes.map(({ session }) => session)).toEqual(['work'])
      }))

    test('a repeated login replaces the credentials and keeps the contexts; another bot starts without contexts', () =>
      withState(async ({ sessions, contexts }, commit) => {
        await sessions.save('s', bot('b', { user_id: 'me' }))
        await commit([{ user_id: 'u', token: 't', received_at: 1000 }])
        await sessions.save('s', bot('b', { token: 'b@im.bot:new' }))
        expect((await sessions.get('s'))?.bot).toEqual(bot('b', { token: 'b@im.bot:new' }))
        expect(await contexts.find('s', 'u')).toMatchObject({ token: 't' })
        await sessions.save('s', bot('other'))
        expect(await contexts.find('s', 'u')).toEqual({ used: 0, first_seen: 1000 })
        expect((await knownUsers(contexts, 's')).size).toBe(0)
        expect(await contexts.countWriters(['s', 'nobody'])).toEqual(
          new Map([
            ['s', 0],
            ['nobody', 0],
          ]),
        )
      }))

    test('marks: a time is set once, a text each time, undefined removes, another login has none', () =>
      withState(async ({ sessions }) => {
        await sessions.save('s', bot('b'))
        const { token } = bot('b')
        await sessions.mark('s', token, { expired_at: 5, poll_error: 'one' })
        await sessions.mark('s', token, { expired_at: 9, poll_error: 'two' })
        await sessions.mark('s', 'b@im.bot:another', { lapsed_at: 9 })
        expect((await sessions.get('s'))?.bot).toEqual(bot('b', { expired_at: 5, poll_error: 'two' }))
        await sessions.mark('s', token, { expired_at: undefined, poll_error: undefined })
        expect((await sessions.get('s'))?.bot).toEqual(bot('b'))
      }))

    test('a batch moves the cursor and stores the contexts of its senders and its marks', () =>
      withState(async ({ sessions, contexts }, commit) => {
        await sessions.save('s', bot('b', { cursor: 'c0' }))
        await sessions.save('t', bot('t'))
        const batch = [
          { user_id: 'u', token: 't1', received_at: 1000 },
          { user_id: 'v', received_at: 1000 },
        ]
        expect(await commit(batch, { cursorTo: 'c1', marks: { idle_at: 7 } })).toBe('moved')
        expect((await sessions.get('s'))?.bot).toMatchObject({ cursor: 'c1', idle_at: 7 })
        expect(await contexts.find('s', 'u')).toEqual({
          token: 't1',
          received_at: 1000,
          used: 0,
          first_seen: 1000,
        })
        expect([...(await knownUsers(contexts, 's')).keys()].sort()).toEqual(['u', 'v'])
        expect(await contexts.countWriters(['s', 't'])).toEqual(
          new Map([
            ['s', 2],
            ['t', 0],
          ]),
        )
        expect(await contexts.findKnowing('u')).toMatchObject([
          { record: { name: 's' }, context: { token: 't1' } },
        ])
        // Once more, as after an end that was not heard of.
        expect(await commit(batch, { cursorFrom: 'c0', cursorTo: 'c1' })).toBe('moved')
        expect(await contexts.find('s', 'u')).toMatchObject({ received_at: 1000, token: 't1' })
      }))

    test.each([
      ['logged out', ({ state }: Engine) => state.sessions.remove('s')],
      ['renamed', ({ state }: Engine) => state.sessions.rename('s', 'x')],
      [
        'logged in anew',
        ({ state }: Engine) => state.sessions.save('s', bot('b', { token: 'b@im.bot:2', cursor: 'c0' })),
      ],
      [
        'moved on',
        async ({ ingest }: Engine) => {
          const own = {
            id: 'x',
            session: 's',
            token: bot('b').token,
            botId: 'b@im.bot',
            messages: [],
            now: 1000,
          }
          await ingest({ ...own, cursorFrom: 'c0', cursorTo: 'c9' })
        },
      ],
    ])('of a session that was %s meanwhile the messages are stored, and nothing else changes', (_, change) =>
      withStorage(async (storage, ingest) => {
        const { sessions, contexts } = storage.state
        await sessions.save('s', bot('b', { cursor: 'c0' }))
        await change(storage)
        const seen = async () =>
          JSON.stringify([
            await sessions.list(),
            [...(await knownUsers(contexts, 's')), ...(await knownUsers(contexts, 'x'))],
          ])
        const before = await seen()
        const late = { token: bot('b').token, cursorFrom: 'c0', cursorTo: 'c1', marks: { idle_at: 7 } }
        await sending(storage.store, 's', 'b@im.bot', sent)
        const batch = [from({ user_id: 'u', token: 't', received_at: 1000 })]
        expect(await ingest(batch, late)).toEqual({ rows: [2], cursor: 'gone' })
        expect(await seen()).toBe(before)
        // The count of answers goes with the message.
        expect((await storage.store.outbox.getCounters('s')).get('u')).toMatchObject({
          received_at: 1000,
          used: 0,
        })
      }),
    )

    test('a late message of a previous bot is stored, and gives the new bot no right to answer', () =>
      withStorage(async ({ state, store }, ingest) => {
        const { sessions, contexts } = state
        await sessions.save('s', bot('b', { cursor: 'c0' }))
        await sessions.save('s', bot('other'))
        const late = { token: bot('b').token, botId: 'b@im.bot', cursorFrom: 'c0', cursorTo: 'c1' }
        await sending(store, 's', 'other@im.bot', sent)
        const batch = ['u', 'v'].map(user_id => from({ user_id, token: 't', received_at: 1000 }))
        expect(await ingest(batch, late)).toEqual({ rows: [2, 3], cursor: 'gone' })
        for (const user of ['u', 'v']) {
          expect(await contexts.find('s', user)).toBeUndefined()
          expect((await store.outbox.getCounters('s', user)).get(user)?.received_at).toBeUndefined()
        }
        expect((await store.outbox.getCounters('s', 'u')).get('u')).toMatchObject({ used: 1 })
        // Whoever writes to the new bot is counted for by that alone.
        await ingest([from({ user_id: 'u', token: 'new', received_at: 900 })])
        expect((await store.outbox.getCounters('s')).get('u')).toMatchObject({ received_at: 900, used: 0 })
        expect(await contexts.find('s', 'u')).toMatchObject({ token: 'new', received_at: 900 })
      }))

    test('a batch that a rename fenced off continues under the new name and stores no message twice', () =>
      withStorage(async ({ state, store }, ingest) => {
        await state.sessions.save('s', bot('b'))
        await state.sessions.rename('s', 'x')
        const own = { id: 'once', token: bot('b').token, cursorFrom: '', cursorTo: 'c1' }
        // It states no time: only as long as it counts as new it says when its user wrote.
        const untimed = from({ user_id: 'u', received_at: 9000, again: true }, { written_at: 5000 })
        const batch = [untimed]
        expect((await ingest(batch, own)).cursor).toBe('gone')
        expect(await ingest([...batch], { ...own, session: 'x' })).toEqual({ rows: [1], cursor: 'moved' })
        expect(await state.contexts.find('x', 'u')).toMatchObject({ received_at: 5000 })
        expect((await state.sessions.get('x'))?.bot?.cursor).toBe('c1')
        expect(nthOf(await store.log.getHead())).toBe(1)
      }))

    test('a batch of any size is judged as a whole: equal messages are all real, and an earlier message matches one of them', () =>
      withStorage(async ({ state, store }, ingest) => {
        await state.sessions.save('s', bot('b'))
        const wrote = { user_id: 'u', token: 't', received_at: 2000 }
        const one = (message_id: string | undefined, text: string) =>
          from(wrote, { ...message(text, { timestamp: 1_700_000_000_123 }), message_id, from_user: 'u' })
        const fill = (name: string) =>
          Array.from({ length: 700 }, (_, nth) => one(`${name}${nth}`, `${name}${nth}`))
        const noId = () => one(undefined, 'without an id')
        await ingest([one('early', 'said twice')])
        const batch = [
          ...[one('a', 'equal'), noId(), one('b', 'said twice'), ...fill('x')],
          ...[one('c', 'equal'), noId(), one('d', 'said twice'), ...fill('y')],
          ...[one('e', 'equal'), noId(), one('a', 'equal')],
        ]
        const own = { cursorTo: 'c1' }
        const { cursor, rows } = await ingest(batch, own)
        expect(cursor).toBe('moved')
        const lost = batch.filter((_, nth) => rows[nth] === 'duplicate').map(({ message_id }) => message_id)
        expect(lost).toEqual(['b', 'a'])
        expect(nthOf(await store.log.getHead())).toBe(1 + batch.length - 2)
        // Again, as after a crash; and half of it, with more.
        expect(new Set((await ingest(batch, own)).rows)).toEqual(new Set(['duplicate']))
        const more = await ingest([one('f', 'equal'), ...batch.slice(0, 600)], { cursorTo: 'c2' })
        expect(more.rows.filter(row => row !== 'duplicate')).toHaveLength(0)
      }))

    test('the same batch after a crash stores no message, and updates its users as known messages do', () =>
      withStorage(async ({ state, store }, ingest) => {
        await state.sessions.save('s', bot('b'))
        const batch = [
          from({ user_id: 'u', token: 't', received_at: 2000 }, { written_at: 3000 }),
          from({ user_id: '', token: 'of nobody', received_at: 2000 }),
        ]
        const own = { cursorFrom: '', cursorTo: 'c1' }
        expect(await ingest(batch, own)).toEqual({ rows: [1, 2], cursor: 'moved' })
        expect(await ingest(batch, own)).toEqual({ rows: ['duplicate', 'duplicate'], cursor: 'moved' })
        expect(nthOf(await store.log.getHead())).toBe(2)
        expect([...(await knownUsers(state.contexts, 's')).keys()]).toEqual(['u'])
        const context = { token: 't', received_at: 3000, used: 0, first_seen: 3000 }
        expect(await state.contexts.find('s', 'u')).toEqual(context)
      }))

    test('users of several sessions are listed in one call, with counters and names', () =>
      withStorage(async ({ state, store }, ingest) => {
        const { contexts, sessions } = state
        for (const name of ['s', 'x']) {
          await sessions.save(name, bot(name))
          const own = { session: name, botId: bot(name).bot_id, token: bot(name).token }
          const inbound = { user_id: 'u', token: 'right', received_at: 1000 }
          const written = from(inbound, { written_at: 1000, text: name })
          await ingest([written], { ...own, cursorFrom: '', cursorTo: 'c1' })
        }
        await store.names.set('X', 'u', 'Ann')
        await store.names.set('s', 'nobody', 'None')
        const found = await contexts.listUsers(['s', 'x', 'gone'])
        expect(found.get('s')).toMatchObject([
          { user_id: 'u', context: { received_at: 1000 }, name: undefined },
        ])
        expect(found.get('x')).toMatchObject([{ user_id: 'u', context: { received_at: 1000 }, name: 'Ann' }])
        expect(found.get('gone')).toEqual([])
        expect([...found.values()].flat().filter(({ context }) => 'token' in context)).toEqual([])
        const begun = await sending(store, 's', bot('s').bot_id, {
          client_id: 'c',
          to_user: 'u',
          msg_type: 'TEXT',
          text: 'hi',
          timestamp: 2000,
          raw: '{}',
        })
        await store.outbox.settle(begun, { status: 'accepted', spent: true })
        expect((await contexts.listUsers(['s'])).get('s')).toMatchObject([{ counter: { used: 1 } }])
      }))

    test('the name of a logged-out session with messages can be reused, and finds the messages of both', () =>
      withStorage(async ({ state, store }, ingest) => {
        const texts = async (session: string) =>
          (await store.log.listAfter(0, { limit: 9, session })).map(({ text }) => text)
        for (const name of ['s', 'x']) {
          await state.sessions.save(name, bot('b', { cursor: 'c0' }))
          const own = { session: name, cursorFrom: 'c0', cursorTo: 'c1' }
          await ingest([from({ user_id: 'u', received_at: 1000 }, { text: `of ${name}` })], own)
          if (name === 's') await state.sessions.remove('s')
        }
        await state.sessions.rename('x', 's')
        expect(await texts('S')).toEqual(['of s', 'of x'])
        expect(await texts('x')).toEqual([])
      }))

    test('messages from before a logout under another spelling of the name follow a rename', () =>
      withStorage(async ({ state, store }, ingest) => {
        for (const name of ['Shop', 'shop']) {
          await state.sessions.save(name, bot('b', { cursor: 'c0' }))
          const own = { session: name, cursorFrom: 'c0', cursorTo: 'c1' }
          await ingest([from({ user_id: 'u', received_at: 1000 }, { text: `of ${name}` })], own)
          if (name === 'Shop') await state.sessions.remove('Shop')
        }
        await state.sessions.rename('shop', 'x')
        const rows = async (session: string) =>
          (await store.log.listAfter(0, { limit: 9, session })).map(row => [row.text, row.session])
        expect(await rows('x')).toEqual([
          ['of Shop', 'x'],
          ['of shop', 'x'],
        ])
        expect(await rows('shop')).toEqual([])
      }))

    test('a session renamed to the name of a logged-out one keeps its counters, waiting messages and names', () =>
      withStorage(async ({ state, store }, ingest) => {
        const counted = async (name: string) => (await store.outbox.getCounters(name, 'u')).get('u')?.used
        for (const name of ['s', 'x']) {
          await state.sessions.save(name, bot('b', { cursor: 'c0' }))
          const own = { session: name, cursorFrom: 'c0', cursorTo: 'c1' }
          await ingest([from({ user_id: 'u', received_at: 1000 })], own)
          await sending(store, name, 'b@im.bot', { ...sent, client_id: name })
          await store.names.set(name, 'u', `u of ${name}`)
          const message = { ...sent, client_id: `waits ${name}` }
          const parts = [{ kind: 'text', waiting: { message } }] as const
          await store.outbox.enqueue(
            { session: name, bot_id: 'b', user: 'u', mode: 'queue', parts, made_by: 'owner' },
            openRules,
          )
        }
        await state.sessions.remove('x')
        await state.sessions.rename('s', 'x')
        expect(await state.sessions.getDefaultName()).toBe('x')
        expect(await counted('x')).toBe(1)
        expect((await store.names.list('x')).get('u')).toBe('u of s')
        expect((await store.outbox.list({ session: 'x' })).map(({ session }) => session)).toEqual(['x', 'x'])
        await sending(store, 'x', 'b@im.bot', { ...sent, client_id: 'next' })
        expect(await counted('x')).toBe(2)
        const written = from({ user_id: 'u', received_at: 2000 })
        await ingest([written], { session: 'x', cursorFrom: 'c1', cursorTo: 'c2' })
        expect(await counted('x')).toBe(0)
      }))

    test('a message begins with the newest token of its user, and with none after another bot logged in', () =>
      withStorage(async ({ state, store }, ingest) => {
        await state.sessions.save('s', bot('b'))
        const token = async (user: string) =>
          (await sending(store, 's', 'b@im.bot', { ...sent, client_id: `${++cursors}`, to_user: user })).token
        await ingest([from({ user_id: 'u', token: 'first', received_at: 1000 })])
        expect([await token('u'), await token('v')]).toEqual(['first', undefined])
        await ingest([
          from({ user_id: 'u', token: 'second', received_at: 2000 }),
          from({ user_id: 'v', token: 'v', received_at: 2000 }),
        ])
        expect([await token('u'), await token('v')]).toEqual(['second', 'v'])
        await state.sessions.save('s', bot('other'))
        expect(await token('u')).toBeUndefined()
        expect((await store.outbox.getCounters('s', 'u')).get('u')).toMatchObject({ used: 1 })
      }))

    test('messages follow a rename; a logout and another bot reset the answer counters', () =>
      withStorage(async ({ state, store }, ingest) => {
        const counted = async (name: string) => (await store.outbox.getCounters(name, 'u')).get('u')?.used
        await state.sessions.save('s', bot('b'))
        await ingest([from({ user_id: 'u', received_at: 1000 })])
        await sending(store, 's', 'b@im.bot', sent, { rules: openRules })
        expect(await counted('s')).toBe(1)
        await state.sessions.rename('s', 'x')
        expect((await store.log.listAfter(0, { limit: 9, session: 'x' })).map(row => row.session)).toEqual([
          'x',
          'x',
        ])
        expect(await counted('x')).toBe(1)
        await state.sessions.save('x', bot('other'))
        expect(await counted('x')).toBe(0)
        await sending(store, 'x', 'other@im.bot', { ...sent, client_id: 'd' })
        await state.sessions.remove('x')
        expect(await counted('x')).toBe(0)
        expect(nthOf(await store.log.getHead())).toBe(3)
      }))

    test('concurrent batches finish independently; those of one session in order', () =>
      withStorage(async ({ state, ingest }) => {
        const all = Array.from({ length: 40 }, (_, i) => `n${i}`)
        for (const name of all) await state.sessions.save(name, bot(name, { cursor: 'c0' }))
        const own = (session: string) => {
          const { bot_id: botId, token } = bot(session)
          return { session, token, botId, messages: [], now: 1000 }
        }
        const commits = all.flatMap(name => [
          ingest({ ...own(name), id: '1', cursorFrom: 'c0', cursorTo: 'c1' }),
          ingest({ ...own(name), id: '2', cursorFrom: 'c1', cursorTo: 'c2' }),
          ingest({ ...own(name), id: '3', cursorFrom: 'c1', cursorTo: 'c3', token: 'of another login' }),
        ])
        const ends = (await Promise.all(commits)).map(({ cursor }) => cursor)
        expect(ends).toEqual(all.flatMap(() => ['moved', 'moved', 'gone'] as const))
        for (const { bot: now } of await state.sessions.list()) expect(now?.cursor).toBe('c2')
      }))

    test('a code signs in once before it expires; ended sign-ins stay ended', () =>
      withState(async ({ signIns }) => {
        await signIns.addLink('a', 1000, 0)
        await signIns.addLink('a', 2000, 0)
        await signIns.addLink('b', 2000, 0)
        const taken = await Promise.all([1, 2, 3].map(() => signIns.takeLink('a', 1999)))
        expect(taken.filter(Boolean)).toHaveLength(1)
        expect(await signIns.takeLink('b', 2000)).toBe(false)
        expect(await signIns.takeLink('of nobody', 0)).toBe(false)
        await signIns.addLink('c', 2000, 0, true)
        const shared = await Promise.all([1, 2, 3].map(() => signIns.takeLink('c', 1999)))
        expect(shared.filter(Boolean)).toHaveLength(1)
        await signIns.addLink('d', 2000, 0, true)
        expect(await signIns.takeLink('d', 2000)).toBe(false)
        await signIns.addLink('e', 2000, 0)
        for (const code of ['f', 'g']) await signIns.addLink(code, 2000, 0, true)
        expect(await Promise.all(['e', 'f', 'g'].map(one => signIns.takeLink(one, 1999)))).toEqual([
          true,
          false,
          true,
        ])
        expect(await signIns.filterEnded(['x', 'y'])).toEqual(new Set())
        await signIns.end(['x', 'y'], 3000)
        await signIns.end(['z'], 5000)
        expect(await signIns.filterEnded(['x', 'z', 'of nobody'])).toEqual(new Set(['x', 'z']))
        await signIns.end(['w'], 9000)
        // By whatever clock.
        expect(await signIns.filterEnded(['w', 'x', 'y', 'z'])).toEqual(new Set(['w', 'x', 'y', 'z']))
      }))

    const login = (session: string, more: Partial<StoredLogin> = {}): StoredLogin => ({
      id: `login of ${session}`,
      session,
      version: '',
      until: 5000,
      force: false,
      ended: false,
      status: 'waiting',
      revision: 0,
      told: 0,
      ...more,
    })
    const qr = {
      qrcode: 'q',
      qrUrl: 'http://q',
      renewals: 1,
      state: 'waiting',
      needsCode: false,
      shown_at: 7,
    } as const

    test('one login per session is stored until it expires; only a caller with the newest version can replace it', () =>
      withState(async ({ logins }) => {
        expect(await logins.list(0)).toEqual([])
        const first = (await logins.put(login('s', { qr, code: '12' }), 1000))!
        expect(first).toEqual({ ...login('s', { qr, code: '12' }), version: expect.stringMatching(/./) })
        expect(await logins.put(login('S', { id: 'of another' }), 1000)).toBeUndefined()
        const tries = await Promise.all([1, 2, 3].map(told => logins.put({ ...first, told }, 1000)))
        const [now] = tries.filter(one => one !== undefined)
        expect(tries.filter(one => one !== undefined)).toHaveLength(1)
        expect(now!.version).not.toBe(first.version)
        expect(await logins.put(first, 1000)).toBeUndefined()
        expect(await logins.list(4999)).toEqual([now!])
        expect(await logins.list(5000)).toEqual([])
        expect(await logins.put(now!, 5000)).toBeUndefined()
        const next = login('s', { id: 'next', until: 9000 })
        expect(await logins.put(next, 5000)).toMatchObject({ id: 'next' })
        expect((await logins.list(5000)).map(({ id }) => id)).toEqual(['next'])
        expect(await failure(logins.put(login('../s'), 0))).toMatchObject({ code: 'invalid_arguments' })
      }))

    test('a login and its credentials are stored together, and not at all if the login ended before', () =>
      withState(async ({ logins, sessions }, commit) => {
        const kept = (await logins.put(login('s'), 0))!
        expect(await logins.listRunning(0)).toEqual([kept])
        const end = { ...kept, ended: true, status: 'confirmed', bot_id: 'b@im.bot' } as const
        const done = (await logins.finish(end, bot('b'), 0))!
        expect(await logins.list(0)).toEqual([done])
        expect(await logins.listRunning(0)).toEqual([])
        expect([
          await logins.get('S', 0),
          await logins.get('s', done.until),
          await logins.get('t', 0),
        ]).toEqual([done, undefined, undefined])
        expect(await sessions.list()).toEqual([{ name: 's', bot: bot('b') }])
        expect(await commit([])).toBe('moved')
        const before = await sessions.get('s')
        // As after a crash between the two: what has come since stays.
        expect(await logins.finish(done, bot('b'), 0)).toBeDefined()
        expect(await sessions.get('s')).toEqual(before)
        const other = (await logins.put(login('x'), 0))!
        await logins.put({ ...other, ended: true, status: 'expired' }, 0)
        expect(await logins.finish({ ...other, ended: true }, bot('c'), 0)).toBeUndefined()
        expect(await sessions.get('x')).toBeUndefined()
      }))

    test('one process at a time has a login; writes of another process are visible and wake waits', () =>
      withStorage(async ({ state: { logins }, second }) => {
        await using process = await second()
        const theirs = process.storage.state.logins
        const kept = (await logins.put(login('s'), 0))!
        expect(await theirs.list(0)).toEqual([kept])
        expect([await logins.claim(kept), await theirs.claim(kept), await logins.claim(kept)]).toEqual([
          true,
          false,
          true,
        ])
        await theirs.release(kept)
        expect(await theirs.claim(kept)).toBe(false)
        const { signal } = new AbortController()
        const waits = [logins.wait(kept, signal), theirs.wait(kept, signal)]
        let woken = 0
        for (const wait of waits) void wait.then(() => woken++)
        // Who looks later has seen it by now.
        for (const one of [logins, theirs]) expect(await one.list(0)).toEqual([kept])
        expect(woken).toBe(0)
        expect(await theirs.put({ ...kept, code: '34' }, 0)).toBeDefined()
        await Promise.all(waits)
        await logins.wait(kept, signal)
        expect(await logins.list(0)).toMatchObject([{ code: '34' }])
        await logins.release(kept)
        expect([await theirs.claim(kept), await logins.claim(kept)]).toEqual([true, false])
        expect(await logins.claim({ ...kept, id: 'of another' })).toBe(false)
        const left = new AbortController()
        const wait = logins.wait((await logins.list(0))[0]!, left.signal)
        left.abort()
        await wait
      }))
  },
  { sealed: true },
)
