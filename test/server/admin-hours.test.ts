import { expect, test } from 'bun:test'
import { startAdmin } from '../support/admin.ts'
import type { Json } from '../support/rest.ts'

test('an hour counts what went out, not what was refused or waits', async () => {
  await using admin = await startAdmin()
  await admin.test.sandbox.say('hello')
  await admin.test.receive(1)
  const { user_id: to } = (await admin.call('GET', '/api/conversations')).body.conversations[0]
  const send = (to: string) => admin.call('POST', '/api/messages', { to, text: 'hi', when_closed: 'queue' })
  expect((await send('unknown@im.wechat')).status).toBe(422)
  for (let nth = 0; nth < 11; nth++) await send(to)
  expect((await admin.call('GET', '/api/outbox')).body.length).toBe(1)
  const { hours } = (await admin.call('GET', '/api/stats?hours=2')).body
  const sum = (of: 'received' | 'sent') => hours.reduce((all: number, hour: Json) => all + hour[of], 0)
  expect([sum('received'), sum('sent')]).toEqual([1, 10])
})
