import { expect, test } from 'bun:test'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { SvcError } from '../../src/model/error.ts'
import { owner } from '../../src/model/principal.ts'
import { type Admin, cookieOf, pageHeaders, startAdmin } from '../support/admin.ts'
import { endSecret, keyEnds } from '../support/key-ends.ts'

const token = 'correct-horse-battery-staple'
const dayMs = 24 * 60 * 60_000
const signIn = (admin: Admin, given: string) => admin.call('POST', '/api/sign-in', { token: given })
const callWith = (admin: Admin, cookie: string) => async (name: string, input: object) => {
  const { status, body } = await admin.call('POST', `/api/call/${name}`, input, pageHeaders(cookie))
  return { status, body }
}

/** Opens a stream of live changes, and reads it to its end. */
async function listen(admin: Admin, cookie: string) {
  const response = await fetch(`${admin.url}/api/events`, { headers: pageHeaders(cookie) })
  expect(response.status).toBe(200)
  return { ended: response.text() }
}

test('a person signs in with a key and has its rights, as its principal', async () => {
  await using admin = await startAdmin({ token })
  const { keys } = admin.test.gateway
  const { key, id } = await keys.add({ name: 'Mona', can: ['reply'] }, owner)
  expect((await signIn(admin, `${key.slice(0, -1)}x`)).status).toBe(401)
  const call = callWith(admin, cookieOf((await signIn(admin, key)).headers))
  expect((await call('me', {})).body).toMatchObject({ principal: `panel:${id}`, name: 'Mona' })
  expect((await call('list_keys', {})).body).toMatchObject({ code: 'forbidden', details: { right: 'keys' } })
  await admin.test.sandbox.say('hello')
  await admin.test.receive(1)
  const { body: sent } = await call('send', { to: admin.test.bots.get('default')!.user_id, text: 'Hello' })
  expect(sent.status).toBe('accepted')
  const { messages } = await admin.test.gateway.history.page({ limit: 1, offset: 0 })
  expect(messages).toMatchObject([{ sent_by: `panel:${id}`, sent_by_name: 'Mona' }])
  expect((await keys.get(id, owner)).last_address).toBe('127.0.0.1')
})

test('the page contains the rights of its caller, no names, and is stored for nobody else', async () => {
  await using admin = await startAdmin({ token })
  const may = { can: ['read'], sessions: ['default'], users: [admin.test.bots.get('default')!.user_id] }
  const { key, id } = await admin.test.gateway.keys.add(
    { name: 'Mona', expires_at: admin.test.clock.now() + dayMs, ...may },
    owner,
  )
  const cookie = cookieOf((await signIn(admin, key)).headers)
  const pageFor = async (headers: Record<string, string>) => {
    const response = await fetch(`${admin.url}/keys`, { headers })
    const [, start = ''] = /id="start">(.*?)<\/script>/.exec(await response.text()) ?? []
    return { me: JSON.parse(start).me, kept: response.headers.get('cache-control') }
  }
  const own = await pageFor({ cookie })
  expect(own).toMatchObject({ me: { principal: `panel:${id}` }, kept: 'private, no-cache' })
  // The cookie alone gets the page, and other servers of the host get the cookie.
  expect(Object.keys(own.me)).toEqual(['principal', 'rights', 'tools'])
  expect(own.me.rights).toContain('history')
  expect(own.me.rights).not.toContain('keys')
  expect((await pageFor({ cookie: cookieOf((await signIn(admin, token)).headers) })).me.rights).toContain(
    'keys',
  )
  expect((await pageFor({})).me).toBeUndefined()
  // A page of another origin gets nothing, even if its browser sends the cookie.
  expect((await pageFor({ cookie, 'sec-fetch-site': 'cross-site' })).me).toBeUndefined()
})

test.each(keyEnds)('a key that is %s ends its sign-ins and their streams, and no other', async way => {
  await using admin = await startAdmin({ token })
  const { keys } = admin.test.gateway
  const [one, other] = [
    await keys.add({ name: 'one', can: ['read'] }, owner),
    await keys.add({ name: 'other', can: ['read'] }, owner),
  ]
  const [cookie, kept] = [
    cookieOf((await signIn(admin, one.key)).headers),
    cookieOf((await signIn(admin, other.key)).headers),
  ]
  const stream = await listen(admin, cookie)
  await endSecret(way, keys, one.id, admin.test.clock)
  expect(await stream.ended).toContain('event: hello')
  expect((await callWith(admin, cookie)('me', {})).status).toBe(401)
  expect((await callWith(admin, kept)('me', {})).status).toBe(200)
})

test('a key that expires ends its sign-ins', async () => {
  await using admin = await startAdmin({ token })
  const { clock, gateway } = admin.test
  const { key } = await gateway.keys.add(
    { name: 'a day', can: ['read'], expires_at: clock.now() + dayMs },
    owner,
  )
  const cookie = cookieOf((await signIn(admin, key)).headers)
  const stream = await listen(admin, cookie)
  expect((await callWith(admin, cookie)('me', {})).status).toBe(200)
  clock.advance(dayMs)
  expect(await stream.ended).toContain('event: hello')
  expect((await callWith(admin, cookie)('me', {})).status).toBe(401)
})

