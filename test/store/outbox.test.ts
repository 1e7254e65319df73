import { expect, test } from 'bun:test'
import type { NewPart, OutboxPart, Store } from '../../src/store/store.ts'
import { inOtherProcess, message, openStore, startOther } from './support.ts'

let count = 0
const part = (text: string): NewPart => {
  count += 1
  const raw = JSON.stringify({ to_user_id: 'u', item_list: [{ type: 1, text_item: { text } }] })
  return {
    kind: 'text',
    message: { client_id: `c${count}`, to_user: 'u', msg_type: 'TEXT', text, timestamp: count, raw },
  }
}
const file = (name: string): NewPart => ({
  ...part(''),
  kind: 'file',
  file: { name, file_name: 'a.txt', size: 3, md5: 'ab' },
})
const add = (store: Store, parts: NewPart[], more: { session?: string; user?: string; key?: string } = {}) =>
  store.enqueue(
    { session: more.session ?? 's', bot_id: 'b', user: more.user ?? 'u', lifeMs: 1000, parts },
    more.key,
  )
const lanes = (store: Store) => store.outbox(outbox => outbox.lanes.list())
const lane = (store: Store) => lanes(store)[0]!.id
const next = (store: Store) => store.outbox(outbox => outbox.next(lane(store)))
const outgoing = (text: string) => ({
  ...{ client_id: `out${++count}`, to_user: 'u', msg_type: 'TEXT' as const, text, timestamp: 99, raw: '{}' },
})
const begin = (store: Store, parts: OutboxPart[], text: string) =>
  store.outbox(outbox => outbox.begin(lane(store), parts, 'b', outgoing(text)))
const rows = (store: Store) => store.after(0, { limit: 99 }).map(({ text, status }) => [text, status])

test('parts wait in order, in the log too, per user and session', async () => {
  await using t = await openStore()
  const { id, messages } = add(t.store, [part('a'), part('b')])
  add(t.store, [part('c')])
  add(t.store, [part('other')], { user: 'v' })
  add(t.store, [part('third')], { session: 'S2' })
  await t.reopen()
  expect(next(t.store).map(({ text }) => text)).toEqual(['a', 'b', 'c'])
  expect(lanes(t.store).map(({ session, user }) => [session, user])).toEqual([
    ['s', 'u'],
    ['s', 'v'],
    ['S2', 'u'],
  ])
  expect(t.store.after(0, { limit: 2 }).map(row => row.id)).toEqual(messages)
  expect(rows(t.store)[0]).toEqual(['a', 'queued'])
  const list = (filter = {}) => t.store.outbox(outbox => outbox.list(filter))
  expect(list().map(entry => entry.parts.length)).toEqual([2, 1, 1, 1])
  expect(list()[0]).toMatchObject({ id, session: 's', to_user: 'u' })
  expect(list({ user_id: 'v' }).length).toBe(1)
  expect(list({ session: 's2' }).length).toBe(1)
  expect(list({ session: 'nobody' })).toEqual([])
  t.store.renameSession('s', 'new')
  expect(list({ session: 'new' }).length).toBe(3)
  expect(t.store.outbox(outbox => [outbox.lanes.waits('NEW', 'u'), outbox.lanes.waits('s', 'u')])).toEqual([
    true,
    false,
  ])
})

test('any text comes out as it went in', async () => {
  await using t = await openStore()
  const text = 'nul \0, lone \ud800, 👋🏽, \r\n'
  add(t.store, [part(text)])
  await t.reopen()
  expect(next(t.store)[0]!.text).toBe(text)
})

test('a lane is worked on by one process at a time, and freed when that one is killed', async () => {
  await using t = await openStore()
  t.clock.at = Date.now()
  add(t.store, [part('a')])
  const id = lane(t.store)
  const claim = () => t.store.outbox(outbox => outbox.lanes.claim(id))
  const other = startOther(
    t.path,
    `const store = await open()
     console.log(store.outbox(outbox => outbox.lanes.claim(${id})))
     await hold()`,
  )
  const reader = other.stdout.getReader()
  expect(new TextDecoder().decode((await reader.read()).value)).toContain('true')
  expect(claim()).toBe(false)
  expect(begin(t.store, next(t.store), 'a')).toBe(false)
  expect(rows(t.store)).toEqual([['a', 'queued']])
  other.kill('SIGKILL')
  await other.exited
  expect(claim()).toBe(true)
  expect(claim()).toBe(true)
})

