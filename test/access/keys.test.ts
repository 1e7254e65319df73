/** Keys: what a new one may do, how long it is valid, and how fast its end takes effect. */
import { expect, test } from 'bun:test'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { usageOf } from '../../src/access/usage.ts'
import { viewFor } from '../../src/gateway/scoped.ts'
import type { SvcError } from '../../src/model/error.ts'
import type { NewKeyInput } from '../../src/model/key.ts'
import { owner, type Principal } from '../../src/model/principal.ts'
import { maxReaders } from '../../src/storage/events.ts'
import { codeOf, failure, fieldsOf } from '../support/failure.ts'
import { rowsIn, type TestGateway, withGateway } from '../support/gateway.ts'
import { given } from '../support/given.ts'
import { isOnPostgres } from '../support/shared-store.ts'
import { pass } from '../support/waiting.ts'

/** How long WeChat holds a question about a code. */
const switches = { hold_ms: 100 }
const it = given(() => withGateway({ sessions: ['work', 'home'], start: false, switches }))
const dayMs = 86_400_000

/** Adds a key as the owner, and returns it with the principal of its callers. */
async function addKey({ gateway }: TestGateway, input: Partial<NewKeyInput> = {}, maker: Principal = owner) {
  const added = await gateway.keys.add({ name: 'bot', can: ['read'], ...input }, maker)
  const by = await gateway.keys.authenticate(added.key)
  if (!by) throw new Error('the key is not recognised')
  return { ...added, by }
}

it('is known by its secret alone, and is shown without it', async t => {
  const { keys } = t.gateway
  expect(await keys.hasAny()).toBe(false)
  const { by, id, key } = await addKey(t, { can: ['reply'] })
  expect(await keys.hasAny()).toBe(true)
  expect(key).toMatch(/^svc_[0-9a-z]{8}_[0-9a-f]{64}$/)
  expect(by).toMatchObject({ kind: 'key', id, name: 'bot' })
  expect(by.grant?.rights).toContain('send')
  expect(await keys.authenticate(key)).toBe(by)
  expect(JSON.stringify([await keys.list(owner), await keys.get(id, owner)])).not.toContain(key.slice(-64))
  const last = key.at(-1) === '0' ? '1' : '0'
  for (const wrong of [key.slice(0, -1) + last, `${key}0`, key.slice(4), key.replace(id, 'aaaaaaaa'), ''])
    expect([wrong, await keys.authenticate(wrong)]).toEqual([wrong, undefined])
})

it('cannot ask and decide, nor have rights that its limits do not fit', async t => {
  const { keys } = t.gateway
  const wrong = async (input: Partial<NewKeyInput>) => {
    const error = await failure(keys.add({ name: 'bot', ...input }, owner))
    expect(error).toMatchObject({ code: 'invalid_arguments' })
    return fieldsOf(error)
  }
  for (const can of [['reply'], ['draft'], ['send'], ['operate']])
    expect([can, await wrong({ can: [...can, 'approve'] })]).toEqual([can, ['can']])
  expect(await wrong({ can: ['approve'], tools: ['send'] })).toEqual(['can'])
  // Otherwise its sends would wait for nobody.
  for (const can of [
    ['draft', 'send'],
    ['draft', 'reply'],
    ['operate', 'draft'],
  ])
    expect([can, await wrong({ can })]).toEqual([can, ['can']])
  expect(await wrong({ can: ['draft'], tools: ['recv', 'send'] })).toEqual(['can'])
  expect(await wrong({ can: ['metrics'], users: [] })).toEqual(['can'])
  expect(await wrong({ can: ['all'], sessions: ['work'] })).toEqual(['can'])
  expect(await wrong({ can: ['read'], users: ['nobody has this name'] })).toEqual(['users'])
  expect(await wrong({ can: ['read'], expires_at: t.clock.now() })).toEqual(['expires_at'])
  expect(await codeOf(keys.add({ name: 'bot', can: ['read'], sessions: ['nope'] }, owner))).toBe(
    'session_not_found',
  )
  expect(await keys.list(owner)).toEqual([])
  const { by } = await addKey(t, { can: ['read', 'approve'] })
  expect(by.grant?.rights).toContain('approve')
  const none = await addKey(t, { name: 'none', sessions: [], users: [] })
  expect(none.by.grant).toMatchObject({ bots: [], users: [] })
})

