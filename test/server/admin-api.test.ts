import { describe, expect, test } from 'bun:test'
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readdir, readlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import process from 'node:process'
import { owner, panel } from '../../src/model/principal.ts'
import { startAdmin } from '../support/admin.ts'
import { forFile } from '../support/folder.ts'
import { testOfFiles } from '../support/given.ts'
import { headAndGet, raw } from '../support/rest.ts'

const admin = forFile(await startAdmin())

/** A raw GET: clients tidy paths before they send them. */
const get = (path: string) => raw(admin.server, `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`)
const bodyOf = (answer: string) => answer.slice(answer.indexOf('\r\n\r\n') + 4)

describe("the specification's table", () => {
  test('GET / is the page', async () => {
    const { status, headers, body } = await admin.call('GET', '/')
    expect(status).toBe(200)
    expect(headers.get('content-type')).toBe('text/html; charset=utf-8')
    expect(body).toContain('the page')
  })

  test('GET /api/status: version, connection, sessions, role', async () => {
    const { status, body } = await admin.call('GET', '/api/status')
    expect(status).toBe(200)
    expect(body).toMatchObject({
      version: '1.2.3',
      connected: true,
      session_count: 1,
      connected_count: 1,
      role: 'poller',
      stalled: false,
      store: 'ok',
      base_path: admin.test.dir,
      token_required: false,
    })
    expect(body.started_at).toBeNumber()
  })

  test('GET /api/sessions: every session with its users', async () => {
    await admin.test.sandbox.say('hello')
    await admin.test.receive(1)
    // The right to answer is on disk a moment after the message is in the log.
    const { status, body } = await admin.test.until('the user is known', async () => {
      const answer = await admin.call('GET', '/api/sessions')
      return answer.body.sessions[0].user_count === 1 && answer
    })
    expect(status).toBe(200)
    const { bot_id, user_id } = admin.test.bots.get('default')!
    expect(body.sessions).toMatchObject([
      {
        name: 'default',
        bot_id,
        user_id,
        connected: true,
        status: 'connected',
        is_default: true,
        user_count: 1,
      },
    ])
    const [user] = body.sessions[0].users
    expect(user).toMatchObject({ user_id, remaining: 10 })
    for (const time of ['first_seen', 'last_received', 'window_expires_at']) expect(user[time]).toBeNumber()
    expect(JSON.stringify(body)).not.toContain(admin.test.bots.get('default')!.token)
  })

  test('a session is logged in by QR code, renamed, made the default one and logged out', async () => {
    const begun = await admin.call('POST', '/api/sessions/login', { name: '客服' })
    expect(begun.status).toBe(200)
    expect(begun.body).toMatchObject({ session: '客服', status: 'waiting' })
    expect(begun.body.login_id).toMatch(/^[0-9a-f-]{36}$/)
    expect(begun.body.qr_svg).toStartWith('<svg')
    expect(begun.body.qr_url).toStartWith('https://')
    const { login_id, qr_url, revision } = begun.body
    // Another panel joins it, by the session too.
    expect((await admin.call('POST', '/api/sessions/login', { name: '客服' })).body.login_id).toBe(login_id)
    const bySession = await admin.call(
      'GET',
      `/api/sessions/login/status?session=${encodeURIComponent('客服')}`,
    )
    expect(bySession.body).toMatchObject({ login_id, qr_url, status: 'waiting' })

    const user = await admin.test.sandbox.addUser('second')
    const follow = (seen: number) =>
      admin.call('GET', `/api/sessions/login/status?login_id=${login_id}&seen=${seen}&timeout=30`)
    const scaned = follow(revision)
    await admin.test.sandbox.scan({ user })
    expect((await scaned).body).toMatchObject({ status: 'scaned', session: '客服' })
    // What changed between two calls is told at once.
    await admin.test.sandbox.phone('POST', 'confirm')
    let last = (await scaned).body
    // WeChat is asked every other second at most.
    for (let tries = 0; last.status !== 'confirmed' && tries < 5; tries++)
      last = (await admin.test.clock.hurry(follow(last.revision), 2000)).body
    expect(last.status).toBe('confirmed')
    expect(last.bot_id).toEndWith('@im.bot')
    expect(last.qr_svg).toBeUndefined()
    expect((await follow(0)).body.status).toBe('confirmed')

    const name = encodeURIComponent('客服')
    expect(await admin.call('POST', `/api/sessions/${name}/rename`, { new_name: '客服-2' })).toMatchObject({
      status: 200,
      body: { success: true, name: '客服-2' },
    })
    const renamed = encodeURIComponent('客服-2')
    expect(await admin.call('POST', '/api/call/set_default', { session_name: '客服-2' })).toMatchObject({
      status: 200,
      body: { success: true, default_session: '客服-2' },
    })
    expect((await admin.call('GET', '/api/sessions')).body.sessions[0]).toMatchObject({
      name: '客服-2',
      is_default: true,
    })
    expect(await admin.call('POST', '/api/call/check_sessions', { session: '客服-2' })).toMatchObject({
      status: 200,
      body: [{ session: '客服-2', status: 'connected', answered: true }],
    })
    expect(await admin.call('POST', `/api/sessions/${renamed}/logout`)).toMatchObject({
      status: 200,
      body: { success: true },
    })
    const names = (await admin.call('GET', '/api/sessions')).body.sessions.map(
      (one: { name: string }) => one.name,
    )
    expect(names).toEqual(['default'])
  })

  test('digits: asked for, wrong, right; and a login that is called off', async () => {
    await admin.test.sandbox.switches({ verify_code: 'on' })
    const { body } = await admin.call('POST', '/api/sessions/login', { name: 'digits' })
    const { login_id } = body
    const user = await admin.test.sandbox.addUser('third')
    const waiting = admin.call(
      'GET',
      `/api/sessions/login/status?login_id=${login_id}&timeout=30&seen=${body.revision}`,
    )
    const { verify_code } = await admin.test.sandbox.scan({ user })
    expect((await waiting).body.status).toBe('need_verifycode')
    const give = (code: string) =>
      admin.call('POST', '/api/call/give_login_code', { login_id, verify_code: code })
    expect((await give('0')).body).toMatchObject({ status: 'need_verifycode', notice: 'wrong_code' })
    expect((await give(verify_code!)).body).toMatchObject({ status: 'scaned' })
    expect((await admin.call('POST', '/api/call/cancel_login', { login_id })).body).toEqual({
      success: true,
    })
    expect((await admin.call('POST', '/api/call/cancel_login', { login_id })).body).toEqual({
      success: false,
    })
    const gone = await admin.call('GET', `/api/sessions/login/status?login_id=${login_id}`)
    expect(gone).toMatchObject({ status: 404, body: { code: 'not_found' } })
    await admin.test.sandbox.switches({ verify_code: 'off' })
  })

  test('a login of a session that works starts nothing, unless it is forced', async () => {
    const { body } = await admin.call('POST', '/api/sessions/login', { name: 'default' })
    expect(body).toMatchObject({ status: 'confirmed', login_id: '' })
    const forced = await admin.call('POST', '/api/sessions/login', { name: 'default', force: true })
    expect(forced.body).toMatchObject({ status: 'waiting', session: 'default' })
    await admin.call('POST', '/api/call/cancel_login', { login_id: forced.body.login_id })
  })
})

