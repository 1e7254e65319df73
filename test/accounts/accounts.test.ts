import { expect, test } from 'bun:test'
import { windowMs } from '../../src/model/session.ts'
import { withGateway } from '../support/gateway.ts'

test('the users of a session, who wrote last first, with window and answers left', async () => {
  await using t = await withGateway({ sessions: ['工作'] })
  const { bot_id, user_id } = t.bots.get('工作')!
  const other = await t.sandbox.addUser('other')
  await t.sandbox.say('first', { from: other, to: bot_id })
  await t.receive(1)
  t.clock.advance(60_000)
  await t.sandbox.say('second', { from: user_id, to: bot_id })
  await t.receive(1)
  await t.send({ to: user_id, text: 'answer' })
  await t.send({ to: 'nobody@im.wechat', text: 'x' }).catch(() => {})

  const users = await t.gateway.accounts.listUsers('工作')
  expect(users.map(user => user.user_id)).toEqual([user_id, other])
  expect(users[0]).toMatchObject({ remaining: 9 })
  expect(users[1]).toMatchObject({ remaining: 10 })
  expect(users[0]!.last_sent).toBeNumber()
  expect(users[1]!.last_sent).toBeUndefined()
  for (const user of users) expect(user.window_expires_at).toBe(user.last_received! + windowMs)
  // Nothing beyond the public fields: no context token.
  expect(Object.keys(users[1]!).sort()).toEqual([
    ...['first_seen', 'last_received', 'remaining', 'user_id', 'window_expires_at'],
  ])
  expect(await t.gateway.accounts.listUsers('')).toEqual(users)
})
