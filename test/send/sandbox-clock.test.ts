/** The phone of the sandbox moves the time: the service beside it lives by the same clock. */
import { expect, test } from 'bun:test'
import { svc } from '../support/command.ts'
import { logIn, startService } from '../support/service.ts'
import { until } from '../support/until.ts'

const dayMs = 24 * 60 * 60_000

test('a day later the window is closed for both; what is queued goes out when the user writes', async () => {
  await using service = await startService({ args: ['--pace', 'off', '--admin-port', '0'] })
  const mei = await service.phone('users', { name: 'Mei' })
  await logIn(service, 'home', mei.id)
  await service.phone('say', { text: 'hi' })
  const { body } = await service.call('recv', { timeout: 20 })
  const to = body[0].from_user
  // Without a pace WeChat's own is out of the way too.
  for (const text of ['today', 'at', 'once'])
    expect((await service.call('send', { to, text })).body).toMatchObject({ status: 'accepted' })
  const users = async () => (await fetch(`${service.url}/users`)).json()
  expect(await users()).toMatchObject([{ remaining: 7 }])
  await using follower = await startService({ dir: service.dir })
  await service.phone('clock', { advance_ms: dayMs })
  // The service, and a command beside it that asks WeChat nothing.
  await until('the service knows', 20_000, async () => (await users())[0].remaining === 0)
  // So does one that polls nothing.
  await until('a process beside it knows', 20_000, async () => {
    const [one] = await (await fetch(`${follower.url}/users`)).json()
    return one.remaining === 0
  })
  // The panel's page goes by what the service says the time is.
  const admin = /^admin on (\S+)$/m.exec(service.stdout())?.[1]
  const { headers } = await fetch(`${admin}/api/status`)
  expect(Date.parse(headers.get('date') ?? '')).toBeGreaterThan(Date.now() + dayMs - 60_000)
  const beside = async (...args: string[]) =>
    JSON.parse((await svc([...args, '--json', '--sandbox', '-d', service.dir], { home: service.dir })).stdout)
  expect(await beside('users')).toMatchObject([{ remaining: 0 }])
  expect((await service.call('send', { to, text: 'too late' })).body).toMatchObject({ code: 'window_closed' })
  const queued = await service.call('send', { to, text: 'later', when_closed: 'queue' })
  expect(queued.body).toMatchObject({ status: 'queued' })
  expect(queued.body.window_expires_at).toBeLessThanOrEqual(Date.now() + dayMs)
  await service.phone('say', { text: 'back' })
  const history = async () => (await service.call('history', { direction: 'sent' })).body.messages
  await until('it went out', 20_000, async () => (await history())[0].status === 'accepted')
  expect(
    (await history()).map(({ text, status }: { text: string; status: string }) => [text, status]),
  ).toEqual([
    ['later', 'accepted'],
    ['once', 'accepted'],
    ['at', 'accepted'],
    ['today', 'accepted'],
  ])
  const { body: late } = await service.call('recv', { timeout: 20 })
  expect(late[0].timestamp - Date.now()).toBeGreaterThan(dayMs - 60_000)
  // What was typed as a span before now counts from that time too.
  const found = async (since: string) =>
    (await beside('history', '--direction', 'received', '--since', since)).messages.map(
      ({ text }: { text: string }) => text,
    )
  expect([await found('1h'), await found('2d')]).toEqual([['back'], ['back', 'hi']])
  const events = [
    'events',
    '--json',
    '--types',
    'message.received',
    '--sandbox',
    '-d',
    service.dir,
    '--after',
  ]
  const told = async (after: string) =>
    (await svc([...events, after], { home: service.dir })).stdout
      .split('\n')
      .slice(0, -1)
      .map(line => JSON.parse(line).data.text)
  expect([await told('1h'), await told('2d')]).toEqual([['back'], ['hi', 'back']])
})