describe('what is wrong is refused by name', () => {
  test.each([
    ['POST', '/api/sessions/login', { nam: 'a' }, 'nam'],
    ['POST', '/api/sessions/login', { name: '../up' }, ''],
    ['POST', '/api/call/give_login_code', { login_id: 'a' }, 'verify_code'],
    ['POST', '/api/sessions/default/logout', { force: true }, 'force'],
    ['POST', '/api/sessions/default/rename', {}, 'new_name'],
    ['POST', '/api/sessions/default/rename', { new_name: 'a', name: 'b' }, 'name'],
    ['POST', '/api/call/mark_read', { session: 'a', user_id: 'b', up_to: -1 }, 'up_to'],
    ['POST', '/api/call/list_messages', { lim: 2 }, 'lim'],
    ['GET', '/api/sessions/login/status?timeout=31', undefined, 'timeout'],
  ] as const)('%s %s %p', async (method, path, body, named) => {
    const answer = await admin.call(method, path, body)
    expect(answer.status).toBe(422)
    expect(answer.headers.get('content-type')).toBe('application/problem+json')
    expect(answer.body).toMatchObject({
      code: 'invalid_arguments',
      status: 422,
      type: 'urn:svc:problem:invalid_arguments',
    })
    expect(JSON.stringify(answer.body)).toContain(named)
    expect(answer.body.hint.length).toBeGreaterThan(10)
  })

  test('a session that is not there, one of that name already, and a body that is no JSON', async () => {
    expect(await admin.call('POST', '/api/sessions/nobody/logout', {})).toMatchObject({
      status: 404,
      body: { code: 'session_not_found' },
    })
    const form = await admin.call(
      'POST',
      '/api/sessions/default/rename',
      { new_name: 'x' },
      { 'content-type': 'text/plain' },
    )
    expect(form).toMatchObject({ status: 415, body: { code: 'unsupported_media_type' } })
    const broken = await raw(
      admin.server,
      'POST /api/sessions/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1\r\n\r\n{',
    )
    expect(broken).toContain('"code":"bad_json"')
    expect(broken).toContain('"details":{"line":1,"column":2}')
    const large = await admin.call('POST', '/api/call/list_messages', {
      text_contains: 'x'.repeat(1024 * 1024),
    })
    expect(large).toMatchObject({
      status: 413,
      body: { code: 'payload_too_large' },
    })
  })
})

