/** history: who asks may leave. */
import { expect, test } from 'bun:test'
import { createDirectCall } from '../../src/model/call.ts'
import type { HistoryPage } from '../../src/model/message.ts'
import { invoke } from '../../src/operations/gate.ts'
import { history } from '../../src/operations/history.ts'
import { silentLog } from '../../src/platform/log.ts'
import { failure } from '../support/failure.ts'
import { withGateway } from '../support/gateway.ts'

test('a search ends with the call it is for', async () => {
  await using t = await withGateway()
  await t.sandbox.bulk(2000)
  await t.receive(2000)
  const leave = new AbortController()
  const search = invoke(
    history,
    t.gateway,
    { text_contains: 'nowhere' },
    createDirectCall({ signal: leave.signal }),
    silentLog,
  )
  leave.abort()
  expect(await failure(search)).toMatchObject({ code: 'shutting_down' })
  expect((await t.gateway.history.page({ text_contains: 'nowhere', limit: 1, offset: 0 })).total).toBe(0)
})

test('a session that is none is an error, as for recv; a quiet one, and one that left messages, are not', async () => {
  await using t = await withGateway({ sessions: ['work', 'quiet'] })
  await t.sandbox.say('to be kept', { to: t.bots.get('work')!.bot_id })
  await t.receive(1)
  await t.gateway.accounts.logout('work')
  const ask = async (input: object) => {
    const page = invoke(history, t.gateway, input, createDirectCall(), silentLog)
    return page.then(
      found => (found as HistoryPage).total,
      error => error.code,
    )
  }
  const asked = [{ session: 'WORK' }, { session: 'work', text_contains: 'x' }, { session: 'Quiet' }]
  expect(await Promise.all(asked.map(ask))).toEqual([1, 0, 0])
  expect(await ask({ session: 'wrok' })).toBe('session_not_found')
  expect(await ask({ session: '../x' })).toBe('invalid_arguments')
})

test('a name that nobody has is an error, as for send; an id of whom there is nothing, and a quiet user, are not', async () => {
  await using t = await withGateway()
  const user_id = t.bots.get('default')!.user_id
  await t.sandbox.say('hi')
  await t.receive(1)
  await t.gateway.users.name({ user_id, name: 'Mum' })
  const ask = (input: object) =>
    invoke(history, t.gateway, input, createDirectCall(), silentLog).then(
      found => (found as HistoryPage).total,
      error => [error.code, error.field],
    )
  expect(await ask({ user_id: 'mum' })).toBe(1)
  expect(await ask({ user_id: 'Mum', text_contains: 'nowhere' })).toBe(0)
  expect(await ask({ user_id: 'nobody@im.wechat' })).toBe(0)
  expect(await ask({ user_id: 'Mom' })).toEqual(['invalid_arguments', 'user_id'])
})
