import { expect, test } from 'bun:test'
import { given } from '../support/given.ts'
import { ilink } from '../support/ilink-client.ts'
import { headAndGet } from '../support/rest.ts'
import { withSandbox } from '../support/sandbox.ts'

const it = given(withSandbox)

const ask = async (url: string, init?: RequestInit) => {
  const response = await fetch(url, init)
  return {
    status: response.status,
    headers: response.headers,
    body: (await response.json()) as Record<string, unknown>,
  }
}

it('curl -d and plain queries are understood without a content type', async sandbox => {
  const bot = sandbox.bot()
  const form = { 'content-type': 'application/x-www-form-urlencoded' }
  const said = await ask(`${sandbox.url}/phone/say`, {
    method: 'POST',
    headers: form,
    body: '{"text": "as JSON"}',
  })
  expect(said).toMatchObject({
    status: 200,
    body: { bot_id: bot.bot_id, message_id: expect.stringMatching(/^\d{19}$/) },
  })
  expect(
    (await ask(`${sandbox.url}/phone/say`, { method: 'POST', headers: form, body: 'text=as+form' })).status,
  ).toBe(200)
  expect((await ask(`${sandbox.url}/phone/say?text=as%20query`, { method: 'POST' })).status).toBe(200)
  const texts = (await sandbox.messages()).map(message => message.items[0]?.text)
  expect(texts).toEqual(['as JSON', 'as form', 'as query'])
})

it('HEAD answers as GET, without the body', async sandbox => {
  sandbox.bot()
  const { media_id } = await sandbox.media('image', new Blob(['x'.repeat(20_000)]))
  for (const path of [
    ...['', '/phone.css', '/phone.js', '/texts.json', '/api', '/state', '/messages', '/chat', '/stats'],
    ...['/events', '/media/none', '/qr/none', '/say', '/nothing', `/media/${media_id}`],
  ]) {
    const { head, get } = await headAndGet(`${sandbox.url}/phone${path}`)
    expect({ path, ...head }).toEqual({ path, ...get })
  }
  for (const [path, allow] of [
    ['', 'GET, HEAD'],
    ['/switches', 'GET, HEAD, POST'],
    ['/qr/none', 'GET, HEAD'],
    ['/say', 'POST'],
  ]) {
    const refused = await fetch(`${sandbox.url}/phone${path}`, { method: 'DELETE' })
    expect([path, refused.status, refused.headers.get('allow')]).toEqual([path, 405, allow])
  }
})

it('errors say what is wrong and what to do', async sandbox => {
  const post = (path: string, body: string) => ask(`${sandbox.url}/phone/${path}`, { method: 'POST', body })
  expect(await post('say', '\n{"text":')).toMatchObject({
    status: 400,
    body: { code: 'bad_json', details: { line: 2, column: 9 } },
  })
  expect(await post('say', '{"text":"x"}')).toMatchObject({
    status: 404,
    body: { code: 'not_found', hint: expect.stringContaining('/phone/scan') },
  })
  expect(await ask(`${sandbox.url}/phone/qr/none`)).toMatchObject({
    status: 404,
    body: { code: 'not_found', hint: expect.stringContaining('/phone/api') },
  })
  expect(await post('say', '{}')).toMatchObject({
    status: 422,
    body: { code: 'invalid_arguments', detail: expect.stringMatching(/^text: /) },
  })
  expect(await post('scan', '{}')).toMatchObject({ status: 404, body: { code: 'not_found' } })
  expect(await post('nothing', '{}')).toMatchObject({ status: 404 })
  expect(await post('messages', '{}')).toMatchObject({ status: 405, body: { code: 'method_not_allowed' } })
  const say = await fetch(`${sandbox.url}/phone/say`)
  expect([say.status, say.headers.get('allow')]).toEqual([405, 'POST'])
  expect(await post('switches', '{"quota":"many"}')).toMatchObject({
    status: 422,
    body: { detail: expect.stringMatching(/^quota: /) },
  })
  expect(await post('switches', '{"nope":1}')).toMatchObject({
    status: 422,
    body: { detail: expect.stringMatching(/^nope: .*replay/) },
  })
  expect((await ask(`${sandbox.url}/phone/media/nothing`)).status).toBe(404)
})

it('an argument that a call does not take is refused, with those that it takes', async sandbox => {
  const { user_id } = sandbox.bot()
  const post = (path: string, args: object) =>
    ask(`${sandbox.url}/phone/${path}`, { method: 'POST', body: JSON.stringify(args) })
  expect(await post('say', { text: 'x', user: user_id })).toMatchObject({
    status: 422,
    body: { code: 'invalid_arguments', detail: expect.stringMatching(/^user: .*text, from, to/) },
  })
  expect(
    (await ask(`${sandbox.url}/phone/media?from=${user_id}&file=x`, { method: 'POST', body: 'x' })).status,
  ).toBe(422)
  const file = new FormData()
  file.append('file', new Blob(['x']))
  const picture = await ask(`${sandbox.url}/phone/media?kind=image`, { method: 'POST', body: file })
  expect([picture.status, picture.body.code]).toEqual([415, 'unsupported_media_type'])
  const form = { method: 'POST', body: 'text=a & b' }
  expect((await ask(`${sandbox.url}/phone/say`, form)).status).toBe(422)
  expect((await ask(`${sandbox.url}/phone/messages?users=x`)).status).toBe(422)
  expect((await ask(`${sandbox.url}/phone/state?x=1`)).status).toBe(422)
  expect((await post('scan', { confirm: 'yes' })).status).toBe(422)
  expect(await sandbox.messages()).toEqual([])
})

