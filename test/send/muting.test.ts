/** An account that WeChat mutes is known by what becomes of its messages and files, and told wherever accounts are shown. */
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import type { Session } from '../../src/model/session.ts'
import { openLock } from '../../src/platform/lock.ts'
import { type TestGateway, withGateway } from '../support/gateway.ts'
import { given } from '../support/given.ts'
import { write } from '../support/waiting.ts'

const it = given(withGateway)

/** Sends so many texts to users in turn. */
async function texts(t: TestGateway, count: number, to: readonly (string | undefined)[] = [undefined]) {
  for (let nth = 0; nth < count; nth++) {
    const user = to[nth % to.length]
    await t.send({ text: `${nth}`, ...(user !== undefined && { to: user }) })
  }
}
const picture = (t: TestGateway) =>
  t.send({ media: [{ kind: 'file', data: Buffer.from('bytes').toString('base64') }] })
async function shown({ gateway }: TestGateway): Promise<Pick<Session, 'muted_because' | 'muted_since'>> {
  const [session] = await gateway.accounts.list()
  return { muted_because: session?.muted_because, muted_since: session?.muted_since }
}
/** Once it is so. */
const muted = (t: TestGateway, because: Session['muted_because']) =>
  t.until(`muted: ${because}`, async () => {
    const found = await shown(t)
    return found.muted_because === because && found
  })
/** What stands in the file once all is noted. @returns that the account is not muted */
async function never(t: TestGateway): Promise<void> {
  await t.gateway.close()
  expect((await t.other.sessions.get('default'))?.bot?.muted_at).toBeUndefined()
}
const not = { muted_because: undefined, muted_since: undefined }
/** What was told of it, as events, once there are so many. */
const events = (t: TestGateway, count: number) =>
  t.until(`${count} events`, async () => {
    t.clock.advance(1000)
    const page = await t.gateway.events.readPage('', { types: ['session.muted'], limit: 10 })
    return page.events.length >= count && page.events.map(({ event }) => event.data as Session)
  })

it('five in a row without an id, to whomever, of an account that used to get ids; an id clears it', async t => {
  await write(t)
  const other = await t.sandbox.addUser('other')
  await t.sandbox.say('hi', { from: other })
  await t.until('both may be answered', async () => (await t.gateway.accounts.listUsers('')).length === 2)
  await texts(t, 1)
  await t.sandbox.switches({ send_reply: 'ret' })
  const before = t.clock.now()
  await texts(t, 5, [undefined, other])
  const found = await muted(t, 'no_ids')
  expect(found.muted_since).toBeWithin(before, t.clock.now() + 1)
  expect(await events(t, 1)).toMatchObject([{ name: 'default', status: 'connected', ...found }])
  expect(await t.gateway.metrics.text()).toContain('svc_session_muted{session="default"} 1\n')
  // A new login of the same user goes on with it.
  const bot = t.bots.get('default')!
  await t.other.sessions.save('default', { ...bot, cursor: '', created_at: t.clock.now() })
  expect(await shown(t)).toEqual(found)
  await t.sandbox.switches({ send_reply: 'message_id' })
  await texts(t, 1)
  await muted(t, undefined)
  expect((await events(t, 2)).map(({ muted_since }) => muted_since)).toEqual([found.muted_since, undefined])
  // It is counted anew.
  await t.sandbox.switches({ send_reply: 'ret' })
  await texts(t, 2)
  await never(t)
})

it('four in a row are none, whatever came before an id', async t => {
  await write(t)
  await texts(t, 1)
  await t.sandbox.switches({ send_reply: 'ret' })
  await texts(t, 3)
  await t.sandbox.switches({ send_reply: 'message_id' })
  await texts(t, 1)
  await t.sandbox.switches({ send_reply: 'ret' })
  await texts(t, 4)
  await never(t)
})

it('the result of a send waits for nobody who holds the file of its account', async t => {
  await write(t)
  const lock = await openLock(join(t.dir, '.data.lock'))
  await using _closing = { [Symbol.asyncDispose]: () => lock.close() }
  const [answer, free] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  await t.sandbox.fail('sendmessage', 'slow', { until: answer.promise })
  const sending = t.send({ text: 'the first' })
  await t.until('asked', () => t.requests('sendmessage') === 1)
  const held = lock.run(() => free.promise)
  answer.resolve()
  expect((await sending).status).toBe('accepted')
  expect((await t.other.sessions.get('default'))?.bot?.ids_at).toBeUndefined()
  free.resolve()
  await held
  await t.until('it is noted', async () => (await t.other.sessions.get('default'))?.bot?.ids_at)
})

it('a login of another WeChat user begins anew', async t => {
  await write(t)
  await texts(t, 1)
  await t.sandbox.switches({ send_reply: 'ret' })
  await texts(t, 5)
  await muted(t, 'no_ids')
  const stranger = { ...t.bots.get('default')!, user_id: 'other@im.wechat' }
  await t.other.sessions.save('default', { ...stranger, cursor: '', created_at: t.clock.now() })
  expect(await shown(t)).toEqual(not)
})

test('an upstream that never gives ids is not mute', async () => {
  await using t = await withGateway({ switches: { send_reply: 'ret' } })
  await write(t)
  await texts(t, 8)
  await never(t)
})

it('files refused to a user whom texts reach; a file that is taken clears it, the id of a text does not', async t => {
  await write(t)
  await t.sandbox.fail('getuploadurl', 'ret', { code: -2, times: 2 })
  await picture(t).catch(() => {})
  await texts(t, 1)
  await picture(t).catch(() => {})
  await muted(t, 'uploads_refused')
  await texts(t, 1)
  expect(await shown(t)).toMatchObject({ muted_because: 'uploads_refused' })
  await picture(t)
  await muted(t, undefined)
})

it('files refused where no text went are none', async t => {
  await write(t)
  await t.sandbox.fail('getuploadurl', 'ret', { code: -2, times: 3 })
  for (let nth = 0; nth < 3; nth++) await picture(t).catch(() => {})
  await texts(t, 1)
  await never(t)
})