test('a new secret ends the sign-ins by the old one, at once or when it ends', async () => {
  await using admin = await startAdmin({ token })
  const { clock, gateway } = admin.test
  const first = await gateway.keys.add({ name: 'shared', can: ['read'] }, owner)
  const cookie = cookieOf((await signIn(admin, first.key)).headers)
  const second = await gateway.keys.rotate(first.id, dayMs, owner)
  const newer = cookieOf((await signIn(admin, second.key)).headers)
  expect((await callWith(admin, cookie)('me', {})).status).toBe(200)
  clock.advance(dayMs)
  expect((await callWith(admin, cookie)('me', {})).status).toBe(401)
  expect((await callWith(admin, newer)('me', {})).status).toBe(200)
  await gateway.keys.rotate(first.id, 0, owner)
  expect((await callWith(admin, newer)('me', {})).status).toBe(401)
})

test('a cookie cannot name another key, or none', async () => {
  await using admin = await startAdmin({ token })
  const { keys } = admin.test.gateway
  const weak = await keys.add({ name: 'weak', can: ['read'] }, owner)
  const strong = await keys.add({ name: 'strong', can: ['all'] }, owner)
  const cookie = cookieOf((await signIn(admin, weak.key)).headers)
  const [cookieName, value] = cookie.split('=')
  const [expiry, name, id, proof] = value!.split('.')
  expect(id).toBe(weak.id)
  for (const forged of [
    [expiry, name, strong.id, proof],
    [expiry, name, proof],
    [Number(expiry) + 1, name, id, proof],
    [expiry, 'x', id, proof],
  ])
    expect((await callWith(admin, `${cookieName}=${forged.join('.')}`)('me', {})).status).toBe(401)
})

test('on loopback without a token, the first key closes the panel, except for the browser that made it', async () => {
  await using admin = await startAdmin()
  const anybody = callWith(admin, '')
  expect((await anybody('me', {})).body.principal).toBe('panel')
  expect((await anybody('status', {})).body.token_required).toBe(false)
  const added = await admin.call('POST', '/api/call/add_key', { name: 'first', can: ['read'] })
  expect(added.status).toBe(200)
  const cookie = cookieOf(added.headers)
  expect((await anybody('me', {})).status).toBe(401)
  const own = callWith(admin, cookie)
  expect((await own('me', {})).body.principal).toBe('panel')
  expect((await own('status', {})).body.token_required).toBe(true)
  const more = await admin.call(
    'POST',
    '/api/call/add_key',
    { name: 'second', can: ['all'] },
    pageHeaders(cookie),
  )
  expect(more.headers.get('set-cookie')).toBeNull()
  // The token that svc made, a link, and a key sign in.
  const made = (await readFile(join(admin.test.dir, 'api_token'), 'utf8')).trim()
  expect((await signIn(admin, made)).status).toBe(200)
  const byLink = await admin.call('GET', (await admin.app.createSignInLink())!)
  expect((await callWith(admin, cookieOf(byLink.headers))('me', {})).body.principal).toBe('panel')
  const byKey = callWith(admin, cookieOf((await signIn(admin, more.body.key)).headers))
  expect((await byKey('me', {})).body).toMatchObject({ principal: `panel:${more.body.id}`, name: 'second' })
  // As after a restart.
  const later = admin.again()
  const me = await later.fetch(
    new Request(`${admin.url}/api/call/me`, {
      method: 'POST',
      headers: { host: new URL(admin.url).host, ...pageHeaders(cookie) },
    }),
  )
  expect(me.status).toBe(200)
})

test('the audit log has each sign-in and sign-out: by token, key and link, and those that were refused', async () => {
  await using admin = await startAdmin({ token })
  const { gateway } = admin.test
  const { id, key } = await gateway.keys.add({ name: 'Mona', can: ['read'] }, owner)
  const lines = async () =>
    (await gateway.audit.list({ limit: 100, after: 0 })).map(({ id: _, at: _at, ...line }) => line)
  const link = (await admin.app.createSignInLink())!
  for (const given of [token, key]) {
    const cookie = cookieOf((await signIn(admin, given)).headers)
    // What a browser does there is no sign-in.
    await callWith(admin, cookie)('me', {})
    await admin.call('POST', '/api/sign-out', {}, pageHeaders(cookie))
    await admin.call('POST', '/api/sign-out', {}, pageHeaders(cookie))
  }
  await admin.call('HEAD', link)
  await admin.call('GET', link)
  const line = { address: '127.0.0.1', outcome: 'done' }
  const mona = { principal: `panel:${id}`, name: 'Mona' }
  const done = [
    { ...line, principal: 'panel', operation: 'sign_in', subject: 'token' },
    { ...line, principal: 'panel', operation: 'sign_out' },
    { ...line, ...mona, operation: 'sign_in', subject: 'key' },
    { ...line, ...mona, operation: 'sign_out' },
    { ...line, principal: 'panel', operation: 'sign_in', subject: 'link' },
  ]
  expect(await lines()).toEqual(done)
  const { events } = await gateway.events.readPage('0', { types: ['audit.line'], limit: 100 })
  expect(events).toHaveLength(done.length)

  await gateway.keys.revoke(id, owner)
  for (const given of ['wrong', key, '']) await signIn(admin, given)
  for (const bad of [link, '/sign-in?code=x']) await admin.call('GET', bad)
  await admin.call('GET', '/api/status')
  await admin.test.soon('they are counted', async () => (await lines()).length > done.length + 1)
  const refused = { principal: 'open', outcome: 'unauthorized', address: '127.0.0.1' }
  // Besides, a signed-out browser wanted to sign out, twice.
  expect((await lines()).slice(done.length)).toMatchObject([
    { ...refused, operation: 'authenticate', count: 3 },
    { ...refused, operation: 'sign_in', count: 4 },
  ])
})