it('follows a rename of its session, and is closed to another account under the old name', async t => {
  const { bot_id } = t.bots.get('work')!
  const { by, id } = await addKey(t, { sessions: ['Work', 'work'] })
  expect(by.grant?.bots).toEqual([bot_id])
  await t.gateway.accounts.rename('work', 'office')
  const other = await t.connect('work')
  expect(other.bot_id).not.toBe(bot_id)
  expect(await t.gateway.keys.get(id, owner)).toMatchObject({ sessions: [{ bot_id, session: 'office' }] })
  expect((await addKey(t, { name: 'next', sessions: ['work'] })).by.grant?.bots).toEqual([other.bot_id])
})

it('follows a new login of the same person, with what is open, and is closed to another person', async t => {
  const { gateway, sandbox } = t
  const { bot_id, user_id } = t.bots.get('work')!
  const { by, id, key } = await addKey(t, { can: ['reply'], sessions: ['work'] })
  const own = viewFor(gateway, by)
  /** Logs the session in again, as this person. @returns the account */
  const loginAs = async (user: string) => {
    const of = { session_name: 'work', force: true }
    const ask = (timeout: number) =>
      gateway.logins.login(owner, { ...of, timeout }, new AbortController().signal)
    const { qr_url } = await ask(0)
    await sandbox.scan({ qrcode: qr_url!, user, confirm: true })
    await t.soon('the login', async () => (await ask(0)).status === 'confirmed')
    await pass(t, 1000)
    return (await gateway.accounts.list())[0]?.bot_id
  }
  const next = await loginAs(user_id)
  expect(next).not.toBe(bot_id)
  expect((await own.accounts.list()).map(session => [session.name, session.bot_id])).toEqual([['work', next]])
  expect(await gateway.keys.get(id, owner)).toMatchObject({ sessions: [{ bot_id: next, session: 'work' }] })
  expect([by.ended?.aborted, await gateway.keys.authenticate(key)]).toEqual([false, by])
  await loginAs(await sandbox.addUser('Bob'))
  expect(await own.accounts.list()).toEqual([])
  expect((await gateway.keys.get(id, owner)).sessions).toMatchObject([{ bot_id: expect.any(String) }])
})

it('that is limited to users changes nothing for all users of an account', async t => {
  const { user_id } = t.bots.get('home')!
  const can = ['operate', 'logout', 'rename']
  const some = viewFor(t.gateway, (await addKey(t, { can, users: [user_id] })).by).accounts
  for (const call of [
    () => some.setDefault('home'),
    () => some.logout('home'),
    () => some.rename('home', 'x'),
  ])
    expect(await codeOf(call())).toBe('forbidden')
  const whole = viewFor(t.gateway, (await addKey(t, { name: 'whole', can, sessions: ['home'] })).by).accounts
  await whole.setDefault('home')
  expect((await t.gateway.accounts.list()).find(one => one.is_default)?.name).toBe('home')
})