test('of many processes that want a lane at once one gets it', async () => {
  await using t = await openStore()
  add(t.store, [part('a')])
  const body = `const store = await open()
    console.log(store.outbox(outbox => outbox.lanes.claim(${lane(t.store)})))
    process.stdin.resume()`
  const others = Array.from({ length: 4 }, () => startOther(t.path, body))
  const said = await Promise.all(
    others.map(async other => new TextDecoder().decode((await other.stdout.getReader().read()).value).trim()),
  )
  for (const other of others) other.kill('SIGKILL')
  expect(said.sort()).toEqual(['false', 'false', 'false', 'true'])
})

test('a lease lapses, also when the clock was set back', async () => {
  await using t = await openStore()
  add(t.store, [part('a')])
  const id = lane(t.store)
  await using second = await openSecond(t.path, t.clock)
  expect(t.store.outbox(outbox => outbox.lanes.claim(id))).toBe(true)
  expect(second.store.outbox(outbox => outbox.lanes.claim(id))).toBe(false)
  t.clock.at += 60_001
  expect(second.store.outbox(outbox => outbox.lanes.claim(id))).toBe(true)
  // The first one wakes up: nothing is its to send any more.
  expect(begin(t.store, next(t.store), 'a')).toBe(false)
  t.clock.at -= 600_000
  expect(t.store.outbox(outbox => outbox.lanes.claim(id))).toBe(true)
})

test('joined parts: the first row shows what went out, the others name it; search and ids follow', async () => {
  await using t = await openStore()
  add(t.store, [part('alpha'), part('beta')])
  t.store.outbox(outbox => outbox.lanes.claim(lane(t.store)))
  const parts = next(t.store)
  expect(begin(t.store, parts, 'alpha\n\nbeta')).toBe(true)
  expect(rows(t.store)).toEqual([
    ['alpha\n\nbeta', 'sending'],
    ['beta', 'sending'],
  ])
  t.store.outbox(outbox => outbox.settle(parts, { status: 'accepted', messageId: '77' }))
  expect(t.store.byMessageId('77')).toMatchObject({ text: 'alpha\n\nbeta', status: 'accepted' })
  expect(t.store.after(1, { limit: 1 })[0]).toMatchObject({ status: 'accepted', sent_with: '77' })
  const find = async (text_contains: string) =>
    (await t.store.history({ text_contains, limit: 9, offset: 0 })).rows.map(row => row.id)
  expect(await find('alpha')).toEqual([1])
  expect(await find('beta')).toEqual([2, 1])
  expect(lanes(t.store)).toEqual([])
})

test('what did not go out keeps its place and its own text', async () => {
  await using t = await openStore()
  add(t.store, [part('alpha'), part('beta')])
  t.store.outbox(outbox => outbox.lanes.claim(lane(t.store)))
  const parts = next(t.store)
  begin(t.store, parts, 'alpha\n\nbeta')
  t.store.outbox(outbox => outbox.requeue(parts, 'b', 'u', true))
  expect(rows(t.store)).toEqual([
    ['alpha', 'queued'],
    ['beta', 'queued'],
  ])
  expect(next(t.store).map(({ text, tries }) => [text, tries])).toEqual([
    ['alpha', 1],
    ['beta', 1],
  ])
  expect(t.store.settleAbandoned(Number.MAX_SAFE_INTEGER)).toBe(0)
  const found = await t.store.history({ text_contains: 'alpha\n', limit: 9, offset: 0 })
  expect(found.rows).toEqual([])
})

