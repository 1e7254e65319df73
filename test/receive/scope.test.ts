/** What a reader with a scope gets of messages, sessions and quotes that are not in it: nothing, as if they did not exist. */

import { Database } from 'bun:sqlite'
import { expect, spyOn, test } from 'bun:test'
import type { Scope } from '../../src/model/access.ts'
import { createDirectCall } from '../../src/model/call.ts'
import type { Message } from '../../src/model/message.ts'
import { errorCodeOf } from '../../src/platform/files.ts'
import { silentLog } from '../../src/platform/log.ts'
import { Inbox } from '../../src/receive/inbox.ts'
import { Views } from '../../src/receive/view.ts'
import { openSqlite } from '../storage/sqlite/support.ts'
import { bot, insert, message } from '../storage/support.ts'
import { failure } from '../support/failure.ts'
import { withGateway } from '../support/gateway.ts'
import { runtimeOf } from '../support/runtime.ts'

const idsOf = (messages: readonly Message[]) => messages.map(({ id }) => id)

/** An inbox on a store with two accounts that are logged in, and one that is not any more. */
async function withInbox() {
  const t = await openSqlite()
  const { sessions } = t.storage.state
  for (const name of ['work', 'home']) {
    await sessions.save(name, bot(name))
    for (const user of ['ann', 'bob'])
      await insert(t, [message(`${name} ${user}`, { from_user: user })], name, `${name}@im.bot`)
  }
  await insert(t, [message('left', { from_user: 'bob' })], 'old', 'home@im.bot')
  const closing = new AbortController()
  const runtime = runtimeOf({ clock: t.clock, closing: closing.signal })
  const inbox = new Inbox(
    { store: t.store, sessions, views: new Views({ store: t.store.log, log: silentLog }) },
    runtime,
  )
  return {
    inbox,
    async [Symbol.asyncDispose]() {
      closing.abort()
      await t[Symbol.asyncDispose]()
    },
  }
}

/** Counts the SQL statements of databases that are opened from now on. */
function startCounting() {
  let count = 0
  const prepare = Database.prototype.prepare
  const spy = spyOn(Database.prototype, 'prepare').mockImplementation(function (
    this: Database,
    ...given: Parameters<typeof prepare>
  ) {
    return new Proxy(prepare.apply(this, given), {
      get(statement, name) {
        const member = Reflect.get(statement, name)
        if (typeof member !== 'function') return member
        if (['all', 'get', 'run', 'iterate'].includes(String(name))) count++
        return member.bind(statement)
      },
    })
  } as typeof prepare)
  return {
    async of(work: () => Promise<unknown>) {
      const before = count
      await work()
      return count - before
    },
    [Symbol.dispose]: () => spy.mockRestore(),
  }
}

test.each<[scope: Scope, foreign: string[], own: string[]]>([
  [{ bots: ['work@im.bot'] }, ['home', 'old'], ['work']],
  [{ bots: ['work@im.bot'], users: ['ann'] }, ['home', 'old'], ['work']],
  [{ users: ['ann'] }, ['old'], ['work', 'home']],
  [{ bots: [] }, ['home', 'old', 'work'], []],
  [{ bots: ['home@im.bot'] }, ['work'], ['home', 'old']],
])('with %j a foreign session is none, by the same statements', async (scope, foreign, own) => {
  using statements = startCounting()
  await using t = await withInbox()
  const { inbox } = t
  const request = { timeout: 0, limit: 10, consumer: 'key/default', scope }
  const ask = async (session: string) => {
    const recv = () => failure(inbox.recv({ ...request, session }, createDirectCall()))
    const count = () => failure(inbox.countWaiting({ ...request, session }, 10))
    const found = [await recv(), await count()]
    return [...found.map(errorCodeOf), await statements.of(recv), await statements.of(count)]
  }
  const unknown = await ask('nobody')
  expect(unknown.slice(0, 2)).toEqual(['session_not_found', 'session_not_found'])
  expect(Math.min(...unknown.slice(2).map(Number))).toBeGreaterThan(0)
  for (const session of foreign) expect([session, ...(await ask(session))]).toEqual([session, ...unknown])
  for (const session of own)
    expect((await inbox.recv({ ...request, session }, createDirectCall())).length).toBeGreaterThan(0)
})