it('makes only keys that may do no more than itself', async t => {
  const { keys } = t.gateway
  const { user_id } = t.bots.get('work')!
  const users = [user_id, 'b@im.wechat']
  const expires_at = t.clock.now() + dayMs
  const limits = { calls_per_second: 10 }
  const can = ['reply', 'keys']
  const maker = await addKey(t, { name: 'maker', can, sessions: ['work'], users, limits, expires_at })
  const narrow: NewKeyInput = {
    name: 'child',
    can: ['draft'],
    sessions: ['work'],
    users: [user_id],
    limits: { calls_per_second: 10, open: 1 },
    expires_at,
  }
  const without = (field: keyof NewKeyInput) => ({ ...narrow, [field]: undefined })
  for (const wider of [
    { ...narrow, can: ['operate'] },
    { ...narrow, can: ['read', 'approve'] },
    { ...narrow, tools: ['login'] },
    { ...narrow, users: ['c@im.wechat'] },
    { ...narrow, limits: { calls_per_second: 11 } },
    { ...narrow, expires_at: expires_at + 1 },
    ...(['sessions', 'users', 'limits', 'expires_at'] as const).map(without),
  ])
    expect([wider, await codeOf(keys.add(wider, maker.by))]).toEqual([wider, 'forbidden'])
  // A foreign session is answered as one that does not exist, and a name could be that of a foreign user.
  const errorFor = async (session: string) =>
    JSON.stringify(await failure(keys.add({ ...narrow, sessions: [session] }, maker.by))).replaceAll(
      session,
      '',
    )
  expect(await errorFor('home')).toContain('session_not_found')
  expect(await errorFor('home')).toBe(await errorFor('hole'))
  expect(fieldsOf(await failure(keys.add({ ...narrow, users: ['Mum'] }, maker.by)))).toEqual(['users'])
  const child = await addKey(t, narrow, maker.by)
  expect(await keys.get('child', owner)).toMatchObject({ made_by: `key:${maker.id}`, can: ['draft'] })
  expect(
    (await addKey(t, { ...narrow, name: 'send', can: ['read'], tools: ['send'] }, maker.by)).tools,
  ).toEqual(['send'])
  // It manages these, and no others.
  const names = async (by: Principal) => (await keys.list(by)).map(({ name }) => name)
  expect(await names(maker.by)).toEqual(['child', 'send'])
  expect(await names(child.by)).toEqual([])
  for (const hidden of ['maker', maker.id, 'nope'])
    expect(await codeOf(keys.get(hidden, child.by))).toBe('not_found')
  expect(await codeOf(keys.revoke(maker.id, maker.by))).toBe('not_found')
  expect(await codeOf(keys.rotate('child', 0, child.by))).toBe('not_found')
})

/** Names that a reader cannot see, or that look like another one. */
const unseenNames = [
  ...[
    ' ',
    '\u3000',
    'a\u0007b',
    'a\nb',
    'a\tb',
    'a\u0085b',
    'a\u2028b',
    'a\u2029b',
    'a\u001b[31mb',
    '\u0000',
  ],
  ...[
    'a\u202eb',
    'a\u2067b',
    '\u061ca',
    'a\u200bb',
    'a\u200db',
    'a\ufeffb',
    'a\u2060b',
    'a\u00adb',
    'a\u034fb',
  ],
  ...[
    '\u3164',
    '\u2800',
    'a\u115fb',
    'a\ufe0fb',
    'a\u{e0041}b',
    'a\ue000b',
    'a\ud800b',
    '👨\u200d👩\u200d👧',
  ],
  ...['\u0301a', `a${'\u0335'.repeat(4)}`, `Z${'\u0322\u0321\u0353\u0324'}bot`],
]
/** Names that look like a principal. */
const principalNames = [
  ...['owner', 'panel', 'stdio', 'open', 'key:zz', 'agent:x', 'panel:', 'webhook:wh_1', 'owner:1'],
  ...[
    'Owner ',
    ' OWNER',
    'ＯＷＮＥＲ',
    'ｏwner',
    '𝐨𝐰𝐧𝐞𝐫',
    'Ⓞwner',
    'ówner',
    'o\u0335wner',
    'KEY:zz',
    'ｋｅｙ：zz',
  ],
  ...['key : zz', 'key\u3000: zz', 'agent\u2236x', 'panel\ua789x', 'ᵏᵉʸ:zz', 'ﬀkey:zz'.slice(1)],
]

