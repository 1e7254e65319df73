/** Sends in SQLite: processes that are killed, and its log lines. */
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { openLock } from '../../../src/platform/lock.ts'
import { openDatabase } from '../../../src/platform/sqlite.ts'
import { type NewPart, stoppedDuringSend } from '../../../src/storage/outbox.ts'
import type { FileState } from '../../../src/storage/sqlite/state/state.ts'
import type { Store } from '../../../src/storage/store.ts'
import { given } from '../../support/given.ts'
import { countStatements } from '../../support/statements.ts'
import { bot, byMessageId, message, open, outgoing, sending } from '../support.ts'
import { inOtherProcess, openSqlite, startOnDirectory } from './support.ts'

const it = given(openSqlite)

const part = (text: string): NewPart => ({ kind: 'text', waiting: { message: outgoing(text) } })
const file = (name: string): NewPart => ({
  kind: 'file',
  waiting: {
    message: outgoing('', { client_id: name, msg_type: 'FILE' }),
    file: { name, file_name: 'a.txt', size: 3, md5: 'ab' },
  },
})
async function add({ outbox }: Store, parts: NewPart[]) {
  const entry = { session: 's', bot_id: 'b', user: 'u', mode: 'queue', made_by: 'owner', parts } as const
  const added = await outbox.enqueue(entry, open)
  if (added.state !== 'new') throw new Error(added.state)
  return added
}
const lane = async ({ outbox }: Store) => (await outbox.listWaiting(open)).lanes[0]!.id
/** The parts that wait in the first lane. */
const next = async (store: Store) => {
  const id = await lane(store)
  const parts = (await store.outbox.list()).flatMap(entry => entry.parts)
  return parts.filter(part => part.lane === id && part.status === 'queued')
}
const statuses = async ({ log }: Store) => (await log.listAfter(0, { limit: 99 })).map(({ status }) => status)

/** In the text of another process. */
const rules = JSON.stringify(open)

it('one process at a time has a lane; it is free when that process is killed', async t => {
  t.clock.at = Date.now()
  await add(t.store, [part('a')])
  const id = await lane(t.store)
  const claim = async () => (await t.store.outbox.claim(id)) !== undefined
  const other = startOnDirectory(
    t.dir,
    `console.log((await store.outbox.claim(${id})) !== undefined)
     await hold()`,
  )
  const reader = other.stdout.getReader()
  expect(new TextDecoder().decode((await reader.read()).value)).toContain('true')
  expect(await claim()).toBe(false)
  const [part1] = await next(t.store)
  expect(await t.store.outbox.begin([part1!.id], 'b', open, outgoing('a'))).toEqual({ go: 'gone' })
  expect(await statuses(t.store)).toEqual(['queued'])
  other.kill('SIGKILL')
  await other.exited
  expect(await claim()).toBe(true)
  expect(await claim()).toBe(true)
})

it('if a process is killed while sending, that message becomes unknown immediately and the rest waits', async t => {
  const { entry } = await add(t.store, [part('a'), file('x'), part('c')])
  const [first] = await next(t.store)
  await inOtherProcess(
    t.dir,
    `await store.outbox.begin([${first!.id}], 'b', ${rules},
       { client_id: 'z', to_user: 'u', msg_type: 'TEXT', text: 'a', timestamp: 1, raw: '{}' })
     console.log('ready')
     await hold()`,
    'SIGKILL',
  )
  expect(await statuses(t.store)).toEqual(['sending', 'queued', 'queued'])
  expect(await t.store.outbox.reap(0)).toBe(1)
  expect(await t.store.outbox.reap(0)).toBe(0)
  expect(await statuses(t.store)).toEqual(['unknown', 'queued', 'queued'])
  expect((await t.store.log.listAfter(0, { limit: 1 }))[0]!.reason).toBe(stoppedDuringSend.detail)
  expect(await next(t.store)).toHaveLength(2)
  expect((await t.store.outbox.list())[0]!.parts.map(({ status }) => status)).toEqual([
    'unknown',
    'queued',
    'queued',
  ])
  expect(await t.store.outbox.claim(await lane(t.store))).toBeDefined()
  expect(
    await t.store.outbox.end(entry.id, { code: 'not_found', detail: 'why' }, { only: 'queue' }),
  ).toMatchObject({
    ended: 2,
    files: [{ name: 'x' }],
  })
})

it('a plain send of a killed process is unknown at once; of a living one it is left alone', async t => {
  const sent = { to_user: 'u', msg_type: 'TEXT', text: 'x', timestamp: 1, raw: '{}' } as const
  await sending(t.store, 's', 'b', { ...sent, client_id: 'mine' })
  await inOtherProcess(
    t.dir,
    `await store.outbox.enqueue({ session: 's', bot_id: 'b', user: 'u', mode: 'fail', parts: [{ kind: 'text' }] },
       ${rules}, ${JSON.stringify({ ...sent, client_id: 'theirs' })})
     console.log('ready')
     await hold()`,
    'SIGKILL',
  )
  expect(await t.store.outbox.reap(0)).toBe(1)
  expect((await byMessageId(t.store, 'local:mine'))?.status).toBe('sending')
  expect((await byMessageId(t.store, 'local:theirs'))?.status).toBe('unknown')
})

test('retention warns about waiting messages', async () => {
  await using t = await openSqlite({ maxCount: 1 })
  await add(t.store, [part('waits'), part('too')])
  await t.store.maintenance.prune()
  expect(t.lines.join('')).toContain('retention removes unsent messages')
})

