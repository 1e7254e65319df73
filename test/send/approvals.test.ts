/** Sends that a person has to say yes to first. */
import { Database } from 'bun:sqlite'
import { describe, expect, test } from 'bun:test'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { readStatus } from '../../src/inspect/status-report.ts'
import { type Message, OutboxEntry, SendResult } from '../../src/model/message.ts'
import { owner, panel, stdio } from '../../src/model/principal.ts'
import { problemsOf } from '../../src/operations/parse.ts'
import { failure } from '../support/failure.ts'
import { type TestGateway, withGateway } from '../support/gateway.ts'
import { given } from '../support/given.ts'
import { withTalk } from '../support/talk.ts'
import { keptFiles, makers, pass, seen, write } from '../support/waiting.ts'

const it = given(withTalk)

const hourMs = 60 * 60_000
const approval = 'nobody' as const
const file = { kind: 'file' as const, data: Buffer.from('the file').toString('base64'), file_name: 'a.txt' }

const states = async (t: TestGateway) => {
  const page = await t.gateway.history.page({ direction: 'sent', limit: 200, offset: 0 })
  return page.messages.reverse().map(({ text, status, reason_code }) => [text, status, reason_code])
}
/** A second process on the same directory. */
const beside = (t: TestGateway) =>
  withGateway({ sandbox: t.sandbox, dir: t.dir, sessions: [], clock: t.clock })

describe('a yes', () => {
  it('sends what waited, in the ordinary way, once; before it nothing goes and nobody is held up', async t => {
    const key = { idempotency_key: 'asked' }
    const asked = await t.send({ text: 'may I?', media: [file], approval, ...key })
    expect(asked).toMatchObject({ success: false, status: 'queued', waits_for: 'approval' })
    expect(await readStatus({ basePath: t.dir, version: '0' })).toMatchObject({ approvals: 1 })
    expect([asked.hint, problemsOf(SendResult, asked)]).toEqual([expect.any(String), []])
    const id = asked.outbox_id!
    // Who has the key hears how it stands.
    expect(await t.send({ text: 'may I?', media: [file], approval, ...key })).toMatchObject({ outbox_id: id })
    const [entry] = await t.gateway.outbox.list(owner)
    expect(entry).toMatchObject({
      outbox_id: id,
      waits_for: 'approval',
      parts: [{ text: 'may I?' }, { file_name: 'a.txt', source: 'data' }],
    })
    expect([entry!.expires_at - entry!.created_at, problemsOf(OutboxEntry, entry)]).toEqual([24 * hourMs, []])
    expect(await states(t)).toEqual([
      ['may I?', 'queued', 'approval'],
      ['', 'queued', 'approval'],
    ])
    // No version sends a part that is not queued.
    using db = new Database(join(t.dir, 'messages.db'), { readonly: true })
    expect(db.query('SELECT DISTINCT status FROM outbox_part').all()).toEqual([{ status: 'asked' }])
    // Others of the same user go past it, and the user may write.
    expect(await t.send({ text: 'another', when_closed: 'queue' })).toMatchObject({ status: 'accepted' })
    await write(t)
    await t.send({ text: 'and one more' })
    expect(await seen(t)).toEqual(['another', 'and one more'])
    expect((await t.gateway.outbox.approve(panel, id)).parts.map(({ status }) => status)).toEqual([
      'accepted',
      'accepted',
    ])
    expect(await seen(t)).toEqual(['another', 'and one more', 'may I?', 'file'])
    expect(await readStatus({ basePath: t.dir, version: '0' })).toMatchObject({ approvals: 0 })
    const { outbox } = t.gateway
    for (const verb of ['approve', 'cancel'] as const)
      for (const none of [id, '999'])
        expect(await failure(outbox[verb](panel, none))).toMatchObject({ code: 'not_found' })
    const again = await t.send({ text: 'may I?', media: [file], approval, ...key })
    expect(again).toMatchObject({ status: 'accepted', success: true })
    expect(await t.gateway.outbox.list(owner)).toEqual([])
    expect([(await seen(t)).length, await keptFiles(t)]).toEqual([4, []])
    expect((await t.gateway.outbox.get(owner, id)).ended).toBe(true)
  })

  it('is where it is judged whether it may go: refused and asked again, or queued if that was asked for', async t => {
    const plain = await t.send({ text: 'now', approval })
    const patient = await t.send({ text: 'when you can', approval, when_closed: 'queue' })
    await pass(t, 23 * hourMs)
    for (let used = 0; used < 10; used++) await t.send({ text: `filler ${used}` })
    expect(await failure(t.gateway.outbox.approve(panel, plain.outbox_id!))).toMatchObject({
      code: 'quota_exhausted',
    })
    // Whoever looks on hears of a yes also where it has to wait.
    const told: Message[] = []
    const stop = t.gateway.changes.subscribe({ message: message => void told.push(message) })
    expect(await t.gateway.outbox.approve(panel, patient.outbox_id!)).toMatchObject({ waits_for: 'user' })
    await t.until('it is told', () =>
      told.some(({ text, reason_code }) => text === 'when you can' && !reason_code),
    )
    stop()
    const waiting = await t.gateway.outbox.list(owner)
    expect(waiting.map(({ waits_for }) => waits_for)).toEqual(['approval', 'user'])
    // It is not asked for what may not go already, unless it may wait.
    expect(await failure(t.send({ text: 'in vain', approval }))).toMatchObject({ code: 'quota_exhausted' })
    await write(t)
    await t.until('what may wait goes', async () => (await seen(t)).includes('when you can'))
    expect(await t.gateway.outbox.approve(panel, plain.outbox_id!)).toMatchObject({ ended: true })
    expect((await seen(t)).slice(-2)).toEqual(['when you can', 'now'])
    expect(await t.gateway.outbox.list(owner)).toEqual([])
  })

  it('cannot send from a session that is logged out', async t => {
    const { outbox_id } = await t.send({ text: 'still there?', approval })
    await t.gateway.accounts.logout('default')
    expect(await failure(t.gateway.outbox.approve(panel, outbox_id!))).toMatchObject({
      code: 'not_connected',
    })
    expect(await t.gateway.outbox.list(owner)).toMatchObject([{ outbox_id, waits_for: 'approval' }])
  })

  it('of two processes at once counts once, whoever polls and whoever asked', async t => {
    await using watcher = await beside(t)
    const to = t.bots.get('default')!.user_id
    const path = join(t.mediaRoot, 'in', 'secret.txt')
    await writeFile(path, 'secret')
    const media = [file, { kind: 'file' as const, path, file_name: 'holiday.png' }]
    const { outbox_id } = await watcher.send({ to, text: 'from beside', media, approval })
    const [{ parts }] = (await t.gateway.outbox.list(owner)) as [OutboxEntry]
    expect(parts.map(({ file_name, source }) => [file_name, source])).toEqual([
      [undefined, undefined],
      ['a.txt', 'data'],
      ['holiday.png', path],
    ])
    const { messages } = await t.gateway.history.page({ direction: 'sent', limit: 1, offset: 0 })
    expect(messages[0]?.reason_quote).toBe(path)
    const said = await Promise.allSettled(
      [t, watcher, t, watcher].map(one => one.gateway.outbox.approve(panel, outbox_id!)),
    )
    expect(said.filter(({ status }) => status === 'fulfilled').length).toBe(1)
    await t.until('it is out', async () => (await t.gateway.outbox.get(owner, outbox_id!)).ended)
    expect(await seen(t)).toEqual(['from beside', 'file', 'file'])
  })
})