it('has a name that people can see, and take for no other caller', async t => {
  const { keys } = t.gateway
  for (const name of [...unseenNames, ...principalNames])
    expect([escape(name), fieldsOf(await failure(keys.add({ name, can: ['read'] }, owner)))]).toEqual([
      escape(name),
      ['name'],
    ])
  expect(await keys.list(owner)).toEqual([])
  const named = async (name: string) => (await addKey(t, { name })).name
  for (const name of [
    '客服',
    'Mum ❤️',
    'agent',
    'key',
    'webhook-bot',
    'owner-bot',
    'Открытый',
    'ngữ',
    'สี่',
    'حَسَّان',
    'הַשָּׁ',
    'བསྒྲུབས',
  ])
    expect(await named(name)).toBe(name)
  expect(await named('  front \u3000 desk ')).toBe('front desk')
  expect(await named('Mo\u0308we')).toBe('Möwe')
})

it('has a name that no other key in use has', async t => {
  const { keys } = t.gateway
  const first = await addKey(t, { expires_at: t.clock.now() + dayMs })
  expect(fieldsOf(await failure(keys.add({ name: 'bot', can: ['read'] }, owner)))).toEqual(['name'])
  t.clock.advance(dayMs)
  const second = await addKey(t)
  expect((await keys.get('bot', owner)).id).toBe(second.id)
  await keys.revoke('bot', owner)
  const third = await addKey(t)
  expect((await keys.list(owner)).map(({ id, status }) => [id, status])).toEqual([
    [first.id, 'expired'],
    [second.id, 'revoked'],
    [third.id, 'active'],
  ])
  // An id comes before a name.
  await addKey(t, { name: first.id })
  expect((await keys.get(first.id, owner)).name).toBe('bot')
})

it('expires, also for calls that are waiting', async t => {
  const { keys } = t.gateway
  const { by, id, key } = await addKey(t, { expires_at: t.clock.now() + dayMs })
  t.clock.advance(dayMs - 10_000)
  expect(await keys.authenticate(key)).toBe(by)
  expect(by.ended?.aborted).toBe(false)
  t.clock.advance(10_000)
  expect(await keys.authenticate(key)).toBeUndefined()
  await t.until('its calls end', () => by.ended?.aborted)
  expect(by.ended?.reason).toMatchObject({ code: 'unauthorized' })
  expect(await codeOf(keys.rotate(id, 0, owner))).toBe('not_found')
})

it('keeps its id when it is rotated; the old secret ends now or later', async t => {
  const { keys } = t.gateway
  const { by, id, key } = await addKey(t)
  const second = await keys.rotate('bot', 0, owner)
  expect(second.id).toBe(id)
  expect(second).not.toHaveProperty('rotating_until')
  expect(await keys.authenticate(key)).toBeUndefined()
  const secondBy = (await keys.authenticate(second.key))!
  const third = await keys.rotate(id, dayMs, owner)
  expect(third.rotating_until).toBeGreaterThan(t.clock.now())
  expect(await keys.authenticate(second.key)).toBe(secondBy)
  const thirdBy = (await keys.authenticate(third.key))!
  expect(await keys.authenticate(key)).toBeUndefined()
  expect([secondBy.ended?.aborted, thirdBy.ended?.aborted]).toEqual([false, false])
  t.clock.advance(dayMs)
  expect(await keys.authenticate(second.key)).toBeUndefined()
  expect(await keys.authenticate(third.key)).toBe(thirdBy)
  await t.until('what the secret has open ends', () => secondBy.ended?.aborted)
  expect(secondBy.ended?.reason).toMatchObject({ code: 'unauthorized' })
  expect(thirdBy.ended?.aborted).toBe(false)
  // The callers share what the key may use.
  expect(new Set([by, secondBy, thirdBy].map(({ grant }) => grant)).size).toBe(1)
})

