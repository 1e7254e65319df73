/** What every engine must do for conversations and names (`src/storage/store.ts`). */
import { expect } from 'bun:test'
import type { SentMessage } from '../../src/storage/messages.ts'
import type { Store, ThreadQuery } from '../../src/storage/store.ts'
import { failure } from '../support/failure.ts'
import { onEach } from './engines.ts'
import { insert, message, nthOf, open, type Running, rename, sending } from './support.ts'

const receive = (t: Running, text: string, user = 'u', session = 's') =>
  insert(t, [message(text, { from_user: user })], session)
const out = (client_id: string, to_user = 'u'): SentMessage => ({
  client_id,
  to_user,
  msg_type: 'TEXT',
  text: client_id,
  timestamp: 1_800_000_000_500,
  raw: '{}',
})
const past = (text: string) => ({
  ...message(text, { from_user: 'u' }),
  ...({ session: 's', bot_id: 'b', direction: 'received' } as const),
})
const threadOf = async ({ conversations }: Store, user: string, session?: string) =>
  (await conversations.listThreads({ user, session, limit: 1 })).threads[0]
const unread = async (store: Store, session?: string) => (await threadOf(store, 'u', session))?.unread

onEach(it => {
  it('unread messages are those after the newest message that WeChat accepted, and after the mark', async t => {
    const { conversations } = t.store
    expect(await threadOf(t.store, 'u')).toBeUndefined()
    await receive(t, '1')
    await receive(t, '2')
    expect(await unread(t.store)).toBe(2)
    await conversations.markRead('s', 'u', t.id(1))
    await conversations.markRead('s', 'u', 0)
    expect(await unread(t.store)).toBe(1)
    for (const status of ['refused', 'unknown', 'accepted', 'suspect'] as const) {
      const begun = await sending(t.store, 's', 'b', out(status))
      // What is on its way is no answer yet.
      expect(await threadOf(t.store, 'u')).toMatchObject({ unread: 1, refused: false })
      await t.store.outbox.settle(begun, { status, spent: false })
      const isTaken = status === 'accepted' || status === 'suspect'
      expect([status, await unread(t.store)]).toEqual([status, isTaken ? 0 : 1])
      if (isTaken) await receive(t, `after ${status}`)
    }
    await conversations.markRead('s', 'u', t.id(99))
    await receive(t, '3')
    await receive(t, 'there', 'u', 'other')
    expect(await unread(t.store)).toBe(1)
    expect(await unread(t.store, 'S')).toBe(1)
    expect(await threadOf(t.store, 'u', 's')).toMatchObject({ last: { text: '3' } })
  })

  it('a conversation that is marked as unread has one unread message more, until it is read or answered', async t => {
    const { conversations } = t.store
    const answer = async (text: string) => {
      const begun = await sending(t.store, 's', 'b', out(text))
      await t.store.outbox.settle(begun, { status: 'accepted', spent: false })
    }
    await receive(t, '1')
    await answer('one')
    await conversations.markRead('s', 'u')
    // One that was answered, too.
    expect(await unread(t.store)).toBe(1)
    await receive(t, '2')
    expect(await unread(t.store)).toBe(2)
    await conversations.markRead('s', 'u', t.id(99))
    expect(await unread(t.store)).toBe(0)
    await conversations.markRead('s', 'u')
    expect(await unread(t.store)).toBe(1)
    // Read up to an older row: what was read before the mark stays read.
    await receive(t, '3')
    await conversations.markRead('s', 'u', t.id(99))
    await conversations.markRead('s', 'u')
    await conversations.markRead('s', 'u', t.id(1))
    expect(await unread(t.store)).toBe(0)
    await conversations.markRead('s', 'u')
    await answer('another')
    expect(await unread(t.store)).toBe(0)
    await receive(t, '4')
    expect(await unread(t.store)).toBe(1)
  })

  it('imported messages are listed, and are never unread', async t => {
    await t.store.consumers.claim('late', { limit: 1 })
    await receive(t, 'new')
    await t.store.intake.add([past('old'), past('older')])
    const { backlog, conversations } = t.store
    expect(await threadOf(t.store, 'u')).toMatchObject({ last: { text: 'older', past: true }, unread: 0 })
    expect((await conversations.listThreads({ limit: 9 })).threads.map(({ last }) => nthOf(last.id))).toEqual(
      [3],
    )
    expect((await conversations.countMessages(0, 2e12)).map(({ received }) => received)).toEqual([3])
    expect(await backlog.countWaiting('late', { limit: 9 })).toBe(1)
    expect(await backlog.listRecent(0, { limit: 9 })).toEqual([1, 2, 3].map(t.id))
    expect(await backlog.listRecent(0, { limit: 9, direction: 'received' })).toEqual([t.id(1)])
  })

  it('users are listed newest first, once each, over all sessions; rows in the order of the given ids', async t => {
    for (const user of ['u', 'ü', '🙂', 'U', '\uffee', 'u']) await receive(t, user, user, `s${user.length}`)
    const { conversations, log } = t.store
    const found: string[] = []
    for (let before: number | undefined, isEnd = false; !isEnd; ) {
      const page = await conversations.listThreads({ before, limit: 2 })
      expect(page.threads.length).toBeLessThanOrEqual(2)
      found.push(...page.threads.map(({ last, user }) => `${user} ${nthOf(last.id)}`))
      before = page.before
      isEnd = before === undefined
    }
    expect(found).toEqual(['u 6', '\uffee 5', 'U 4', '🙂 3', 'ü 2'])
    expect((await log.getByIds([4, 99, 2].map(t.id))).map(({ id }) => nthOf(id))).toEqual([4, 2])
  })

  it('a user has a thread for each requested session, or one of the newest session', async t => {
    for (const [text, user, session] of [
      ['1', 'u', 's'],
      ['2', 'u', 'x'],
      ['3', 'v', 'x'],
      ['4', 'u', 's'],
      ['5', 'w', 'gone'],
    ] as const)
      await receive(t, text, user, session)
    const shown = async (page: Partial<ThreadQuery>) =>
      (await t.store.conversations.listThreads({ limit: 9, ...page })).threads.map(
        ({ last, unread: left, user }) => `${user} ${last.session} ${last.text} ${left}`,
      )
    const sessions = new Map([
      ['u', ['S', 'x', 'none']],
      ['v', ['none']],
    ])
    expect(await shown({ sessions })).toEqual(['w gone 5 1', 'u s 4 2', 'u x 2 1'])
    expect(await shown({})).toEqual(['w gone 5 1', 'u s 4 2', 'v x 3 1'])
    expect(await shown({ session: 'x' })).toEqual(['u x 2 1', 'v x 3 1'])
    expect(await shown({ user: 'v', session: 'x' })).toEqual(['v x 3 1'])
    expect(await shown({ user: 'nobody' })).toEqual([])
  })

  it('a message without a user is in no conversation', async t => {
    await insert(t, [message('x', { from_user: '' }), message('y')])
    const { threads } = await t.store.conversations.listThreads({ limit: 9 })
    expect(threads.map(({ last, user }) => [user, nthOf(last.id)])).toEqual([['u@im.wechat', 2]])
  })

  it('a thread counts as refused only by the selected messages', async t => {
    const { outbox } = t.store
    await outbox.settle(await sending(t.store, 's', 'b', out('1')), { status: 'refused', spent: false })
    await receive(t, 'hi', 'u', 'other')
    expect((await threadOf(t.store, 'u', 's'))?.refused).toBe(true)
    expect(await threadOf(t.store, 'u')).toMatchObject({ refused: false, unread: 1 })
  })

  it('methods of a closed store reject', async t => {
    const { conversations, log, maintenance } = t.store
    await t.storage.close()
    const never = new AbortController().signal
    for (const call of [conversations.listThreads({ limit: 1 }), log.wait(0, 1000, never)])
      expect(await failure(call)).toMatchObject({ code: 'shutting_down' })
    expect(await maintenance.checkWritable()).toMatchObject({ code: 'shutting_down' })
  })

  it('spans are numbered from 0, by the timestamps of received and sent messages', async t => {
    const at = (timestamp: number) => message('x', { timestamp })
    await insert(t, [at(1000), at(1999), at(2000), at(999)])
    await t.store.outbox.settle(await sending(t.store, 's', 'b', { ...out('c'), timestamp: 3500 }), {
      status: 'unknown',
      spent: true,
    })
    // What was refused, and what waits, went nowhere.
    await t.store.outbox.settle(await sending(t.store, 's', 'b', { ...out('d'), timestamp: 3500 }), {
      status: 'refused',
      spent: false,
    })
    const parts = [{ kind: 'text', waiting: { message: { ...out('e'), timestamp: 3500 } } }] as const
    await t.store.outbox.enqueue(
      { session: 's', bot_id: 'b', user: 'u', mode: 'queue', parts, made_by: 'owner' },
      open,
    )
    const counts = await t.store.conversations.countMessages(1000, 1000)
    expect(counts.sort((a, b) => a.span - b.span)).toEqual([
      { span: 0, received: 2, sent: 0 },
      { span: 1, received: 1, sent: 0 },
      { span: 2, received: 0, sent: 1 },
    ])
  })

  it('a name belongs to one user of a session, which need not exist; it follows a rename', async t => {
    const { conversations, names } = t.store
    await names.set('s', 'u', 'Ann')
    await names.set('other', 'v', 'ann')
    expect(await failure(names.set('S', 'v', ' ANN'))).toMatchObject({
      ...{ code: 'invalid_arguments', details: { user_id: 'u' } },
    })
    // Who does not see the other user must not learn of the name. Who sees both is told who has it.
    await names.set('s', 'hidden', 'Ann', ['hidden', 'v'])
    for (const seen of [undefined, ['w', 'hidden'], ['w', 'u']])
      expect(await failure(names.set('s', 'w', 'Ann', seen))).toMatchObject({ code: 'invalid_arguments' })
    expect((await names.find('Ann')).map(({ user_id }) => user_id).sort()).toEqual(['hidden', 'u', 'v'])
    await names.set('s', 'hidden', undefined)
    await names.set('s', 'u', 'Anne')
    await names.set('s', 'v', 'Ann')
    expect((await names.find('aNN')).map(({ session, user_id }) => `${session} ${user_id}`).sort()).toEqual([
      'other v',
      's v',
    ])
    expect([...(await conversations.sessionsOf('v'))].sort()).toEqual(['other', 's'])
    await rename(t, 's', 'new')
    expect(await names.list('new')).toEqual(new Map(Object.entries({ u: 'Anne', v: 'Ann' })))
    expect(await names.list('s')).toEqual(new Map())
    await names.set('new', 'u', undefined)
    expect([...(await conversations.sessionsOf('u'))]).toEqual([])
  })

  it('of two users who get one name at the same time, one has it', async ({ store: { names } }) => {
    for (const name of ['Ann', 'Ben', 'Cem', 'Dora']) {
      const ends = await Promise.allSettled(['u', 'v', 'w'].map(user => names.set('s', user, name)))
      const errors = ends.flatMap(end => (end.status === 'rejected' ? [end.reason] : []))
      expect(errors.map(({ code }) => code)).toEqual(['invalid_arguments', 'invalid_arguments'])
      expect(await names.find(name)).toHaveLength(1)
    }
  })

  it('users whose ids differ in capitals are those who wrote', async t => {
    for (const user of ['oA_b@im', 'Oa_B@IM', 'oa_bc@im', 'oaXb@im', 'o', 'u']) await receive(t, 'x', user)
    await sending(t.store, 's', 'b', out('to a wrong id', 'OA_B@im'))
    const { conversations } = t.store
    expect([...(await conversations.listAlike('oa_b@Im'))].sort()).toEqual(['Oa_B@IM', 'oA_b@im'])
    expect(await conversations.listAlike('oa_b@i')).toEqual([])
    expect(await conversations.listAlike('oa%b@im')).toEqual([])
  })
})
