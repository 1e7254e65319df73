/** Programs of the relay: what one gets when it is added, what answers beside it, and what it keeps at a new login. */
import { expect } from 'bun:test'
import { viewFor } from '../../src/gateway/scoped.ts'
import { createDirectCall } from '../../src/model/call.ts'
import { owner } from '../../src/model/principal.ts'
import type { NewRelayInput } from '../../src/model/relay.ts'
import { codeOf, failure } from '../support/failure.ts'
import { type TestGateway, withGateway } from '../support/gateway.ts'
import { given } from '../support/given.ts'

/** How long WeChat holds a question about a code. */
const switches = { hold_ms: 100 }
const it = given(() => withGateway({ sessions: ['work', 'home'], switches }))

async function add({ gateway }: TestGateway, input: Partial<NewRelayInput> = {}, maker = owner) {
  const added = await gateway.relayClients.add(maker, { name: 'openclaw', session: 'work', ...input })
  const by = await gateway.keys.authenticate(added.token!)
  if (!by) throw new Error('the token is not recognised')
  return { added, by }
}
const say = async (t: TestGateway, text: string, session = 'work') => {
  const { bot_id, user_id } = t.bots.get(session)!
  await t.sandbox.say(text, { from: user_id, to: bot_id })
  await t.until('it is stored', async () => {
    const { messages } = await t.gateway.history.page({ text_contains: text, limit: 1, offset: 0 })
    return messages.length > 0
  })
}
const listed = async ({ gateway }: TestGateway, by = owner) =>
  (await gateway.relayClients.list(by)).map(({ name, unread }) => [name, unread])

it('gets what comes from now on, of its session, and a key that may do nothing else', async t => {
  const { bot_id, user_id } = t.bots.get('work')!
  await say(t, 'before')
  const { added, by } = await add(t, { url: 'https://svc.example.com/base/', for: 'openclaw' })
  expect(added).toMatchObject({
    name: 'openclaw',
    session: 'work',
    answers: 'all',
    unread: 0,
    base_url: 'https://svc.example.com/base',
    cdn_url: 'https://svc.example.com/base/ilink/c2c',
    bot_id,
    user_id,
    others: [],
  })
  expect(by).toMatchObject({ id: added.id, grant: { rights: ['relay'], bots: [bot_id] } })
  expect(added.settings?.map(({ text }) => text).join()).toContain(added.token)
  await say(t, 'now')
  await say(t, 'elsewhere', 'home')
  expect(await listed(t)).toEqual([['openclaw', 1]])
  expect(JSON.stringify(await t.gateway.relayClients.list(owner))).not.toContain(added.token!.slice(-64))
})

it('a called program has no count of what it will not get, and is no answer to each message', async t => {
  const { added } = await add(t, { name: 'helper', answers: 'called' })
  await say(t, 'not for it')
  const [client] = await t.gateway.relayClients.list(owner)
  expect([added.unread, client?.unread]).toEqual([undefined, undefined])
  expect((await add(t)).added.others).toEqual([])
})

it('the only session that is logged in is the one that is meant', async t => {
  expect(await failure(add(t, { session: undefined }))).toMatchObject({ code: 'invalid_arguments' })
  await t.gateway.accounts.logout('home')
  expect((await add(t, { session: undefined })).added.session).toBe('work')
  expect(await codeOf(add(t, { name: 'b', session: 'home' }))).not.toBe('')
  expect(await codeOf(add(t, { name: 'b', session: 'nope' }))).toBe('session_not_found')
  expect(await listed(t)).toEqual([['openclaw', 0]])
})

it('is told what answers in its session, too; a caller with a key is told no names', async t => {
  const { gateway } = t
  const { agents, keys, webhooks } = gateway
  const hook = { url: 'http://127.0.0.1:9/', allow_private: true, replies: true }
  const { id } = await webhooks.add(owner, { ...hook, session: 'work' })
  await webhooks.add(owner, { ...hook, session: 'home' })
  await webhooks.add(owner, { ...hook, session: 'work', replies: false })
  const agent = { about: 'codex exec', allow: 'everyone', commands: true, place: 0, group: 'g' } as const
  await gateway.inbox.begin('agent-claude')
  await agents.claimAgent('claude', undefined, agent)
  await add(t, { name: 'elsewhere', session: 'home' })
  await add(t, { name: 'first' })
  const others = [
    { kind: 'agent', name: 'claude' },
    { kind: 'webhook', name: id },
    { kind: 'relay', name: 'first' },
  ]
  expect((await add(t)).added.others).toEqual(others as never)
  const { key } = await keys.add({ name: 'maker', can: ['keys', 'relay'], sessions: ['work'] }, owner)
  const maker = (await keys.authenticate(key))!
  const own = await add(t, { name: 'own' }, maker)
  expect(own.added.others.map(other => Object.keys(other))).toEqual([['kind'], ['kind'], ['kind'], ['kind']])
  expect(await listed(t, maker)).toEqual([['own', 0]])
  expect(await codeOf(add(t, { name: 'x', session: 'home' }, maker))).toBe('session_not_found')
  expect(await codeOf(gateway.relayClients.remove(maker, 'openclaw'))).toBe('not_found')
})

it('ends with its key, and a key that is no program of the relay is none', async t => {
  const { gateway } = t
  const { added, by } = await add(t, { answers: '5' })
  await gateway.keys.add({ name: 'reader', can: ['read'] }, owner)
  expect(await codeOf(gateway.relayClients.remove(owner, 'reader'))).toBe('not_found')
  expect(await gateway.relayClients.remove(owner, 'openclaw')).toMatchObject({ id: added.id, answers: '5' })
  expect(await listed(t)).toEqual([])
  await t.soon('its calls end', () => by.ended?.aborted)
  expect(await gateway.consumers.list({ of: added.id })).toEqual([])
  expect(await codeOf(gateway.relayClients.remove(owner, 'openclaw'))).toBe('not_found')
})

it('a new login of the same person keeps key, place and open calls, and brings what comes to the new account', async t => {
  const { gateway, sandbox } = t
  const { bot_id, user_id } = t.bots.get('work')!
  const { added, by } = await add(t)
  const waiting = viewFor(gateway, by).inbox.recv(
    { consumer: 'mid', timeout: 60, limit: 10, after: 0 },
    createDirectCall({ by }),
  )
  const ask = (timeout: number) =>
    gateway.logins.login(owner, { session_name: 'work', force: true, timeout }, new AbortController().signal)
  const { qr_url } = await ask(0)
  await sandbox.scan({ qrcode: qr_url!, user: user_id, confirm: true })
  await t.soon('the login', async () => (await ask(0)).status === 'confirmed')
  const next = (await gateway.accounts.list()).find(({ name }) => name === 'work')?.bot_id
  expect(next).not.toBe(bot_id)
  await t.soon('the key follows', () => by.grant?.bots?.includes(next ?? ''))
  await sandbox.say('after', { from: user_id, to: next! })
  expect((await t.hurry(waiting)).map(({ text }) => text)).toEqual(['after'])
  expect([by.ended?.aborted, await gateway.keys.authenticate(added.token!)]).toEqual([false, by])
  const [client] = await gateway.relayClients.list(owner)
  expect(client).toMatchObject({ id: added.id, session: 'work', unread: 1 })
})