it('ends the secret before the last one with the next rotation, whatever time it had', async t => {
  const { keys } = t.gateway
  const first = await addKey(t)
  const second = await keys.rotate('bot', dayMs, owner)
  expect(first.by.ended?.aborted).toBe(false)
  await keys.rotate('bot', dayMs, owner)
  expect([first.by.ended?.aborted, await keys.authenticate(first.key)]).toEqual([true, undefined])
  expect(await keys.authenticate(second.key)).toBeDefined()
})

it('is ended by no clock that comes back', async t => {
  await using beside = await t.beside({ start: false })
  const { keys } = t.gateway
  const expiring = await addKey(t, { expires_at: t.clock.now() + dayMs })
  const rotated = await addKey(t, { name: 'rotated' })
  await keys.rotate('rotated', dayMs, owner)
  const view = viewFor(t.gateway, expiring.by)
  const file = { body: new Blob(['x']).stream(), file_name: 'a.txt' }
  const { upload_id } = await view.media.accept(file, new AbortController().signal)
  const seen = async () => [
    await Promise.all([keys, beside.gateway.keys].map(async all => (await all.get('bot', owner)).status)),
    ...(await Promise.all(
      [expiring, rotated].map(async one => (await keys.authenticate(one.key)) === one.by),
    )),
    ...[expiring, rotated].map(({ by }) => by.ended?.aborted),
  ]
  expect(await seen()).toEqual([['active', 'active'], true, true, false, false])
  t.clock.step(3 * dayMs)
  // While it is ahead, who lists and who checks judge alike; nothing that is open ends.
  expect(await seen()).toEqual([['expired', 'expired'], false, false, false, false])
  const other = await addKey(t, { name: 'other' })
  await pass(t, 2000)
  await keys.revoke(other.id, owner)
  expect(await seen()).toEqual([['expired', 'expired'], false, false, false, false])
  t.clock.step(-3 * dayMs)
  await pass(t, 2000)
  expect(await seen()).toEqual([['active', 'active'], true, true, false, false])
  await view.media.accept({ ...file, body: new Blob(['y']).stream() }, new AbortController().signal)
  if (!isOnPostgres) expect(readdirSync(join(t.dir, 'media/uploads')).join()).toContain(upload_id)
})

it('ends with all keys that it made', async t => {
  const { keys } = t.gateway
  const top = await addKey(t, { name: 'top', can: ['read', 'keys'] })
  const child = await addKey(t, { name: 'child', can: ['recv', 'keys'] }, { ...top.by, kind: 'panel' })
  const grandchild = await addKey(t, { name: 'grandchild', can: ['recv'] }, child.by)
  const beside = await addKey(t, { name: 'beside' })
  expect((await keys.list(top.by)).map(({ name }) => name)).toEqual(['child', 'grandchild'])
  expect(await keys.revoke('top', owner)).toEqual({
    success: true,
    revoked: [top.id, child.id, grandchild.id],
  })
  for (const { by, key } of [top, child, grandchild]) {
    expect(by.ended?.reason).toMatchObject({ code: 'unauthorized' })
    expect(await keys.authenticate(key)).toBeUndefined()
  }
  expect(await keys.authenticate(beside.key)).toBe(beside.by)
  expect(await keys.revoke(top.id, owner)).toEqual({ success: true, revoked: [] })
  expect(await codeOf(keys.rotate(top.id, 0, owner))).toBe('not_found')
  // A call of a revoked key that is still on its way leaves no key behind.
  expect(await codeOf(keys.add({ name: 'late', can: ['recv'] }, top.by))).toBe('unauthorized')
  expect(await codeOf(keys.get('late', owner))).toBe('not_found')
})

