import { Database } from 'bun:sqlite'
import { describe, expect, test } from 'bun:test'
import { randomBytes } from 'node:crypto'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { OutboxEntry, type SendResult } from '../../src/model/message.ts'
import { owner, panel } from '../../src/model/principal.ts'
import { problemsOf } from '../../src/operations/parse.ts'
import { codeOf, failure } from '../support/failure.ts'
import { changeIn, pendingIn, rowsIn, type TestGateway, withGateway } from '../support/gateway.ts'
import { given, testOfFiles } from '../support/given.ts'
import {
  dayMs,
  keptFiles,
  nothingWaits,
  pass,
  seen,
  sent,
  states,
  withClosed,
  write,
} from '../support/waiting.ts'

const it = given(withClosed)

const queue = { when_closed: 'queue' } as const
const context = (t: TestGateway) => t.right()

describe('a send at a time', () => {
  it('waits until then, while others are sent, and is sent then; a repeated call gets its result', async t => {
    await write(t)
    const send_at = t.clock.now() + 120_000
    const planned = { text: 'planned', send_at, idempotency_key: 'a' }
    const result = await t.send(planned)
    expect(result).toMatchObject({ status: 'queued', waits_for: 'time', not_before: send_at, remaining: 10 })
    expect(result.hint).toBeUndefined()
    expect(await t.send(planned)).toMatchObject({ outbox_id: result.outbox_id!, repeated: true })
    expect(await codeOf(t.send({ ...planned, send_at: send_at + 1 }))).toBe('idempotency_conflict')
    const [entry] = await t.gateway.outbox.list(owner)
    expect(entry).toMatchObject({ waits_for: 'time', expires_at: send_at + 7 * dayMs })
    expect((await t.send({ text: 'now' })).status).toBe('accepted')
    await pass(t, 60_000)
    expect(await seen(t)).toEqual(['now'])
    await pass(t, 60_000)
    await nothingWaits(t)
    expect(await seen(t)).toEqual(['now', 'planned'])
    expect(await t.send(planned)).toMatchObject({ status: 'accepted', repeated: true })
  })

  it('says at once that the window will be closed, then waits for the user; can be cancelled', async t => {
    const send_at = t.clock.now() + 20_000
    const result = await t.send({ text: 'later', send_at })
    expect(result).toMatchObject({ status: 'queued', waits_for: 'time' })
    expect(result.hint).toBeString()
    await t.send({ text: 'never', send_at })
    await t.gateway.outbox.cancel(owner, (await t.gateway.outbox.list(owner))[1]!.outbox_id)
    await pass(t, 21_000)
    await t.until('it waits for the user', async () => {
      const [entry, ...others] = await t.gateway.outbox.list(owner)
      return entry?.waits_for === 'user' && others.length === 0
    })
    await write(t)
    await nothingWaits(t)
    expect(await seen(t)).toEqual(['later'])
  })

  it('is sent at its time, also if retention removed its row', async t => {
    await write(t)
    const send_at = t.clock.now() + 20_000
    await t.send({ text: 'planned', send_at })
    using db = new Database(join(t.dir, 'messages.db'))
    db.run("DELETE FROM message WHERE status = 'queued'")
    await pass(t, 21_000)
    await t.until('it was sent', async () => (await seen(t)).length === 1)
    expect(await seen(t)).toEqual(['planned'])
  })

  it('lies ahead, and within a week', async t => {
    await write(t)
    const now = t.clock.now()
    for (const send_at of [0, now - 1, now, now + 7 * dayMs + 60_000])
      expect(await failure(t.send({ text: 'x', send_at }))).toMatchObject({
        code: 'invalid_arguments',
        details: { errors: [{ field: 'send_at' }] },
      })
    expect((await t.send({ text: 'x', send_at: now + 7 * dayMs })).status).toBe('queued')
  })
})