test('a process killed in the middle: that message is unknown at once, the rest waits', async () => {
  await using t = await openStore()
  const { id } = add(t.store, [part('a'), file('x'), part('c')])
  await inOtherProcess(
    t.path,
    `const store = await open()
     store.outbox(outbox => {
       outbox.lanes.claim(${lane(t.store)})
       outbox.begin(${lane(t.store)}, outbox.next(${lane(t.store)}).slice(0, 1), 'b',
         { client_id: 'z', to_user: 'u', msg_type: 'TEXT', text: 'a', timestamp: 1, raw: '{}' })
     })
     console.log('ready')
     await hold()`,
    'SIGKILL',
  )
  expect(rows(t.store).map(([, status]) => status)).toEqual(['sending', 'queued', 'queued'])
  expect(t.store.settleAbandoned(0)).toBe(1)
  expect(t.store.settleAbandoned(0)).toBe(0)
  expect(rows(t.store).map(([, status]) => status)).toEqual(['unknown', 'queued', 'queued'])
  expect(t.store.after(0, { limit: 1 })[0]!.reason).toContain('stopped')
  expect(next(t.store)).toHaveLength(2)
  expect(t.store.outbox(outbox => outbox.list())[0]!.parts.map(({ status }) => status)).toEqual([
    'unknown',
    'queued',
    'queued',
  ])
  expect(t.store.outbox(outbox => outbox.lanes.claim(lane(t.store)))).toBe(true)
  expect(t.store.outbox(outbox => outbox.cancel(id, 'why'))).toMatchObject({
    cancelled: 2,
    files: [{ name: 'x' }],
  })
})

test('a plain send of a killed process is unknown at once; of a living one it is left alone', async () => {
  await using t = await openStore()
  const sent = { to_user: 'u', msg_type: 'TEXT', text: 'x', timestamp: 1, raw: '{}' } as const
  t.store.insertSent('s', 'b', { ...sent, client_id: 'mine' })
  await inOtherProcess(
    t.path,
    `const store = await open()
     store.insertSent('s', 'b', { to_user: 'u', msg_type: 'TEXT', text: 'x', timestamp: 1, raw: '{}', client_id: 'theirs' })
     console.log('ready')
     await hold()`,
    'SIGKILL',
  )
  expect(t.store.settleAbandoned(0)).toBe(1)
  expect(t.store.byMessageId('local:mine')?.status).toBe('sending')
  expect(t.store.byMessageId('local:theirs')?.status).toBe('unknown')
})

test('expired, cancelled and settled parts free their files and their lane', async () => {
  await using t = await openStore()
  const first = add(t.store, [file('x')])
  t.clock.at += 500
  add(t.store, [file('y')])
  expect(t.store.outbox(outbox => [...outbox.files()])).toEqual(['x', 'y'])
  t.clock.at += 500
  expect(t.store.outbox(outbox => outbox.expire('late'))).toEqual([
    { entry: first.id, user: 'u', messages: 1, files: [expect.objectContaining({ name: 'x' })] },
  ])
  expect(t.store.outbox(outbox => outbox.expire('late'))).toEqual([])
  expect(t.store.after(0, { limit: 9 }).map(({ status, reason }) => [status, reason])).toEqual([
    ['refused', 'late'],
    ['queued', undefined],
  ])
  expect(t.store.outbox(outbox => outbox.cancel(first.id, 'x'))).toBeUndefined()
  const [second] = t.store.outbox(outbox => outbox.list())
  t.store.outbox(outbox => outbox.cancel(second!.id, 'cancelled'))
  expect(t.store.outbox(outbox => [...outbox.files()])).toEqual([])
  expect(lanes(t.store)).toEqual([])
})

test('a thousand messages may wait for a user, not more; then nothing of the send is kept', async () => {
  await using t = await openStore()
  for (let i = 0; i < 50; i++)
    add(
      t.store,
      Array.from({ length: 20 }, () => part('x')),
    )
  expect(() => add(t.store, [part('y'), part('z')])).toThrow('1000 messages wait')
  expect(t.store.lastId()).toBe(1000)
  add(t.store, [part('y')], { user: 'v' })
})