it('leaves no upload that came in at its end, and no code that could be scanned', async t => {
  const { by, id } = await addKey(t, { can: ['operate'] })
  const view = viewFor(t.gateway, by)
  const { signal } = new AbortController()
  const names = async () => (await t.gateway.accounts.list()).map(({ name }) => name).sort()
  const started = await view.logins.login(by, { session_name: 'new', timeout: 0, force: false }, signal)
  expect(await names()).toEqual(['home', 'new', 'work'])
  const file = new TransformStream<Uint8Array, Uint8Array>()
  const accepting = failure(view.media.accept({ body: file.readable, file_name: 'a.txt' }, signal))
  const writer = file.writable.getWriter()
  await writer.write(Buffer.from('half'))
  await t.gateway.keys.revoke(id, owner)
  await writer.close()
  expect(await accepting).toMatchObject({ code: 'unauthorized' })
  if (!isOnPostgres) expect(readdirSync(join(t.dir, 'media/uploads'))).toEqual([])
  await t.soon('the login is over', async () => (await names()).length === 2)
  await t.sandbox.scan({ qrcode: started.qr_url!, confirm: true })
  await pass(t, 60_000)
  expect(await names()).toEqual(['home', 'work'])
})

it('is the same in every process within a second', async t => {
  await using beside = await t.beside({ start: false })
  const [here, there] = [t.gateway.keys, beside.gateway.keys]
  expect(await there.hasAny()).toBe(false)
  const added = await addKey(t)
  t.clock.advance(1000)
  expect(await there.hasAny()).toBe(true)
  const by = (await there.authenticate(added.key)) as Principal
  expect(by).toMatchObject({ kind: 'key', id: added.id })
  const rotated = await here.rotate('bot', 0, owner)
  t.clock.advance(1000)
  await t.until('the calls with the old secret end', () => by.ended?.aborted)
  expect([added.by.ended?.aborted, await there.authenticate(added.key)]).toEqual([true, undefined])
  const again = await here.rotate('bot', 0, owner)
  // The new secret is valid at once, in every process.
  const next = (await there.authenticate(again.key)) as Principal
  expect([await there.authenticate(rotated.key), next.ended?.aborted]).toEqual([undefined, false])
  await here.revoke('bot', owner)
  t.clock.advance(1000)
  await t.until('its calls end', () => next.ended?.aborted)
  expect(await there.authenticate(again.key)).toBeUndefined()
})

it('reaches an erased user no more, in calls that are waiting too', async t => {
  const { people, keys } = t.gateway
  const users = ['gone@im.wechat', 'stays@im.wechat']
  const { by, key } = await addKey(t, { users })
  await people.forget('gone@im.wechat')
  t.clock.advance(1000)
  await t.until('its calls end', () => by.ended?.aborted)
  const next = (await keys.authenticate(key)) as Principal
  expect(next.grant?.users).toEqual(['stays@im.wechat'])
  expect(next.ended?.aborted).toBe(false)
})

it('says when and from where it was used last, about once a minute', async t => {
  const { keys } = t.gateway
  const { id, key } = await keys.add({ name: 'bot', can: ['read'] }, owner)
  // No call waits for the note of its use.
  const noted = (of: string, address: string) =>
    t.until(`${address} is noted`, async () => (await keys.get(of, owner)).last_address === address)
  await keys.authenticate(key, () => '192.0.2.1')
  await noted(id, '192.0.2.1')
  await keys.authenticate(key, () => '192.0.2.2')
  // The first use of another key is noted, and would be after that one.
  const other = await keys.add({ name: 'other', can: ['read'] }, owner)
  await keys.authenticate(other.key, () => '192.0.2.2')
  await noted(other.id, '192.0.2.2')
  expect(await keys.get(id, owner)).toMatchObject({ last_address: '192.0.2.1' })
  t.clock.advance(60_000)
  await keys.authenticate(key, () => '192.0.2.3')
  await noted(id, '192.0.2.3')
})