it('a key of a killed process is free if nothing was in flight; otherwise the log has the result', async t => {
  t.clock.at = Date.now()
  const dies = (key: string, more: string) =>
    inOtherProcess(
      t.dir,
      `const message = text => ({ to_user: 'u', msg_type: 'TEXT', text, timestamp: 1, raw: '{}', client_id: '${key}' + text })
       const entry = { session: 's', bot_id: 'b', user: 'u', mode: 'fail', key: '${key}', content: 'c',
         parts: [{ kind: 'text' }, { kind: 'text' }] }
       const call = await store.outbox.enqueue(entry, ${rules})
       const begin = async nth => (await store.outbox.begin([call.entry.parts[nth].id], 'b', ${rules}, message(String(nth)))).begun
       ${more}
       console.log('ready')
       await hold()`,
      'SIGKILL',
    )
  await dies('nothing', '')
  expect(await t.store.outbox.findByKey('nothing')).toBeUndefined()
  await dies('refused', `await store.outbox.settle(await begin(0), { status: 'refused', spent: true })`)
  expect(await t.store.outbox.findByKey('refused')).toBeUndefined()
  await dies(
    'half',
    `await store.outbox.settle(await begin(0), { status: 'accepted', spent: true, message_id: '5' }); await begin(1)`,
  )
  expect(await t.store.outbox.findByKey('half')).toMatchObject({
    ended: true,
    content: 'c',
    parts: [{ status: 'accepted', message_id: '5' }, { status: 'unknown' }],
  })
  await dies('first', 'await begin(0)')
  expect(await t.store.outbox.findByKey('first')).toMatchObject({
    parts: [{ status: 'unknown' }, { status: 'refused', error: { code: 'shutting_down' } }],
  })
})

it('a token counts no more once an older version of svc, which knows none here, has stored a later message', async t => {
  const { state } = t.storage
  const { token, bot_id: botId } = bot('b')
  await state.sessions.save('s', bot('b'))
  const said = message('hi', { from_user: 'u', written_at: 1000, contextToken: 'first' })
  const batch = { session: 's', token, cursorFrom: '', cursorTo: 'c1' }
  const messages = [{ ...said, repeated: { received_at: 1000 } }]
  await t.storage.ingest({ ...batch, id: '1', botId, messages, now: 1000 })
  expect(await state.contexts.find('s', 'u')).toMatchObject({ token: 'first' })
  const db = await openDatabase(t.path)
  db.exec('UPDATE outbox_lane SET received_at = 2000, used = 0')
  db.close()
  const inbound = [{ user_id: 'u', token: 'second', received_at: 2000 }]
  await (state as typeof state & FileState).commitBatch({
    ...batch,
    cursorFrom: 'c1',
    cursorTo: 'c2',
    inbound,
    now: 2000,
  })
  expect(await state.contexts.find('s', 'u')).toMatchObject({ token: 'second' })
  expect((await sending(t.store, 's', botId, outgoing('x'))).token).toBe('second')
})

it('a process killed as it takes in what comes late of a former bot leaves no token of that one', async t => {
  const { state } = t.storage
  await state.sessions.save('s', bot('b'))
  await state.sessions.save('s', bot('other'))
  // The lock is never free for what follows the messages.
  await using lock = {
    lock: await openLock(join(t.dir, '.data.lock')),
    [Symbol.asyncDispose]: () => lock.lock.close(),
  }
  await lock.lock.run(async () => {
    const said = message('hi', { from_user: 'u', written_at: 1000, contextToken: 'old' })
    const batch = {
      id: '1',
      session: 's',
      token: bot('b').token,
      botId: 'b@im.bot',
      cursorFrom: '',
      cursorTo: 'c',
    }
    const late = { ...batch, messages: [{ ...said, repeated: { received_at: 1000 } }], now: 1000 }
    const other = startOnDirectory(
      t.dir,
      `storage.ingest(${JSON.stringify(late)}).catch(() => {})
       await store.log.wait(0, 10_000, new AbortController().signal)
       console.log('stored')
       await hold()`,
    )
    await other.stdout.getReader().read()
    other.kill('SIGKILL')
    await other.exited
  })
  expect(await t.store.log.getHead()).toBe(1)
  expect(await state.contexts.find('s', 'u')).toBeUndefined()
  expect((await sending(t.store, 's', 'other@im.bot', outgoing('x'))).token).toBeUndefined()
})

test('a plain send takes eleven statements, one that waits, begins and waits again twenty', async () => {
  using count = countStatements()
  await using t = await openSqlite()
  const { outbox } = t.store
  await outbox.enqueue({ ...call('fail'), user: 'another' }, open)
  const statementsOf = async (work: () => Promise<unknown>) => {
    count.statements = 0
    await work()
    return count.statements
  }
  // The lane is there.
  await sending(t.store, 's', 'b', outgoing('before'))
  expect(
    await statementsOf(async () => {
      const begun = await sending(t.store, 's', 'b', outgoing('plain'))
      await outbox.settle(begun, { status: 'accepted', spent: true, message_id: '1' })
    }),
  ).toBe(11)
  expect(
    await statementsOf(async () => {
      const queued = await outbox.enqueue(call('queue'), open)
      if (queued.state !== 'new') throw new Error(queued.state)
      const result = await outbox.begin([queued.entry.id * 1000], 'b', open, outgoing('again'))
      if (result.go !== 'begun') throw new Error(result.go)
      await outbox.settle(result.begun, { status: 'queued', spent: true })
    }),
  ).toBe(20)
})

const call = (mode: 'fail' | 'queue') => ({
  session: 's',
  bot_id: 'b',
  user: 'u',
  mode,
  made_by: 'owner',
  parts: [mode === 'queue' ? part('waits') : { kind: 'text' as const }],
})