describe('a closed window', () => {
  it('the send waits, in history and outbox too, and goes out when the user writes', async t => {
    expect(await failure(t.send({ text: 'now' }))).toMatchObject({ code: 'window_closed' })
    expect(await codeOf(t.send({ text: 'now', when_closed: 'fail' }))).toBe('window_closed')
    const result = await t.send({ text: 'later', ...queue })
    expect(result).toMatchObject({
      success: false,
      status: 'queued',
      session: 'default',
      parts: [{ kind: 'text', sent_as: 'text', status: 'queued' }],
      outbox_id: expect.stringMatching(/^\d+$/),
    })
    expect(result.window_expires_at).toBeLessThan(t.clock.now())
    expect(result.waits_for).toBe('user')
    expect(await states(t)).toEqual([['later', 'queued']])
    const [row] = await sent(t)
    const [entry] = await t.gateway.outbox.list(owner)
    expect(entry).toMatchObject({
      outbox_id: result.outbox_id,
      session: 'default',
      to_user: t.bots.get('default')!.user_id,
      waits_for: 'user',
      parts: [{ id: row!.id, kind: 'text', status: 'queued', text: 'later' }],
    })
    expect(entry!.expires_at - entry!.created_at).toBe(7 * dayMs)
    expect(t.requests('sendmessage')).toBe(0)
    await write(t)
    await t.until('sent', async () => (await sent(t))[0]!.status === 'accepted')
    expect(await seen(t)).toEqual(['later'])
    const [after] = await sent(t)
    expect(after).toMatchObject({ id: row!.id, status: 'accepted', text: 'later' })
    expect(after!.message_id).not.toStartWith('local:')
    expect(await t.gateway.outbox.list(owner)).toEqual([])
    expect((await context(t))!.used).toBe(1)
  })

  it('order is kept, short texts are joined with their neighbours, only up to what a text may have', async t => {
    const image = Buffer.alloc(700, 1).toString('base64')
    const long = '字'.repeat(2001)
    const full = '字'.repeat(2000)
    await t.send({ text: 'a', ...queue })
    await t.send({ text: 'b', media: [{ kind: 'image', data: image }], ...queue })
    await t.send({ text: 'c', ...queue })
    await t.send({ text: long, ...queue })
    await t.send({ text: 'd', ...queue })
    await t.send({ text: long, ...queue })
    for (const text of [full, full, full, 'e']) await t.send({ text, ...queue })
    await write(t)
    await nothingWaits(t)
    const texts = ['c', long, 'd', long, `${full}\n\n${full}`, `${full}\n\ne`]
    expect(await seen(t)).toEqual(['a\n\nb', 'image', ...texts])
    expect((await context(t))!.used).toBe(8)
    expect((await sent(t)).every(({ status }) => status === 'accepted')).toBe(true)
  })

  test('media wait on disk, survive a restart and the source, arrive byte for byte, and leave nothing', async () => {
    const t = await withClosed()
    const bytes = randomBytes(3_000_000)
    const path = join(t.mediaRoot, 'report.pdf')
    await writeFile(path, bytes)
    const result = await t.send({ text: 'see', media: [{ kind: 'file', path }], ...queue })
    expect(result.parts.map(({ status }) => status)).toEqual(['queued', 'queued'])
    expect(await keptFiles(t)).toHaveLength(1)
    expect((await sent(t))[1]).toMatchObject({
      status: 'queued',
      msg_type: 'FILE',
      file: { file_name: 'report.pdf', size: 3_000_000, has_media: false },
    })
    expect((await t.gateway.outbox.list(owner))[0]!.parts[1]).toMatchObject({
      kind: 'file',
      file_name: 'report.pdf',
      size: 3_000_000,
    })
    await rm(path)
    await t.gateway.close()
    await using again = await t.beside()
    expect(await again.gateway.outbox.list(owner)).toHaveLength(1)
    await again.sandbox.say('hi')
    await nothingWaits(again)
    const item = (await again.sandbox.messages({ from: 'bot' })).at(-1)!.items[0]!
    expect(Buffer.from(await again.sandbox.mediaBytes(item.media_id!)).equals(bytes)).toBe(true)
    expect((await sent(again)).map(({ status }) => status)).toEqual(['accepted', 'accepted'])
    expect((await sent(again))[1]!.file).toMatchObject({ file_name: 'report.pdf', has_media: true })
    await again.until('no file left', async () => (await keptFiles(again)).length === 0)
    await t[Symbol.asyncDispose]()
  })

  it('what waits goes first: a send that may wait joins it, a plain one goes directly', async t => {
    await t.send({ text: 'first', ...queue })
    const held = Promise.withResolvers<void>()
    await t.sandbox.fail('sendmessage', 'slow', { until: held.promise })
    await write(t)
    await t.until('being sent', async () => (await sent(t))[0]!.status === 'sending')
    expect((await t.send({ text: 'second', ...queue })).status).toBe('queued')
    const direct = t.send({ text: 'direct' })
    await t.until('in line', async () => (await pendingIn(t.dir)) === 1)
    held.resolve()
    expect((await direct).status).toBe('accepted')
    await nothingWaits(t)
    expect(await seen(t)).toEqual(['first', 'direct', 'second'])
  })

  test('of another user or session nothing is held up', async () => {
    await using t = await withClosed({ sessions: ['default', 'two'] })
    const two = t.bots.get('two')!
    await t.send({ text: 'waits', ...queue })
    await t.sandbox.say('hi', { from: two.user_id, to: two.bot_id })
    await t.until('known', async () => await t.other.contexts.find('two', two.user_id))
    expect((await t.send({ to: two.user_id, text: 'goes', ...queue })).status).toBe('accepted')
    expect((await t.gateway.outbox.list(owner, { user_id: two.user_id })).length).toBe(0)
    expect((await t.gateway.outbox.list(owner, { session: 'TWO' })).length).toBe(0)
    expect((await t.gateway.outbox.list(owner, { session: 'Default' })).length).toBe(1)
    // A renamed session keeps what waits.
    await t.gateway.accounts.rename('default', 'home')
    expect((await t.gateway.outbox.list(owner, { session: 'home' })).length).toBe(1)
    await t.sandbox.say('hi', { from: t.bots.get('default')!.user_id, to: t.bots.get('default')!.bot_id })
    await nothingWaits(t)
    expect((await seen(t)).sort()).toEqual(['goes', 'waits'])
  })
})

