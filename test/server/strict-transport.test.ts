/** What changes for browsers if svc serves https itself. */
import { describe, expect, test } from 'bun:test'
import { createGuard } from '../../src/server/auth.ts'
import { isOverTls } from '../../src/server/behind-proxy.ts'
import { withStrictTransport } from '../../src/server/strict-transport.ts'
import { MemoryGateway } from '../support/memory-gateway.ts'

const { keys } = new MemoryGateway()
const peer = { accept() {} }
const guard = createGuard({ host: '0.0.0.0', token: 'correct-horse-battery-staple', keys })
const ask = (url: string, headers: Record<string, string> = {}) =>
  new Request(url, { headers: { host: url.split('/')[2]!, ...headers } })

test('browsers are told to stay with https, except for loopback names', async () => {
  const answers = { '/own': () => new Response('x'), '/empty': () => new Response(null, { status: 204 }) }
  const fetch = withStrictTransport(({ url }) => answers[new URL(url).pathname as '/own']())
  const headerOf = async (url: string) =>
    (await fetch(ask(url), peer)).headers.get('strict-transport-security')
  expect(await headerOf('https://svc.test/own')).toBe('max-age=31536000')
  expect(await headerOf('https://svc.test:8443/empty')).toBe('max-age=31536000')
  for (const host of ['localhost:8443', '127.0.0.1', '[::1]:8443', 'app.localhost'])
    expect(await headerOf(`https://${host}/own`)).toBe(null)
})

describe('the pages of an https server', () => {
  test.each([
    ['https://svc.test/x', 'https://svc.test', true],
    ['https://svc.test:8443/x', 'https://svc.test:8443', true],
    ['https://svc.test/x', 'http://svc.test', false],
    ['https://svc.test:8443/x', 'http://svc.test:8443', false],
    ['https://svc.test:8443/x', 'https://svc.test', false],
    ['https://svc.test/x', 'https://evil.test', false],
    ['https://svc.test/x', 'null', false],
    ['http://svc.test:8000/x', 'https://svc.test:8000', false],
    ['http://svc.test:8000/x', 'http://svc.test:8000', true],
  ])('%s called by a page of %s: %p', (url, origin, allowed) => {
    expect(guard.pageDenialOf(ask(url, { origin }), false) === undefined).toBe(allowed)
  })

  test('a Host that names the default port', () => {
    const request = ask('https://svc.test/x', { host: 'svc.test:443', origin: 'https://svc.test' })
    expect(guard.pageDenialOf(request, false)).toBe(undefined)
  })

  test('get a secure cookie', () => {
    expect([isOverTls(ask('https://svc.test/x')), isOverTls(ask('http://svc.test/x'))]).toEqual([true, false])
  })
})
