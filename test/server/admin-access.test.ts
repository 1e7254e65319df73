import { describe, expect, test } from 'bun:test'
import { SvcError } from '../../src/model/error.ts'
import { panelOperations } from '../../src/operations/operations.ts'
import { createAdminApp } from '../../src/server/admin.ts'
import { type Admin, cookieOf, pageHeaders, startAdmin } from '../support/admin.ts'
import { testClock } from '../support/clock.ts'
import { forFile } from '../support/folder.ts'
import { rowsIn } from '../support/gateway.ts'
import { raw } from '../support/rest.ts'
import { withSandbox } from '../support/sandbox.ts'
import { until } from '../support/until.ts'

const token = 'correct-horse-battery-staple'
const dayMs = 24 * 60 * 60_000
const statusOf = (answer: string) => Number(answer.split(' ')[1])
const signIn = async (admin: Admin, given = token) => admin.call('POST', '/api/sign-in', { token: given })
/** A request by a page. The name of its cookie has the port. */
const at = (path: string, headers: Record<string, string> = {}) => {
  const host = `127.0.0.1:${/svc_panel_(\d+)/.exec(headers.cookie ?? '')?.[1] ?? 1}`
  return new Request(`http://${host}${path}`, {
    headers: { host, ...headers, ...pageHeaders(headers.cookie ?? '') },
  })
}

const clock = testClock()
const [loopback, guarded, open] = [
  forFile(await startAdmin()),
  forFile(await startAdmin({ token, doorClock: clock, trustedProxies: ['127.0.0.1'] })),
  forFile(await startAdmin({ token, doorClock: clock, host: '0.0.0.0', trustedProxies: ['127.0.0.1'] })),
]

/** What only those may have who have signed in. */
const closed = [
  'GET /api/status',
  'GET /api/sessions',
  'GET /api/events',
  'GET /api/media/1/0',
  'GET /api/waiting-files/1',
  'GET /api/nothing',
  'GET //api/status',
  'GET /api/../api/status',
  'HEAD /api/sessions',
  'OPTIONS /api/sessions',
  'POST /api/sessions/login',
  'POST /api/sessions/default/logout',
  'POST /api/media',
  ...Object.values(panelOperations)
    .flat()
    .map(({ name }) => `POST /api/call/${name}`),
  'POST /api/sign-out',
]

describe('on a loopback address', () => {
  const admin = loopback
  const ask = async (path: string, head: string, method = 'GET') =>
    raw(admin.server, `${method} ${path} HTTP/1.1\r\n${head}\r\n`)

  test('nobody has to sign in, and there is no link', async () => {
    expect(await admin.app.createSignInLink()).toBeUndefined()
    expect((await admin.call('GET', '/api/status')).body.token_required).toBe(false)
    expect((await signIn(admin)).status).toBe(401)
    expect((await admin.call('GET', '/sign-in?code=')).headers.get('location')).toBe('/')
  })

  test.each([
    'evil.example',
    'localhost.evil.example',
    '0.0.0.0',
    '10.0.0.5',
    'evil.example#localhost',
    'panel',
  ])('a page that rebound %s to us is refused everywhere', async host => {
    for (const path of [
      '/',
      '/api/status',
      '/api/events',
      '/locales/en.json',
      '/openapi.json',
      '/healthz',
      '/sign-in?code=a',
    ]) {
      const answer = await ask(path, `Host: ${host}\r\n`)
      expect([400, 403]).toContain(statusOf(answer))
      expect(answer).not.toContain('the page')
    }
  })

  test.each(['http://evil.example', 'http://localhost:3000', 'http://127.0.0.1', 'null', ''])(
    'a page of the origin %p is refused everywhere',
    async origin => {
      const { port } = admin.server
      for (const [method, path] of [
        ['GET', '/api/status'],
        ['GET', '/api/events'],
        ['GET', '/'],
        ['GET', '/locales/en.json'],
        ['POST', '/api/sign-in'],
        ['OPTIONS', '/api/sessions/login'],
      ] as const) {
        const answer = await ask(path, `Host: 127.0.0.1:${port}\r\nOrigin: ${origin}\r\n`, method)
        expect([method, path, statusOf(answer)]).toEqual([method, path, 403])
        expect(answer.toLowerCase()).not.toContain('access-control')
      }
    },
  )

  test('what browsers send for other pages is refused, following a link is not', async () => {
    for (const site of ['cross-site', 'same-site']) {
      expect(statusOf(await ask('/api/status', `Host: localhost\r\nSec-Fetch-Site: ${site}\r\n`))).toBe(403)
      expect(statusOf(await ask('/api/media/1/0', `Host: localhost\r\nSec-Fetch-Site: ${site}\r\n`))).toBe(
        403,
      )
      expect(statusOf(await ask('/sessions', `Host: localhost\r\nSec-Fetch-Site: ${site}\r\n`))).toBe(200)
    }
    expect(statusOf(await ask('/api/status', 'Host: localhost\r\nSec-Fetch-Site: same-origin\r\n'))).toBe(200)
  })

  test.each([
    ...[['Bearer', 200] as const, ['basic ', 200] as const],
    ...[['Bearer x', 401] as const, ['Basic x', 401] as const],
  ])('the header Authorization: %s is answered with %d', async (value, expected) => {
    const answer = await ask('/api/status', `Host: localhost\r\nAuthorization: ${value}\r\n`)
    expect(statusOf(answer)).toBe(expected)
  })
})

