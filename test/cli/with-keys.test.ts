/** Commands of this user, beside a service that has keys: they need no key. */
import { expect, test } from 'bun:test'
import { serveHere, svc } from '../support/command.ts'
import { folderOfFile } from '../support/folder.ts'
import { logIn } from '../support/service.ts'
import { until } from '../support/until.ts'

const home = folderOfFile()

test('they read messages and events, and ask for its health, after the first key as before', async () => {
  await using service = await serveHere(home, { home })
  const run = (...words: string[]) => svc([...words, '-d', home, '--sandbox'], { home })
  await logIn(service)
  await run('hook-poll')
  expect((await run('key', 'add', 'bot', '--can', 'read')).status).toBe(0)
  await until('the service is closed', 10_000, async () => (await service.call('sessions')).status === 401)
  await service.phone('say', { text: 'hello' })
  await until('it is shown', 20_000, async () => (await run('hook-poll')).stdout.includes('> hello'))
  const { stdout } = await run('events', '--json')
  expect(stdout).toContain('"message.received"')
  for (const words of [['health'], ['sessions'], ['history', '--limit', '1']])
    expect([words, (await run(...words)).status]).toEqual([words, 0])

  const { stdout: token } = await run('token')
  const headers = { authorization: `Bearer ${token.trim()}` }
  expect((await fetch(`${service.url}/tools`, { headers })).status).toBe(200)
})
