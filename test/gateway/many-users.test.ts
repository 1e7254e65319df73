/** contexts.json holds who wrote lately; the store remembers the rest, and both are one to whoever asks. */
import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { readStatus } from '../../src/inspect/status-report.ts'
import { type TestGateway, withGateway } from '../support/gateway.ts'

const file = (t: TestGateway) => JSON.parse(readFileSync(join(t.dir, 'default', 'contexts.json'), 'utf8'))
const listed = async (t: TestGateway) =>
  (await t.gateway.accounts.list()).find(({ name }) => name === 'default')!

/** A session that 700 users have written to, one second after the other. */
async function withMany(): Promise<TestGateway & { oldest: string }> {
  const t = await withGateway({ sessions: ['default', 'other'], start: false, switches: { window: 'off' } })
  const oldest = await t.sandbox.addUser('oldest')
  const from = t.clock.now() - 3_600_000
  const users = Array.from({ length: 700 }, (_, n) => [
    n === 0 ? oldest : `user${n}@im.wechat`,
    {
      token: `token ${n}`,
      received_at: from + n * 1000,
      used: n === 0 ? 4 : 0,
      first_seen: from,
      mood: 'kept',
    },
  ])
  await writeFile(join(t.dir, 'default', 'contexts.json'), JSON.stringify(Object.fromEntries(users)))
  await t.gateway.accounts.setDefault('other')
  await t.gateway.start()
  await t.sandbox.say('hi', { to: t.bots.get('default')!.bot_id })
  await t.until('the file is shorter', () => Object.keys(file(t)).length <= 500)
  return Object.assign(t, { oldest })
}

test('the file keeps the newest, the rest is known all the same, after a restart too', async () => {
  await using t = await withMany()
  expect(file(t)).not.toHaveProperty([t.oldest])
  // A list counts them by a look of up to a second ago.
  await t.until('all are counted', async () => (await listed(t)).user_count === 701)
  const { sessions } = await readStatus({ basePath: t.dir, version: '0' })
  expect(sessions.find(({ name }) => name === 'default')?.user_count).toBe(701)
  const users = await t.gateway.accounts.listUsers('default')
  expect(users).toHaveLength(701)
  expect(users.at(-1)).toMatchObject({ user_id: t.oldest, remaining: 6 })
  await t.gateway.close()
  await using again = await t.beside()
  // Neither the default one, nor one that the log would name.
  expect(await again.send({ to: t.oldest, text: 'hello' })).toMatchObject({
    ...{ session: 'default', status: 'accepted', remaining: 5 },
  })
})

test('who writes again stands in the file again, once', async () => {
  await using t = await withMany()
  await t.sandbox.say('back', { from: t.oldest, to: t.bots.get('default')!.bot_id })
  const context = await t.until('in the file', () => file(t)[t.oldest])
  expect(context).toMatchObject({ mood: 'kept' })
  expect(context.received_at - context.first_seen).toBeGreaterThan(3_500_000)
  await t.until('known once', async () => (await listed(t)).user_count === 701)
})

test('a logout leaves no token behind', async () => {
  await using t = await withMany()
  await t.gateway.accounts.logout('default')
  await t.connect('default', t.bots.get('default')!.user_id)
  expect((await listed(t)).user_count).toBe(0)
  expect(await t.gateway.accounts.listUsers('default')).toEqual([])
})
