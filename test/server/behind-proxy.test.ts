/** A service below a path of a host: what a proxy in front passes on, with the path taken off or not. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parsePrefix } from '../../src/config/values.ts'
import {
  addressOf,
  isOverTls,
  maxWaitOf,
  prefixOf,
  rootOf,
  withoutPrefix,
} from '../../src/server/behind-proxy.ts'
import { pathsWithoutToken } from '../../src/server/service-routes.ts'
import { pageHeaders, cookieOf as setCookieOf } from '../support/admin.ts'
import { type Serving, serveHere } from '../support/command.ts'
import { panelLinkOf } from '../support/service.ts'

const token = 'correct-horse-battery-staple'
const host = 'svc.example.org'
const authorization = `Bearer ${token}`

/** What the doors see of a request: its path, the prefix and the root. */
function seen(
  path: string,
  headers: Record<string, string> = {},
  config: { host?: string; allowHosts?: string[]; publicUrl?: string; trustedProxies?: string[] } = {},
): string[] {
  let found: string[] = []
  const usual = { host: '127.0.0.1', allowHosts: [host], trustedProxies: ['192.0.2.0/24'] }
  const door = withoutPrefix({ ...usual, ...config }, request => {
    found = [new URL(request.url).pathname, String(prefixOf(request)), rootOf(request)]
    return new Response()
  })
  const request = new Request(`http://${headers.host ?? host}${path}`, { headers: { host, ...headers } })
  door(request, { remoteAddress: '192.0.2.1', accept() {} })
  return found
}
const publicUrl = `https://${host}/apps/svc`
const told = { 'x-forwarded-prefix': '/apps/svc' }
const forwarded = { 'x-forwarded-for': '192.0.2.1' }