test('retention warns of what waits, and it goes out all the same', async () => {
  await using t = await openStore({ maxCount: 2 })
  add(t.store, [part('waits'), part('too')])
  t.store.insertReceived(
    's',
    'b',
    ['1', '2', '3'].map(text => message(text)),
  )
  await t.store.prune()
  expect(t.lines.join('')).toContain('retention removes unsent messages')
  expect(rows(t.store).map(([text]) => text)).toEqual(['2', '3'])
  t.store.outbox(outbox => outbox.lanes.claim(lane(t.store)))
  const parts = next(t.store)
  expect(parts.map(({ text }) => text)).toEqual(['waits', 'too'])
  expect(begin(t.store, parts, 'waits\n\ntoo')).toBe(true)
  t.store.outbox(outbox => outbox.settle(parts, { status: 'accepted', messageId: '9' }))
  expect(t.store.byMessageId('9')).toMatchObject({ status: 'accepted', text: 'waits\n\ntoo' })
  expect(lanes(t.store)).toEqual([])
})

test('a key: ours, then answered; other content is another matter; a day later it is free', async () => {
  await using t = await openStore()
  const call = (content: string) => t.store.keys(keys => keys.begin('k', content))
  expect(call('a')).toEqual({ state: 'ours' })
  t.store.keys(keys => keys.end('k', { success: true }))
  expect(call('a')).toEqual({ state: 'ended', result: { success: true } })
  expect(call('b')).toEqual({ state: 'other' })
  t.clock.at += 24 * 60 * 60_000
  expect(call('b')).toEqual({ state: 'ours' })
  t.store.keys(keys => keys.forget('k'))
  expect(call('a')).toEqual({ state: 'ours' })
  t.clock.at += 24 * 60 * 60_000
  await t.store.prune()
  expect(t.store.keys(keys => keys.begin('k', 'z'))).toEqual({ state: 'ours' })
})

test('a key of a killed process: free when nothing was handed over, else the log tells', async () => {
  await using t = await openStore()
  t.clock.at = Date.now()
  const dies = (key: string, more: string) =>
    inOtherProcess(
      t.path,
      `const store = await open()
       store.keys(keys => { keys.begin('${key}', 'c'); keys.plan('${key}', { n: 1 }) })
       const send = text => store.insertSent('s', 'b',
         { to_user: 'u', msg_type: 'TEXT', text, timestamp: 1, raw: '{}', client_id: '${key}' + text }, '${key}')
       ${more}
       console.log('ready')
       await hold()`,
      'SIGKILL',
    )
  const call = (key: string) => t.store.keys(keys => keys.begin(key, 'c'))
  await dies('nothing', '')
  expect(call('nothing')).toEqual({ state: 'ours' })
  await dies('refused', `store.settleSent(send('a'), 'refused')`)
  expect(call('refused')).toEqual({ state: 'ours' })
  await dies('half', `store.settleSent(send('a'), 'accepted', '5'); send('b')`)
  expect(call('half')).toEqual({
    state: 'died',
    plan: { n: 1 },
    messages: [{ status: 'accepted', message_id: '5' }, { status: 'unknown' }],
  })
  expect(t.store.keys(keys => keys.begin('half', 'other'))).toEqual({ state: 'other' })
})

test('a key of a living process is running, and freeing it needs certainty', async () => {
  await using t = await openStore()
  await using second = await openSecond(t.path, t.clock)
  t.store.keys(keys => keys.begin('k', 'c'))
  expect(second.store.keys(keys => keys.begin('k', 'c'))).toEqual({ state: 'running' })
  const sent = { to_user: 'u', msg_type: 'TEXT', text: 'x', timestamp: 1, raw: '{}' } as const
  t.store.insertSent('s', 'b', { ...sent, client_id: 'c' }, 'k')
  t.store.keys(keys => keys.forget('k'))
  expect(t.store.keys(keys => keys.begin('k', 'c'))).toMatchObject({ state: 'died' })
})

/** The same file a second time, as another process has it, with the same clock. */
async function openSecond(path: string, clock: Awaited<ReturnType<typeof openStore>>['clock']) {
  const { Store: Opened } = await import('../../src/store/store.ts')
  const { silentLog } = await import('../../src/platform/log.ts')
  const store = await Opened.open({ path, clock, log: silentLog, maxAgeDays: 0, maxCount: 0 })
  return { store, [Symbol.asyncDispose]: async () => store.close() }
}
