import { beforeEach, describe, expect, test } from 'bun:test'
import { chmod, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { silentLog } from '../../src/platform/log.ts'
import { deriveSecret } from '../../src/platform/sealing.ts'
import { createGuard } from '../../src/server/auth.ts'
import { createOpenApiApp } from '../../src/server/openapi.ts'
import { ensureToken } from '../../src/server/token.ts'
import { testClock } from '../support/clock.ts'
import { folderOfFile, folderOfTest, forFile } from '../support/folder.ts'
import { MemoryGateway } from '../support/memory-gateway.ts'
import { raw, startRest } from '../support/rest.ts'

const call = (head: string, path = '/tools/default/sessions') =>
  `POST ${path} HTTP/1.1\r\n${head}Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}`
const dir = folderOfFile()
const { keys } = new MemoryGateway()
const statusOf = (answer: string) => Number(answer.split(' ')[1])

const token = 'correct-horse-battery-staple'
const allowHosts = ['svc.example.org', 'panel.lan:8443', 'tls.lan:443']
const clock = testClock()
const [loopback, proxied, guarded, open] = [
  forFile(await startRest()),
  forFile(await startRest({ token, allowHosts, clock })),
  forFile(await startRest({ token, clock })),
  forFile(await startRest({ token, host: '0.0.0.0', clock })),
]

// Each test has its own minute: so many calls without the token as they make together are slowed down.
beforeEach(() => clock.advance(60_000))

describe('on a loopback address', () => {
  const rest = loopback

  test.each([
    ...['localhost:8000', 'localhost', 'LOCALHOST:1', '127.0.0.1:8000', '127.1.2.3', '[::1]:8000'],
    ...['app.localhost:8000', '[::ffff:127.0.0.1]'],
  ])('the Host %s is ours', async host => {
    expect(statusOf(await raw(rest.server, call(`Host: ${host}\r\n`)))).toBe(200)
  })

  test.each([
    ...['evil.example:8000', 'localhost.evil.example', '127.0.0.1.evil.example', 'evil.example#localhost'],
    ...['localhost@evil.example', '0.0.0.0:8000', '10.0.0.5', '127.0.0.256', '[::]:8000', 'a'],
    ...['notlocalhost'],
    ...['localhost.', '127.0.0.1.', '*', 'localhost, evil.example', 'localhost evil.example'],
    ...['localhost\tevil.example', 'localhost;evil.example', 'localhost%00.evil.example'],
    ...['[::1].evil.example'],
    ...['127.0.0.1:8000@evil.example', 'user:pw@localhost', 'localhost/..', 'localhost?x'],
    ...['http://localhost'],
    ...['localhost:8000:80', 'localhost:99999', 'localhost:-1', '::1', '[fe80::1]', '[::1%25lo]'],
    '169.254.169.254',
  ])('a page that rebound %s to us is refused everywhere', async host => {
    for (const request of [
      call(`Host: ${host}\r\n`),
      `GET /docs HTTP/1.1\r\nHost: ${host}\r\n\r\n`,
      `GET /openapi.json HTTP/1.1\r\nHost: ${host}\r\n\r\n`,
      `GET /healthz HTTP/1.1\r\nHost: ${host}\r\n\r\n`,
      `GET /media/1/0 HTTP/1.1\r\nHost: ${host}\r\n\r\n`,
    ]) {
      const answer = await raw(rest.server, request)
      // A Host that is no host at all is refused by the server itself, with 400.
      expect([400, 403]).toContain(statusOf(answer))
      if (statusOf(answer) === 403) expect(answer).toContain('"code":"forbidden"')
    }
    expect(rest.gateway.asked.filter(one => one.verb === 'open')).toEqual([])
  })

  test('the address in the request line does not stand in for the Host', async () => {
    const answer = await raw(rest.server, 'GET http://localhost/tools HTTP/1.1\r\nHost: evil.example\r\n\r\n')
    expect(statusOf(answer)).toBe(403)
    expect(statusOf(await raw(rest.server, 'GET /tools HTTP/1.1\r\n\r\n'))).not.toBe(200)
    expect(statusOf(await raw(rest.server, 'GET /tools HTTP/1.0\r\n\r\n'))).not.toBe(200)
  })

  test.each([
    ...['http://evil.example', 'https://evil.example', 'http://localhost:3000', 'https://localhost:8000'],
    ...['http://127.0.0.1:8000', 'http://localhost:8000.evil.example', 'null', 'file://', ''],
    ...['chrome-extension://abcdef', 'http://localhost:8000, http://evil.example'],
    ...['null, http://localhost:8000', 'http://localhost.:8000', '//localhost:8000', 'ws://localhost:8000'],
  ])('a page of the origin %p is refused', async origin => {
    const before = rest.gateway.asked.length
    const answer = await raw(rest.server, call(`Host: localhost:8000\r\nOrigin: ${origin}\r\n`))
    expect(statusOf(answer)).toBe(403)
    expect(rest.gateway.asked.length).toBe(before)
    expect(
      statusOf(
        await raw(
          rest.server,
          `GET /openapi.json HTTP/1.1\r\nHost: localhost:8000\r\nOrigin: ${origin}\r\n\r\n`,
        ),
      ),
    ).toBe(403)
  })

  test.each([
    ['localhost:8000', 'http://localhost:8000'],
    ['127.0.0.1:8000', 'http://127.0.0.1:8000'],
    ['[::1]:8000', 'http://[::1]:8000'],
    ['localhost', 'http://localhost'],
    ['localhost:80', 'http://localhost'],
  ])('our own page at %s (%s) may call', async (host, origin) => {
    expect(statusOf(await raw(rest.server, call(`Host: ${host}\r\nOrigin: ${origin}\r\n`)))).toBe(200)
  })

  test('a simple cross-site request (text/plain, no preflight) reaches no tool', async () => {
    const before = rest.gateway.asked.length
    const body = '{"to":"victim@x","text":"hi"}'
    for (const extra of ['Origin: https://evil.example\r\n', 'Sec-Fetch-Site: cross-site\r\n', '']) {
      const answer = await raw(
        rest.server,
        `POST /tools/default/send HTTP/1.1\r\nHost: localhost\r\n${extra}Content-Type: text/plain\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
      )
      expect([403, 415]).toContain(statusOf(answer))
    }
    expect(rest.gateway.asked.length).toBe(before)
  })

  test('cross-site fetches are refused by Sec-Fetch-Site too; a link to the docs may be followed', async () => {
    const get = async (path: string, site: string) =>
      statusOf(
        await raw(rest.server, `GET ${path} HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: ${site}\r\n\r\n`),
      )
    for (const site of ['cross-site', 'same-site', 'invented']) {
      expect(await get('/tools', site)).toBe(403)
      expect(await get('/media/1/0', site)).toBe(403)
    }
    expect(await get('/docs', 'cross-site')).toBe(200)
    expect(await get('/tools', 'same-origin')).toBe(200)
    expect(await get('/tools', 'none')).toBe(200)
  })

  test('a preflight gets no permission', async () => {
    const answer = await raw(
      rest.server,
      'OPTIONS /tools/default/send HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\nAccess-Control-Request-Method: POST\r\n\r\n',
    )
    expect(statusOf(answer)).toBe(403)
    expect(answer.toLowerCase()).not.toContain('access-control')
  })
})

describe('behind a proxy that --allow-host names', () => {
  const rest = proxied
  const status = async (head: string) =>
    statusOf(await raw(rest.server, call(`${head}Authorization: Bearer ${token}\r\n`)))

  test.each([
    ['svc.example.org', 200],
    ['svc.example.org:443', 200],
    ['svc.example.org:8000', 200],
    ['panel.lan:8443', 200],
    ['localhost:8000', 200],
    ['panel.lan', 403],
    ['panel.lan:9', 403],
    ['evilsvc.example.org', 403],
    ['svc.example.org.evil.example', 403],
  ])('the Host %s: %p', async (host, expected) => {
    expect(await status(`Host: ${host}\r\n`)).toBe(expected)
  })

  test.each([
    ['svc.example.org', 'https://svc.example.org', 200],
    ['svc.example.org', 'http://svc.example.org', 200],
    ['localhost:8000', 'https://panel.lan:8443', 200],
    ['localhost:8000', 'https://tls.lan', 200],
    ['svc.example.org', 'https://svc.example.org:8443', 403],
    ['svc.example.org', 'http://svc.example.org:8000', 403],
    ['svc.example.org', 'https://panel.lan', 403],
    ['svc.example.org', 'http://tls.lan', 403],
    ['svc.example.org', 'https://a.svc.example.org', 403],
    ['svc.example.org', 'null', 403],
  ])('of Host %s a page at %s: %p', async (host, origin, expected) => {
    expect(await status(`Host: ${host}\r\nOrigin: ${origin}\r\n`)).toBe(expected)
  })

  test('nobody calls without the token, which is asked for on a loopback address too', async () => {
    for (const host of ['svc.example.org', 'localhost'])
      expect(statusOf(await raw(rest.server, call(`Host: ${host}\r\n`)))).toBe(401)
    expect(() => createGuard({ host: '127.0.0.1', allowHosts: ['svc.example.org'], keys })).toThrow(
      '127.0.0.1',
    )
  })
})

test('a token that was given has to be right everywhere, also where none is needed', async () => {
  const given = [
    'Bearer x',
    'Bearer ,',
    'Bearer Bearer',
    'Digest',
    'Bearer svc_aaaaaaaa_',
    `Bearer svc_aaaaaaaa_${'0'.repeat(64)}`,
    `Bearer svc_aaaaaaaa_${'0'.repeat(63)}`,
    `Basic ${btoa('svc:svc')}`,
    'x',
  ].map(value => `Authorization: ${value}\r\n`)
  given.push('Authorization:\r\n', `Authorization: Bearer x\r\nAuthorization: Bearer ${token}\r\n`)
  const paths = ['/tools', '/nowhere', '/events?link=none']
  for (const rest of [loopback, guarded])
    for (const path of paths)
      for (const header of given) {
        clock.advance(60_000)
        const answer = await raw(rest.server, `GET ${path} HTTP/1.1\r\nHost: localhost\r\n${header}\r\n`)
        expect([path, header, statusOf(answer)]).toEqual([path, header, 401])
      }
  expect(statusOf(await raw(loopback.server, call('Host: localhost\r\n')))).toBe(200)
})

test('a scheme with nothing behind it is no token: neither right nor wrong', async () => {
  await using keyed = await startRest({ clock })
  Object.assign(keyed.gateway.keys, { hasAny: () => true })
  const lines = [
    ...[
      'GET /tools',
      'GET /metrics',
      'GET /users',
      'GET /events?link=none',
      'GET /media/1/0',
      'GET /nowhere',
    ],
    ...['POST /tools/default/sessions', 'POST /notify/home', 'POST /media?file_name=a.txt', 'GET /healthz'],
  ]
  for (const rest of [loopback, guarded, keyed])
    for (const line of lines) {
      const status = async (header: string) => {
        clock.advance(60_000)
        const head = `${line} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n${header}`
        return statusOf(await raw(rest.server, `${head}Content-Length: 2\r\n\r\n{}`))
      }
      const without = await status('')
      for (const value of ['Bearer', 'bearer', 'BEARER ', 'Basic', 'basic \t ', ' bAsIc'])
        expect([line, value, await status(`Authorization: ${value}\r\n`)]).toEqual([line, value, without])
    }
})

test('without keys, the master token of the directory is right on loopback; none is made for a wrong one', async () => {
  const dir = folderOfTest()
  await using rest = await startRest({ basePath: dir, clock })
  const status = async (value: string) =>
    statusOf(await raw(rest.server, call(`Host: localhost\r\nAuthorization: Bearer ${value}\r\n`)))
  expect(await status('x')).toBe(401)
  expect(await readFile(join(dir, 'api_token'), 'utf8').catch(() => 'none')).toBe('none')
  const made = await ensureToken({ basePath: dir })
  clock.advance(1000)
  expect([await status(made.token), await status(`${made.token}x`)]).toEqual([200, 401])
})

describe.each([
  ['loopback with a token', guarded],
  ['any address', open],
] as const)('%s', (_what, rest) => {
  test.each([
    ['nothing', ''],
    ['another token', 'Authorization: Bearer wrong\r\n'],
    ['the beginning of the token', 'Authorization: Bearer correct-horse-battery-stapl\r\n'],
    ['the token and more', `Authorization: Bearer ${token}x\r\n`],
    ['the token in other letters', `Authorization: Bearer ${token.toUpperCase()}\r\n`],
    ['an empty token', 'Authorization: Bearer \r\n'],
    ['the bare token', `Authorization: ${token}\r\n`],
    ['another scheme', `Authorization: Basic ${btoa(`user:${token}`)}\r\n`],
    ['two tokens', `Authorization: Bearer wrong, Bearer ${token}\r\n`],
    ['a cookie', `Cookie: token=${token}\r\n`],
  ])('%s is not enough', async (_name, head) => {
    const before = rest.gateway.asked.length
    for (const request of [
      call(`Host: localhost\r\n${head}`),
      `GET /tools HTTP/1.1\r\nHost: localhost\r\n${head}\r\n`,
      `GET /nowhere HTTP/1.1\r\nHost: localhost\r\n${head}\r\n`,
      `HEAD /tools HTTP/1.1\r\nHost: localhost\r\n${head}\r\n`,
      `GET //tools HTTP/1.1\r\nHost: localhost\r\n${head}\r\n`,
    ]) {
      const answer = await raw(rest.server, request)
      expect(statusOf(answer)).toBe(401)
      expect(answer.toLowerCase()).toContain('www-authenticate: bearer')
    }
    expect(rest.gateway.asked.length).toBe(before)
  })

  test('a token in the address is refused', async () => {
    for (const key of ['token', 'access_token', 'api_key'])
      expect(
        statusOf(
          await raw(rest.server, call('Host: localhost\r\n', `/tools/default/sessions?${key}=${token}`)),
        ),
      ).toBe(401)
  })

  test('the token opens everything', async () => {
    for (const scheme of ['Bearer', 'bearer'])
      expect(
        statusOf(await raw(rest.server, call(`Host: localhost\r\nAuthorization: ${scheme} ${token}\r\n`))),
      ).toBe(200)
  })

  test('docs, schema and health stay open, and do not show the token', async () => {
    for (const path of ['/docs', '/docs/page.js', '/openapi.json', '/healthz', '/readyz']) {
      const response = await fetch(`${rest.url.replace('0.0.0.0', '127.0.0.1')}${path}`)
      expect(response.status).toBe(200)
      expect(await response.text()).not.toContain(token)
    }
  })

  test('a short Host does not lead past the guard', async () => {
    // Elysia looks for the path from the 12th character of the address; the guard does not.
    for (const short of ['a', 'ab', 'abc', 'abcd', '1.1'])
      for (const path of ['/openapi.json/../tools', '/tools', '/a/docs', '/x/tools/default/sessions']) {
        const answer = await raw(rest.server, `GET ${path} HTTP/1.1\r\nHost: ${short}\r\n\r\n`)
        expect([401, 403]).toContain(statusOf(answer))
      }
  })
})

test('behind a short public name every path is found', async () => {
  await using rest = await startRest({ host: '0.0.0.0', token: 't' })
  for (const short of ['a', 'abc', 'abcd'])
    expect(statusOf(await raw(rest.server, call(`Host: ${short}\r\nAuthorization: Bearer t\r\n`)))).toBe(200)
})

test('an address open to others without a token is never served', () => {
  for (const host of ['0.0.0.0', '::', '192.168.1.4', 'example.org', ''])
    expect(() => createGuard({ host, keys })).toThrow(host)
  expect(() =>
    createOpenApiApp({
      gateway: new MemoryGateway(),
      config: { host: '0.0.0.0', allowHosts: [], maxUploadBytes: 1 },
      log: silentLog,
      version: '0',
    }),
  ).toThrow('0.0.0.0')
})

describe('the generated token', () => {
  test('it is made once, of 256 bits, for its owner alone', async () => {
    const base = join(dir, 'a')
    const first = await ensureToken({ basePath: base })
    expect(first.created).toBe(true)
    expect(Buffer.from(first.token, 'base64url').length).toBe(32)
    expect((await stat(first.path ?? '')).mode & 0o777).toBe(0o600)
    expect((await readFile(first.path ?? '', 'utf8')).trim()).toBe(first.token)
    expect(await ensureToken({ basePath: base })).toEqual({ ...first, created: false })
  })

  test('rights that somebody loosened are repaired', async () => {
    const base = join(dir, 'b')
    const { path = '' } = await ensureToken({ basePath: base })
    await chmod(path, 0o644)
    await ensureToken({ basePath: base })
    expect((await stat(path)).mode & 0o777).toBe(0o600)
  })

  test('a token that the user wrote is used; an empty file is none', async () => {
    const base = join(dir, 'c')
    const { path = '' } = await ensureToken({ basePath: base })
    await writeFile(path, 'my own\n')
    expect((await ensureToken({ basePath: base })).token).toBe('my own')
    await writeFile(path, '')
    const again = await ensureToken({ basePath: base })
    expect(again.created).toBe(true)
    expect((await ensureToken({ basePath: base })).token).toBe(again.token)
  })

  test('of many starters at once one makes it and all use it', async () => {
    const base = join(dir, 'd')
    const all = await Promise.all(Array.from({ length: 20 }, () => ensureToken({ basePath: base })))
    expect(new Set(all.map(one => one.token)).size).toBe(1)
    expect(all.filter(one => one.created).length).toBe(1)
  })
})

test('while the secret key of a cluster changes, the derived token of either key is right, and one that was given stays alone', () => {
  const secretKey = 'K9wq2-hTzVbN71xPmRfAaYdL04sGeJcU'
  const newSecretKey = 'nGq7-Zt4VwXc91LmPrEbUyKoS23hDfJa'
  const [derived = '', next = ''] = [secretKey, newSecretKey].map(key => deriveSecret(key, 'api_token'))
  const kindOf = (token: string, given: string) => {
    const directory = { basePath: '/data', secretKey, newSecretKey, storeUrl: 'postgres://db/svc' }
    const guard = createGuard({ host: '0.0.0.0', token, keys, ...directory })
    const request = new Request('http://localhost/tools', { headers: { authorization: `Bearer ${given}` } })
    return (guard.identify(request, false) as { kind?: string }).kind
  }
  expect([derived, next, `${next}x`].map(given => kindOf(derived, given))).toEqual([
    'owner',
    'owner',
    undefined,
  ])
  expect(['given-Xz81Kq', derived, next].map(given => kindOf('given-Xz81Kq', given))).toEqual([
    'owner',
    undefined,
    undefined,
  ])
})