describe('the prefix of a request', () => {
  test.each<[string, ...Parameters<typeof seen>, string[]]>([
    ['nothing in front', '/tools', { host: 'localhost' }, {}, ['/tools', '', '']],
    ['told, taken off', '/tools', told, {}, ['/tools', '/apps/svc', '/apps/svc']],
    [
      'told alone, it was taken off',
      '/apps/svc/tools',
      told,
      {},
      ['/apps/svc/tools', '/apps/svc', '/apps/svc'],
    ],
    ['told and configured, left on', '/apps/svc/a', told, { publicUrl }, ['/a', '/apps/svc', '/apps/svc']],
    ['configured, taken off', '/a/b', {}, { publicUrl }, ['/a/b', '/apps/svc', '/apps/svc']],
    ['configured, left on', '/apps/svc/a', {}, { publicUrl }, ['/a', '/apps/svc', '/apps/svc']],
    ['only the prefix', '/apps/svc', {}, { publicUrl }, ['/', '/apps/svc', '/apps/svc']],
    ['the prefix with a query', '/apps/svc?x=/', {}, { publicUrl }, ['/', '/apps/svc', '/apps/svc']],
    [
      'a path that only begins like it',
      '/apps/svcs',
      {},
      { publicUrl },
      ['/apps/svcs', '/apps/svc', '/apps/svc'],
    ],
    ['taken off once', '/apps/svc/apps/svc', {}, { publicUrl }, ['/apps/svc', '/apps/svc', '/apps/svc']],
    ['two slashes stay', '/apps/svc//tools', {}, { publicUrl }, ['//tools', '/apps/svc', '/apps/svc']],
    ['told goes before configured', '/a', { 'x-forwarded-prefix': '/p/' }, { publicUrl }, ['/a', '/p', '/p']],
    ['told to be at the root', '/a/b', { 'x-forwarded-prefix': '/' }, { publicUrl }, ['/a/b', '', '']],
    ['this machine, past the proxy', '/a', { host: 'localhost' }, { publicUrl }, ['/a', '', '']],
    [
      'this machine, by the prefix',
      '/apps/svc/a',
      { host: 'localhost' },
      { publicUrl },
      ['/a', '/apps/svc', '/apps/svc'],
    ],
    [
      'a proxy that changes the Host',
      '/a',
      { host: 'localhost', ...forwarded },
      { publicUrl },
      ['/a', '/apps/svc', '/apps/svc'],
    ],
    [
      'another host of the proxy',
      '/a',
      { host: 'panel.example.org' },
      { publicUrl },
      ['/a', 'undefined', '.'],
    ],
    ['a proxy that does not tell', '/a/b/c', {}, {}, ['/a/b/c', 'undefined', '../..']],
    ['the same at the root', '/', {}, {}, ['/', 'undefined', '.']],
    ['the same, one below', '/a', {}, {}, ['/a', 'undefined', '.']],
    [
      'told by a proxy that is not trusted',
      '/a',
      { ...told, host: 'localhost' },
      { trustedProxies: ['192.0.2.2', '10.0.0.0/8'], publicUrl: 'http://x.test' },
      ['/a', '', ''],
    ],
    ['the same, by its host', '/a', told, { trustedProxies: [] }, ['/a', 'undefined', '.']],
    [
      'a Host that nobody but a trusted proxy changed',
      '/a',
      { host: 'localhost', ...forwarded },
      { publicUrl, trustedProxies: [] },
      ['/a', '', ''],
    ],
    [
      'a prefix like a path of our own',
      '/api/x',
      { 'x-forwarded-prefix': '/api' },
      {},
      ['/api/x', '/api', '/api'],
    ],
  ])('%s', (_name, path, headers, config, expected) => {
    expect(seen(path, headers, config)).toEqual(expected)
  })

  test.each([
    '//evil.example',
    '/a//b',
    '/..',
    '/a/../b',
    '/a/..',
    '/.',
    '/a/./b',
    '/%2e%2e/a',
    '/a%2fb',
    '/a%5cb',
    '/a\\b',
    'svc',
    'https://evil.example/svc',
    '/a b',
    '/a"b',
    "/a'b",
    '/a<b>',
    '/a;b',
    '/a,b',
    '/a, /b',
    '/a?b',
    '/a#b',
    '/a&b',
    '/a$b',
    '/a\tb',
    '/微信',
    `/${'a'.repeat(201)}`,
  ])('%p is none', given => {
    expect(parsePrefix(given)).toBeUndefined()
    const headers: Record<string, string> = /^[\t -~]*$/.test(given) ? { 'x-forwarded-prefix': given } : {}
    expect(seen('/a/b', headers)).toEqual(['/a/b', 'undefined', '..'])
  })

  test('line breaks are none', () => {
    for (const given of ['/a\r\nSet-Cookie: x', '/a\n', '/a\r', '\n/a'])
      expect(parsePrefix(given)).toBeUndefined()
  })

  test('letters of other scripts stand in it as browsers send them', () => {
    const path = new URL('http://x/微信/机器人').pathname
    expect(parsePrefix(`${path}/`)).toBe(path)
    expect(seen('/tools', { 'x-forwarded-prefix': path })).toEqual(['/tools', path, path])
    const publicUrl = `https://${host}${path}`
    expect(seen(`${path}/tools`, {}, { publicUrl })).toEqual(['/tools', path, path])
  })
})

test.each<[Record<string, string>, number | undefined]>([
  [{}, undefined],
  [{ authorization }, undefined],
  [{ 'x-forwarded-for': '192.0.2.1' }, 45],
  [{ 'x-forwarded-proto': 'https' }, 45],
  [{ 'x-forwarded-host': host }, 45],
  [{ 'x-real-ip': '192.0.2.1' }, 45],
  [{ forwarded: 'for=192.0.2.1' }, 45],
  [{ via: '1.1 proxy' }, 45],
])('a call with %p waits at most %p seconds', (headers, expected) => {
  expect(maxWaitOf(new Request('http://localhost/', { headers }))).toBe(expected)
})