describe('methods and paths', () => {
  test('HEAD answers as GET, without the body', async () => {
    for (const path of [
      '/',
      '/api/status',
      '/api/sessions',
      '/api/events',
      '/openapi.json',
      '/locales/en.json',
      '/assets/index-abc.js',
      '/api/sessions/login',
      '/api/nothing',
      '/phone',
      '/phone/events',
    ]) {
      const { head, get } = await headAndGet(`${admin.url}${path}`)
      expect({ path, ...head }).toEqual({ path, ...get })
    }
  })

  test('OPTIONS tells the methods and permits no other origin anything', async () => {
    const answer = await admin.call('OPTIONS', '/api/sessions/login')
    expect(answer.status).toBe(204)
    expect(answer.headers.get('allow')).toBe('POST, OPTIONS')
    expect((await admin.call('OPTIONS', '/api/status')).headers.get('allow')).toBe('GET, HEAD, OPTIONS')
    for (const path of ['/api/status', '/', '/api/events', '/locales/en.json'])
      for (const method of ['GET', 'OPTIONS', 'POST'])
        expect(
          [
            ...(await admin.call(method, path === '/api/events' ? '/api/status' : path)).headers.keys(),
          ].filter(name => name.startsWith('access-control')),
        ).toEqual([])
  })

  test('405 names the methods there are, 404 is for paths that are not', async () => {
    expect(await admin.call('GET', '/api/sessions/login')).toMatchObject({
      status: 405,
      body: { code: 'method_not_allowed' },
    })
    expect((await admin.call('PUT', '/api/sessions/login', {})).headers.get('allow')).toBe('POST, OPTIONS')
    expect((await admin.call('DELETE', '/')).headers.get('allow')).toBe('GET, HEAD')
    for (const path of [
      '/api',
      '/api/',
      '/api/nothing',
      '/api/sessions/',
      '/api/sessions/a/b/c',
      '/docs/nothing',
    ])
      expect([path, (await admin.call('GET', path)).status]).toEqual([path, 404])
  })

  test('every other address is the page, so that links lead into it', async () => {
    for (const path of ['/sessions', '/sessions/add', '/conversations/a/b%2Fc', '/nowhere', '/API'])
      expect([path, (await admin.call('GET', path)).body]).toEqual([
        path,
        expect.stringContaining('the page'),
      ])
  })
})

