/** Webhooks that keys added: their replies, and their end with the key. */
import { describe, expect, test } from 'bun:test'
import { owner, type Principal } from '../../src/model/principal.ts'
import { failure } from '../support/failure.ts'
import { type TestGateway, withGateway } from '../support/gateway.ts'
import { given } from '../support/given.ts'
import { isOnPostgres } from '../support/shared-store.ts'
import { hourMs, makers, pass, seen, sent } from '../support/waiting.ts'
import { receiver } from './receiver.ts'

const it = given(withGateway)

const received = { types: ['message.received' as const], allow_private: true }
const reply = (text: string) => Response.json({ reply: { text } })

interface Wanted {
  can: ('read' | 'draft' | 'reply' | 'webhooks')[]
  tools?: string[]
  expires_at?: number
}

/** Makes a key. @returns its principal, as a door has it */
async function holder(t: TestGateway, wanted: Wanted): Promise<Principal> {
  const { key } = await t.gateway.keys.add({ name: wanted.can.join('+'), ...wanted }, owner)
  return (await t.gateway.keys.authenticate(key))!
}

const lastTry = (t: TestGateway, id: string) =>
  t.soon('logged', async () => (await t.gateway.webhooks.listAttempts(owner, id))[0])

describe('a reply', () => {
  it('of an endpoint of a key that may only draft waits for a person', async t => {
    using r = receiver(() => reply('a draft'))
    const by = await holder(t, { can: ['draft', 'webhooks'] })
    const { id } = await t.gateway.webhooks.add(by, { url: r.url, ...received, replies: true })
    await t.sandbox.say('hello')
    const [entry] = await t.soon('it waits', async () => {
      const all = await t.gateway.outbox.list(owner)
      return all.length > 0 && all
    })
    expect(entry).toMatchObject({ waits_for: 'approval', parts: [{ text: 'a draft' }] })
    expect(await lastTry(t, id)).toMatchObject({ outcome: 'done', status: 200 })
    expect((await lastTry(t, id)).code).toBeUndefined()
    expect([await seen(t), await makers(t)]).toEqual([[], [{ made_by: `webhook:${id}` }]])
    await t.gateway.outbox.approve(owner, entry!.outbox_id)
    expect(await seen(t)).toEqual(['a draft'])
  })

  it('of an endpoint of a key that may send goes out', async t => {
    using r = receiver(() => reply('yes'))
    const all: Wanted[] = [{ can: ['reply', 'webhooks'] }, { can: ['webhooks'], tools: ['send'] }]
    for (const wanted of all) {
      const by = await holder(t, wanted)
      const { id } = await t.gateway.webhooks.add(by, { url: r.url, ...received, replies: true })
      const before = (await seen(t)).length
      await t.sandbox.say('hello')
      await t.soon('it went', async () => (await seen(t)).length > before)
      await t.gateway.webhooks.remove(owner, id)
    }
    expect(await seen(t)).toEqual(['yes', 'yes'])
  })

  it('cannot be of an endpoint of a key that may neither send nor draft', async t => {
    const by = await holder(t, { can: ['read', 'webhooks'] })
    const adding = t.gateway.webhooks.add(by, { url: 'http://127.0.0.1:9/', ...received, replies: true })
    expect(await failure(adding)).toMatchObject({ code: 'forbidden' })
  })

  describe.each(['its key ended', 'it was removed', 'it was removed, and the owner had added it'])(
    'is not sent by an endpoint that answered while',
    how => {
      it(how, async t => {
        const by = how.includes('owner') ? owner : await holder(t, { can: ['reply', 'webhooks'] })
        await using other = await t.beside({ start: false })
        const { keys, webhooks } = other.gateway
        using r = receiver()
        const { id } = await t.gateway.webhooks.add(by, { url: r.url, ...received, replies: true })
        await t.sandbox.say('hello')
        await t.soon('delivered', () => r.got.length === 1)
        r.answer = async () => {
          await (how.includes('key') ? keys.revoke(by.id!, owner) : webhooks.remove(owner, id))
          return reply('too late')
        }
        await t.sandbox.say('hello again')
        // Without a push of the clock, the endpoints are rarely read again before the reply.
        await t.until('answered', () => r.got.length === 2)
        await t.pass(1000)
        expect(await sent(t)).toEqual([])
      })
    },
  )
})

