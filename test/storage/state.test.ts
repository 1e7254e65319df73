/** What every engine's state must do (`src/storage/state.ts`), on those there are. */
import { describe, expect, test } from 'bun:test'
import type { Inbound } from '../../src/model/session.ts'
import type { BatchCommit, State } from '../../src/storage/state.ts'
import { failure } from '../support/failure.ts'
import { memoryState } from './memory-state.ts'
import { bot, openTestState } from './sqlite/state/support.ts'

const engines: readonly [string, () => Promise<State & Partial<AsyncDisposable>>][] = [
  ['SQLite and session files', () => openTestState()],
  ['in memory', async () => memoryState()],
]

let cursors = 0

describe.each(engines)('state: %s', (_name, open) => {
  type Commit = (inbound: Inbound[], more?: Partial<BatchCommit>) => ReturnType<State['commitBatch']>
  /** `work` with a state, and a commit to session `s` upon its cursor of then. */
  const withState = async (work: (state: State, commit: Commit) => Promise<void>) => {
    const state = await open()
    const commit: Commit = async (inbound, more) => {
      const { token = '', cursor = '' } = (await state.sessions.get('s'))?.bot ?? {}
      const own = { session: 's', token, cursorFrom: cursor, cursorTo: `n${++cursors}`, inbound }
      return state.commitBatch({ ...own, ...more })
    }
    try {
      await work(state, commit)
    } finally {
      await state[Symbol.asyncDispose]?.()
    }
  }
  const names = async (state: State) => (await state.sessions.list()).map(({ name }) => name).sort()

  test('the first session is the default one; when it goes, the oldest becomes it', () =>
    withState(async ({ sessions }) => {
      await sessions.save('c', bot('c', { created_at: 3 }))
      await sessions.save('a', bot('a', { created_at: 2 }))
      await sessions.save('b', bot('b', { created_at: 1 }))
      expect(await sessions.defaultName()).toBe('c')
      await sessions.remove('c')
      expect(await sessions.defaultName()).toBe('b')
      await sessions.setDefault('a')
      await sessions.rename('a', 'z')
      expect(await sessions.defaultName()).toBe('z')
      await sessions.remove('z')
      await sessions.remove('b')
      expect(await sessions.defaultName()).toBeUndefined()
      expect(await sessions.list()).toEqual([])
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
      for (const work of [sessions.rename('nobody', 'x'), sessions.remove('x'), sessions.setDefault('x')])
        expect(await failure(work)).toMatchObject({ code: 'session_not_found' })
      for (const name of ['', '..', 'a/b']) expect(await sessions.get(name)).toBeUndefined()
    }))

  test('a login that comes again replaces the credentials and keeps who wrote; of another bot nothing is known', () =>
    withState(async ({ sessions, contexts }, commit) => {
      await sessions.save('s', bot('b', { user_id: 'me' }))
      await commit([{ user_id: 'u', token: 't', received_at: 1000 }])
      await sessions.save('s', bot('b', { token: 'b@im.bot:new' }))
      expect((await sessions.get('s'))?.bot).toEqual(bot('b', { token: 'b@im.bot:new' }))
      expect(await contexts.find('s', 'u')).toMatchObject({ token: 't' })
      await sessions.save('s', bot('other'))
      expect(await contexts.find('s', 'u')).toEqual({ used: 0, first_seen: 1000 })
      expect(await contexts.writers(['s'])).toEqual(new Map([['s', 0]]))
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

  test('a batch moves the cursor, with what its messages say of those who wrote, and its marks', () =>
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
      expect([...(await contexts.of('s')).keys()].sort()).toEqual(['u', 'v'])
      expect(await contexts.writers(['s', 't'])).toEqual(
        new Map([
          ['s', 2],
          ['t', 0],
        ]),
      )
      expect((await contexts.knowing('u')).has('s')).toBe(true)
      // Once more, as after an end that was not heard of.
      expect(await commit(batch, { cursorFrom: 'c0', cursorTo: 'c1' })).toBe('moved')
      expect(await contexts.find('s', 'u')).toMatchObject({ received_at: 1000, token: 't1' })
    }))

  test.each([
    ['logged out', ({ sessions }: State) => sessions.remove('s')],
    ['renamed', ({ sessions }: State) => sessions.rename('s', 'x')],
    [
      'logged in anew',
      ({ sessions }: State) => sessions.save('s', bot('b', { token: 'b@im.bot:2', cursor: 'c0' })),
    ],
    [
      'moved on',
      async (state: State) => {
        const own = { session: 's', token: bot('b').token, cursorFrom: 'c0', cursorTo: 'c9', inbound: [] }
        await state.commitBatch(own)
      },
    ],
  ])('a batch of a session that was %s meanwhile writes nothing', (_, change) =>
    withState(async (state, commit) => {
      await state.sessions.save('s', bot('b', { cursor: 'c0' }))
      await change(state)
      const seen = async () =>
        JSON.stringify([await state.sessions.list(), [...(await state.contexts.of('s'))]])
      const before = await seen()
      const late = { token: bot('b').token, cursorFrom: 'c0', cursorTo: 'c1' }
      expect(await commit([{ user_id: 'u', token: 't', received_at: 1000 }], late)).toBe('gone')
      expect(await seen()).toBe(before)
    }),
  )

  test('odd user ids are ids like any other', () =>
    withState(async ({ sessions, contexts }, commit) => {
      await sessions.save('s', bot('b'))
      const odd = ['__proto__', 'constructor', '0', 'a/b\\c"\n', '中文@im.wechat', '']
      await commit(odd.map(user_id => ({ user_id, token: `t ${user_id}`, received_at: 1000 })))
      expect(new Set((await contexts.of('s')).keys())).toEqual(new Set(odd))
      for (const user of odd) expect(await contexts.find('s', user)).toMatchObject({ token: `t ${user}` })
    }))

  test('many batches at once: each ends by itself, those of one session in their order', () =>
    withState(async state => {
      const all = Array.from({ length: 40 }, (_, i) => `n${i}`)
      for (const name of all) await state.sessions.save(name, bot(name, { cursor: 'c0' }))
      const own = (session: string) => ({ session, token: bot(session).token, inbound: [] })
      const commits = all.flatMap(name => [
        state.commitBatch({ ...own(name), cursorFrom: 'c0', cursorTo: 'c1' }),
        state.commitBatch({ ...own(name), cursorFrom: 'c1', cursorTo: 'c2' }),
        state.commitBatch({ ...own(name), cursorFrom: 'c1', cursorTo: 'c3', token: 'of another login' }),
      ])
      expect(await Promise.all(commits)).toEqual(all.flatMap(() => ['moved', 'moved', 'gone'] as const))
      for (const { bot: now } of await state.sessions.list()) expect(now?.cursor).toBe('c2')
    }))
})
