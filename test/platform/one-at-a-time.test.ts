import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { owner } from '../../src/model/principal.ts'
import { openLock } from '../../src/platform/lock.ts'
import { createMutex } from '../../src/platform/one-at-a-time.ts'
import { type TestGateway, withGateway } from '../support/gateway.ts'

test('work goes in order, one at a time, whatever becomes of those before', async () => {
  const alone = createMutex()
  const seen: string[] = []
  const work = (name: string, fails = false) =>
    alone(async () => {
      seen.push(`${name} begins`)
      await new Promise(resolve => setImmediate(resolve))
      seen.push(`${name} ends`)
      if (fails) throw new Error(name)
      return name
    })
  const all = await Promise.allSettled([work('a'), work('b', true), work('c')])
  expect(all.map(one => one.status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
  expect(seen).toEqual(['a begins', 'a ends', 'b begins', 'b ends', 'c begins', 'c ends'])
})

const names = async (t: TestGateway) => (await t.gateway.accounts.list()).map(({ name }) => name)
const messagesOf = async (t: TestGateway, session: string) =>
  (await t.gateway.history.page({ session, limit: 50, offset: 0 })).total

/** A login of `name` that is confirmed on the phone while another process keeps the data lock; then `meanwhile`. */
async function confirmedBeside(
  t: TestGateway,
  name: string,
  meanwhile: () => Promise<unknown>,
): Promise<void> {
  const lock = await openLock(join(t.dir, '.data.lock'))
  try {
    const force = (await names(t)).includes(name)
    const { login_id } = await t.gateway.logins.begin(owner, name, force, new AbortController().signal)
    await lock.lock()
    const user = t.bots.get(name)?.user_id ?? (await t.sandbox.addUser(`who scans for ${name}`))
    await t.sandbox.scan({ user, confirm: true })
    await t.until('the credentials are about to be stored', () =>
      t.lines.some(line => / DEBUG logins: .* session=/.test(line)),
    )
    // Too late to call it off: nobody else has the new credentials.
    const calledOff = t.gateway.logins.callOff(owner, login_id)
    const done = meanwhile()
    done.catch(() => {})
    await lock.unlock()
    expect(await calledOff).toBe(false)
    await done
    await t.until('the login is over', async () => {
      const end = await t.gateway.logins
        .follow(owner, { login_id }, 0, new AbortController().signal)
        .catch(() => undefined)
      return end?.qr_url === undefined
    })
  } finally {
    await lock.close()
  }
}

test('a logout while the credentials of a login are being stored removes them too', async () => {
  await using t = await withGateway()
  await confirmedBeside(t, 'new', () => t.gateway.accounts.logout('new'))
  expect(await names(t)).toEqual(['default'])
})

test('a rename while a new login of the session is being stored takes it along', async () => {
  await using t = await withGateway()
  await t.sandbox.say('before')
  await t.receive(1)
  await confirmedBeside(t, 'default', () => t.gateway.accounts.rename('default', 'other'))
  expect(await names(t)).toEqual(['other'])
  expect([await messagesOf(t, 'default'), await messagesOf(t, 'other')]).toEqual([0, 1])
})

test('renames and logouts that race leave every message with its session', async () => {
  await using t = await withGateway({ sessions: ['a', 'b'] })
  await t.sandbox.say('to a')
  await t.receive(1)
  for (let round = 0; round < 12; round++) {
    const [from = ''] = (await names(t)).filter(name => name !== 'b')
    const { accounts } = t.gateway
    const wanted = [`x${round}`, `y${round}`, `z${round}`]
    const all = await Promise.allSettled([
      ...wanted.map(name => accounts.rename(from, name)),
      accounts.rename(`x${round}`, `w${round}`),
      accounts.setDefault(from),
      accounts.rename('b', from),
      accounts.rename(from, 'b'),
    ])
    expect(all.filter(one => one.status === 'rejected').length).toBeGreaterThan(2)
    const [now = ''] = (await names(t)).filter(name => name !== 'b' && name !== from)
    const other = (await names(t)).find(name => name !== now)!
    expect([round, now, await messagesOf(t, now)]).toEqual([round, `w${round}`, 1])
    expect(await messagesOf(t, other)).toBe(0)
    if (other !== 'b') await accounts.rename(other, 'b')
  }
  await Promise.allSettled([t.gateway.accounts.logout('b'), t.gateway.accounts.rename('b', 'c')])
  expect((await names(t)).length).toBe(1)
})