describe('a quota used up', () => {
  test('what is over waits for the next message of the user', async () => {
    await using t = await withGateway()
    await write(t)
    for (let i = 0; i < 10; i++) expect((await t.send({ text: `${i}`, ...queue })).status).toBe('accepted')
    expect(await failure(t.send({ text: 'no' }))).toMatchObject({ code: 'quota_exhausted' })
    const result = await t.send({ text: 'ten', ...queue })
    expect(result).toMatchObject({ status: 'queued', remaining: 0 })
    await pass(t, 5000)
    expect(t.requests('sendmessage')).toBe(10)
    await write(t)
    await nothingWaits(t)
    expect((await seen(t)).at(-1)).toBe('ten')
    expect((await context(t))!.used).toBe(1)
  })

  test('a send that needs more than is left waits whole; a text that needs more than there ever is does not', async () => {
    await using t = await withGateway()
    await write(t)
    for (let i = 0; i < 9; i++) await t.send({ text: `${i}` })
    const result = await t.send({ text: 'x'.repeat(20_000), ...queue })
    expect(result).toMatchObject({ status: 'queued', remaining: 1 })
    expect(result.parts).toHaveLength(2)
    expect(await codeOf(t.send({ text: 'x'.repeat(16_384 * 11), ...queue }))).toBe('text_too_long')
    await write(t)
    await nothingWaits(t)
    expect((await seen(t)).slice(9).map(text => text.length)).toEqual([16_384, 3616])
  })

  it('more waits than one message of the user allows: the rest goes with the next', async t => {
    const media = Array.from({ length: 12 }, (_, i) => ({
      ...{ kind: 'file' as const, file_name: `${i}.txt` },
      data: Buffer.from(`file ${i}`).toString('base64'),
    }))
    await t.send({ media, ...queue })
    await write(t)
    const parts = async () => (await t.gateway.outbox.list(owner))[0]!.parts.map(({ status }) => status)
    // The user sees each a moment before it is known to be taken.
    await t.until('ten sent', async () => (await parts())[9] === 'accepted')
    await pass(t, 5000)
    expect(t.requests('sendmessage')).toBe(10)
    expect(await seen(t)).toHaveLength(10)
    expect(await parts()).toEqual([...Array(10).fill('accepted'), ...Array(2).fill('queued')])
    await write(t)
    await nothingWaits(t)
    const names = (await sent(t)).map(message => message.file!.file_name)
    expect(names).toEqual(media.map(({ file_name }) => file_name))
    await t.until('no file left', async () => (await keptFiles(t)).length === 0)
  })
})