it('describes itself to its caller', async t => {
  const { keys } = t.gateway
  const { bot_id } = t.bots.get('work')!
  const limits = { open: 2 }
  const { by } = await addKey(t, { sessions: ['work'], limits })
  const sessions = [{ bot_id, session: 'work' }]
  expect(await keys.describe(by)).toEqual({ name: 'bot', sessions, limits, left: { open: 2 } })
  expect(await keys.describe(owner)).toEqual({})
})

it('shares its limits with the keys below it, also with those that are made again', async t => {
  const { keys } = t.gateway
  const limits = { calls_per_second: 100, open: 3, bytes_per_day: 1000 }
  const can: NewKeyInput['can'] = ['read', 'keys']
  const top = await addKey(t, { name: 'top', can, limits })
  const child = await addKey(t, { name: 'child', can, limits }, top.by)
  // By a person who signed in to the panel with it.
  const grandchild = await addKey(t, { name: 'grandchild', limits }, { ...child.by, kind: 'panel' })
  usageOf(grandchild.by)!.countBytes(400)
  usageOf(child.by)!.countBytes(300)
  const end = usageOf(grandchild.by)!.beginWait()
  for (const { by } of [top, child])
    expect(await keys.describe(by)).toMatchObject({ left: { bytes_per_day: 300, open: 2 } })
  await keys.revoke('child', top.by)
  const again = await addKey(t, { name: 'child', can, limits }, top.by)
  await keys.rotate('child', 0, top.by)
  expect(await keys.describe(again.by)).toMatchObject({ left: { bytes_per_day: 300, open: 2 } })
  usageOf(again.by)!.countBytes(300)
  for (const { by } of [again, top])
    expect(await codeOf(Promise.try(() => usageOf(by)!.countBytes(1)))).toBe('rate_limited')
  end()
  expect(await keys.describe(again.by)).toMatchObject({ left: { bytes_per_day: 0, open: 3 } })
})

test('leaves a bounded number of readers, and no mark of a user who is not there', async () => {
  await using t = await withGateway({ sessions: ['work', 'home'] })
  const { gateway } = t
  const { user_id } = t.bots.get('work')!
  await t.sandbox.say('hi', { from: user_id, to: t.bots.get('work')!.bot_id })
  await t.receive(1)
  const top = await addKey(t, { name: 'top', can: ['read', 'keys'] })
  await gateway.inbox.begin('mine', {})
  let nth = 0
  for (; nth < maxReaders; ) {
    const { by } = await addKey(t, { name: `made ${nth}` }, top.by)
    for (let own = 0; own < 100; own++) await viewFor(gateway, by).inbox.begin(`n${nth++}`, {})
  }
  const { by } = await addKey(t, { name: 'last' }, top.by)
  const view = viewFor(gateway, by)
  expect(await codeOf(view.inbox.begin('more', {}))).toBe('rate_limited')
  await gateway.inbox.begin('more', {})
  const names = [
    ...(await gateway.metrics.text()).matchAll(/^svc_consumer_lag_messages\{consumer="(.*)"\}/gm),
  ]
  expect(names.length).toBeLessThanOrEqual(100)
  // Those of keys do not hide the others.
  expect(names.map(([, name]) => name)).toEqual(expect.arrayContaining(['mine', 'more']))
  // Those of a key that ends give their places.
  await gateway.keys.revoke('made 0', top.by)
  await view.inbox.begin('more', {})

  for (const session of ['work', 'home', 'nowhere'])
    for (let other = 0; other < 3; other++) {
      await view.conversations.markRead(session, `nobody${other}@im.wechat`, 1)
      await gateway.conversations.markRead(session, `nobody${other}@im.wechat`, 1)
    }
  await view.conversations.markRead('work', user_id, 1)
  const marks = () =>
    rowsIn<{ peer: string }>(t.dir, 'SELECT peer FROM person_mark UNION ALL SELECT peer FROM read_mark')
  expect(await marks()).toEqual([{ peer: user_id }])
  await gateway.keys.revoke('last', owner)
  expect(await marks()).toEqual([])
})