describe('the files of the page', () => {
  test.each([
    '/locales/../secret.json',
    '/locales/../../secret.json',
    '/locales/..%2f..%2fsecret.json',
    '/locales/%2e%2e/%2e%2e/secret.json',
    '/locales/%2e%2e%2f%2e%2e%2fsecret.json',
    '/locales/..\\..\\secret.json',
    '/locales/....//secret.json',
    '/locales/fr.json',
    '/locales/',
    '/locales/en.json/',
    '/locales/en.json%00',
    '/locales//etc/passwd',
    '/assets/../../secret.txt',
    '/assets/nothing.js',
    '/../secret.txt',
    '/%2e%2e/secret.txt',
    '/secret.txt',
    '//secret.txt',
  ])('%s leads to no file', async path => {
    const answer = await get(path)
    expect(answer).not.toContain('reach')
    const status = Number(answer.split(' ')[1])
    if (status === 200) expect(bodyOf(answer)).toContain('the page')
    else expect([400, 404]).toContain(status)
  })

  test('the languages there are, and a text of each', async () => {
    const startFor = async (accepted: string, path = '/') => {
      const page = await raw(
        admin.server,
        `GET ${path} HTTP/1.1\r\nHost: localhost\r\nAccept-Language: ${accepted}\r\n\r\n`,
      )
      return JSON.parse(/id="start">(.*?)<\/script>/.exec(page)![1]!)
    }
    const languages = [
      { code: 'en', name: 'English' },
      { code: 'zh', name: '中文' },
    ]
    expect(await startFor('fr, en-GB;q=0.8, zh;q=0.5')).toEqual({
      ...{ languages, language: 'en', texts: { 'language.name': 'English' }, signed_out: false },
      me: { principal: 'panel', rights: expect.any(Array), tools: expect.any(Array) },
    })
    expect(await startFor('zh-CN, en')).toMatchObject({ language: 'zh', texts: { 'language.name': '中文' } })
    expect(await startFor('fr')).toMatchObject({ language: 'en' })
    // No address leads to the page of whoever has to sign in.
    expect(await startFor('fr', '/sign-in/')).toMatchObject({ signed_out: false })
    expect((await admin.call('GET', '/locales/zh.json')).body).toEqual({ 'language.name': '中文' })
  })

  test('the log tells of the files of the page only when it is to tell all, and of what is missing', async () => {
    const { lines } = admin.test
    const levelOf = async (path: string) => {
      lines.length = 0
      await admin.call('GET', path)
      return lines.filter(line => line.includes(path)).map(line => /DEBUG|INFO/.exec(line)?.[0])
    }
    for (const path of ['/assets/index-abc.js', '/locales/zh.json', '/icon.svg'])
      expect(await levelOf(path)).toEqual(['DEBUG'])
    for (const path of ['/assets/nothing.js', '/api/status']) expect(await levelOf(path)).toEqual(['INFO'])
  })

  test('nothing inline runs, nobody frames it, and nothing comes from or goes elsewhere', async () => {
    for (const path of ['/', '/assets/index-abc.js', '/icon.svg', '/sessions/add']) {
      const { headers } = await admin.call('GET', path)
      const policy = headers.get('content-security-policy')!
      expect(policy).toContain("default-src 'none'")
      if (headers.get('content-type')!.startsWith('text/html')) {
        expect(policy).toContain("script-src 'self'")
        expect(policy).toContain("frame-ancestors 'none'")
      }
      expect(policy).not.toMatch(/unsafe|https?:|\*/)
      expect(headers.get('x-content-type-options')).toBe('nosniff')
      expect(headers.get('referrer-policy')).toBe('no-referrer')
      expect(headers.get('cross-origin-resource-policy')).toBe('same-origin')
      expect(headers.get('cross-origin-opener-policy')).toBe('same-origin')
    }
    expect((await admin.call('GET', '/assets/index-abc.js')).headers.get('cache-control')).toContain(
      'immutable',
    )
    expect((await admin.call('GET', '/')).headers.get('cache-control')).toBe('private, no-cache')
    expect((await admin.call('GET', '/api/status')).headers.get('cache-control')).toBe('no-store')
  })
})