it('a no: never sent, no file left, and the key says so', async t => {
  const request = { text: 'no?', media: [file], approval, idempotency_key: 'refused' }
  const { outbox_id } = await t.send(request)
  expect(await t.gateway.outbox.cancel(panel, outbox_id!)).toMatchObject({ success: true, cancelled: 2 })
  expect(await failure(t.gateway.outbox.approve(panel, outbox_id!))).toMatchObject({ code: 'not_found' })
  expect(await failure(t.send(request))).toMatchObject({
    ...{ code: 'idempotency_conflict', details: { answer: 'declined' } },
  })
  await write(t)
  await t.send({ text: 'last' })
  expect([await seen(t), await keptFiles(t)]).toEqual([['last'], []])
  expect((await states(t))[0]).toEqual(['no?', 'refused', 'declined'])
  expect((await t.gateway.outbox.get(owner, outbox_id!)).parts.map(({ error }) => error)).toEqual([
    undefined,
    undefined,
  ])
})

it('nobody says yes for a day: refused, its files go; a yes that comes late is too late', async t => {
  const request = { text: 'anybody?', media: [file], approval, idempotency_key: 'alone' }
  const { outbox_id } = await t.send(request)
  await using watcher = await withGateway({
    ...{ sandbox: t.sandbox, dir: t.dir, sessions: [], clock: t.clock, start: false },
  })
  await pass(t, 24 * hourMs)
  expect(await failure(watcher.gateway.outbox.approve(panel, outbox_id!))).toMatchObject({
    code: 'not_found',
  })
  await t.until('given up', async () => (await t.gateway.outbox.get(owner, outbox_id!)).ended)
  expect((await states(t))[0]).toEqual(['anybody?', 'refused', 'forbidden'])
  await t.until('its file is gone', async () => (await keptFiles(t)).length === 0)
  expect(await seen(t)).toEqual([])
  // The day of its key is over too.
  await write(t)
  expect((await t.send(request)).outbox_id).not.toBe(outbox_id)
})

it('the row of a call says who made it, who said yes, and who said no', async t => {
  for (const by of [stdio, owner]) await t.send({ text: by.kind, idempotency_key: by.kind }, { by })
  const [yes, no] = [
    await t.send({ text: 'y', approval }, { by: stdio }),
    await t.send({ text: 'n', approval }),
  ]
  await t.gateway.outbox.approve(panel, yes.outbox_id!)
  await t.gateway.outbox.cancel(panel, no.outbox_id!)
  expect(await makers(t)).toEqual([
    { made_by: 'stdio' },
    { made_by: 'owner' },
    { made_by: 'stdio', approved_by: 'panel' },
    { made_by: 'owner', ended_by: 'panel' },
  ])
})

test('what cannot wait is refused: without a store, and where there is nothing but typing', async () => {
  await using t = await withTalk()
  expect(await failure(t.send({ typing: true, approval }))).toMatchObject({ code: 'forbidden' })
  await using bare = await withTalk({ store: false })
  expect(await failure(bare.send({ text: 'hi', approval }))).toMatchObject({ code: 'forbidden' })
})
