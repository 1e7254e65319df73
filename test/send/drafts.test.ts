/** Sends of keys that may only draft: another person has to say yes. And what becomes of sends of ended keys. */
import { describe, expect, test } from 'bun:test'
import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Grant, presets } from '../../src/model/access.ts'
import { owner, type Principal, panel, stdio } from '../../src/model/principal.ts'
import { approveOutbox } from '../../src/operations/outbox.ts'
import { send as sendTool } from '../../src/operations/send.ts'
import { failure, fieldsOf } from '../support/failure.ts'
import type { TestGateway } from '../support/gateway.ts'
import { given } from '../support/given.ts'
import { withMcpPair } from '../support/mcp-pair.ts'
import { withTalk } from '../support/talk.ts'
import { hourMs, makers, pass, seen, sent, write } from '../support/waiting.ts'

const it = given(withTalk)

const file = { kind: 'file' as const, data: Buffer.from('the file').toString('base64'), file_name: 'a.txt' }

/** A caller with a key. */
const caller = (grant: Partial<Grant>, more: Partial<Principal> = {}): Principal => ({
  ...{ kind: 'key', id: 'aaaaaaaa', name: 'bot', grant: { rights: [], ...grant } },
  ...more,
})
const drafter = caller({ rights: presets.draft })
const approver = caller({ rights: ['approve', 'outbox'] }, { id: 'bbbbbbbb' })

const reasons = async (t: TestGateway) =>
  (await sent(t)).map(({ text, status, reason_code }) => [text, status, reason_code])
const asPanel = (by: Principal): Principal => ({ ...by, kind: 'panel' })

describe('a key that may only draft', () => {
  it('sends nothing by itself, whatever the call says; history and events show what waits', async t => {
    const head = await t.gateway.events.getHead()
    const requests = [
      { text: 'one' },
      { text: 'two', when_closed: 'queue' as const, idempotency_key: 'k' },
      { text: 'three', media: [file], typing: true },
    ]
    const results = []
    for (const request of requests) results.push(await t.send(request, { by: drafter }))
    results.push(await t.send({ text: 'four' }, { by: asPanel(drafter) }))
    for (const result of results)
      expect(result).toMatchObject({
        ...{ success: false, status: 'queued', waits_for: 'approval', hint: expect.any(String) },
        outbox_id: expect.any(String),
      })
    const waiting = (text: string) => [text, 'queued', 'approval']
    const texts = ['one', 'two', 'three', '', 'four']
    expect(await reasons(t)).toEqual(texts.map(waiting))
    const { events } = await t.gateway.events.readPage(head, { types: ['message.status'], limit: 20 })
    expect(events.map(({ event: { data } }) => (data as { reason_code?: string }).reason_code)).toEqual(
      texts.map(() => 'approval'),
    )
    await write(t)
    await t.send({ text: 'of the owner' })
    expect(await seen(t)).toEqual(['of the owner'])
    expect((await makers(t)).map(made => made.made_by)).toEqual([
      ...['key:aaaaaaaa', 'key:aaaaaaaa', 'key:aaaaaaaa', 'panel:aaaaaaaa'],
    ])
    // A repeated call gets the answer of the first.
    expect(await t.send(requests[1]!, { by: drafter })).toMatchObject({ outbox_id: results[1]!.outbox_id })
  })

  it('may not type, since that cannot wait', async t => {
    expect(await failure(t.send({ typing: true }, { by: drafter }))).toMatchObject({ code: 'forbidden' })
    expect(t.requests('sendtyping')).toBe(0)
  })

  test('needs a store in which a message can wait', async () => {
    await using t = await withTalk({ store: false })
    expect(await failure(t.send({ text: 'x' }, { by: drafter }))).toMatchObject({ code: 'forbidden' })
    expect(await seen(t)).toEqual([])
  })

  it('is one without the right and the tool to send; others send', async t => {
    for (const by of [caller({ rights: presets.reply }), caller({ tools: ['send'] }), owner, stdio])
      expect(await t.send({ text: 'go' }, { by })).toMatchObject({ status: 'accepted' })
    const both = caller({ rights: ['draft', 'send'] })
    expect(await t.send({ text: 'go' }, { by: both })).toMatchObject({ status: 'accepted' })
  })

  test('is not asked over MCP in place of the person who approves', async () => {
    await using pair = await withMcpPair({ context: { by: drafter, confirmSend: true, tools: [sendTool] } })
    const { client, t } = pair
    await write(t)
    const to = t.bots.get('default')!.user_id
    const { structuredContent } = await client.callTool({ name: 'send', arguments: { to, text: 'draft' } })
    expect(structuredContent).toMatchObject({ status: 'queued', waits_for: 'approval' })
    expect(structuredContent).not.toHaveProperty('answer')
    expect(await reasons(t)).toEqual([['draft', 'queued', 'approval']])
  })
})