describe('the end of the key', () => {
  it('ends the deliveries in progress, wherever it was revoked; others hear of it', async t => {
    const by = await holder(t, { can: ['read', 'webhooks'] })
    const begun = Promise.withResolvers<AbortSignal>()
    let deliveries = 0
    using r = receiver(({ signal }) => {
      deliveries += 1
      begun.resolve(signal)
      return new Promise(() => {})
    })
    using others = receiver()
    const { id } = await t.gateway.webhooks.add(by, { url: r.url, ...received })
    const own = { url: others.url, allow_private: true, types: ['endpoint.disabled' as const] }
    await t.gateway.webhooks.add(owner, own)
    await t.sandbox.say('hangs')
    const signal = await begun.promise
    await using other = await t.beside({ start: false })
    await other.gateway.keys.revoke(by.id!, owner)
    await t.soon('the delivery has ended', () => signal.aborted)
    await t.soon('others are told', () => others.got.length > 0)
    expect(others.got[0]?.body.data).toMatchObject({ id, url: r.url, reason_code: 'key_revoked' })
    const shown = await t.gateway.webhooks.get(owner, id)
    expect(shown).toMatchObject({ status: 'disabled', disabled_code: 'key_revoked' })
    // Another conversation does not wait behind the one that hangs.
    await t.sandbox.say('afterwards', { from: await t.sandbox.addUser() })
    await t.receive(2)
    await t.pass(2000)
    expect(deliveries).toBe(1)
  })

  it('cannot be undone at the endpoint: not resumed, also if it was switched off before; removed', async t => {
    using r = receiver(() => 410)
    const by = await holder(t, { can: ['read', 'webhooks'] })
    const { webhooks } = t.gateway
    const { id } = await webhooks.add(by, { url: r.url, ...received })
    await t.sandbox.say('hello')
    await t.soon('switched off', async () => (await webhooks.get(owner, id)).status === 'disabled')
    const paused = await webhooks.add(by, { url: r.url, ...received })
    await webhooks.pause(owner, paused.id)
    const ownersOne = await webhooks.add(owner, { url: r.url, ...received })
    await webhooks.pause(owner, ownersOne.id)
    await t.gateway.keys.revoke(by.id!, owner)
    for (const one of [id, paused.id])
      expect(await failure(webhooks.resume(owner, one))).toMatchObject({ code: 'forbidden' })
    expect((await webhooks.get(owner, paused.id)).disabled_code).toBe('key_revoked')
    expect(await webhooks.resume(owner, ownersOne.id)).toMatchObject({ status: 'active' })
    expect(await webhooks.remove(owner, id)).toMatchObject({ success: true })
  })

  it('leaves no endpoint of a call that was in progress', async t => {
    const by = await holder(t, { can: ['read', 'webhooks'] })
    const { keys, webhooks } = t.gateway
    const adding = webhooks.add(by, { url: 'http://127.0.0.1:9/', ...received }).catch(error => error)
    await keys.revoke(by.id!, owner)
    const added = await adding
    if (added instanceof Error) {
      expect(added).toMatchObject({ code: 'unauthorized' })
      expect(await webhooks.list(owner)).toEqual([])
      return
    }
    // Only a store that other machines share can have added it before it revoked the key.
    expect(isOnPostgres).toBe(true)
    expect(await webhooks.get(owner, added.id)).toMatchObject({ disabled_code: 'key_revoked' })
  })

  it('by its time has the same effect', async t => {
    using r = receiver()
    const by = await holder(t, { can: ['read', 'webhooks'], expires_at: t.clock.now() + hourMs })
    const { id } = await t.gateway.webhooks.add(by, { url: r.url, ...received })
    await pass(t, hourMs)
    await t.soon(
      'disabled',
      async () => (await t.gateway.webhooks.get(owner, id)).disabled_code === 'key_revoked',
    )
    expect(await failure(t.gateway.webhooks.resume(owner, id))).toMatchObject({ code: 'forbidden' })
  })

  it('is not a rotation: that keeps the endpoint', async t => {
    using r = receiver()
    const by = await holder(t, { can: ['read', 'webhooks'] })
    const { id } = await t.gateway.webhooks.add(by, { url: r.url, ...received })
    await t.gateway.keys.rotate(by.id!, 0, owner)
    await t.sandbox.say('hello')
    await t.soon('delivered', () => r.got.length > 0)
    expect(await t.gateway.webhooks.get(owner, id)).toMatchObject({ status: 'active' })
  })
})

test('an endpoint of a key follows its session to a new name, and gets nothing of another account', async () => {
  await using t = await withGateway()
  using r = receiver()
  const by = await holder(t, { can: ['read', 'webhooks'] })
  const mine = { url: r.url, ...received, session: 'default' }
  await t.gateway.webhooks.add(by, mine)
  const first = t.bots.get('default')!
  await t.sandbox.say('before', { to: first.bot_id })
  await t.soon('delivered', () => r.texts().length === 1)
  await t.gateway.accounts.rename('default', 'work')
  const second = await t.connect('default', await t.sandbox.addUser('second'))
  await t.sandbox.say('of another account', { to: second.bot_id, from: second.user_id })
  await t.sandbox.say('after', { to: first.bot_id })
  await t.receive(3)
  await t.soon('delivered', () => r.texts().length === 2)
  expect(r.texts()).toEqual(['before', 'after'])
})

test('an endpoint of a key for certain accounts gets nothing of another account, whatever its name', async () => {
  await using t = await withGateway({ sessions: ['default', 'other'] })
  using r = receiver()
  using all = receiver()
  const { key } = await t.gateway.keys.add(
    { name: 'bot', can: ['read', 'webhooks'], sessions: ['default'] },
    owner,
  )
  const by = (await t.gateway.keys.authenticate(key))!
  await t.gateway.webhooks.add(by, { url: r.url, allow_private: true })
  await t.gateway.webhooks.add(owner, { url: all.url, ...received })
  const [first, other] = [t.bots.get('default')!, t.bots.get('other')!]
  const say = (bot: typeof first, text: string) => t.sandbox.say(text, { to: bot.bot_id, from: bot.user_id })
  await say(other, 'of other')
  await say(first, 'mine')
  await t.soon('delivered', () => r.texts().includes('mine'))
  await t.gateway.accounts.rename('default', 'work')
  await t.gateway.accounts.rename('other', 'default')
  await say(other, 'of other, under the old name')
  await t.soon('delivered', () => all.texts().length === 3)
  await say(first, 'mine under a new name')
  await t.soon('delivered', () => r.texts().includes('mine under a new name'))
  const messages = r.got.filter(({ body }) => body.type.startsWith('message.'))
  expect(messages.map(({ body }) => body.data.text)).toEqual(['mine', 'mine under a new name'])
  const sessions = r.got.filter(({ body }) => body.type.startsWith('session.'))
  expect(sessions.every(({ body }) => body.data.bot_id === first.bot_id)).toBe(true)
})