describe('the pace', () => {
  test('an ordinary chat of twelve quick rounds: what the pace keeps back waits, and arrives', async () => {
    await using t = await withGateway({
      config: { pace: { perSecond: 1000, perWindow: 10, windowMs: 300_000 } },
    })
    const texts = Array.from({ length: 12 }, (_, i) => `${i}`)
    const results: SendResult[] = []
    const began = t.clock.now()
    for (const text of texts) {
      await write(t)
      results.push(await t.send({ text, ...queue }))
    }
    expect(results.map(({ status }) => status)).toEqual([...Array(10).fill('accepted'), 'queued', 'queued'])
    for (const waiting of [...results.slice(10), ...(await t.gateway.outbox.list(owner))]) {
      expect(waiting.waits_for).toBe('pace')
      expect(waiting.not_before).toBeWithin(began + 300_000, t.clock.now() + 300_001)
    }
    await pass(t, 300_000)
    await nothingWaits(t)
    expect(await seen(t)).toEqual([...texts.slice(0, 10), '10\n\n11'])
  })
})

for (const mode of ['fail', 'queue'] as const) {
  test(`behind an upload of mode ${mode} that hangs: what waits says so, in each process, until it is over`, async () => {
    await using t = await withGateway({ config: { pace: 'off' } })
    await write(t)
    await using other = await t.beside()
    const hangs = Promise.withResolvers<void>()
    await t.sandbox.fail('getuploadurl', 'slow', { until: hangs.promise })
    const first = t.send({ media: [{ kind: 'file', data: 'eA==', file_name: 'x' }], when_closed: mode })
    await t.until('at it', () => t.requests('getuploadurl') === 1)
    const second = t.send({ text: 'behind', ...queue })
    await t.until('both wait', async () => {
      const { length } = await t.gateway.outbox.list(owner)
      return length === (mode === 'fail' ? 1 : 2)
    })
    for (const { gateway } of [t, other]) {
      await t.until('it is told', async () => (await gateway.outbox.list(owner)).at(-1)?.waits_for === 'busy')
      for (const { outbox_id, waits_for } of await gateway.outbox.list(owner))
        expect([waits_for, (await gateway.outbox.get(owner, outbox_id)).waits_for]).toEqual(['busy', 'busy'])
    }
    hangs.resolve()
    expect((await first).status).toBe('accepted')
    await second
    await nothingWaits(t)
  })
}

test('an upload that fails is tried again after a pause, which is a whole number, and the file arrives', async () => {
  await using t = await withClosed()
  await t.send({ media: [{ kind: 'file', data: 'aGVsbG8=', file_name: 'a.txt' }], ...queue })
  await t.sandbox.fail('getuploadurl', '500', { times: 2 })
  await write(t)
  const paused = await t.until('a pause', async () => {
    const rows = await rowsIn<{ not_before: number; failures: number }>(
      t.dir,
      'SELECT not_before, failures FROM outbox_lane',
    )
    return rows.find(({ failures }) => failures > 0)
  })
  expect(paused.not_before).toSatisfy(Number.isInteger)
  await nothingWaits(t)
  expect(await sent(t)).toMatchObject([{ status: 'accepted', msg_type: 'FILE' }])
})