describe('a yes', () => {
  it('is never of the key that made the send, by whatever way it signed in', async t => {
    const { outbox } = t.gateway
    const own = { ...drafter, grant: { rights: ['draft', 'approve', 'outbox'] } } satisfies Principal
    const drafts = []
    for (const by of [drafter, asPanel(drafter)]) drafts.push(await t.send({ text: by.kind }, { by }))
    for (const { outbox_id = '' } of drafts) {
      for (const by of [own, asPanel(own)])
        expect(await failure(outbox.approve(by, outbox_id))).toMatchObject({ code: 'forbidden' })
      expect(await outbox.get(owner, outbox_id)).toMatchObject({ waits_for: 'approval' })
    }
    expect(await seen(t)).toEqual([])
    expect(await outbox.approve(approver, drafts[0]!.outbox_id!)).toMatchObject({ ended: true })
    expect(await outbox.approve(asPanel(approver), drafts[1]!.outbox_id!)).toMatchObject({
      ended: true,
    })
    expect(await seen(t)).toEqual(['key', 'panel'])
    expect((await makers(t)).map(made => made.approved_by)).toEqual(['key:bbbbbbbb', 'panel:bbbbbbbb'])
  })

  it('is never of the key whose webhook made the send', async t => {
    const { keys, outbox, webhooks } = t.gateway
    const { key } = await keys.add({ name: 'bot', can: ['draft'] }, owner)
    const by = (await keys.authenticate(key))!
    const url = 'http://127.0.0.1:9/'
    const { id } = await webhooks.add(by, { url, allow_private: true, replies: true })
    const reply = { kind: 'webhook', id, grant: by.grant! } as const
    const { outbox_id = '' } = await t.send({ text: 'reply' }, { by: reply })
    const own = { ...by, grant: { rights: ['approve'] } } satisfies Principal
    expect(await failure(outbox.approve(own, outbox_id))).toMatchObject({ code: 'forbidden' })
    expect(await outbox.approve(approver, outbox_id)).toMatchObject({ ended: true })
  })

  it('of the owner counts for all, also for what an agent of the owner asked', async t => {
    const { outbox } = t.gateway
    const ids = []
    for (const [by, more] of [
      [drafter, {}],
      [stdio, { approval: 'nobody' }],
      [owner, { approval: 'nobody' }],
    ] as const)
      ids.push((await t.send({ text: by.kind, ...more }, { by })).outbox_id!)
    for (const [nth, by] of [owner, panel, owner].entries())
      expect(await outbox.approve(by, ids[nth]!)).toMatchObject({ ended: true })
    expect(await seen(t)).toEqual(['key', 'stdio', 'owner'])
  })

  it('may bring another text, which is what the user gets and history shows', async t => {
    const request = { text: 'helo', media: [file], idempotency_key: 'k' }
    const { outbox_id = '' } = await t.send(request, { by: drafter })
    const edited = await t.gateway.outbox.approve(panel, outbox_id, 'Hello \ud800!')
    expect(edited).toMatchObject({ ended: true })
    expect(await seen(t)).toEqual(['Hello \ufffd!', 'file'])
    expect((await reasons(t))[0]).toEqual(['Hello \ufffd!', 'accepted', undefined])
    // The call is still the same one for its key.
    expect(await t.send(request, { by: drafter })).toMatchObject({ status: 'accepted', repeated: true })
    const other = await failure(t.send({ ...request, text: 'Hello \ufffd!' }, { by: drafter }))
    expect(other).toMatchObject({ code: 'idempotency_conflict' })
  })

  it('with a text that cannot be: nothing is sent, and the send waits on', async t => {
    const { outbox } = t.gateway
    const long = 'x'.repeat(16 * 1024 + 1)
    const [one, two, media] = [
      await t.send({ text: 'one' }, { by: drafter }),
      await t.send({ text: long }, { by: drafter }),
      await t.send({ media: [file] }, { by: drafter }),
    ].map(({ outbox_id }) => outbox_id!)
    for (const [id, text] of [
      [one, ''],
      [one, ' \u200b'],
      [two, 'short'],
      [media, 'a caption'],
    ] as const)
      expect(fieldsOf(await failure(outbox.approve(panel, id!, text)))).toEqual(['text'])
    expect(await failure(outbox.approve(panel, one!, long))).toMatchObject({ code: 'text_too_long' })
    expect((await outbox.list(owner)).map(({ waits_for }) => waits_for)).toEqual(Array(3).fill('approval'))
    expect((await sent(t))[0]?.text).toBe('one')
    expect(await seen(t)).toEqual([])
    expect(await outbox.approve(panel, one!, long.slice(1))).toMatchObject({ ended: true })
    expect(await failure(outbox.approve(panel, one!, 'once more'))).toMatchObject({ code: 'not_found' })
  })

  it('with another text by the operation, as every door calls it', async t => {
    const { outbox_id: id = '' } = await t.send({ text: 'one' }, { by: drafter })
    const input = approveOutbox.parse({ id, text: 'two' })
    await approveOutbox.run(t.gateway, input as { id: string; text: string }, {
      ...{ by: panel, local: false, signal: new AbortController().signal, onDelivered() {} },
    })
    expect(await seen(t)).toEqual(['two'])
  })
})