testOfFiles(
  'status and sessions answer while another process holds the data lock, also of damaged files; a rename waits',
  async () => {
    const code = `const { openLock } = await import(${JSON.stringify(join(import.meta.dirname, '../../src/platform/lock.ts'))})
    const lock = await openLock(process.argv[1])
    await lock.lock()
    console.log('held')
    process.stdin.once('data', () => process.exit())`
    await using own = await startAdmin({ sessions: ['default', 'broken'] })
    await writeFile(join(own.test.dir, 'broken', 'token.json'), '{"bot_id":')
    const other = spawn(process.execPath, ['-e', code, join(own.test.dir, '.data.lock')], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    try {
      await once(other.stdout, 'data')
      const renamed = own.call('POST', '/api/sessions/default/rename', { new_name: 'b' })
      let done = false
      void renamed.then(() => {
        done = true
      })
      expect((await own.call('GET', '/api/status')).body.session_count).toBe(2)
      const { sessions } = (await own.call('GET', '/api/sessions')).body
      expect(sessions.map((one: { name: string; status: string }) => [one.name, one.status])).toEqual([
        ['default', 'connected'],
        ['broken', 'disconnected'],
      ])
      expect(done).toBe(false)
      other.stdin.write('go\n')
      expect((await renamed).body).toEqual({ success: true, name: 'b' })
    } finally {
      other.kill()
    }
  },
)

test('a file that waits is given whole to whoever is to say yes, as nothing that runs, and closed again', async () => {
  await using own = await startAdmin()
  const { test: t } = own
  await t.sandbox.say('hello')
  await t.receive(1)
  const page = Buffer.from('<script>alert(1)</script>')
  const large = randomBytes(3_000_000)
  const path = join(t.mediaRoot, 'large.bin')
  await writeFile(path, large)
  const media = [
    { kind: 'file' as const, data: page.toString('base64'), file_name: 'page.html' },
    { kind: 'file' as const, path },
  ]
  const { outbox_id } = await t.send({ text: 'these?', media, approval: 'nobody' })
  const { parts } = await t.gateway.outbox.get(owner, outbox_id!)
  const [text, html, file] = parts.map(({ id }) => `${own.url}/api/waiting-files/${id}`)
  const [shown, whole] = [await fetch(html!), await fetch(file!)]
  expect(Object.fromEntries(shown.headers)).toMatchObject({
    'content-type': 'application/octet-stream',
    'content-disposition': expect.stringMatching(/^attachment; filename="page.html"/),
    'content-security-policy': expect.stringContaining('sandbox'),
    'x-content-type-options': 'nosniff',
  })
  expect(Buffer.compare(await shown.bytes(), page)).toBe(0)
  expect(Buffer.compare(await whole.bytes(), large)).toBe(0)
  expect((await fetch(file!, { method: 'HEAD' })).status).toBe(200)
  const left = new AbortController()
  await fetch(file!, { signal: left.signal })
  left.abort()
  const isOpen = async () =>
    (
      await Promise.all(
        (await readdir('/proc/self/fd')).map(fd => readlink(`/proc/self/fd/${fd}`).catch(String)),
      )
    ).some(to => to.startsWith(join(t.mediaRoot, 'outbox')))
  if (process.platform === 'linux') await t.until('it is closed', async () => !(await isOpen()))

  const unknown = `${own.url}/api/waiting-files/`
  for (const [url, status] of [
    [text!, 422],
    [`${unknown}999999`, 422],
    [`${unknown}0`, 422],
    [`${unknown}x`, 422],
  ] as const)
    expect((await fetch(url)).status).toBe(status)
  await t.gateway.outbox.cancel(panel, outbox_id!)
  const gone = (await (await fetch(file!)).json()) as { code: string }
  expect(gone.code).toBe('no_media')
})