test('messages that came lately, waiting ones and followed ones are those of the scope', async () => {
  await using t = await withInbox()
  const { inbox } = t
  const scope = { users: ['bob'], bots: ['home@im.bot'] }
  // What Bob wrote to the account, to the session that it has and to the one that it had.
  const own = [4, 5]
  const { messages } = await inbox.listRecent(0, 0, { limit: 10, scope })
  expect(idsOf(messages)).toEqual(own)
  const request = { consumer: 'key/default', scope }
  expect(await inbox.countWaiting(request, 10)).toBe(2)
  expect(await inbox.countWaiting({ ...request, after: 0 }, 10)).toBe(2)
  const recv = (more: object) =>
    inbox.recv({ ...request, timeout: 0, limit: 10, ...more }, createDirectCall())
  expect(idsOf(await recv({ after: 0 }))).toEqual(own)
  expect(idsOf(await recv({ consumer: 'key/acks', ack: 0 }))).toEqual([])
  for (const reading of [
    { from: 0, scope },
    { consumer: 'key/default', scope },
  ]) {
    const leave = new AbortController()
    const found: number[] = []
    for await (const { id } of inbox.follow(reading, leave.signal))
      if (found.push(id) === own.length) leave.abort()
    expect(found).toEqual(own)
  }
})

test('a quote shows a message of its own conversation only, to everybody', async () => {
  await using t = await withGateway({ sessions: ['one', 'two'] })
  const [one, two] = [t.bots.get('one')!, t.bots.get('two')!]
  const other = await t.sandbox.addUser('other')
  const say = (message_id: string, text: string, from: string, to: string, quoted?: string) =>
    t.sandbox.raw(
      {
        ...{ message_id, from_user_id: from, message_type: 1 },
        item_list: [{ type: 1, text_item: { text }, ...(quoted && { ref_msg: { svr_id: quoted } }) }],
      },
      to,
    )
  await say('7460000000000000001', 'secret', one.user_id, one.bot_id)
  await say('7460000000000000002', 'of two', two.user_id, two.bot_id)
  await t.receive(2)
  await say('7460000000000000003', 'same', one.user_id, one.bot_id, '7460000000000000001')
  await say('7460000000000000004', 'other user', other, one.bot_id, '7460000000000000001')
  await say('7460000000000000005', 'other account', one.user_id, one.bot_id, '7460000000000000002')
  await say('7460000000000000006', 'same id', two.user_id, two.bot_id, '7460000000000000002')
  await say('7460000000000000007', 'of both', other, one.bot_id)
  await say('7460000000000000008', 'same user, other account', other, two.bot_id, '7460000000000000007')
  const quotes = (messages: readonly Message[]) =>
    Object.fromEntries(messages.flatMap(({ text, ref_msg }) => (ref_msg ? [[text, ref_msg.text]] : [])))
  const expected = {
    ...{ same: 'secret', 'other user': undefined },
    ...{ 'other account': undefined, 'same id': 'of two' },
    'same user, other account': undefined,
  }
  const received = await t.receive(6)
  expect(quotes(received)).toEqual(expected)
  expect(quotes((await t.gateway.history.page({ limit: 10, offset: 0 })).messages)).toEqual(expected)
  const events = await t.gateway.events.readPage('0', { limit: 10, types: ['message.received'] })
  expect(quotes(events.events.map(({ event }) => event.data as Message))).toEqual(expected)
  // The user of a conversation is a column for the engine's callers only.
  for (const message of received) expect(Object.keys(message)).not.toContain('peer')
})