it('a queued send of a key follows its account to a new name, and does not go from another account', async t => {
  const by = caller({ rights: presets.reply })
  await pass(t, 25 * hourMs)
  const to = t.bots.get('default')!.user_id
  await t.send({ text: 'first', when_closed: 'queue' }, { by })
  await t.gateway.accounts.rename('default', 'work')
  await t.sandbox.say('hi')
  await t.soon('it went', async () => (await seen(t)).length === 1)
  await pass(t, 25 * hourMs)
  await t.send({ text: 'second', when_closed: 'queue' }, { by })
  await t.send({ text: 'of the owner', when_closed: 'queue' })
  await t.gateway.accounts.logout('work')
  // Another account, to which the same person writes.
  const second = await t.connect('work', await t.sandbox.addUser('second'))
  await t.sandbox.say('hi', { to: second.bot_id, from: to })
  await t.soon('the owner’s went', async () => (await seen(t)).length === 2)
  expect(await seen(t)).toEqual(['first', 'of the owner'])
  expect(await t.gateway.outbox.list(owner)).toMatchObject([
    { session: 'work', waits_for: 'approval', parts: [{ text: 'second' }] },
  ])
})

describe('a key that ends', () => {
  const add = (t: TestGateway, more: object = {}) =>
    t.gateway.keys.add({ name: 'bot', can: ['reply'], ...more }, owner)
  const principal = async (t: TestGateway, key: string) => (await t.gateway.keys.authenticate(key))!

  it('leaves its queued sends to a person: they do not go when the user writes', async t => {
    const { key, id } = await add(t)
    const by = await principal(t, key)
    await pass(t, 25 * hourMs)
    for (const text of ['a', 'b']) await t.send({ text, when_closed: 'queue' }, { by })
    await t.send({ text: 'of the owner', when_closed: 'queue' })
    expect((await t.gateway.keys.revoke('bot', owner)).revoked).toEqual([id])
    await write(t)
    await t.soon('the owner’s went', async () => (await t.gateway.outbox.list(owner)).length === 2)
    expect(await seen(t)).toEqual(['of the owner'])
    const [first] = await t.gateway.outbox.list(owner)
    expect(first).toMatchObject({ waits_for: 'approval' })
    await t.gateway.outbox.approve(panel, first!.outbox_id)
    expect(await seen(t)).toEqual(['of the owner', 'a'])
    expect((await reasons(t))[1]).toEqual(['b', 'queued', 'approval'])
  })

  it('by its time ends as one that is revoked, without a call, and shows that it expired', async t => {
    const { key, id } = await add(t, { expires_at: t.clock.now() + 30 * hourMs })
    const by = await principal(t, key)
    await pass(t, 25 * hourMs)
    await t.send({ text: 'a', when_closed: 'queue' }, { by })
    await pass(t, 6 * hourMs)
    await t.soon('it waits for a person', async () => {
      const [entry] = await t.gateway.outbox.list(owner)
      return entry?.waits_for === 'approval'
    })
    const shown = await t.gateway.keys.get(id, owner)
    expect([shown.status, shown.revoked_at]).toEqual(['expired', undefined])
    expect(await t.gateway.keys.authenticate(key)).toBeUndefined()
    // Its name is free.
    expect((await add(t)).status).toBe('active')
  })

  it('takes its uploads with it, and nobody else’s', async t => {
    const { id } = await add(t)
    await add(t, { name: 'other' })
    const folder = join(t.mediaRoot, 'uploads')
    await mkdir(folder, { recursive: true })
    const others = [undefined, (await t.gateway.keys.get('other', owner)).id]
    const names = []
    for (const by of [id, ...others]) {
      const name = crypto.randomUUID()
      names.push(name)
      await writeFile(join(folder, name), 'x')
      const note = { file_name: 'x', size: 1, md5: 'm', expires_at: t.clock.now() + 20 * hourMs, by }
      await writeFile(join(folder, `${name}.json`), JSON.stringify(note))
    }
    await t.gateway.keys.revoke(id, owner)
    const left = names.slice(1).flatMap(name => [name, `${name}.json`])
    await t.until('they are gone', async () => (await readdir(folder)).length <= 4)
    expect((await readdir(folder)).toSorted()).toEqual(left.toSorted())
  })
})