describe.each([
  ['loopback with a token', '127.0.0.1', guarded],
  ['any address', '0.0.0.0', open],
] as const)('%s', (_what, host, admin) => {
  const status = (cookie: string) => admin.call('GET', '/api/status', undefined, pageHeaders(cookie))
  const name = `svc_panel_${admin.server.port}`

  test('without a sign-in nothing is shown and nothing changes, whatever is asked', async () => {
    for (const head of [
      '',
      `Cookie: ${name}=\r\n`,
      `Cookie: ${name}=1.2.3\r\n`,
      `Cookie: ${name}=${token}\r\n`,
      `Cookie: ${name}=99999999999999.abc.${'A'.repeat(43)}\r\n`,
      'Authorization: Bearer wrong\r\n',
      'Authorization: Bearer\r\n',
    ]) {
      // Enough of them are slowed down.
      clock.advance(60_000)
      for (const line of closed) {
        const answer = await raw(admin.server, `${line} HTTP/1.1\r\nHost: localhost\r\n${head}\r\n`)
        // A path with // or .. is the page or nothing, never an answer of the API.
        if (/ (\/\/|\/api\/\.\.)/.test(line)) expect(answer).not.toContain('session_count')
        else expect([line, head, statusOf(answer)]).toEqual([line, head, 401])
      }
    }
    expect(admin.test.bots.size).toBe(1)
    expect((await admin.test.gateway.accounts.list()).length).toBe(1)
  })

  test('the page, its texts and the document are for everybody, and say nothing of what is kept', async () => {
    for (const path of [
      '/',
      '/sessions',
      '/locales/en.json',
      '/openapi.json',
      '/docs',
      '/healthz',
      '/readyz',
    ]) {
      const answer = await admin.call('GET', path)
      expect(answer.status).toBe(200)
      expect(JSON.stringify(answer.body)).not.toContain(token)
      expect(JSON.stringify(answer.body)).not.toContain(admin.test.dir)
    }
  })

  test('the token signs in, by a cookie that no script reads and no other site sends', async () => {
    const { headers, body } = await signIn(admin)
    expect(body).toEqual({ success: true })
    expect(headers.get('set-cookie')).toMatch(
      /^svc_panel_\d+=[\w.-]+; Path=\/; Max-Age=2592000; HttpOnly; SameSite=Strict$/,
    )
    expect(headers.get('set-cookie')).not.toContain(token)
    expect((await status(cookieOf(headers))).status).toBe(200)
    expect((await status(`a=b; ${cookieOf(headers)}; c=d`)).status).toBe(200)
    if (host !== '127.0.0.1') return
    const own = `http://127.0.0.1:${admin.server.port}`
    expect(
      (await admin.call('POST', '/api/sign-in', { token }, { origin: own })).headers.get('set-cookie'),
    ).not.toContain('Secure')
  })

  test('programs come in with the token in a header', async () => {
    const answer = await admin.call('GET', '/api/status', undefined, { authorization: `Bearer ${token}` })
    expect(answer.status).toBe(200)
  })

  test('a foreign page gains nothing by the cookie', async () => {
    const cookie = cookieOf((await signIn(admin)).headers)
    for (const head of [
      'Origin: http://127.0.0.1:1\r\n',
      'Origin: http://evil.example\r\n',
      'Origin: null\r\n',
      'Sec-Fetch-Site: same-site\r\n',
      'Sec-Fetch-Site: cross-site\r\n',
    ]) {
      for (const line of closed.filter(one => !one.includes('//') && !one.includes('..'))) {
        const request = `${line} HTTP/1.1\r\nHost: localhost\r\nCookie: ${cookie}\r\n${head}\r\n`
        expect([line, head, statusOf(await raw(admin.server, request))]).toEqual([line, head, 403])
      }
    }
  })

  test('wrong tokens are slowed down and told, and keep nobody out who has the right one', async () => {
    clock.advance(60_000)
    for (let tries = 0; tries < 100; tries++) {
      const wrong = await signIn(admin, `wrong ${tries}`)
      expect(wrong).toMatchObject({ status: 401, body: { code: 'unauthorized' } })
      expect(wrong.headers.get('set-cookie')).toBeNull()
    }
    const answers: number[] = []
    const more = Array.from({ length: 60 }, async () => {
      const { status, headers } = await signIn(admin, 'wrong')
      if (status === 429) expect(Number(headers.get('retry-after'))).toBeWithin(1, 61)
      answers.push(status)
    })
    // So many wait at most; the others are refused meanwhile.
    await until('the others are refused', 10_000, () => answers.length >= 40)
    expect((await signIn(admin)).status).toBe(200)
    const authorization = `Bearer ${token}`
    expect((await admin.call('GET', '/api/status', undefined, { authorization })).status).toBe(200)
    expect(
      (await admin.call('GET', (await admin.app.createSignInLink())!)).headers.get('set-cookie'),
    ).toContain(`${name}=`)
    clock.advance(1000)
    await Promise.all(more)
    expect(new Set(answers)).toEqual(new Set([401, 429]))
    const told = () => admin.test.lines.filter(line => / WARNING .* calls=\d/.test(line))
    const before = told().length
    clock.advance(60_000)
    await signIn(admin, 'wrong')
    expect(told().length).toBe(before + 1)
    expect(told().at(-1)).toContain('calls=160')
  })

  test('a link signs in once, within a quarter of an hour', async () => {
    const link = (await admin.app.createSignInLink())!
    expect(link).toMatch(/^\/sign-in\?code=[\w-]{32}$/)
    // Previews of links, scanners and proxies only look.
    for (const method of ['HEAD', 'POST', 'OPTIONS']) {
      const looked = await admin.call(method, link)
      expect(looked.headers.get('set-cookie')).toBeNull()
      if (method === 'HEAD') expect(looked.status).toBe(303)
    }
    const first = await admin.call('GET', link)
    expect(first.status).toBe(303)
    expect(first.headers.get('location')).toMatch(/^\/#svc-panel=[\w-]{43}$/)
    expect(first.headers.get('referrer-policy')).toBe('no-referrer')
    expect((await status(cookieOf(first.headers))).status).toBe(200)
    const second = await admin.call('GET', link)
    expect(second.headers.get('set-cookie')).toBeNull()
    expect(second.headers.get('location')).toBe('/?link=used')
    const late = (await admin.app.createSignInLink())!
    clock.advance(15 * 60_000 + 1)
    expect((await admin.call('GET', late)).headers.get('set-cookie')).toBeNull()
    for (const bad of ['/sign-in', '/sign-in?code=', '/sign-in?code=__proto__', `/sign-in?code=${token}`])
      expect((await admin.call('GET', bad)).headers.get('set-cookie')).toBeNull()
  })

  test('signing out ends that sign-in and no other', async () => {
    const [one, other] = [cookieOf((await signIn(admin)).headers), cookieOf((await signIn(admin)).headers)]
    expect(one).not.toBe(other)
    const out = await admin.call('POST', '/api/sign-out', {}, pageHeaders(one))
    expect(out.headers.get('set-cookie')).toStartWith(`${name}=; Path=/; Max-Age=0;`)
    expect((await status(one)).status).toBe(401)
    expect((await status(other)).status).toBe(200)
  })

  test('the cookie alone, as a server on another port of the host gets it, opens nothing', async () => {
    const [cookie, other] = [cookieOf((await signIn(admin)).headers), cookieOf((await signIn(admin)).headers)]
    const { 'svc-panel': secret = '' } = pageHeaders(cookie)
    const given: Record<string, string>[] = [
      {},
      { 'svc-panel': '' },
      { 'svc-panel': `${secret}x` },
      { 'svc-panel': secret.slice(1) },
      { 'svc-panel': pageHeaders(other)['svc-panel']! },
      { 'svc-panel': cookie.split('.').at(-1)! },
    ]
    for (const more of given)
      for (const line of closed) {
        const [method = '', path = ''] = line.split(' ')
        if (path.includes('//') || path.includes('..')) continue
        clock.advance(60_000)
        expect([
          line,
          more,
          (await admin.call(method, path, method === 'POST' ? {} : undefined, { cookie, ...more })).status,
        ]).toEqual([line, more, 401])
      }
    // The page that a browser opens says what the caller may do, and has no secret.
    const { body } = await admin.call('GET', '/', undefined, { cookie, 'sec-fetch-site': 'none' })
    expect(body).not.toContain(secret)
    expect((await status(cookie)).status).toBe(200)
  })

  test('a link of the page loads for a minute, by GET and with its cookie alone', async () => {
    const [cookie, other] = [cookieOf((await signIn(admin)).headers), cookieOf((await signIn(admin)).headers)]
    expect((await admin.call('POST', '/api/pass', {}, { cookie })).status).toBe(401)
    const pass = (await admin.call('POST', '/api/pass', {}, pageHeaders(cookie))).headers.get('svc-pass')!
    const get = async (given: string, by = cookie, path = '/api/status') =>
      (await admin.call('GET', `${path}?pass=${given}`, undefined, { cookie: by })).status
    expect(await get(pass)).toBe(200)
    // The pass is no input of an operation.
    expect(await get(pass, cookie, '/api/export')).toBe(200)
    expect(await get(pass, other)).toBe(401)
    expect((await admin.call('GET', `/api/status?pass=${pass}`)).status).toBe(401)
    expect((await admin.call('POST', `/api/call/me?pass=${pass}`, {}, { cookie })).status).toBe(401)
    const [until, proof] = pass.split('.')
    for (const forged of [
      '',
      '.',
      `${Number(until) + 1}.${proof}`,
      `${until}.`,
      `${until}`,
      `9${until}.${proof}`,
    ])
      expect([forged, await get(forged)]).toEqual([forged, 401])
    clock.advance(60_001)
    expect(await get(pass)).toBe(401)
  })

  test('behind TLS the cookie is of this host alone, and a foreign one of its name hides neither', async () => {
    const sign = async (headers: Record<string, string>) =>
      (await admin.call('POST', '/api/sign-in', { token }, headers)).headers
    const secure = await sign({ 'x-forwarded-proto': 'https' })
    expect(secure.get('set-cookie')).toMatch(
      /^__Host-svc_panel_\d+=[\w.-]+; Path=\/; Max-Age=2592000; HttpOnly; SameSite=Strict; Secure$/,
    )
    expect((await sign({ 'x-forwarded-proto': 'http' })).get('set-cookie')).toMatch(
      /^svc_panel_\d+=[^;]+; (?!.*Secure)/,
    )
    const foreign = `99999999999999.abc.${'A'.repeat(43)}`
    for (const own of [secure, await sign({})].map(cookieOf))
      for (const cookie of [`${name}=${foreign}; ${own}`, `${name}=; __Host-${name}=x; ${own}; ${name}=1`])
        expect([cookie, (await status(cookie)).status]).toEqual([cookie, 200])
    expect((await status(`${name}=${foreign}; __Host-${name}=${foreign}`)).status).toBe(401)
  })

  test('a sign-out lasts over a restart, in another process too, and ends every sign-in that came along', async () => {
    const beside = admin.again()
    const [one, two, other] = await Promise.all(
      [1, 2, 3].map(async () => cookieOf((await signIn(admin)).headers)),
    )
    const shown = async (app: typeof beside, cookie: string) =>
      (await app.fetch(at('/api/status', { cookie }))).status
    expect(await shown(beside, one!)).toBe(200)
    await admin.call('POST', '/api/sign-out', {}, pageHeaders(`${one}; ${two}`))
    for (const app of [admin.app, beside, admin.again()]) {
      expect([await shown(app, one!), await shown(app, two!), await shown(app, other!)]).toEqual([
        401, 401, 200,
      ])
    }
    // Of both processes, whoever wrote last.
    await beside.fetch(new Request(at('/api/sign-out', { cookie: other! }), { method: 'POST' }))
    const later = admin.again()
    for (const cookie of [one, two, other]) expect(await shown(later, cookie!)).toBe(401)
    // What is kept of them ends.
    const ends = await rowsIn<{ until: number }>(admin.test.dir, 'SELECT until FROM ended_sign_in')
    expect(ends.length).toBeGreaterThan(2)
    expect(ends.every(({ until }) => Number(until) > Date.now())).toBe(true)
  })

  test('a sign-in outlives a restart, not a new token and not thirty days', async () => {
    const cookie = cookieOf((await signIn(admin)).headers)
    const after = admin.again()
    expect((await after.fetch(at('/api/status', { cookie }))).status).toBe(200)
    const renewed = admin.again({ token: 'another token' })
    expect((await renewed.fetch(at('/api/status', { cookie }))).status).toBe(401)
    const later = testClock()
    const much = admin.again({ doorClock: later })
    later.advance(29 * dayMs)
    expect((await much.fetch(at('/api/status', { cookie }))).status).toBe(200)
    later.advance(2 * dayMs)
    expect((await much.fetch(at('/api/status', { cookie }))).status).toBe(401)
  })

  test('who comes back keeps being signed in, and a sign-out ends all of it', async () => {
    const cookie = cookieOf((await signIn(admin)).headers)
    const later = testClock()
    const app = admin.again({ doorClock: later })
    expect((await app.fetch(at('/', { cookie }))).headers.get('set-cookie')).toBeNull()
    later.advance(20 * dayMs)
    const renewed = cookieOf((await app.fetch(at('/sessions', { cookie }))).headers)
    expect(renewed).not.toBe(cookie)
    later.advance(20 * dayMs)
    expect((await app.fetch(at('/', { cookie }))).headers.get('set-cookie')).toBeNull()
    expect((await app.fetch(at('/api/status', { cookie: renewed }))).status).toBe(200)
    const again = cookieOf((await app.fetch(at('/', { cookie: renewed }))).headers)
    await app.fetch(new Request(at('/api/sign-out', { cookie: again }), { method: 'POST' }))
    for (const one of [renewed, again])
      expect((await app.fetch(at('/api/status', { cookie: one }))).status).toBe(401)
  })

  test('a cookie with another expiry, another name or another end is nobody’s', async () => {
    clock.advance(60_000)
    const cookie = cookieOf((await signIn(admin)).headers)
    const [expiry, nonce, proof] = cookie.slice(`${name}=`.length).split('.') as [string, string, string]
    for (const forged of [
      `${Number(expiry) + 1}.${nonce}.${proof}`,
      `${expiry}.${nonce}x.${proof}`,
      `${expiry}.${nonce}.${proof.slice(0, -1)}`,
      `${expiry}.${nonce}.${proof}A`,
      `${expiry}.${nonce}.`,
      `${expiry}.${proof}`,
      `.${nonce}.${proof}`,
      `${proof}`,
      '..',
      '.',
    ])
      expect([forged, (await status(`${name}=${forged}`)).status]).toEqual([forged, 401])
    expect((await status(cookie.replace('svc_panel', 'SVC_PANEL'))).status).toBe(401)
    expect((await status(cookie)).status).toBe(200)
  })
})

test('a panel that is open to others without a token is never made', async () => {
  await using admin = await startAdmin()
  for (const host of ['0.0.0.0', '::', '192.168.1.4', ''])
    expect(() =>
      createAdminApp({
        gateway: admin.test.gateway,
        config: {
          ...{ host, token: undefined, allowHosts: [], maxUploadBytes: 1, basePath: '', mediaRoot: '' },
          ...{ storeMaxAgeDays: 0, storeMaxCount: 0 },
        },
        log: { child: () => undefined } as never,
        version: '0',
        folders: [],
      }),
    ).toThrow(host)
})

test('while the store fails everybody gets the page, which says so; its calls get the error', async () => {
  let fails = false
  const unless = <T>(work: () => T) => {
    if (fails) throw new SvcError('store_unavailable', 'the database is away')
    return work()
  }
  await using admin = await startAdmin({
    token,
    between: gateway => {
      const { signIns } = gateway
      return {
        ...gateway,
        signIns: {
          addLink: (...link) => signIns.addLink(...link),
          end: (names, until) => signIns.end(names, until),
          filterEnded: async names => unless(() => signIns.filterEnded(names)),
          takeLink: async (code, now) => unless(() => signIns.takeLink(code, now)),
        },
      }
    },
  })
  const link = (await admin.app.createSignInLink())!
  const cookie = cookieOf((await signIn(admin)).headers)
  const [seen, over] = await Promise.all([1, 2].map(async () => cookieOf((await signIn(admin)).headers)))
  const statusOf = async (one = '') => (await admin.call('POST', '/api/call/me', {}, pageHeaders(one))).status
  for (const one of [seen, over]) expect(await statusOf(one)).toBe(200)
  await admin.call('POST', '/api/sign-out', {}, pageHeaders(over!))
  fails = true
  // The panel stays open for who was signed in, and closed for who signed out.
  expect([await statusOf(seen), await statusOf(over)]).toEqual([200, 503])
  const typed = { 'sec-fetch-site': 'none' }
  for (const path of ['/', '/conversations']) {
    const { body, status } = await admin.call('GET', path, undefined, { ...typed, cookie })
    expect([path, status, body]).toEqual([path, 200, expect.stringContaining('"signed_out":false')])
  }
  expect((await admin.call('GET', link)).headers.get('location')).toBe('/')
  expect(await admin.call('POST', '/api/call/me', {}, pageHeaders(cookie))).toMatchObject({
    status: 503,
    body: { code: 'store_unavailable' },
  })
  fails = false
  expect((await admin.call('GET', link)).headers.get('set-cookie')).toContain('svc_panel')
  expect(
    (await admin.call('GET', '/', undefined, { ...typed, cookie: `svc_panel_${admin.server.port}=x` })).body,
  ).toContain('"signed_out":true')
})

describe("the sandbox's phone under the panel's address", () => {
  const admin = open

  test('is there for those who have signed in, and for pages of the panel alone', async () => {
    // As a browser on another machine names it.
    const from = { host: `192.168.1.7:${admin.server.port}` }
    for (const path of ['/phone', '/phone/state'])
      expect((await admin.call('GET', path, undefined, from)).status).toBe(401)
    const cookie = cookieOf((await signIn(admin)).headers)
    const page = await admin.call('GET', '/phone', undefined, { ...from, cookie })
    expect([page.status, page.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8'])
    expect(page.headers.get('content-security-policy')).toContain("script-src 'self'")
    const origin = `http://${from.host}`
    const said = { text: 'from afar' }
    const headers = { ...from, cookie, origin, 'sec-fetch-site': 'same-origin' }
    expect((await admin.call('POST', '/phone/say', said, headers)).status).toBe(200)
    const foreign = { ...headers, origin: 'http://evil.example', 'sec-fetch-site': 'cross-site' }
    expect((await admin.call('POST', '/phone/say', said, foreign)).status).toBe(403)
    expect(await admin.test.sandbox.messages()).toMatchObject([{ items: [{ text: 'from afar' }] }])
  })

  test('brings its news, and files both ways', async () => {
    const cookie = cookieOf((await signIn(admin)).headers)
    const stop = new AbortController()
    const news = await fetch(`${admin.url}/phone/events`, { headers: { cookie }, signal: stop.signal })
    const reader = news.body!.pipeThrough(new TextDecoderStream()).getReader()
    expect((await reader.read()).value).toContain(': here')
    const body = new Uint8Array(300_000).fill(7)
    const sent = await fetch(`${admin.url}/phone/media?name=a.bin`, {
      method: 'POST',
      body,
      headers: { cookie },
    })
    expect((await reader.read()).value).toContain('event: change')
    stop.abort()
    const { media_id } = (await sent.json()) as { media_id: string }
    const media = await fetch(`${admin.url}/phone/media/${media_id}`, { headers: { cookie } })
    expect(Buffer.compare(await media.bytes(), body)).toBe(0)
  })

  test('a phone that is gone is no fault of svc', async () => {
    const sandbox = await withSandbox()
    await using alone = await startAdmin({ sandbox, sessions: [], start: false })
    await sandbox[Symbol.asyncDispose]()
    const { status, body } = await alone.call('GET', '/phone/state')
    expect([status, body.code]).toEqual([502, 'upstream_error'])
    expect(alone.test.lines.filter(line => line.includes('ERROR'))).toEqual([])
  })
})