it('nobody is made by a typing error', async sandbox => {
  const bot = sandbox.bot()
  const { qrcode } = await ilink(sandbox.url).post('get_bot_qrcode?bot_type=3', {})
  const calls = {
    scan: { user: 'Nope', qrcode },
    say: { from: 'Nope', text: 'x' },
    bulk: { from: 'Nope', count: 2 },
  }
  for (const [path, args] of Object.entries(calls)) {
    const refused = await ask(`${sandbox.url}/phone/${path}`, { method: 'POST', body: JSON.stringify(args) })
    expect(refused).toMatchObject({
      status: 404,
      body: { code: 'not_found', hint: expect.stringContaining('/phone/users') },
    })
  }
  expect((await ask(`${sandbox.url}/phone/messages?user=Nope`)).status).toBe(404)
  const { users, logins } = await sandbox.phone<{ users: object[]; logins: object[] }>('GET', 'state')
  expect(users).toMatchObject([{ id: bot.user_id }])
  expect(logins).toMatchObject([{ status: 'wait' }])
})

it('foreign web pages get nothing: not by another Host, not by another Origin, not from elsewhere in the browser', async sandbox => {
  const status = async (headers: Record<string, string>, path = 'state') =>
    (await ask(`${sandbox.url}/phone/${path}`, { headers })).status
  expect(await status({})).toBe(200)
  expect(await status({ origin: sandbox.url })).toBe(200)
  expect(await status({ host: `evil.example:${new URL(sandbox.url).port}` })).toBe(403)
  expect(await status({ host: '127.0.0.1.evil.example' })).toBe(403)
  expect(await status({ origin: 'https://evil.example' })).toBe(403)
  expect(await status({ origin: 'null' })).toBe(403)
  expect(await status({ 'sec-fetch-site': 'cross-site' })).toBe(403)
  expect(await status({ origin: 'http://127.0.0.1:1' }, 'stats')).toBe(403)
  expect(await status({ host: 'localhost:1' })).toBe(200)
})

it('the page is one page with a strict policy, and what a user sends never runs in it', async sandbox => {
  sandbox.bot()
  const page = await fetch(`${sandbox.url}/phone`)
  expect(page.headers.get('content-security-policy')).toContain("default-src 'none'; script-src 'self'")
  expect(await page.text()).not.toMatch(/<script>|onclick=|style="/)
  for (const file of ['phone.css', 'phone.js'])
    expect((await fetch(`${sandbox.url}/phone/${file}`)).status).toBe(200)
  const { media_id } = await sandbox.media('image', '<svg onload="alert(1)"/>', { name: 'x.svg' })
  const media = await fetch(`${sandbox.url}/phone/media/${media_id}`)
  expect(media.headers.get('content-type')).toBe('application/octet-stream')
  expect(media.headers.get('content-disposition')).toStartWith('attachment')
})

it('no token leaves through the phone', async sandbox => {
  const bot = sandbox.bot()
  await sandbox.say('x')
  for (const path of ['state', 'messages', 'stats', 'switches', 'api']) {
    const text = await (await fetch(`${sandbox.url}/phone/${path}`)).text()
    expect(text).not.toContain(bot.token)
    expect(text).not.toContain('AARzJWAF')
  }
})

test('news comes as server-sent events, and the stream ends with the sandbox', async () => {
  const sandbox = await withSandbox()
  sandbox.bot()
  const response = await fetch(`${sandbox.url}/phone/events`)
  expect(response.headers.get('content-type')).toBe('text/event-stream')
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
  expect((await reader.read()).value).toContain(': here')
  await sandbox.say('x')
  expect((await reader.read()).value).toContain('event: change')
  await sandbox[Symbol.asyncDispose]()
  // Reading one that was cut off would fail.
  for (let read = 0; read < 10 && !(await reader.read()).done; read++);
})

it('every call of the table is documented and reachable', async sandbox => {
  const { calls } = await sandbox.phone<{
    calls: { method: string; path: string; what: string; args: object }[]
  }>('GET', 'api')
  expect(calls.length).toBeGreaterThan(15)
  const { detail: unknown } = await (await fetch(`${sandbox.url}/phone/no-such-call`)).json()
  expect(unknown).toBeString()
  for (const call of calls) {
    expect(call.what.length).toBeGreaterThan(5)
    const response = await fetch(`${sandbox.url}${call.path}`, { method: call.method })
    expect(response.status).not.toBe(405)
    expect(response.status === 404 && (await response.json()).detail === unknown).toBe(false)
  }
})

it('the chat reads as plain lines, with names, media and quotes', async sandbox => {
  const bot = sandbox.bot()
  const said = await sandbox.say('你好')
  await sandbox.say('this one', { quote: said.message_id, how: 'full' })
  await sandbox.media('file', 'numbers', { name: '报告.txt' })
  const [user] = (await sandbox.phone<{ users: { id: string; name: string }[] }>('GET', 'state')).users
  const other = await sandbox.addUser('Somebody Else')
  const chat = async (query = '') => {
    const response = await fetch(`${sandbox.url}/phone/chat${query}`)
    return [response.status, response.headers.get('content-type'), await response.text()]
  }
  const name = user!.name
  const lines = `${name}: 你好\n${name}: [on “你好”] this one\n${name}: [file 报告.txt, 7 bytes]\n`
  expect(await chat()).toEqual([200, 'text/plain; charset=utf-8', lines])
  expect(await chat(`?user=${bot.user_id}&limit=1`)).toEqual([
    200,
    'text/plain; charset=utf-8',
    `${name}: [file 报告.txt, 7 bytes]\n`,
  ])
  expect(await chat(`?user=${other}`)).toEqual([200, 'text/plain; charset=utf-8', ''])
  expect((await chat('?user=nobody'))[0]).toBe(404)
})
