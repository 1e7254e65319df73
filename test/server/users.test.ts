/** Who may be answered, and what they are called, over HTTP. */
import { expect, test } from 'bun:test'
import { startRest } from '../support/rest.ts'

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