describe('the end of waiting', () => {
  it('after seven days it is refused, said in history and log, and its files go', async t => {
    const file = { kind: 'file' as const, data: Buffer.from('x').toString('base64') }
    await t.send({ text: 'old', media: [file], ...queue })
    await pass(t, 6 * dayMs)
    await t.send({ text: 'young', ...queue })
    await pass(t, dayMs + 1000)
    await t.until('given up', async () => (await sent(t))[0]!.status === 'refused')
    expect((await sent(t)).map(({ status }) => status)).toEqual(['refused', 'refused', 'queued'])
    expect((await sent(t))[0]!.reason_code).toBe('window_closed')
    expect(t.lines.join('')).toContain('queued send given up')
    await t.until('no file left', async () => (await keptFiles(t)).length === 0)
    await write(t)
    await nothingWaits(t)
    expect(await seen(t)).toEqual(['young'])
  })

  it('cancelled: refused in history, never sent, once', async t => {
    const file = { kind: 'file' as const, data: Buffer.from('x').toString('base64') }
    const keyed = { ...queue, idempotency_key: 'taken back' }
    const { outbox_id } = await t.send({ text: 'no', media: [file], ...keyed })
    await t.send({ text: 'yes', ...queue })
    expect(await t.gateway.outbox.cancel(panel, outbox_id!)).toEqual({
      success: true,
      outbox_id: outbox_id!,
      cancelled: 2,
    })
    const entry = await t.gateway.outbox.get(owner, outbox_id!)
    expect([entry.ended, problemsOf(OutboxEntry, entry)]).toEqual([true, []])
    for (const part of entry.parts) {
      expect(part).toMatchObject({ status: 'refused', reason: 'cancelled' })
      expect(part).not.toHaveProperty('error')
    }
    expect(await codeOf(t.send({ text: 'no', media: [file], ...keyed }))).toBe('idempotency_conflict')
    for (const id of [outbox_id!, '0', '99999', 'x', '1e3', '-1', '9'.repeat(40)]) {
      expect(await failure(t.gateway.outbox.cancel(panel, id))).toMatchObject({ code: 'not_found' })
    }
    expect(await keptFiles(t)).toEqual([])
    await write(t)
    await nothingWaits(t)
    expect(await seen(t)).toEqual(['yes'])
    expect((await sent(t)).map(({ status, reason_code }) => [status, reason_code])).toEqual([
      ['refused', 'cancelled'],
      ['refused', 'cancelled'],
      ['accepted', undefined],
    ])
  })

  it('cancelled while the first of it is on its way: the rest is not sent', async t => {
    const file = { kind: 'file' as const, data: Buffer.from('x').toString('base64') }
    const { outbox_id } = await t.send({ text: 'goes', media: [file], ...queue })
    const held = Promise.withResolvers<void>()
    await t.sandbox.fail('sendmessage', 'slow', { until: held.promise })
    await write(t)
    await t.until('on its way', () => t.requests('sendmessage') === 1)
    expect(await t.gateway.outbox.cancel(panel, outbox_id!)).toMatchObject({ success: true, cancelled: 1 })
    held.resolve()
    await nothingWaits(t)
    expect((await sent(t)).map(({ status }) => status)).toEqual(['accepted', 'refused'])
    expect(await seen(t)).toEqual(['goes'])
  })
})

describe('two processes', () => {
  it('what one of them queues the polling one sends, once', async t => {
    await using watcher = await t.beside()
    expect((await watcher.gateway.health()).role).toBe('watcher')
    const to = t.bots.get('default')!.user_id
    for (let i = 0; i < 5; i++) await watcher.send({ to, text: `w${i}`, ...queue })
    await t.send({ text: 'p', ...queue })
    await write(t)
    await nothingWaits(watcher)
    expect(await seen(t)).toEqual(['w0\n\nw1\n\nw2\n\nw3\n\nw4\n\np'])
    expect(t.requests('sendmessage')).toBe(1)
  })

  testOfFiles(
    'what one of them cannot begin, since the store fails, the polling one sends soon',
    async () => {
      await using t = await withGateway()
      await write(t)
      await using watcher = await t.beside()
      const broken = `CREATE TRIGGER broken BEFORE UPDATE OF status ON outbox_part WHEN NEW.status = 'sending'
      BEGIN SELECT RAISE(ABORT, 'broken'); END`
      await changeIn(t.dir, broken)
      const to = t.bots.get('default')!.user_id
      expect(await failure(watcher.send({ to, text: 'soon', ...queue }))).toBeInstanceOf(Error)
      await changeIn(t.dir, 'DROP TRIGGER broken')
      const began = t.clock.now()
      await nothingWaits(t)
      expect(await seen(t)).toEqual(['soon'])
      expect(t.clock.now() - began).toBeLessThan(30_000)
    },
  )
})