describe('the address of a caller', () => {
  const trustedProxies = ['127.0.0.1', '10.0.0.0/8', '2001:db8:1::/48', '::ffff:172.16.0.0/108']
  /** What the doors see: the address, and whether the caller used TLS. */
  const seenFrom = (remoteAddress: string, lines: [string, string][], trusted = trustedProxies) => {
    let found: unknown
    const peer = { remoteAddress, accept() {} }
    const door = withoutPrefix({ host: '0.0.0.0', allowHosts: [], trustedProxies: trusted }, request => {
      found = [addressOf(request, peer), isOverTls(request)]
      return new Response()
    })
    door(new Request('http://localhost/', { headers: [['host', 'localhost'], ...lines] }), peer)
    return found
  }
  const via = 'x-forwarded-for'
  const long = Array(500).fill('6.6.6.6').join(', ')

  test.each<[string, string, [string, string][], string]>([
    ['no proxy', '8.8.8.8', [], '8.8.8.8'],
    ['a caller that invents one', '8.8.8.8', [[via, '9.9.9.9']], '8.8.8.8'],
    ['a program on another address of this machine', '127.0.0.2', [[via, '9.9.9.9']], '127.0.0.2'],
    ['a proxy that says nothing', '10.0.0.1', [], '10.0.0.1'],
    ['one proxy', '10.0.0.1', [[via, '9.9.9.9']], '9.9.9.9'],
    ['invented before the proxy', '10.0.0.1', [[via, '6.6.6.6, 9.9.9.9']], '9.9.9.9'],
    ['two proxies', '10.0.0.1', [[via, '6.6.6.6, 9.9.9.9, 10.2.3.4']], '9.9.9.9'],
    [
      'two headers',
      '10.0.0.1',
      [
        [via, '6.6.6.6'],
        [via, '9.9.9.9'],
        [via, '10.2.3.4'],
      ],
      '9.9.9.9',
    ],
    ['one proxy of nobody', '10.0.0.1', [[via, '6.6.6.6, 11.0.0.1']], '11.0.0.1'],
    ['only proxies', '10.0.0.1', [[via, '10.0.0.3, 10.0.0.2']], '10.0.0.3'],
    ['no address at the end', '10.0.0.1', [[via, '6.6.6.6, unknown']], '10.0.0.1'],
    ['no address in between', '10.0.0.1', [[via, '6.6.6.6, unknown, 10.0.0.2']], '10.0.0.2'],
    ['an empty step', '10.0.0.1', [[via, '6.6.6.6,,10.0.0.2']], '10.0.0.2'],
    ['a comma at the end', '10.0.0.1', [[via, '6.6.6.6,']], '10.0.0.1'],
    ['a hidden name', '10.0.0.1', [[via, '6.6.6.6, _hidden']], '10.0.0.1'],
    ['a host name', '10.0.0.1', [[via, '6.6.6.6, localhost']], '10.0.0.1'],
    ['a short address', '10.0.0.1', [[via, '6.6.6.6, 127.1']], '10.0.0.1'],
    ['an octal address', '10.0.0.1', [[via, '6.6.6.6, 010.0.0.2']], '10.0.0.1'],
    ['a number', '10.0.0.1', [[via, '6.6.6.6, 167772162']], '10.0.0.1'],
    ['a range', '10.0.0.1', [[via, '6.6.6.6, 10.0.0.0/8']], '10.0.0.1'],
    ['a zone', '10.0.0.1', [[via, 'fe80::1%eth0']], '10.0.0.1'],
    ['two addresses in one step', '10.0.0.1', [[via, '6.6.6.6 9.9.9.9']], '10.0.0.1'],
    ['a port', '10.0.0.1', [[via, '9.9.9.9:4711']], '9.9.9.9'],
    ['IPv6', '10.0.0.1', [[via, '6.6.6.6, 2A00:0:0::1']], '2a00::1'],
    ['IPv6 that ends like a port', '10.0.0.1', [[via, '2a00::1:80']], '2a00::1:80'],
    ['IPv6 in brackets', '10.0.0.1', [[via, '[2a00::1]']], '2a00::1'],
    ['IPv6 with a port', '10.0.0.1', [[via, '[2a00::1]:443']], '2a00::1'],
    ['IPv4 in IPv6', '10.0.0.1', [[via, '::ffff:9.9.9.9']], '9.9.9.9'],
    ['IPv4 in IPv6 as hex', '10.0.0.1', [[via, '6.6.6.6, ::ffff:0909:0909']], '9.9.9.9'],
    ['a proxy by IPv4 in IPv6', '::ffff:10.0.0.1', [[via, '9.9.9.9']], '9.9.9.9'],
    ['a range by IPv4 in IPv6', '172.16.5.1', [[via, '9.9.9.9']], '9.9.9.9'],
    ['past that range', '172.32.0.1', [[via, '9.9.9.9']], '172.32.0.1'],
    ['a caller by IPv4 in IPv6', '::ffff:8.8.8.8', [[via, '9.9.9.9']], '8.8.8.8'],
    ['a proxy of a range of IPv6', '2001:db8:1:2::3', [[via, '9.9.9.9']], '9.9.9.9'],
    ['past that range of IPv6', '2001:db8:2::3', [[via, '9.9.9.9']], '2001:db8:2::3'],
    ['a long header', '10.0.0.1', [[via, `${long}, 9.9.9.9, 10.0.0.2`]], '9.9.9.9'],
    [
      'a loop of proxies',
      '10.0.0.1',
      [[via, `6.6.6.6, ${Array(500).fill('10.0.0.2').join(',')}`]],
      '10.0.0.2',
    ],
    ['Forwarded', '10.0.0.1', [['forwarded', 'for=6.6.6.6;proto=http, for=9.9.9.9']], '9.9.9.9'],
    ['Forwarded, IPv6', '10.0.0.1', [['forwarded', 'by=_x;For="[2a00::1]:4711"; host=x']], '2a00::1'],
    ['Forwarded, unknown', '10.0.0.1', [['forwarded', 'for=6.6.6.6, for=unknown']], '10.0.0.1'],
    ['Forwarded by nobody trusted', '8.8.8.8', [['forwarded', 'for=9.9.9.9']], '8.8.8.8'],
    ['an open quote before the proxy', '10.0.0.1', [['forwarded', 'for="6.6.6.6, for=9.9.9.9']], '9.9.9.9'],
    [
      'Forwarded that the proxy passed on',
      '10.0.0.1',
      [
        ['forwarded', 'for=6.6.6.6'],
        [via, '9.9.9.9'],
      ],
      '9.9.9.9',
    ],
    [
      'other headers',
      '10.0.0.1',
      [
        ['x-real-ip', '6.6.6.6'],
        ['cf-connecting-ip', '6.6.6.6'],
      ],
      '10.0.0.1',
    ],
  ])('%s', (_name, remoteAddress, lines, expected) => {
    expect(seenFrom(remoteAddress, lines)).toEqual([expected, false])
    expect(seenFrom(remoteAddress, lines, [])).toEqual([remoteAddress.replace('::ffff:', ''), false])
  })

  const https: [string, string] = ['x-forwarded-proto', 'https']
  test.each<[string, string, [string, string][], boolean]>([
    ['a trusted proxy', '10.0.0.1', [https], true],
    ['a caller that invents it', '8.8.8.8', [https], false],
    ['the same with Forwarded', '8.8.8.8', [['forwarded', 'proto=https']], false],
    ['Forwarded', '10.0.0.1', [['forwarded', 'for=9.9.9.9;proto="HTTPS"']], true],
    [
      'TLS at the first of two',
      '10.0.0.1',
      [
        [via, '9.9.9.9, 10.0.0.2'],
        ['x-forwarded-proto', 'https, http'],
      ],
      true,
    ],
    [
      'invented before the proxy',
      '10.0.0.1',
      [
        [via, '9.9.9.9'],
        ['x-forwarded-proto', 'https, http'],
      ],
      false,
    ],
    ['another word', '10.0.0.1', [['x-forwarded-proto', 'httpsx']], false],
    ['a browser says so', '8.8.8.8', [['origin', 'https://svc.example.org']], true],
  ])('https: %s', (_name, remoteAddress, lines, expected) => {
    expect((seenFrom(remoteAddress, lines) as unknown[])[1]).toBe(expected)
  })
})

