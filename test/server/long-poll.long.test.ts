import { expect, test } from 'bun:test'
import type { Socket } from 'node:net'
import { owner } from '../../src/model/principal.ts'
import { type Rest, raw, startRest } from '../support/rest.ts'

test('a waiting call outlives the idle cut of the server', async () => {
  await using rest = await startRest()
  const began = performance.now()
  // Bun cuts a silent connection after 16 to 20 s unless told not to.
  const { status, body } = await rest.call('recv', { timeout: 21 })
  expect([status, body]).toEqual([200, []])
  expect(performance.now() - began).toBeGreaterThan(20_900)
})

test('a connection on which a caller looked at the health of the service is kept as any other of theirs', async () => {
  const token = 'token-of-the-test-long-enough'
  await using open = await startRest()
  await using closed = await startRest({ token })
  const answers = (text: string) => text.match(/HTTP\/1\.1 200 /g)?.length ?? 0
  // Bun closes that of a stranger after 16 to 20 s.
  const answered = async ({ server }: Pick<Rest, 'server'>, header = '') => {
    const call = (path: string) => `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n${header}\r\n`
    const begin = (socket: Socket) => {
      socket.write(call('/healthz'))
      setTimeout(() => socket.write(call('/healthz')), 22_000)
    }
    return answers(await raw(server, begin, text => answers(text) === 2))
  }
  const right = `Authorization: Bearer ${token}\r\n`
  const wrong = 'Authorization: Bearer token-of-somebody-else\r\n'
  // Nobody has used this key yet, so it is read from the store.
  const { key } = await closed.gateway.keys.add({ name: 'Mona', can: ['read'] }, owner)
  const all = [
    answered(open),
    answered(closed, right),
    answered(closed, `Authorization: Bearer ${key}\r\n`),
    answered(closed),
    answered(closed, wrong),
  ]
  expect(await Promise.all(all)).toEqual([2, 2, 2, 1, 1])
})
