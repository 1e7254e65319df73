/** Exports: which messages they have, what they cost while nobody reads, and how they end. */
import { expect, test } from 'bun:test'
import { createDirectCall } from '../../src/model/call.ts'
import { owner, type Principal } from '../../src/model/principal.ts'
import { exportMessages, type OpenedExport } from '../../src/operations/export.ts'
import { invoke } from '../../src/operations/gate.ts'
import { silentLog } from '../../src/platform/log.ts'
import { failure } from '../support/failure.ts'
import { type TestGateway, withGateway } from '../support/gateway.ts'
import { MemoryGateway } from '../support/memory-gateway.ts'
import { until } from '../support/until.ts'

const openAs = (t: { gateway: TestGateway['gateway'] }, input: object = {}, by: Principal = owner) =>
  invoke(exportMessages, t.gateway, input, createDirectCall({ by }), silentLog)

const textOf = ({ stream }: OpenedExport) => new Response(stream).text()
const linesOf = async (opened: Promise<OpenedExport>) =>
  (await textOf(await opened))
    .split('\n')
    .filter(Boolean)
    .map(line => JSON.parse(line))

/** A gateway with a log of this many messages, which counts the pages that were read. */
function withLog(pages: number) {
  const gateway = new MemoryGateway()
  const seen = { pages: 0, ended: false }
  const walk = async function* (_filter: unknown, signal: AbortSignal) {
    try {
      for (; seen.pages < pages; seen.pages++) {
        signal.throwIfAborted()
        yield [gateway.say('x'.repeat(100_000))]
      }
    } finally {
      seen.ended = true
    }
  }
  Object.assign(gateway.history, { walk })
  const open = (call = createDirectCall()) => invoke(exportMessages, gateway, {}, call, silentLog)
  return { gateway, seen, open }
}

test('a line is a message as history returns it, oldest first', async () => {
  await using t = await withGateway()
  for (const text of ['one', 'two\u202e\u2028', 'three']) await t.sandbox.say(text)
  const [first] = await t.receive(3)
  await t.send({ to: first!.from_user, text: 'an answer' })
  const opened = await openAs(t)
  const text = await textOf(opened)
  const { messages } = await t.gateway.history.page({ limit: 200, offset: 0 })
  expect(
    text
      .split('\n')
      .slice(0, -1)
      .map(line => JSON.parse(line)),
  ).toEqual(messages.toReversed())
  expect(opened).toMatchObject({
    content_type: 'application/x-ndjson',
    file_name: expect.stringMatching(/^svc-\d{4}-\d{2}-\d{2}\.jsonl$/),
  })
  // Nothing in it acts on a terminal.
  expect(text).not.toMatch(/[\u202e\u2028]/)
})

test('user, session, since and until narrow it, by what a key may see', async () => {
  await using t = await withGateway({ sessions: ['work', 'home'] })
  const [work, home] = [t.bots.get('work')!, t.bots.get('home')!]
  const other = await t.sandbox.addUser('other')
  await t.sandbox.say('early', { from: work.user_id, to: work.bot_id })
  await t.receive(1)
  await t.sandbox.advance(60_000)
  await t.sandbox.say('late', { from: work.user_id, to: work.bot_id })
  await t.sandbox.say('of another', { from: other, to: work.bot_id })
  await t.sandbox.say('at home', { from: home.user_id, to: home.bot_id })
  const received = await t.receive(3)
  await t.gateway.users.name({ user_id: work.user_id, session: 'work', name: 'Mum' })
  const textsOf = async (input: object, by?: Principal) =>
    (await linesOf(openAs(t, input, by))).map(({ text }) => text).sort()
  const late = received.find(({ text }) => text === 'late')!.timestamp
  expect(await textsOf({ user: 'Mum' })).toEqual(['early', 'late'])
  expect(await textsOf({ user: work.user_id, session: 'home' })).toEqual([])
  expect(await textsOf({ session: 'HOME' })).toEqual(['at home'])
  expect(await textsOf({ user: 'Mum', since: late })).toEqual(['late'])
  expect(await textsOf({ until: late, session: 'work' })).toEqual(['early'])
  expect(await textsOf({ since: 0, until: 1 })).toEqual([])
  const keyed = (scope: object): Principal => ({
    kind: 'key',
    id: 'k1',
    grant: { rights: ['export'], ...scope },
  })
  expect(await textsOf({}, keyed({ users: [other] }))).toEqual(['of another'])
  expect(await textsOf({}, keyed({ bots: [home.bot_id] }))).toEqual(['at home'])
  expect(await failure(openAs(t, { user: work.user_id }, keyed({ users: [other] })))).toMatchObject({
    code: 'invalid_arguments',
  })
  for (const input of [{ session: 'wrok' }, { user: 'Mom' }, { since: 2, until: 1 }])
    expect(await failure(openAs(t, input))).toMatchObject({
      code: /session/.test(JSON.stringify(input)) ? 'session_not_found' : 'invalid_arguments',
    })
})

test('messages that arrive during an export are not in it', async () => {
  await using t = await withGateway()
  await t.sandbox.say('before')
  await t.receive(1)
  const opened = await openAs(t)
  await t.sandbox.say('after')
  await t.receive(1)
  expect((await textOf(opened)).split('\n')).toHaveLength(2)
})

test('the blank rows of an erased user are in no export', async () => {
  await using t = await withGateway()
  await t.sandbox.say('to be erased')
  const [{ from_user } = { from_user: '' }] = await t.receive(1)
  await t.gateway.people.forget(from_user)
  expect(await linesOf(openAs(t))).toEqual([])
  expect(await textOf(await openAs(t, { format: 'html' }))).toContain('No messages match.')
})

test('a call is in the audit log, with the user and without content', async () => {
  await using t = await withGateway()
  await t.sandbox.say('hello')
  const [{ from_user } = { from_user: '' }] = await t.receive(1)
  await (await openAs(t, { user: from_user })).stream.cancel()
  const [line] = await t.gateway.audit.list({ limit: 1 })
  expect(line).toMatchObject({ operation: 'export', subject: from_user, outcome: 'done' })
})

test('nothing is read ahead of the reader, and nothing after it has left', async () => {
  const { seen, open } = withLog(1000)
  const reader = (await open()).stream.getReader()
  expect(seen.pages).toBe(0)
  await reader.read()
  await reader.read()
  expect(seen.pages).toBeLessThan(4)
  await reader.cancel()
  expect([seen.ended, seen.pages < 4]).toEqual([true, true])
})

test('the work ends with the call it is for', async () => {
  const { seen, open } = withLog(1000)
  const leave = new AbortController()
  const reader = (await open(createDirectCall({ signal: leave.signal }))).stream.getReader()
  await reader.read()
  leave.abort(new Error('left'))
  expect(await failure(reader.read())).toMatchObject({ message: 'left' })
  await until('the log is closed', 5000, () => seen.ended)
})

test('few exports run at a time; a place is free again when one ends or is left', async () => {
  const logs = Array.from({ length: 4 }, () => withLog(3))
  const readers = await Promise.all(logs.map(async ({ open }) => (await open()).stream.getReader()))
  for (const reader of readers) await reader.read()
  const late = withLog(1)
  expect(await failure(late.open())).toMatchObject({ code: 'rate_limited' })
  await readers[0]!.cancel()
  const next = (await late.open()).stream.getReader()
  await next.read()
  expect(await failure(withLog(1).open())).toMatchObject({ code: 'rate_limited' })
  for (const reader of [...readers.slice(1), next])
    while (!(await reader.read()).done) expect(true).toBe(true)
  await (await late.open()).stream.cancel()
})