describe('the doors', () => {
  let home: string
  let service: Serving
  let panel: string
  beforeAll(async () => {
    home = await mkdtemp(join(tmpdir(), 'svc-proxy-'))
    const args = [
      '--token',
      token,
      '--trust-proxy',
      '127.0.0.0/8',
      '--allow-host',
      host,
      '--public-url',
      `${publicUrl}/`,
      '--admin-port',
      '0',
    ]
    service = await serveHere(join(home, 'data'), { home }, ...args)
    panel = /^admin on (\S+)$/m.exec(service.stdout())![1]!
  })
  afterAll(async () => {
    await service?.[Symbol.asyncDispose]()
    await rm(home, { recursive: true, force: true })
  })
  const ask = (url: string, headers: Record<string, string> = {}, init: RequestInit = {}) =>
    fetch(url, { redirect: 'manual', headers: { host, ...headers }, ...init })
  const signIn = (headers: Record<string, string> = {}, path = '') =>
    ask(
      `${panel}${path}/api/sign-in`,
      { 'content-type': 'application/json', ...headers },
      { method: 'POST', body: JSON.stringify({ token }) },
    )
  const cookieOf = (response: Response) => response.headers.get('set-cookie')!

  /** The ways on which a proxy passes a request on. */
  const ways = [
    ['taken off', '', {}],
    ['left on', '/apps/svc', {}],
    ['told', '', told],
    ['told and left on', '/apps/svc', told],
  ] as const

  test.each(ways)('the documents name it (%s)', async (_name, path, headers) => {
    const openapi = await (await ask(`${service.url}${path}/openapi.json`, headers)).json()
    const [{ url }] = openapi.servers
    expect(new URL(url, `${publicUrl}/openapi.json`).href).toBe(`${publicUrl}/`)
    expect(Object.keys(openapi.paths)).toContain('/tools/default/send')
    for (const at of ['/', '/docs/'])
      expect((await ask(`${service.url}${path}${at}`, headers)).headers.get('location')).toBe(
        '/apps/svc/docs',
      )
    const docs = await (await ask(`${service.url}${path}/docs`, headers)).text()
    for (const [, address] of docs.matchAll(/(?:src|href)="([^"]+)"/g))
      expect(new URL(address!, `${publicUrl}/docs`).href).toMatch(
        /^(data:|https:\/\/svc\.example\.org\/apps\/svc\/)/,
      )
  })

  test('a prefix that begins like a path of svc is not taken off', async () => {
    const here = { host: 'localhost' }
    const documents = await Promise.all(
      [service.url, panel].map(async url => (await ask(`${url}/openapi.json`, here)).json()),
    )
    const paths = [...pathsWithoutToken, ...documents.flatMap(({ paths }) => Object.keys(paths))]
    const firsts = new Set(paths.map(path => `/${path.split('/')[1]}`).filter(path => path !== '/'))
    expect(firsts.size).toBeGreaterThan(10)
    for (const first of firsts)
      expect(seen(`${first}/x`, {}, { publicUrl: `https://${host}${first}` })[0]).toBe(`${first}/x`)
  })

  test.each(ways)('tools and MCP answer below it (%s)', async (_name, path, headers) => {
    const call = { authorization, 'content-type': 'application/json', ...headers }
    const listed = await ask(`${service.url}${path}/tools/default/sessions`, call, {
      method: 'POST',
      body: '{}',
    })
    expect(listed.status).toBe(200)
    const accept = 'application/json, text/event-stream'
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' })
    const mcp = await ask(`${service.url}${path}/mcp`, { ...call, accept }, { method: 'POST', body })
    expect([mcp.status, (await mcp.text()).includes('"recv"')]).toEqual([200, true])
    expect((await ask(`${service.url}${path}/tools`, headers)).status).toBe(401)
  })

  test.each(ways)('the panel names it, and its cookie is of it alone (%s)', async (_name, path, headers) => {
    const page = await (await ask(`${panel}${path}/conversations/a/b`, headers)).text()
    const addresses = [...page.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, address]) => address!)
    expect(addresses.length).toBeGreaterThan(1)
    for (const address of addresses) expect(address).toStartWith('/apps/svc/')
    for (const address of addresses) {
      const sent = path === '' ? address.slice('/apps/svc'.length) : address
      expect((await ask(`${panel}${sent}`, headers)).status).toBe(200)
    }
    const answers = [
      await signIn(headers, path),
      await signIn({ ...headers, 'x-forwarded-proto': 'https' }, path),
    ]
    const [plain = '', secure = ''] = answers.map(cookieOf)
    expect(plain).toMatch(
      /^svc_panel(_\d+)?_[0-9a-f]{12}=[\w.-]+; Path=\/apps\/svc; Max-Age=\d+; HttpOnly; SameSite=Strict$/,
    )
    expect(secure).toMatch(/^__Host-svc_panel(_\d+)?_[0-9a-f]{12}=[\w.-]+; Path=\/; .*; Secure$/)
    for (const { headers: given } of answers) {
      const page = pageHeaders(setCookieOf(given))
      expect((await ask(`${panel}${path}/api/status`, { ...headers, ...page })).status).toBe(200)
      // That of another place does not count.
      expect((await ask(`${panel}/api/status`, { 'x-forwarded-prefix': '/other', ...page })).status).toBe(401)
      expect((await ask(`${panel}/api/status`, { host: 'localhost', ...page })).status).toBe(401)
    }
    const out = await ask(
      `${panel}${path}/api/sign-out`,
      { ...headers, ...pageHeaders(setCookieOf(answers[0]!.headers)) },
      { method: 'POST' },
    )
    expect(cookieOf(out)).toStartWith(`${plain.split('=')[0]}=; Path=/apps/svc; Max-Age=0;`)
  })

  test.each(ways)('a used sign-in link leads into the panel (%s)', async (_name, path, headers) => {
    const answer = await ask(`${panel}${path}/sign-in?code=none`, headers)
    expect([answer.status, answer.headers.get('location')]).toEqual([303, '/apps/svc/?link=used'])
  })

  test('the printed link signs in, below the prefix too', async () => {
    const link = await panelLinkOf(join(home, 'data'))
    const answer = await ask(`${panel}${link}`)
    expect(answer.headers.get('location')).toMatch(/^\/apps\/svc\/#svc-panel=/)
    expect(cookieOf(answer)).toContain('; Path=/apps/svc; ')
  })

  test.each(ways)("the sandbox's phone lies below it (%s)", async (_name, path, headers) => {
    const cookie = cookieOf(await signIn(headers, path)).split(';')[0]!
    const page = await (await ask(`${panel}${path}/phone`, { ...headers, cookie })).text()
    for (const [, address] of page.matchAll(/(?:src|href)="(phone[^"]+)"/g)) {
      expect(new URL(address!, `${publicUrl}/phone`).pathname).toStartWith('/apps/svc/phone/')
      expect((await ask(`${panel}${path}/${address}`, { ...headers, cookie })).status).toBe(200)
    }
    expect(page).not.toMatch(/(?:src|href)="\//)
    const slash = await ask(`${panel}${path}/phone/`, { ...headers, cookie })
    expect(new URL(slash.headers.get('location')!, `${publicUrl}/phone/`).pathname).toBe('/apps/svc/phone')
  })

  test('who comes past the proxy finds everything as without one', async () => {
    const here = { host: 'localhost' }
    expect((await ask(`${service.url}/`, here)).headers.get('location')).toBe('/docs')
    expect(cookieOf(await signIn(here))).toMatch(/^svc_panel=[^;]+; Path=\/; /)
    expect(await (await ask(`${panel}/sessions`, here)).text()).toContain('src="/assets/')
    expect((await ask(`${panel}/sign-in`, here)).headers.get('location')).toBe('/?link=used')
  })

  test('a prefix opens nothing', async () => {
    for (const path of ['/apps/svc', '/apps/svc/', ''])
      for (const headers of [
        {},
        told,
        { 'x-forwarded-prefix': '/docs' },
        { 'x-forwarded-prefix': '/tools' },
      ]) {
        for (const at of ['/tools', '/metrics', '/media/1/0', '//tools', '/docs/../tools', '/apps/svc/tools'])
          expect([at, (await ask(`${service.url}${path}${at}`, headers)).status]).toEqual([at, 401])
        // What is no path of the API is the page that signs in.
        const status = await ask(`${panel}${path}/api/status`, headers)
        expect([status.status, status.headers.get('content-type')]).toBeOneOf([
          [401, 'application/problem+json'],
          [200, 'text/html; charset=utf-8'],
        ])
        const foreign = { ...headers, authorization, origin: 'https://evil.example' }
        expect((await ask(`${service.url}${path}/tools`, foreign)).status).toBe(403)
        const rebound = { ...headers, authorization, host: 'evil.example' }
        expect((await ask(`${service.url}${path}/docs`, rebound)).status).toBe(403)
      }
  })
})

test('an IPv6 address stands in brackets wherever it is told, and is this machine', async () => {
  const home = await mkdtemp(join(tmpdir(), 'svc-ipv6-'))
  try {
    await using six = await serveHere(join(home, 'data'), { home }, '--host', '::1', '--admin-port', '0')
    const lines = ['listening on', 'docs on', 'mcp on', 'admin on']
    for (const line of lines) expect(six.stdout()).toMatch(new RegExp(`^${line} http://\\[::1\\]:\\d+`, 'm'))
    expect((await six.call('sessions')).status).toBe(200)
    const own = { origin: six.url }
    expect((await fetch(`${six.url}/tools`, { headers: own })).status).toBe(200)
    expect((await fetch(`${six.url}/tools`, { headers: { origin: 'http://[::1]:1' } })).status).toBe(403)
    expect((await fetch(`${six.url}/tools`, { headers: { host: '[::2]' } })).status).toBe(403)
  } finally {
    await rm(home, { recursive: true, force: true })
  }
})
