/** What every engine must do for keys (`src/storage/keys.ts`), and for all that ends with one. */

import { describe, expect } from 'bun:test'
import type { SendRules } from '../../src/model/admission.ts'
import type { SvcError } from '../../src/model/error.ts'
import { sql } from '../../src/platform/sql.ts'
import { hasKeyEnded, maxKeysBelow, type NewKey, wasRevoked } from '../../src/storage/keys.ts'
import type { BegunMessage, EditedText, NewEntry } from '../../src/storage/outbox.ts'
import { failure } from '../support/failure.ts'
import { given } from '../support/given.ts'
import { onEach } from './engines.ts'
import { openSqlite } from './sqlite/support.ts'
import { bot, byId, insert, message, type Opened, open, outgoing, webhook } from './support.ts'

const dayMs = 24 * 60 * 60_000

const key = (id: string, more: Partial<NewKey> = {}): NewKey => ({
  id,
  name: `key ${id}`,
  hash: 'aa'.repeat(32),
  grant: { rights: ['recv', 'draft'], bots: ['b'], users: ['u'], limits: { calls_per_second: 3 } },
  can: ['draft'],
  made_by: 'owner',
  created_at: 5,
  ...more,
})
const endpoint = (id: string, made_by: string) => webhook(id, { made_by, replies: true })

let count = 0
/** Queues a send of these texts, one message each. */
async function queue(t: Opened, made_by: string, texts: string[], more: Partial<NewEntry> = {}) {
  const parts = texts.map(text => {
    const raw = JSON.stringify({ text })
    return { kind: 'text', waiting: { message: outgoing(text, { client_id: `q${++count}`, raw }) } } as const
  })
  const to = { session: 's', bot_id: 'b', user: 'u', mode: 'queue' } as const
  const enqueued = await t.store.outbox.enqueue({ ...to, made_by, parts, ...more }, open)
  if (enqueued.state !== 'new') throw new Error(`not queued: ${enqueued.state}`)
  return enqueued.entry
}

async function begin(t: Opened, ids: readonly number[], rules: SendRules = open): Promise<BegunMessage> {
  const begun = await t.store.outbox.begin(ids, 'b', rules, outgoing('sent', { client_id: `b${++count}` }))
  if (begun.go !== 'begun') throw new Error(`not begun: ${begun.go}`)
  return begun.begun
}

const read = async (t: Opened, id: number) => {
  const { asked, ended, expires_at, parts } = (await t.store.outbox.getEntry(id))!
  return { asked, ended, expires_at, parts: parts.map(({ status }) => status) }
}
const row = async (t: Opened, id: number | undefined) => {
  const found = await byId(t.store, id ?? 0)
  return found && [found.text, found.status, found.reason_code]
}
const wrote = (t: Opened, users = ['u']) =>
  insert(
    t,
    users.map(from_user => message('hi', { from_user, written_at: t.clock.at })),
  )

