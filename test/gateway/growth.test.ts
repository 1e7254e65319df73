/** Many sessions and logins in one running service, with the runtime's limit of requests raised by svc itself, and not. */
import { expect, test } from 'bun:test'
import { mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { permitsOf } from '../../src/platform/permits.ts'
import { folderOfTest } from '../support/folder.ts'
import { withSandbox } from '../support/sandbox.ts'
import { logIn, type Service, startService } from '../support/service.ts'
import { until } from '../support/until.ts'

const unraised = (limit: number) => ({ env: { BUN_CONFIG_MAX_HTTP_REQUESTS: String(limit) } })

/** Sessions `s0` … of people of their own. @returns the people */
async function logInMany(service: Service, count: number): Promise<string[]> {
  const people: string[] = []
  for (let i = 0; i < count; i++) {
    const { id } = await service.phone<{ id: string }>('users', { name: `person ${i}` })
    await logIn(service, `s${i}`, id)
    people.push(id)
  }
  return people
}

const allPolled = (service: Service, count: number) =>
  until(`${count} sessions are polled`, 30_000, async () => {
    const { polls_now } = await (await fetch(`${service.phoneUrl}/phone/stats`)).json()
    return polls_now >= count
  })

const answer = async (service: Service, user: string, session: string) => {
  await service.phone('say', { text: 'hello', from: user })
  const { body } = await service.call('recv', { timeout: 20 })
  expect(body).toMatchObject([{ text: 'hello', session }])
  return service.call('send', { to: user, text: 'hi', session })
}

test('a service that starts empty grows to 300 sessions: all are polled, read and answered', async () => {
  await using sandbox = await withSandbox()
  await using service = await startService({
    sandbox: false,
    args: ['--pace', 'off', '--upstream-url', sandbox.url, '--cdn-url', sandbox.cdnUrl],
  })
  // Logins of another process: they come by their files, each whole from the start.
  const made = folderOfTest()
  const bots = Array.from({ length: 300 }, (_, nth) => sandbox.bot(`person-${nth}@im.wechat`))
  for (const [nth, bot] of bots.entries()) {
    const folder = join(made, `s${nth}`)
    mkdirSync(folder, { mode: 0o700 })
    const token = JSON.stringify({ ...bot, cursor: '', created_at: Date.now() })
    writeFileSync(join(folder, 'token.json'), token, { mode: 0o600 })
    renameSync(folder, join(service.dir, `s${nth}`))
  }
  await until('300 sessions are polled', 30_000, () => sandbox.world.core.stats.polls_now >= 300)
  const { user_id, bot_id } = bots[299]!
  await sandbox.say('hello', { from: user_id, to: bot_id })
  const { body } = await service.call('recv', { timeout: 20 })
  expect(body).toMatchObject([{ text: 'hello', session: 's299' }])
  expect(await service.call('send', { to: user_id, text: 'hi', session: 's299' })).toMatchObject({
    status: 200,
    body: { status: 'accepted' },
  })
  // There is room for more.
  expect((await service.call('login', { session_name: 'one-more' })).body).toMatchObject({
    status: 'waiting',
  })
}, 300_000)

test('more logins at once than there is room for: those wait, the rest is refused, and messages come and go', async () => {
  const limit = 64
  const room = permitsOf(limit).logins.size
  const beyond = 20
  await using service = await startService({ args: ['--pace', 'off'], ...unraised(limit) })
  const [person] = await logInMany(service, 1)
  const logins = await Promise.all(
    Array.from({ length: room + beyond }, (_, i) =>
      service.call('login', { session_name: `w${i}`, timeout: 0 }),
    ),
  )
  expect(logins.filter(({ body }) => body.status === 'waiting')).toHaveLength(room)
  const refused = logins.filter(({ status }) => status === 429)
  expect(refused).toHaveLength(beyond)
  expect(refused[0]!.body).toMatchObject({ code: 'rate_limited', retry_after: expect.any(Number) })
  expect(await answer(service, person!, 's0')).toMatchObject({ status: 200, body: { status: 'accepted' } })
  // One that is called off leaves its room to another.
  const { body } = logins.find(({ body }) => body.status === 'waiting')!
  await service.call('logout', { session_name: body.session })
  expect((await service.call('login', { session_name: 'late' })).body).toMatchObject({ status: 'waiting' })
}, 120_000)

test('where the limit is not raised, a session beyond it is refused, and the log says how to raise it', async () => {
  const room = permitsOf(16).polls.size
  await using service = await startService({ args: ['--pace', 'off'], ...unraised(16) })
  const people = await logInMany(service, room)
  await allPolled(service, room)
  expect(await service.call('login', { session_name: 'more' })).toMatchObject({
    status: 403,
    body: { code: 'forbidden' },
  })
  expect(service.log()).toContain('BUN_CONFIG_MAX_HTTP_REQUESTS')
  // One that is there may be logged in anew.
  expect((await service.call('login', { session_name: 's0', force: true })).body).toMatchObject({
    status: 'waiting',
  })
  expect(await answer(service, people.at(-1)!, `s${room - 1}`)).toMatchObject({
    body: { status: 'accepted' },
  })
}, 120_000)