test('gives its user the name of somebody whom it does not see; the owner is told which two', async () => {
  await using t = await withGateway({ sessions: ['work'] })
  const { gateway } = t
  const { bot_id } = t.bots.get('work')!
  const [mum, other] = [await t.sandbox.addUser('a'), await t.sandbox.addUser('b')]
  for (const from of [mum, other]) await t.sandbox.say('hi', { from, to: bot_id })
  await t.receive(2)
  await gateway.users.name({ user_id: mum, name: 'Mum' })
  const { by } = await addKey(t, { can: ['read', 'names'], users: [other] })
  const seeing = await addKey(t, { name: 'seeing', can: ['read', 'names'], users: [other, mum] })
  for (const users of [viewFor(gateway, seeing.by).users, gateway.users])
    expect(await failure(users.name({ user_id: other, name: 'mum' }))).toMatchObject({
      details: { user_id: mum },
    })
  // As any free name.
  const named = await viewFor(gateway, by).users.name({ user_id: other, name: 'mum' })
  expect(JSON.stringify(named)).not.toContain(mum)
  for (const session of [undefined, 'work']) {
    const error = await failure(gateway.users.list({ user_id: 'Mum', ...(session && { session }) }))
    expect(error).toMatchObject({ code: 'invalid_arguments' })
    for (const id of [mum, other]) expect((error as SvcError).hint).toContain(id)
  }
  expect(await viewFor(gateway, by).users.list({ user_id: 'Mum' })).toMatchObject([{ user_id: other }])
})

it('learns no names of keys that it may not see; the owner is told which keys have one name', async t => {
  const { keys } = t.gateway
  const can: NewKeyInput['can'] = ['read', 'keys']
  const top = await addKey(t, { name: 'top', can })
  const foreign = await addKey(t, { name: 'secret project' })
  const own = await addKey(t, { name: 'secret project' }, top.by)
  const taken = await failure(addKey(t, { name: 'secret project' }, top.by))
  expect(taken).toMatchObject({ code: 'invalid_arguments', details: { keys: [own.id] } })
  expect(JSON.stringify([taken, (taken as SvcError).message])).not.toContain(foreign.id)
  expect(await keys.get('secret project', top.by)).toMatchObject({ id: own.id })
  for (const work of [keys.get('secret project', owner), keys.revoke('secret project', owner)])
    expect(await failure(work as Promise<unknown>)).toMatchObject({
      code: 'invalid_arguments',
      details: { keys: [foreign, own].map(({ id, made_by }) => ({ id, made_by })) },
    })
  await keys.revoke(foreign.id, owner)
  expect(await keys.get('secret project', owner)).toMatchObject({ id: own.id })
})

it('has half of the webhooks at most, together with the keys that it made', async t => {
  const { gateway } = t
  const can: NewKeyInput['can'] = ['read', 'webhooks', 'keys']
  const top = await addKey(t, { name: 'top', can })
  const child = await addKey(t, { name: 'child', can }, top.by)
  const endpoint = { url: 'http://127.0.0.1:9/', allow_private: true }
  for (let nth = 0; nth < 50; nth++) {
    const { by } = nth % 2 === 0 ? top : child
    await viewFor(gateway, by).webhooks.add(by, endpoint)
  }
  await gateway.keys.revoke('child', top.by)
  const again = await addKey(t, { name: 'again', can }, top.by)
  for (const { by } of [top, again])
    expect(await failure(viewFor(gateway, by).webhooks.add(by, endpoint))).toMatchObject({
      ...{ code: 'invalid_arguments', details: { most: 50 } },
    })
  const other = await addKey(t, { name: 'other', can })
  await viewFor(gateway, other.by).webhooks.add(other.by, endpoint)
  await gateway.webhooks.add(owner, endpoint)
})
