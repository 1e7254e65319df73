/** What is known of a user between the two steps of `Storage.ingest`: the message is stored, its context is not in the file. */
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import type { UserContext } from '../../../../src/model/session.ts'
import { openLock } from '../../../../src/platform/lock.ts'
import type { PolledMessage } from '../../../../src/storage/messages.ts'
import { folderOfTest } from '../../../support/folder.ts'
import { until } from '../../../support/until.ts'
import { bot, message, testClock } from '../../support.ts'
import { openDirectory } from '../support.ts'

const said = (id: string, at: number, more: Partial<PolledMessage> = {}): PolledMessage => ({
  ...message(id, { message_id: id, from_user: 'u', timestamp: at, written_at: at }),
  contextToken: id,
  repeated: { received_at: at },
  ...more,
})
const untimed = { received_at: 9000, again: true as const }

const first = said('first', 1000)
const cases: [what: string, next: PolledMessage, then: Partial<UserContext>][] = [
  ['a later message', said('next', 2000), { token: 'next', received_at: 2000 }],
  ['another one of the same millisecond', said('next', 1000), { token: 'next', received_at: 1000 }],
  ['one without a token', said('next', 2000, { contextToken: '' }), { token: 'first', received_at: 2000 }],
  ['an earlier one', said('next', 500), { token: 'first', received_at: 1000 }],
  [
    'the same one with another token',
    { ...first, contextToken: 'next' },
    { token: 'next', received_at: 1000 },
  ],
  [
    'the same one, which no longer states its time',
    { ...first, contextToken: 'next', repeated: untimed },
    { token: 'next', received_at: 1000 },
  ],
]

test.each(cases)('%s counts in every process before the file has it', async (_what, next, then) => {
  const dir = folderOfTest()
  await using storage = await openDirectory(dir, testClock())
  await using other = await openDirectory(dir, testClock())
  await storage.state.sessions.save('s', bot('b'))
  const ingest = (n: number, messages: PolledMessage[]) =>
    storage.ingest({
      id: `${n}`,
      session: 's',
      token: bot('b').token,
      botId: bot('b').bot_id,
      cursorFrom: n === 1 ? '' : `${n - 1}`,
      cursorTo: `${n}`,
      messages,
      now: 10_000,
    })
  await ingest(1, [first])
  const lock = await openLock(join(dir, '.data.lock'))
  await lock.lock()
  // The last one tells that those before it are stored.
  const ingested = ingest(2, [next, said('mark', 3000, { from_user: 'v' })])
  const isStored = async () => (await storage.store.log.getByMessageIds(['mark'])).rows.length === 1
  await until('it is stored', 5000, isStored)
  const find = () => Promise.all([storage, other].map(({ state }) => state.contexts.find('s', 'u')))
  for (const found of await find()) expect(found).toMatchObject(then)
  expect((await storage.state.sessions.get('s'))?.bot?.cursor).toBe('1')
  await lock.close()
  expect((await ingested).cursor).toBe('moved')
  for (const found of await find()) expect(found).toMatchObject(then)
  expect(await other.state.contexts.find('s', 'u')).toMatchObject(then)
})

test('if the session is gone, nothing of its contexts stays', async () => {
  const dir = folderOfTest()
  await using storage = await openDirectory(dir, testClock())
  const { sessions, contexts } = storage.state
  await sessions.save('s', bot('b'))
  const late = {
    id: 'late',
    session: 's',
    botId: bot('b').bot_id,
    cursorFrom: '',
    cursorTo: '1',
    now: 10_000,
  }
  await sessions.remove('s')
  const batch = { ...late, token: bot('b').token, messages: [first] }
  expect((await storage.ingest(batch)).cursor).toBe('gone')
  await sessions.save('s', bot('b'))
  expect(await contexts.find('s', 'u')).toBeUndefined()
})

test('a waiting reader can answer before the second step begins', async () => {
  const dir = folderOfTest()
  await using storage = await openDirectory(dir, testClock())
  const { state, store } = storage
  await state.sessions.save('s', bot('b'))
  const lock = await openLock(join(dir, '.data.lock'))
  const reading = async () => {
    await store.log.wait(0, 5000, new AbortController().signal)
    const claim = await store.consumers.claim('default', { limit: 10 })
    // In this round of the event loop the answer leaves.
    await new Promise<void>(resolve => setImmediate(resolve))
    // The second step holds it for as long as it writes.
    return { texts: claim?.rows.map(({ text }) => text), isFree: await lock.tryLock() }
  }
  const read = reading()
  const own = { id: '1', session: 's', token: bot('b').token, botId: bot('b').bot_id }
  const ingested = storage.ingest({ ...own, cursorFrom: '', cursorTo: '1', messages: [first], now: 10_000 })
  expect(await read).toEqual({ texts: ['first'], isFree: true })
  await lock.close()
  expect((await ingested).cursor).toBe('moved')
})
