import { expect, test } from 'bun:test'
import { raw, startRest } from '../support/rest.ts'

test('a waiting call outlives the idle cut of the server', async () => {
  await using rest = await startRest()
  const began = performance.now()
  // Bun cuts a silent connection after 10 s unless told not to.
  const { status, body } = await rest.call('recv', { timeout: 13 })
  expect([status, body]).toEqual([200, []])
  expect(performance.now() - began).toBeGreaterThan(12_900)
})

test('a connection on which a caller looked at the health of the service is kept as any other of theirs', async () => {
  await using rest = await startRest()
  const call = (path: string) => `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`
  const answers = (text: string) => text.match(/HTTP\/1\.1 200 /g)?.length ?? 0
  // Bun closes that of a stranger after 8 to 12 s.
  const text = await raw(
    rest.server,
    socket => {
      socket.write(call('/healthz'))
      setTimeout(() => socket.write(call('/tools')), 14_000)
    },
    text => answers(text) === 2,
  )
  expect(answers(text)).toBe(2)
})
