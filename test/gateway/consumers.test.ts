/** The list of consumers, what each has not read, and its metrics. */
import { expect, test } from 'bun:test'
import { viewFor } from '../../src/gateway/scoped.ts'
import { createDirectCall } from '../../src/model/call.ts'
import { owner, type Principal } from '../../src/model/principal.ts'
import { failure } from '../support/failure.ts'
import { withGateway } from '../support/gateway.ts'

const day = 24 * 60 * 60_000

test('a key of one session counts only what it may read; its consumers go with it, and idle ones are no metric', async () => {
  await using t = await withGateway({ sessions: ['work', 'home'] })
  const { consumers, inbox, keys, metrics } = t.gateway
  const say = async (text: string, session: string) => {
    const { bot_id, user_id } = t.bots.get(session)!
    await t.sandbox.say(text, { from: user_id, to: bot_id })
    await t.receive(1)
  }
  const made = await keys.add({ name: 'work only', can: ['read'], sessions: ['work'] }, owner)
  const by = (await keys.authenticate(made.key)) as Principal
  const view = viewFor(t.gateway, by)
  const request = { timeout: 0, limit: 9, session: 'work' }
  await inbox.begin('mine')
  await view.inbox.recv({ ...request, consumer: 'bot' }, createDirectCall({ by }))
  for (const text of ['1', '2', '3']) await say(text, 'home')
  const stored = `${made.id}/bot`
  const unread = async (name: string) => (await consumers.list()).find(one => one.name === name)?.unread
  const sample = async (name: string) =>
    new RegExp(`^svc_consumer_lag_messages\\{consumer="${name}"\\} (\\d+)$`, 'm').exec(
      await metrics.text(),
    )?.[1]
  expect([await unread('mine'), await unread(stored), await sample(stored)]).toEqual([3, 0, '0'])
  await say('4', 'work')
  expect([await unread('mine'), await unread(stored), await sample(stored)]).toEqual([4, 1, '1'])

  // A key sees its own ones by its own names, and removes no other.
  expect(await view.consumers.list()).toMatchObject([{ name: 'bot', unread: 1, acknowledges: false }])
  expect((await consumers.list()).find(({ name }) => name === stored)?.key_name).toBe('work only')
  for (const name of ['mine', stored, 'nobody'])
    expect((await failure(view.consumers.remove(name))) as object).toMatchObject({ code: 'not_found' })
  await view.inbox.recv({ ...request, consumer: 'second' }, createDirectCall({ by }))
  expect((await failure(view.consumers.remove('default'))) as object).toMatchObject({
    code: 'invalid_arguments',
  })
  await view.consumers.remove('second')
  expect((await view.consumers.list()).map(({ name }) => name)).toEqual(['bot'])

  // Nobody used it for a week: listed, and left out of the metrics.
  t.clock.step(8 * day)
  await view.inbox.recv({ ...request, consumer: 'bot' }, createDirectCall({ by }))
  expect([await sample('mine'), await sample(stored)]).toEqual([undefined, '0'])
  expect(await unread('mine')).toBe(4)
  await keys.revoke(made.id, owner)
  expect((await consumers.list()).map(({ name }) => name)).toEqual(expect.not.arrayContaining([stored]))
})

test('what retention removes before a consumer has read it is a metric', async () => {
  await using t = await withGateway()
  const { bot_id, user_id } = t.bots.get('default')!
  await t.gateway.inbox.begin('mine')
  for (const text of ['1', '2', '3']) await t.sandbox.say(text, { from: user_id, to: bot_id })
  await t.receive(3)
  expect(await t.gateway.metrics.text()).toContain('\nsvc_retention_unread_messages_total 0\n')
  await using other = await t.beside({ config: { storeMaxCount: 1 } })
  await t.until('it is counted', async () =>
    (await other.gateway.metrics.text()).includes('\nsvc_retention_unread_messages_total 2\n'),
  )
})