test('the browser that made the first key is signed in, which has a line', async () => {
  await using admin = await startAdmin()
  await admin.call('POST', '/api/call/add_key', { name: 'first', can: ['read'] })
  const lines = await admin.test.gateway.audit.list({ limit: 100, operations: ['sign_in'] })
  expect(lines).toMatchObject([{ principal: 'panel', subject: 'first key', outcome: 'done' }])
})

test('a key does not sign in without its line, the token does, and everybody may sign out', async () => {
  let fails = false
  await using admin = await startAdmin({
    token,
    between: gateway => ({
      ...gateway,
      audit: {
        add: async line => {
          if (fails) throw new SvcError('store_unavailable', 'the disk is full')
          return gateway.audit.add(line)
        },
        settle: (...given) => gateway.audit.settle(...given),
        list: filter => gateway.audit.list(filter),
      },
    }),
  })
  const { key } = await admin.test.gateway.keys.add({ name: 'Mona', can: ['read'] }, owner)
  const cookie = cookieOf((await signIn(admin, key)).headers)
  fails = true
  const refused = await signIn(admin, key)
  expect([refused.status, refused.headers.get('set-cookie')]).toEqual([503, null])
  expect((await signIn(admin, token)).status).toBe(200)
  expect((await admin.call('POST', '/api/sign-out', {}, pageHeaders(cookie))).status).toBe(200)
  expect((await callWith(admin, cookie)('me', {})).status).toBe(401)
})

test('a key with few rights gets neither paths of the machine nor the phone of the sandbox', async () => {
  await using admin = await startAdmin({ token })
  const { key } = await admin.test.gateway.keys.add({ name: 'all', can: ['all'] }, owner)
  const cookie = cookieOf((await signIn(admin, key)).headers)
  const { body } = await callWith(admin, cookie)('status', {})
  expect(JSON.stringify(body)).not.toContain(admin.test.dir)
  expect(body.sandbox_phone).toBeUndefined()
  expect((await admin.call('GET', '/phone', undefined, { cookie })).status).toBe(404)
  const master = cookieOf((await signIn(admin, token)).headers)
  expect((await admin.call('GET', '/phone', undefined, { cookie: master })).status).toBe(200)
})

test('wrong keys are slowed down as wrong tokens are', async () => {
  await using admin = await startAdmin({ token })
  const { key } = await admin.test.gateway.keys.add({ name: 'right', can: ['read'] }, owner)
  const wrong = `${key.slice(0, -64)}${'0'.repeat(64)}`
  for (let tries = 0; tries < 100; tries++) expect((await signIn(admin, wrong)).status).toBe(401)
  // Time stands still until all of them have come: of 30, 20 wait, and the others are refused.
  const statuses: number[] = []
  const signingIn = Array.from({ length: 30 }, async () => {
    statuses.push((await signIn(admin, wrong)).status)
  })
  await admin.test.until('ten are refused', () => statuses.length === 10)
  expect(new Set(statuses)).toEqual(new Set([429]))
  await admin.test.hurry(Promise.all(signingIn))
  expect(statuses.slice(10)).toEqual(Array(20).fill(401))
  expect((await signIn(admin, key)).status).toBe(200)
})

test('the people and the programs of a key share its limits', async () => {
  await using admin = await startAdmin({ token })
  const { key } = await admin.test.gateway.keys.add(
    { name: 'slow', can: ['read'], limits: { calls_per_second: 1 } },
    owner,
  )
  const cookie = cookieOf((await signIn(admin, key)).headers)
  const me = (headers: Record<string, string>) => admin.call('POST', '/api/call/me', {}, headers)
  const answers = [await me(pageHeaders(cookie)), await me({ authorization: `Bearer ${key}` })]
  expect(answers.map(({ status }) => status)).toEqual([200, 429])
  expect(answers.at(-1)!.headers.get('ratelimit-policy')).toBe('"key";q=1;w=1')
})