onEach(it => {
  it('reads a page of keys alone, in the order in which they were added, while others are added', async t => {
    const { keys } = t.store
    const ids = ['f', 'b', 'd', 'a', 'e']
    for (const id of ids) await keys.add(key(id, { created_at: 9 - ids.indexOf(id) }))
    await keys.add(key('g', { made_by: 'key:b' }))
    await keys.add(key('h', { made_by: 'panel:g' }))
    const listed = async (options: Parameters<typeof keys.list>[0]) =>
      (await keys.list(options)).map(({ id }) => id)
    const all: string[] = []
    for (let offset = 0; offset < 9; offset += 3) {
      const page = await listed({ page: { limit: 3, offset } })
      expect(page.length).toBe(3)
      all.push(...page)
      if (all.length < 9) await keys.add(key(`k${offset}`))
    }
    expect(all).toEqual([...ids, 'g', 'h', 'k0', 'k3'])
    for (const offset of [9, Number.MAX_SAFE_INTEGER])
      expect(await listed({ page: { limit: 3, offset } })).toEqual([])
    expect(await listed({ madeBy: 'b' })).toEqual(['g', 'h'])
    expect(await listed({ madeBy: 'b', page: { limit: 5, offset: 1 } })).toEqual(['h'])
    expect(await listed({ madeBy: 'h' })).toEqual([])
    // What cannot be read is not on the page, so it was not read.
    await t.query(sql`UPDATE access_key SET "grant" = '{' WHERE id IN ('f', 'k3')`)
    expect(await listed({ page: { limit: 4, offset: 1 } })).toEqual(['b', 'd', 'a', 'e'])
    expect(await failure(keys.list())).toBeInstanceOf(Error)
  })

  it('a key is stored as added, in order, and stays after a restart', async t => {
    const { keys } = t.store
    expect([await keys.hasAny(), await keys.list(), await keys.get('a')]).toEqual([false, [], undefined])
    const all = [key('b', { expires_at: 1e15 }), key('a', { created_at: 6, made_by: 'key:b' })]
    for (const one of all) await keys.add(one)
    await t.reopen()
    expect(await t.store.keys.hasAny()).toBe(true)
    expect(await t.store.keys.list()).toEqual(all)
    expect(await t.store.keys.get('a')).toEqual(all[1])
  })

  it('the next account of the same person in the same session is in the grants that had the last one', async t => {
    const { sessions } = t.storage.state
    const { keys, people, webhooks } = t.store
    const of = (name: string, user_id: string) => bot(name, { bot_id: name, user_id })
    await sessions.save('work', of('b1', 'ann'))
    await sessions.save('home', of('h1', 'ann'))
    const grantOf = (...bots: string[]) => ({ rights: ['recv'] as const, bots })
    await keys.add(key('a', { grant: grantOf('b1') }))
    await keys.add(key('h', { grant: grantOf('h1') }))
    await keys.add(key('all', { grant: { rights: ['recv'] } }))
    await webhooks.add(webhook('wh', { made_by: 'key:a', grant: grantOf('b1') }))
    const seen = async () => [
      (await keys.list()).map(({ grant }) => grant.bots?.toSorted()),
      (await webhooks.list()).map(({ grant }) => grant?.bots?.toSorted()),
    ]
    const { revision } = await keys.listChangedSince(0)
    await sessions.save('work', of('b2', 'ann'))
    const both = ['b1', 'b2']
    expect(await seen()).toEqual([[both, ['h1'], undefined], [both]])
    expect((await keys.listChangedSince(revision)).keys.map(({ id }) => id)).toEqual(['a'])
    const scans = await keys.listScans()
    expect(scans.get('b2')).toBe(scans.get('b1'))
    expect(scans.get('h1')).not.toBe(scans.get('b1'))
    // Another person, and again the first one, who was logged out, in the renamed session.
    await sessions.save('work', of('b3', 'bob'))
    await sessions.remove('work')
    await sessions.save('work', of('b4', 'ann'))
    await sessions.rename('work', 'office')
    await sessions.save('work', of('c1', 'ann'))
    await sessions.save('office', of('b5', 'ann'))
    const all = [...both, 'b4', 'b5']
    expect(await seen()).toEqual([[all, ['h1'], undefined], [all]])
    // Nobody knows who scanned.
    await sessions.save('office', bot('b6', { bot_id: 'b6' }))
    await sessions.save('office', of('b7', 'bob'))
    expect(await seen()).toEqual([[all, ['h1'], undefined], [all]])
    await people.erase('ann')
    expect([...(await keys.listScans()).values()].join()).not.toContain('ann')
  })

  it('two keys in use have different names; that of an ended one is free', async t => {
    const { keys } = t.store
    await keys.add(key('a', { name: 'bot' }))
    expect(await failure(keys.add(key('b', { name: 'bot' })))).toMatchObject({ code: 'invalid_arguments' })
    await keys.revoke('a', 7)
    await keys.add(key('b', { name: 'bot', expires_at: t.clock.at + 1000 }))
    expect(await failure(keys.add(key('c', { name: 'bot' })))).toMatchObject({ code: 'invalid_arguments' })
    t.clock.at += 1000
    await keys.add(key('c', { name: 'bot' }))
    expect((await keys.list()).length).toBe(3)
  })

  it('a name is taken only if the maker sees the key that has it; the ids of these are told', async t => {
    const { keys } = t.store
    const add = (id: string, made_by: string, name = 'bot') => keys.add(key(id, { name, made_by }))
    await add('top', 'owner', 'top')
    await add('foreign', 'owner')
    await add('child', 'key:top')
    await add('peer', 'key:top', 'peer')
    await add('grand', 'panel:peer')
    const taken = async (made_by: string) => {
      const { code, details } = (await failure(add('more', made_by))) as SvcError
      return [code, (details as { keys: string[] }).keys.toSorted()]
    }
    expect(await taken('key:top')).toEqual(['invalid_arguments', ['child', 'grand']])
    expect(await taken('key:peer')).toEqual(['invalid_arguments', ['grand']])
    expect(await taken('owner')).toEqual(['invalid_arguments', ['child', 'foreign', 'grand']])
    // Its own name, which it sees too.
    expect(await failure(add('more', 'key:top', 'top'))).toMatchObject({ details: { keys: ['top'] } })
    await keys.revoke('child', 7)
    await keys.revoke('peer', 7)
    await add('again', 'key:top')
  })

  it('of keys that two processes add at once, one gets a name; all with other names are added', async t => {
    await using other = await t.second()
    const add = (nth: number, name: string) => {
      const { keys } = nth % 2 === 0 ? t.store : other.store
      return keys.add(key(`${name}${nth}`, { name, made_by: 'key:top' }))
    }
    await t.store.keys.add(key('top'))
    const numbers = Array.from({ length: 20 }, (_, nth) => nth)
    const [same] = await Promise.all([
      Promise.allSettled(numbers.map(nth => add(nth, 'same'))),
      ...numbers.map(nth => add(nth, `own${nth}`)),
    ])
    expect(same.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    const found = await t.store.keys.list()
    expect(found.filter(({ name }) => name === 'same')).toHaveLength(1)
    expect(new Set((await t.store.keys.listChangedSince(0)).keys.map(({ id }) => id)).size).toBe(found.length)
  })

  it('changes are listed once, to every process', async t => {
    await using other = await t.second()
    const { keys } = t.store
    for (const id of ['a', 'b', 'c']) await keys.add(key(id, { made_by: id === 'c' ? 'key:b' : 'owner' }))
    const first = await other.store.keys.listChangedSince(0)
    expect(first.keys.map(({ id }) => id)).toEqual(['a', 'b', 'c'])
    expect(await other.store.keys.listChangedSince(first.revision)).toEqual({
      ...{ keys: [], revision: first.revision },
    })
    await keys.rotate('a', 'bb'.repeat(32), 99)
    await keys.noteUse('c', 8, '127.0.0.1')
    const second = await other.store.keys.listChangedSince(first.revision)
    expect(second.keys).toEqual([
      { ...key('a'), hash: 'bb'.repeat(32), replaced: { hash: 'aa'.repeat(32), until: 99 } },
    ])
    await keys.revoke('b', 9)
    const third = await other.store.keys.listChangedSince(second.revision)
    expect(third.keys.map(({ id, revoked_at }) => [id, revoked_at]).toSorted()).toEqual([
      ['b', 9],
      ['c', 9],
    ])
  })

  it('a rotation keeps the secret before it, not an older one; a revoked key gets no secret', async t => {
    const { keys } = t.store
    await keys.add(key('a'))
    expect(await keys.rotate('a', '11', 50)).toBe(true)
    expect(await keys.rotate('a', '22', 60)).toBe(true)
    expect(await keys.get('a')).toMatchObject({ hash: '22', replaced: { hash: '11', until: 60 } })
    await keys.revoke('a', 9)
    expect([await keys.rotate('a', '33', 70), await keys.rotate('none', '33', 70)]).toEqual([false, false])
  })

  it('a rotation keeps the entries and webhooks of a key', async t => {
    const { keys, webhooks } = t.store
    await keys.add(key('a'))
    await webhooks.add(endpoint('wh', 'key:a'))
    const { id } = await queue(t, 'key:a', ['x'])
    await keys.rotate('a', '11', 50)
    expect((await webhooks.get('wh'))?.disabled).toBeUndefined()
    expect(await read(t, id)).toMatchObject({ parts: ['queued'] })
  })

  it('the last use is stored with the address, and kept where the address is not known', async t => {
    const { keys } = t.store
    await keys.add(key('a'))
    await keys.noteUse('a', 8, '127.0.0.1')
    expect(await keys.get('a')).toEqual({ ...key('a'), last_used_at: 8, last_address: '127.0.0.1' })
    await keys.noteUse('none', 9, undefined)
  })

  it('a key ends with the keys that it made, once', async t => {
    const { keys } = t.store
    const made: Record<string, string> = { a: 'owner', b: 'key:a', c: 'panel:b', d: 'owner', e: 'key:d' }
    for (const [id, made_by] of Object.entries(made)) await keys.add(key(id, { made_by }))
    expect(await keys.revoke('b', 7)).toEqual(['b', 'c'])
    expect((await keys.revoke('a', 9)).toSorted()).toEqual(['a'])
    expect([await keys.revoke('a', 10), await keys.revoke('none', 10)]).toEqual([[], []])
    const ends = (await keys.list()).map(({ id, revoked_at }) => [id, revoked_at])
    expect(ends).toEqual([
      ['a', 9],
      ['b', 7],
      ['c', 7],
      ['d', undefined],
      ['e', undefined],
    ])
  })

  it('what a key queued waits for a yes: a day, and not longer than before', async t => {
    await wrote(t)
    const { keys, webhooks } = t.store
    for (const id of ['a', 'x']) await keys.add(key(id))
    await keys.add(key('child', { made_by: 'panel:a' }))
    await webhooks.add(endpoint('wh', 'panel:a'))
    const makers = ['key:a', 'panel:a', 'key:child', 'webhook:wh', 'key:x', 'owner', 'webhook:none', 'stdio']
    const entries = await Promise.all(makers.map(by => queue(t, by, [by])))
    const old = await queue(t, 'key:a', ['old'])
    await t.store.outbox.end(old.id, { code: 'cancelled', detail: 'no' })
    const asked = await queue(t, 'key:a', ['asked'], { asked: 'fail' })
    const now = t.clock.at
    t.clock.at += 6.5 * dayMs
    const late = await queue(t, 'key:a', ['late'])
    const head = await t.store.events.getHead()
    await keys.revoke('a', t.clock.at)
    const { events } = await t.store.events.listAfter(head, { limit: 9 })
    const [sends, off] = [Array(5).fill('message.status'), 'endpoint.disabled']
    expect(events.map(({ type }) => type)).toEqual([...sends, off])
    const now2 = t.clock.at
    const waits = { asked: 'queue' as const, ended: false, parts: ['asked' as const] }
    const goes = { asked: undefined, ended: false, expires_at: now + 7 * dayMs, parts: ['queued' as const] }
    for (const { id, made_by = '' } of entries) {
      const isTheirs = ['key:a', 'panel:a', 'key:child', 'webhook:wh'].includes(made_by)
      const state = await read(t, id)
      expect({ made_by, ...state }).toEqual({
        made_by,
        ...(isTheirs ? { ...waits, expires_at: now + 7 * dayMs } : goes),
      })
    }
    expect(await read(t, late.id)).toEqual({ ...waits, expires_at: now2 + dayMs })
    expect(await read(t, old.id)).toMatchObject({ ended: true, parts: ['refused'] })
    expect(await read(t, asked.id)).toMatchObject({ asked: 'fail', expires_at: now + dayMs })
    expect(await row(t, entries[0]!.parts[0]!.message)).toEqual(['key:a', 'queued', 'approval'])
    // Nothing but a yes lets it go.
    const part = entries[0]!.parts[0]!.id
    expect(await t.store.outbox.begin([part], 'b', open, outgoing('x'))).toEqual({ go: 'gone' })
    expect(await t.store.outbox.approve(entries[0]!.id, open, 'panel')).toMatchObject({ state: 'approved' })
    expect(await read(t, entries[0]!.id)).toEqual(goes)
    expect((await begin(t, [part])).parts).toEqual([part])
  })

  it('what a webhook queued that was removed since still ends and counts with the key that made it', async t => {
    await wrote(t)
    const { keys, webhooks } = t.store
    await keys.add(key('a'))
    await webhooks.add(endpoint('wh', 'key:a'))
    await webhooks.add(endpoint('mine', 'owner'))
    const entry = await queue(t, 'webhook:wh', Array(500).fill('reply'))
    const other = await queue(t, 'webhook:mine', ['reply'])
    for (const id of ['wh', 'mine']) expect(await webhooks.remove(id)).toBe(true)
    expect(await failure(queue(t, 'key:a', ['more']))).toMatchObject({ code: 'quota_exhausted' })
    await keys.revoke('a', t.clock.at)
    expect(await read(t, entry.id)).toMatchObject({ asked: 'queue' })
    expect(await read(t, other.id)).toMatchObject({ asked: undefined, parts: ['queued'] })
  })

  it('the message that is being sent goes on; if it has to wait again, it waits for the yes', async t => {
    await wrote(t)
    const { keys, outbox } = t.store
    await keys.add(key('a'))
    const entry = await queue(t, 'key:a', ['one', 'two', 'three'])
    const [one, two] = entry.parts.map(({ id }) => id)
    const first = await begin(t, [one!])
    await outbox.settle(first, { status: 'accepted', message_id: 'm1', spent: true })
    const second = await begin(t, [two!])
    await keys.revoke('a', t.clock.at)
    expect(await read(t, entry.id)).toMatchObject({ parts: ['accepted', 'sending', 'asked'] })
    const error = { code: 'upstream_error', detail: 'no' }
    await outbox.settle(second, { status: 'queued', error, spent: false })
    expect(await read(t, entry.id)).toMatchObject({ asked: 'queue', parts: ['accepted', 'asked', 'asked'] })
    expect(await row(t, entry.parts[1]!.message)).toEqual(['two', 'queued', 'approval'])
    // A yes is for what waits, never for what went.
    await outbox.approve(entry.id, open, 'panel')
    expect(await read(t, entry.id)).toMatchObject({ parts: ['accepted', 'queued', 'queued'] })
    expect((await row(t, entry.parts[0]!.message))?.[1]).toBe('accepted')
  })

  it('texts that go as one message: each goes on by its own entry', async t => {
    await wrote(t)
    const { keys, outbox } = t.store
    await keys.add(key('a'))
    const entries = [await queue(t, 'key:a', ['of a']), await queue(t, 'owner', ['of the owner'])]
    const begun = await begin(
      t,
      entries.map(({ parts }) => parts[0]!.id),
    )
    await keys.revoke('a', t.clock.at)
    await outbox.settle(begun, { status: 'queued', spent: false })
    expect(await read(t, entries[0]!.id)).toMatchObject({ asked: 'queue', parts: ['asked'] })
    expect(await read(t, entries[1]!.id)).toMatchObject({ asked: undefined, parts: ['queued'] })
    expect(await row(t, entries[1]!.parts[0]!.message)).toEqual(['of the owner', 'queued', undefined])
  })

  describe('of what waits, a key with those that it made and their webhooks has a share', () => {
    const family = ['key:a', 'panel:a', 'key:child', 'webhook:wh']
    const full = { code: 'quota_exhausted' }

    async function withFamily(t: Opened) {
      const { keys, webhooks } = t.store
      for (const id of ['a', 'x', 'y']) await keys.add(key(id))
      await keys.add(key('child', { made_by: 'panel:a' }))
      await webhooks.add(endpoint('wh', 'key:child'))
      return (by: string, count: number, more: Partial<NewEntry> = {}) =>
        queue(t, by, Array(count).fill(by), more)
    }

    it('of the messages for a contact', async t => {
      const add = await withFamily(t)
      const more = [...Array(6).keys()].map(nth => add(family[nth % 4]!, 100))
      const outcomes = await Promise.allSettled(more)
      expect(outcomes.map(({ status }) => status)).toEqual([...Array(5).fill('fulfilled'), 'rejected'])
      for (const by of family) expect(await failure(add(by, 1))).toMatchObject(full)
      await add('key:a', 1, { user: 'v' })
      await add('key:x', 250)
      for (const by of ['key:x', ...family]) expect(await failure(add(by, 1))).toMatchObject(full)
      await add('key:y', 10)
      await add('owner', 240)
      expect(await failure(add('owner', 1))).toMatchObject(full)
    })

    it('of the sends of an account that wait for a yes; what a revoked key left takes nothing from others', async t => {
      const add = await withFamily(t)
      const ask = (by: string) => add(by, 2, { asked: 'queue' })
      for (let nth = 0; nth < 50; nth++) await ask(family[nth % 4]!)
      for (const by of family) expect(await failure(ask(by))).toMatchObject(full)
      expect(await failure(add('key:child', 1, { send_at: t.clock.at + dayMs }))).toMatchObject(full)
      await ask('key:x')
      for (let nth = 0; nth < 49; nth++) await ask('owner')
      expect(await failure(ask('owner'))).toMatchObject(full)
      await t.store.keys.revoke('child', t.clock.at)
      expect(await failure(ask('key:a'))).toMatchObject(full)
      await ask('owner')
      await t.store.keys.revoke('a', t.clock.at)
      for (let nth = 0; nth < 20; nth++) await ask('key:x')
      for (let nth = 0; nth < 29; nth++) await ask('owner')
      expect(await failure(ask('owner'))).toMatchObject(full)
    })
  })

  it('a send of a key goes from its own account; from another one only after a yes', async t => {
    await wrote(t)
    const { outbox } = t.store
    const makers = ['key:a', 'webhook:wh', 'owner', 'key:yes']
    const entries = await Promise.all(
      makers.map(by => queue(t, by, [by], by === 'key:yes' ? { asked: 'queue' } : {})),
    )
    await outbox.approve(entries[3]!.id, open, 'panel')
    const ids = entries.map(({ parts }) => parts[0]!.id)
    expect(await outbox.begin(ids, 'another', open, outgoing('x'))).toEqual({ go: 'gone' })
    for (const { id } of entries.slice(0, 2))
      expect(await read(t, id)).toMatchObject({ asked: 'queue', parts: ['asked'] })
    for (const nth of [2, 3]) {
      const message = outgoing('y', { client_id: `y${nth}` })
      expect((await outbox.begin([ids[nth]!], 'another', open, message)).go).toBe('begun')
    }
    expect(await outbox.approve(entries[0]!.id, open, 'panel')).toMatchObject({ state: 'approved' })
    expect((await outbox.begin([ids[0]!], 'another', open, outgoing('z'))).go).toBe('begun')
  })

  it('a send that a key queues after its end does not go either', async t => {
    await wrote(t)
    const { keys, outbox, webhooks } = t.store
    await keys.add(key('a'))
    await webhooks.add(endpoint('wh', 'key:a'))
    await keys.revoke('a', t.clock.at)
    for (const made_by of ['panel:a', 'webhook:wh']) {
      const { id, parts } = await queue(t, made_by, ['late'])
      expect(await outbox.begin([parts[0]!.id], 'b', open, outgoing('x'))).toEqual({ go: 'gone' })
      expect(await read(t, id)).toMatchObject({ asked: 'queue', parts: ['asked'] })
    }
  })

  it('a key that was revoked adds nothing, lets nothing go on and approves nothing', async t => {
    await wrote(t)
    const { keys, outbox, webhooks } = t.store
    await keys.add(key('a'))
    await webhooks.add(endpoint('off', 'panel:a'))
    const { id } = await queue(t, 'owner', ['x'], { asked: 'queue' })
    const closed = await queue(t, 'owner', ['y'], { asked: 'fail' })
    await keys.revoke('a', t.clock.at)
    for (const by of ['key:a', 'panel:a']) {
      const late = [
        () => keys.add(key('child', { made_by: by })),
        () => webhooks.add(endpoint('wh', by)),
        () => outbox.approve(id, open, by),
        () => outbox.approve(closed.id, { ...open, quota: 0 }, by),
      ]
      for (const call of late) expect(await failure(call())).toMatchObject({ code: 'unauthorized' })
    }
    const goesOn = { paused: false, disabled: undefined }
    expect(await failure(webhooks.change('off', goesOn))).toMatchObject({ code: 'forbidden' })
    expect(await webhooks.list()).toMatchObject([{ id: 'off', disabled: { code: 'key_revoked' } }])
    expect((await keys.list()).map(({ id }) => id)).toEqual(['a'])
    expect(await read(t, id)).toMatchObject({ asked: 'queue', parts: ['asked'] })
    // What takes something away, it may still do.
    expect(await webhooks.change('off', { paused: true })).toBe(true)
  })

  it('at the same time as its end, a key leaves nothing that goes on', async t => {
    await using other = await t.second()
    const { keys, webhooks } = t.store
    const rounds = Array.from({ length: 30 }, (_, nth) => nth)
    for (const nth of rounds) {
      const id = `k${nth}`
      await keys.add(key(id))
      await webhooks.add(endpoint(`off${nth}`, `key:${id}`))
      await webhooks.change(`off${nth}`, { disabled: { reason: 'gone', at: 1 } })
      const calls = [
        () => webhooks.add(endpoint(`wh${nth}`, `key:${id}`)),
        () => webhooks.change(`off${nth}`, { paused: false, disabled: undefined }),
        () => keys.add(key(`child${nth}`, { made_by: `key:${id}` })),
      ]
      const all = [() => other.store.keys.revoke(id, 9), ...calls]
      // The end comes before, between and after.
      const order = [...all.slice(nth % 4), ...all.slice(0, nth % 4)]
      const ends = await Promise.allSettled(order.map(call => call()))
      for (const [place, one] of ends.entries()) {
        // The endpoint is not of its caller alone: an owner who resumes it learns that its key has ended.
        const code = order[place] === calls[1] ? 'forbidden' : 'unauthorized'
        if (one.status === 'rejected') expect(one.reason).toMatchObject({ code })
      }
    }
    expect((await webhooks.list()).filter(({ disabled }) => !disabled)).toEqual([])
    expect((await keys.list()).filter(({ revoked_at }) => revoked_at === undefined)).toEqual([])
  })

  it('a slot that it had is free for others', async t => {
    const pace: SendRules = { ...open, pace: { perSecond: 1, perWindow: 100, windowMs: 60_000 } }
    await wrote(t, ['u', 'v'])
    const { keys, outbox } = t.store
    await keys.add(key('a'))
    const entries = [await queue(t, 'owner', ['one']), await queue(t, 'key:a', ['two'], { user: 'v' })]
    await begin(t, [entries[0]!.parts[0]!.id], pace)
    const slot = t.clock.at + 1000
    const part = entries[1]!.parts[0]!.id
    expect(await outbox.begin([part], 'b', pace, outgoing('two'))).toEqual({ go: 'later', slot })
    expect(await outbox.checkAdmission('s', 'u', 1, pace)).toMatchObject({ slot: slot + 1000 })
    await keys.revoke('a', t.clock.at)
    expect(await outbox.checkAdmission('s', 'u', 1, pace)).toMatchObject({ slot })
    expect((await outbox.getEntry(entries[1]!.id))?.parts[0]?.slot).toBeUndefined()
  })

  it('a message refused after its key has ended: its slot stays taken, and its row has one event', async t => {
    const pace: SendRules = { ...open, pace: { perSecond: 1, perWindow: 100, windowMs: 60_000 } }
    await wrote(t)
    const { events, keys, outbox } = t.store
    const error = { code: 'upstream_error', detail: 'no' }
    const source = 'https://example.org/a.txt'
    const file = { name: 'x', file_name: 'a.txt', size: 3, md5: 'ab', source }
    const parts = [
      { kind: 'text', waiting: { message: outgoing('text') } },
      { kind: 'file', waiting: { message: outgoing('file', { msg_type: 'FILE' }), file } },
    ] as const
    for (const part of parts) {
      t.clock.at += 60_000
      await keys.add(key(part.kind))
      const { id, parts } = await queue(t, `key:${part.kind}`, [], { parts: [part] })
      const begun = await begin(t, [parts[0]!.id], pace)
      await keys.revoke(part.kind, t.clock.at)
      const head = await events.getHead()
      await outbox.settle(begun, { status: 'queued', error, spent: true })
      const next = { go: 'later', slot: t.clock.at + 1000 }
      expect(await outbox.checkAdmission('s', 'v', 1, pace)).toMatchObject(next)
      const after = await events.listAfter(head, { limit: 9 })
      expect(after.events.map(one => [one.message, one.status])).toEqual([[begun.row, 'queued']])
      expect(await byId(t.store, begun.row)).toMatchObject({ status: 'queued', reason_code: 'approval' })
      expect((await byId(t.store, begun.row))?.reason_quote).toBe('file' in part.waiting ? source : undefined)
      const [again] = (await outbox.getEntry(id))!.parts
      expect([again!.status, again!.tries, again!.error, again!.slot]).toEqual(['asked', 1, error, undefined])
    }
  })

  it('an approval with another text does nothing if no text waits for it', async t => {
    const { keys, outbox } = t.store
    await wrote(t)
    await keys.add(key('a'))
    const { id, parts } = await queue(t, 'key:a', ['x'])
    await begin(t, [parts[0]!.id])
    await keys.revoke('a', t.clock.at)
    expect(await read(t, id)).toMatchObject({ asked: 'queue', parts: ['sending'] })
    expect(await outbox.approve(id, open, 'panel', { text: 'y', raw: '{}' })).toBeUndefined()
    expect(await read(t, id)).toMatchObject({ asked: 'queue' })
  })

  it('a second yes is recorded in place of the first', async t => {
    const { keys, outbox } = t.store
    await keys.add(key('a'))
    const { id } = await queue(t, 'key:a', ['x'], { asked: 'queue' })
    await outbox.approve(id, open, 'panel:one')
    await keys.revoke('a', t.clock.at)
    expect((await outbox.getEntry(id))?.approved_by).toBeUndefined()
    await outbox.approve(id, open, 'panel:two')
    expect(await outbox.getEntry(id)).toMatchObject({ approved_by: 'panel:two' })
  })

  it('webhooks of ended keys are disabled, with an event each', async t => {
    const { events, keys, webhooks } = t.store
    for (const id of ['a', 'x']) await keys.add(key(id))
    await keys.add(key('child', { made_by: 'key:a' }))
    for (const by of ['key:a', 'panel:child', 'key:x', 'owner'])
      await webhooks.add(endpoint(`wh_${by.split(':')[0]}_${by.split(':')[1]}`, by))
    await webhooks.add(endpoint('wh_gone', 'key:a'))
    await webhooks.change('wh_gone', { disabled: { reason: 'it is gone', code: 'gone', at: 3 } })
    const head = await events.getHead()
    await keys.revoke('a', 7)
    const found = (await webhooks.list()).map(({ id, disabled }) => [id, disabled?.code, disabled?.at])
    expect(found).toEqual([
      ['wh_key_a', 'key_revoked', 7],
      ['wh_panel_child', 'key_revoked', 7],
      ['wh_key_x', undefined, undefined],
      ['wh_owner_undefined', undefined, undefined],
      ['wh_gone', 'gone', 3],
    ])
    const { events: news } = await events.listAfter(head, { types: ['endpoint.disabled'], limit: 9 })
    expect(news.map(({ data }) => data)).toEqual(
      ['wh_key_a', 'wh_panel_child'].map(id => ({
        ...{ id, url: `https://example.org/${id}`, reason: expect.any(String), reason_code: 'key_revoked' },
      })),
    )
  })

  it('each message that waits for a yes from then on is an event, at the time of the store', async t => {
    const { events, keys } = t.store
    await keys.add(key('a'))
    const { parts } = await queue(t, 'key:a', ['x', 'y'])
    const head = await events.getHead()
    await keys.revoke('a', 7)
    const { events: news } = await events.listAfter(head, { types: ['message.status'], limit: 9 })
    expect(news.map(({ at, message, status }) => [at, message, status])).toEqual(
      parts.map(({ message }) => [t.clock.at, message, 'queued']),
    )
  })

  it('keys end when their time is over, as if revoked, and show that they expired', async t => {
    const { keys, webhooks } = t.store
    const soon = t.clock.at + 1000
    await keys.add(key('a', { expires_at: soon }))
    await keys.add(key('child', { expires_at: soon - 1, made_by: 'key:a' }))
    await keys.add(key('revoked', { expires_at: soon }))
    await keys.add(key('later', { expires_at: soon + 1 }))
    await keys.add(key('never'))
    await keys.revoke('revoked', soon - 5)
    await webhooks.add(endpoint('wh', 'key:a'))
    const { id } = await queue(t, 'key:a', ['x'])
    expect(await keys.endExpired(soon - 2)).toEqual([])
    const { revision } = await keys.listChangedSince(0)
    expect((await keys.endExpired(soon)).toSorted()).toEqual(['a', 'child'])
    expect(await keys.endExpired(soon)).toEqual([])
    expect((await keys.listChangedSince(revision)).keys.map(one => one.id).toSorted()).toEqual(['a', 'child'])
    expect((await webhooks.get('wh'))?.disabled?.code).toBe('key_revoked')
    expect(await read(t, id)).toMatchObject({ asked: 'queue', parts: ['asked'] })
    const shown = (await keys.list()).map(one => [one.id, hasKeyEnded(one, soon), wasRevoked(one)])
    expect(shown).toEqual([
      ['a', true, false],
      ['child', true, false],
      ['revoked', true, true],
      ['later', false, false],
      ['never', false, false],
    ])
  })

  it('a yes with another text: part, row and search have it; the key of the call stays', async t => {
    await wrote(t)
    const { log, outbox } = t.store
    const edited: EditedText = { text: 'good evening\u0000', raw: '{"text":"good evening"}' }
    const calls = { asked: 'queue', key: 'k', content: 'hash' } as const
    const { id, parts } = await queue(t, 'key:a', ['good morning'], calls)
    expect(await outbox.approve(id, open, 'panel', edited)).toMatchObject({ state: 'approved' })
    const entry = await outbox.findByKey('k')
    expect(entry).toMatchObject({ id, content: 'hash', approved_by: 'panel' })
    expect(entry?.parts).toMatchObject([{ ...edited, status: 'queued' }])
    const at = (await byId(t.store, parts[0]!.message!))!
    expect([at.text, at.raw, at.status]).toEqual(['good evening\ufffd', edited.raw, 'queued'])
    const find = async (text: string) =>
      (await log.search({ text_contains: text, limit: 9, offset: 0 }, new AbortController().signal)).rows
        .length
    expect([await find('evening'), await find('morning')]).toEqual([1, 0])
    const begun = await begin(t, [parts[0]!.id])
    // A message that waits again has the new text.
    await outbox.settle(begun, { status: 'queued', spent: false })
    expect(await row(t, begun.row)).toEqual(['good evening\ufffd', 'queued', undefined])
  })

  it('a yes that comes in vain changes no text', async t => {
    const { outbox } = t.store
    const { id, parts } = await queue(t, 'key:a', ['as it was'], { asked: 'fail' })
    const never: SendRules = { ...open, quota: 0 }
    expect(await outbox.approve(id, never, 'panel', { text: 'new', raw: '{}' })).toMatchObject({
      state: 'closed',
    })
    expect(await row(t, parts[0]!.message)).toEqual(['as it was', 'queued', 'approval'])
    expect((await outbox.getEntry(id))?.parts[0]?.text).toBe('as it was')
  })
})

// The bound is counted by one routine for both engines; a thousand keys take seconds on PostgreSQL.
given(openSqlite)(
  'a key makes a bounded number of keys, itself and through others, also ones that have ended',
  async t => {
    const { keys } = t.store
    await keys.add(key('top'))
    await keys.add(key('maker', { made_by: 'key:top' }))
    for (let nth = 1; nth < maxKeysBelow; nth++) {
      const by = nth % 3 === 0 ? 'top' : nth % 3 === 1 ? 'maker' : `made${nth - 1}`
      await keys.add(key(`made${nth}`, { made_by: `key:${by}` }))
    }
    await keys.revoke('maker', 7)
    for (const made_by of ['key:top', 'panel:top', 'key:made3'])
      expect(await failure(keys.add(key('more', { made_by })))).toMatchObject({
        ...{ code: 'invalid_arguments', field: 'name', details: { most: maxKeysBelow } },
      })
    await keys.add(key('other'))
    await keys.add(key('more', { made_by: 'key:other' }))
    expect(await t.store.keys.list()).toHaveLength(maxKeysBelow + 3)
  },
)
