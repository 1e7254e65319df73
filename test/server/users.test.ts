/** Who may be answered, and what they are called, over HTTP. */
import { expect, test } from 'bun:test'
import { KnownUser } from '../../src/model/session.ts'
import { problemsOf } from '../../src/operations/parse.ts'
import { withGateway } from '../support/gateway.ts'
import { type Json, restOf, startRest } from '../support/rest.ts'

test('users are listed with window, answers left and name; a name is given, refused and taken away', async () => {
  await using t = await withGateway()
  await using rest = await restOf(t.gateway)
  const at = async (path: string, init?: RequestInit): Promise<{ status: number; body: Json }> => {
    const response = await fetch(`${rest.url}${path}`, init)
    return { status: response.status, body: await response.json() }
  }
  const put = (user: string, body: object) =>
    at(`/users/${encodeURIComponent(user)}/name`, {
      method: 'PUT',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
  const { user_id } = t.bots.get('default')!
  expect(await at('/users')).toEqual({ status: 200, body: [] })
  expect((await put(user_id, { name: 'Mum' })).body).toMatchObject({ code: 'not_found' })
  await t.sandbox.say('hello')
  await t.receive(1)
  await t.until('known', async () => (await at('/users')).body.length === 1)
  const named = await put(user_id, { name: 'Mum' })
  expect(named).toMatchObject({
    status: 200,
    body: { session: 'default', user_id, name: 'Mum', remaining: 10 },
  })
  expect(problemsOf(KnownUser, named.body)).toEqual([])
  expect(await at('/users?session=default&user_id=mum')).toEqual({ status: 200, body: [named.body] })
  expect(await at('/users?session=nowhere')).toMatchObject({
    status: 404,
    body: { code: 'session_not_found' },
  })
  for (const [body, field] of [
    [{}, 'name'],
    [{ name: 'a@b' }, 'name'],
    [{ name: 'x', session: '' }, 'session'],
    [{ name: 'x', who: 'y' }, 'who'],
  ] as const) {
    const refused = await put(user_id, body)
    expect([refused.status, refused.body.details.errors[0].field]).toEqual([422, field])
  }
  expect((await put('Mum', { name: '' })).body).not.toHaveProperty('name')
  expect((await at('/users')).body[0]).not.toHaveProperty('name')
})

test('recv says beside its messages which sessions are silent', async () => {
  await using rest = await startRest()
  const header = async (input: object) => {
    const response = await fetch(`${rest.url}/tools/default/recv`, {
      method: 'POST',
      body: JSON.stringify({ timeout: 0, ...input }),
      headers: { 'content-type': 'application/json' },
    })
    expect(response.status).toBe(200)
    return response.headers.get('svc-silent-sessions')
  }
  const session = (name: string, status: 'connected' | 'expired' | 'lapsed') => {
    rest.gateway.known.push({
      name,
      status,
      connected: status !== 'expired',
      is_default: false,
      user_count: 0,
    })
  }
  expect(await header({})).toBe('*=disconnected')
  session('default', 'connected')
  expect(await header({})).toBeNull()
  session('客服', 'expired')
  session('work', 'lapsed')
  rest.gateway.say('hello')
  expect(await header({})).toBe('%E5%AE%A2%E6%9C%8D=expired, work=lapsed')
  expect(await header({ session: 'WORK' })).toBe('work=lapsed')
  expect(await header({ session: 'default' })).toBeNull()
})
