/** An account that WeChat mutes is known by what becomes of its messages and files, and told wherever accounts are shown. */
import { expect, test } from 'bun:test'
import type { Session } from '../../src/model/session.ts'
import { type TestGateway, withGateway } from '../support/gateway.ts'
import { write } from '../support/waiting.ts'

/** Sends so many texts to users in turn. */
async function texts(t: TestGateway, count: number, to: readonly (string | undefined)[] = [undefined]) {
  for (let nth = 0; nth < count; nth++) {
    const user = to[nth % to.length]
    await t.send({ text: `${nth}`, ...(user !== undefined && { to: user }) })
  }
}
const picture = (t: TestGateway) =>
  t.send({ media: [{ kind: 'file', data: Buffer.from('bytes').toString('base64') }] })
async function muted({ gateway }: TestGateway): Promise<Pick<Session, 'muted_because' | 'muted_since'>> {
  const [session] = await gateway.accounts.list()
  return { muted_because: session?.muted_because, muted_since: session?.muted_since }
}
const not = { muted_because: undefined, muted_since: undefined }
/** What was told of it, as events, once there are so many. */
const events = (t: TestGateway, count: number) =>
  t.until(`${count} events`, async () => {
    t.clock.advance(1000)
    const page = await t.gateway.events.page('', { types: ['session.muted'], limit: 10 })
    return page.events.length >= count && page.events.map(({ event }) => event.data as Session)
  })

test('five in a row without an id, to whomever, of an account that used to get ids; an id clears it', async () => {
  await using t = await withGateway()
  await write(t)
  const other = await t.sandbox.addUser('other')
  await t.sandbox.say('hi', { from: other })
  await t.until('both may be answered', async () => (await t.gateway.accounts.users('')).length === 2)
  const both = [undefined, other]
  await texts(t, 1)
  await t.sandbox.switches({ send_reply: 'ret' })
  const before = t.clock.now()
  await texts(t, 4, both)
  expect(await muted(t)).toEqual(not)
  const after = t.clock.now()
  await texts(t, 1, both)
  const found = await muted(t)
  expect(found).toEqual({ muted_because: 'no_ids', muted_since: expect.any(Number) })
  expect(found.muted_since).toBeWithin(before, after + 1)
  expect(await events(t, 1)).toMatchObject([{ name: 'default', status: 'connected', ...found }])
  expect(await t.gateway.metrics.text()).toContain('svc_session_muted{session="default"} 1\n')
  // A new login of the same user goes on with it, one of another user does not.
  const bot = t.bots.get('default')!
  await t.other.sessions.save('default', { ...bot, cursor: '', created_at: t.clock.now() })
  expect(await muted(t)).toEqual(found)
  await t.sandbox.switches({ send_reply: 'message_id' })
  await texts(t, 1)
  expect(await muted(t)).toEqual(not)
  expect((await events(t, 2)).map(({ muted_since }) => muted_since)).toEqual([found.muted_since, undefined])
  await t.sandbox.switches({ send_reply: 'ret' })
  await texts(t, 4, both)
  expect(await muted(t)).toEqual(not)
})

test('a login of another WeChat user begins anew', async () => {
  await using t = await withGateway()
  await write(t)
  await texts(t, 1)
  await t.sandbox.switches({ send_reply: 'ret' })
  await texts(t, 5)
  expect(await muted(t)).toMatchObject({ muted_because: 'no_ids' })
  const stranger = { ...t.bots.get('default')!, user_id: 'other@im.wechat' }
  await t.other.sessions.save('default', { ...stranger, cursor: '', created_at: t.clock.now() })
  expect(await muted(t)).toEqual(not)
})

test('an upstream that never gives ids is not mute', async () => {
  await using t = await withGateway({ switches: { send_reply: 'ret' } })
  await write(t)
  await texts(t, 8)
  expect(await muted(t)).toEqual(not)
})

test('files refused to a user whom texts reach; a file that is taken clears it, the id of a text does not', async () => {
  await using t = await withGateway()
  await write(t)
  await t.sandbox.fail('getuploadurl', 'ret', { code: -2, times: 3 })
  await picture(t).catch(() => {})
  await picture(t).catch(() => {})
  // Nothing else went.
  expect(await muted(t)).toEqual(not)
  await texts(t, 1)
  expect(await muted(t)).toEqual(not)
  await picture(t).catch(() => {})
  expect(await muted(t)).toEqual({ muted_because: 'uploads_refused', muted_since: expect.any(Number) })
  await texts(t, 1)
  expect(await muted(t)).toMatchObject({ muted_because: 'uploads_refused' })
  await picture(t)
  expect(await muted(t)).toEqual(not)
})
