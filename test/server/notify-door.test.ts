/** The door `/notify/<topic>`: who may send, how each sender proves itself, and what it holds against. */

import { expect, test } from 'bun:test'
import { createHmac } from 'node:crypto'
import type { Call } from '../../src/model/call.ts'
import { owner, type Principal } from '../../src/model/principal.ts'
import type { Notice, TopicForDoor } from '../../src/model/topic.ts'
import { createLog } from '../../src/platform/log.ts'
import { withGateway } from '../support/gateway.ts'
import { MemoryGateway, unknown } from '../support/memory-gateway.ts'
import { type Rest, raw, restOf } from '../support/rest.ts'

const secret = 'It is a secret to everybody'

/** A gateway with the topics home and work, which keeps what comes. */
class TopicGateway extends MemoryGateway {
  readonly taken: { topic: string; by: Principal; notice: Notice }[] = []
  override readonly topics: MemoryGateway['topics'] & Record<'find' | 'accept', never> = {
    ...new MemoryGateway().topics,
    find: async (by: Principal, name: string): Promise<TopicForDoor> =>
      ['home', 'work', 'camera', '家'].includes(name) && by.grant?.topics?.includes(name) !== false
        ? { name, attach_private: name === 'camera', ...(name === 'home' && { secret }) }
        : unknown(),
    accept: async ({ by }: Call, topic: string, notices: readonly Notice[]) => {
      for (const notice of notices) this.taken.push({ topic, by, notice })
      return notices.map((_, nth) => ({
        id: `n${nth}`,
        topic,
        received_at: 1767225600000,
        expires_at: 1767312000000,
      }))
    },
  } as never
}

interface Door extends AsyncDisposable {
  readonly gateway: TopicGateway
  readonly rest: Rest<TopicGateway>
  readonly lines: string[]
  /** Sends a text. @returns status and answer */
  send(path: string, init?: RequestInit): Promise<{ status: number; body: Record<string, unknown> }>
  key(can?: string[]): Promise<string>
}

async function openDoor(options: Parameters<typeof restOf>[1] = {}): Promise<Door> {
  const gateway = new TopicGateway()
  const lines: string[] = []
  const rest = await restOf(gateway, { log: createLog('DEBUG', line => lines.push(line)), ...options })
  return {
    gateway,
    rest,
    lines,
    send: async (path, init = {}) => {
      const answer = await fetch(`${rest.url}${path}`, { method: 'POST', body: 'hello', ...init })
      return { status: answer.status, body: await answer.json() }
    },
    key: async (can = ['notify']) =>
      (
        await gateway.keys.add(
          { name: can.join('-'), can, ...(can.includes('notify') && { topics: ['home'] }) },
          owner,
        )
      ).key,
    [Symbol.asyncDispose]: () => rest[Symbol.asyncDispose](),
  }
}

const token = 'a-long-enough-token'
const basic = (pair: string) => `Basic ${Buffer.from(pair).toString('base64')}`

test('a program that knows svc has every field at the route of a topic', async () => {
  await using door = await openDoor({ token })
  const notice = { text: '97 %', title: 'Disk', tags: ['disk'], fingerprint: 'disk-a', resolved: true }
  const send = async (topic: string, key: string, more: object = {}) =>
    door.send(`/topics/${topic}/notices`, {
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ ...notice, priority: 'urgent', ...more }),
    })
  const key = await door.key()
  expect(await send('home', key)).toMatchObject({ status: 200, body: { id: 'n0', topic: 'home' } })
  expect(door.gateway.taken).toMatchObject([{ topic: 'home', notice: { ...notice, priority: 'max' } }])
  expect(await send('work', key)).toMatchObject({ status: 404, body: { code: 'not_found' } })
  expect(await send('home', await door.key(['read']))).toMatchObject({ status: 403 })
  expect(await send('home', key, { priority: 'hgih' })).toMatchObject({ status: 422 })
  expect(door.gateway.taken).toHaveLength(1)
})

test('a client of ntfy gets the answer of ntfy, at all addresses that it uses', async () => {
  await using door = await openDoor()
  const headers = { Title: 'Backup', Tags: 'ok', Priority: '4' }
  const expected = {
    id: 'n0',
    time: 1767225600,
    expires: 1767312000,
    event: 'message',
    title: 'Backup',
    message: 'hello',
    priority: 4,
    tags: ['ok'],
  }
  for (const path of ['/notify/home', '/home', '/home/', '/notify/home/', '/notify/work', '/work'])
    for (const method of ['POST', 'PUT'])
      expect(await door.send(path, { method, headers })).toEqual({
        status: 200,
        body: { ...expected, topic: path.match(/home|work/)![0] },
      })
  const json = JSON.stringify({ topic: 'work', title: 'Backup', message: 'hello', tags: ['ok'], priority: 4 })
  for (const path of ['/', '', '/notify'])
    expect(await door.send(path, { body: json })).toEqual({
      status: 200,
      body: { ...expected, topic: 'work' },
    })
  const query = '?title=Backup&message=hello&tags=ok&p=4'
  for (const path of [
    `/home/publish${query}`,
    `/home/send${query}`,
    `/notify/home/trigger${query}`,
    `/notify/home${query}`,
  ])
    expect((await door.send(path, { method: 'GET', body: undefined })).body).toEqual({
      ...expected,
      topic: 'home',
    })
  const { body } = await door.send('/home/trigger', { method: 'GET', body: undefined })
  expect(body).toMatchObject({ message: 'triggered' })
  expect(door.gateway.taken).toHaveLength(20)
  await door.send('/home/download-1')
  await door.send('/notify/home/download-1')
  expect(door.gateway.taken.slice(-2)).toMatchObject(Array(2).fill({ notice: { fingerprint: 'download-1' } }))
})

test('a priority that nobody knows is answered as by ntfy', async () => {
  await using door = await openDoor()
  const { body, status } = await door.send('/notify/home', { headers: { Priority: 'blah' } })
  expect([status, body.code]).toEqual([400, 'invalid_arguments'])
})

test('a client of Gotify adds its word to the address: that is no sequence, and its header has the key', async () => {
  await using door = await openDoor({ token })
  const headers = { 'X-Gotify-Key': await door.key() }
  for (const path of ['/notify/home/message', '/home/message'])
    expect([path, (await door.send(path, { headers })).status]).toEqual([path, 200])
  expect(door.gateway.taken.map(({ notice }) => notice.fingerprint)).toEqual([undefined, undefined])
  await door.send('/notify/home/message', { headers, body: '{"message":"x","priority":2}' })
  expect(door.gateway.taken.at(-1)!.notice.priority).toBe('low')
  const wrong = { headers: { 'X-Gotify-Key': 'wrong' } }
  expect((await door.send('/notify/home/message', wrong)).status).toBe(401)
  expect((await fetch(`${door.rest.url}/me`, { headers })).status).toBe(401)
})

test('a name of any script is an address, also as others write its letters', async () => {
  await using door = await openDoor()
  for (const path of ['/notify/%E5%AE%B6', '/%E5%AE%B6', '/家', '/notify/家'])
    expect([path, (await door.send(path)).status]).toEqual([path, 200])
  const body = JSON.stringify({ topic: '家', message: 'x' })
  expect(await door.send('/', { body })).toMatchObject({ status: 200 })
  expect(door.gateway.taken.map(({ topic }) => topic)).toEqual(Array(5).fill('家'))
  for (const path of ['/notify/%E5', '/%ff', '/notify/a%2fb', '/a%E2%80%8Bb'])
    expect([path, (await door.send(path)).status >= 400]).toEqual([path, true])
})

test('a path that svc does not have is not said to be a topic alone', async () => {
  await using door = await openDoor()
  const problems = await Promise.all(
    ['/webhook', '/mesages', '/v1/send', '/notify/garden'].map(async path => (await door.send(path)).body),
  )
  expect(problems).toMatchObject(Array(4).fill({ code: 'not_found' }))
  const [first, ...others] = problems.map(({ detail }) => detail)
  expect(others.map(one => one === first)).toEqual([true, true, false])
})

test('a client of ntfy hears that its token is right, and nothing else of the caller', async () => {
  await using door = await openDoor()
  const account = (headers: Record<string, string> = {}) =>
    door.send('/v1/account', { method: 'GET', body: null, headers })
  const open = await account()
  expect(open).toMatchObject({ status: 200, body: { username: '*', stats: { messages: 0 } } })
  const key = await door.key()
  expect((await account()).status).toBe(401)
  expect((await account({ authorization: 'Bearer nope' })).status).toBe(401)
  expect(await account({ authorization: `Bearer ${key}` })).toEqual(open)
  expect(door.gateway.taken).toEqual([])
})

test('a file that is too large for a notice is not blamed on an option that would not help', async () => {
  await using door = await openDoor()
  const body = new Uint8Array(17 * 1024 * 1024)
  const refused = await door.send('/notify/work', { method: 'PUT', body })
  expect(refused).toMatchObject({ status: 413, body: { code: 'payload_too_large' } })
  expect(String(refused.body.hint)).not.toContain('--max-upload')
})

test('other senders get the ids, and paths of svc stay what they are', async () => {
  await using door = await openDoor()
  const body = JSON.stringify({ event: 'Stop' })
  expect(await door.send('/notify/home', { body })).toEqual({
    status: 200,
    body: { notices: [{ id: 'n0', topic: 'home', received_at: 1767225600000, expires_at: 1767312000000 }] },
  })
  expect((await door.send('/tools')).status).toBe(405)
  expect((await door.send('/docs')).status).toBe(405)
  const nothing = { method: 'GET', body: undefined }
  expect((await door.send('/home', nothing)).status).toBe(404)
  expect((await door.send('/notify/home', nothing)).body).toMatchObject({ code: 'invalid_arguments' })
  expect((await door.send('/notify/home/else', { ...nothing, method: 'DELETE' })).status).toBe(405)
  for (const path of ['/notify/garden', '/garden', '/garden/1'])
    expect((await door.send(path)).body).toMatchObject({ code: 'not_found' })
  for (const path of ['/notify/%ff', '/notify/a%20b', '/notify/%0a', `/notify/${'a'.repeat(65)}`])
    expect([path, (await door.send(path)).status]).toEqual([path, 422])
  const head = await fetch(`${door.rest.url}/notify/home?message=x`, { method: 'HEAD' })
  expect(head.status).toBe(405)
  expect((await door.send('/', { body: '{"message": "x"}' })).body).toMatchObject({
    code: 'invalid_arguments',
  })
  expect(door.gateway.taken).toHaveLength(1)
})

test('each sender proves itself in its own way, and a key in an address opens only topics', async () => {
  await using door = await openDoor({ token })
  const [key, wide] = [await door.key(), await door.key(['notify', 'send'])]
  const auth = (header: string) => Buffer.from(header).toString('base64url')
  const status = async (path: string, authorization?: string) =>
    (await door.send(path, authorization ? { headers: { authorization } } : {})).status
  for (const path of ['/notify/home', '/home']) {
    for (const right of [
      `Bearer ${key}`,
      `Bearer ${wide}`,
      `Bearer ${token}`,
      basic(`:${key}`),
      basic(`phil:${key}`),
    ])
      expect([right, await status(path, right)]).toEqual([right, 200])
    // Apprise, with `ntfy://KEY@host/home`.
    expect(await status(path, basic(`${key}:None`))).toBe(200)
    for (const query of [`auth=${auth(`Bearer ${key}`)}`, `auth=${auth(basic(`:${key}`))}`, `key=${key}`])
      expect(await status(`${path}?${query}`)).toBe(200)
    for (const query of [`auth=${auth(`Bearer ${wide}`)}`, `key=${wide}`, `key=${token}`])
      expect(await status(`${path}?${query}`)).toBe(403)
    for (const wrong of ['Bearer wrong', basic('phil:wrong'), 'Digest x', basic(''), `Bearer ${key}0`])
      expect([wrong, await status(path, wrong)]).toEqual([wrong, 401])
    for (const query of ['', '?key=', '?key=wrong', '?auth=%%%', `?auth=${key}`])
      expect([query, await status(`${path}${query}`)]).toEqual([query, 401])
  }
  // Other doors take no key from an address, and no Basic.
  for (const [path, authorization] of [
    [`/tools?key=${key}`],
    [`/me?auth=${auth(`Bearer ${key}`)}`],
    ['/me', basic(`:${key}`)],
  ])
    expect(
      (await fetch(`${door.rest.url}${path}`, { headers: authorization ? { authorization } : {} })).status,
    ).toBe(401)
  const log = door.lines.join('\n')
  expect(log).toContain('/notify/:topic')
  expect(log + (await door.gateway.metrics.text())).not.toContain(key.slice(-20))
  const audit = await door.gateway.audit.list({ limit: 100, after: 0 })
  expect(JSON.stringify(audit)).not.toContain(key.slice(-20))
})

test('a key without the right is denied', async () => {
  await using door = await openDoor()
  const authorization = `Bearer ${await door.key(['send'])}`
  const { body } = await door.send('/notify/home', { headers: { authorization } })
  expect(body).toMatchObject({ code: 'forbidden', details: { right: 'notify' } })
})

test('GitHub proves itself by its signature alone', async () => {
  await using door = await openDoor({ token })
  const body = JSON.stringify({ action: 'created', sender: { login: 'Mona' } })
  const sign = (text: string, by = secret) => `sha256=${createHmac('sha256', by).update(text).digest('hex')}`
  const send = (signature: string, path = '/notify/home', text = body) =>
    door.send(path, {
      body: text,
      headers: {
        'x-github-event': 'star',
        'content-type': 'application/json',
        'x-hub-signature-256': signature,
      },
    })
  expect((await send(sign(body))).status).toBe(200)
  expect(door.gateway.taken).toMatchObject([{ topic: 'home', notice: { text: 'Mona created star' } }])
  for (const wrong of [
    sign(body, 'other'),
    sign(`${body} `),
    '',
    'sha256=',
    'sha1=abc',
    sign(body).toUpperCase(),
  ])
    expect((await send(wrong)).status).toBe(401)
  // Before its signature is checked, a body is judged the same for every name.
  for (const path of ['/notify/home', '/notify/work', '/notify/garden']) {
    const headers = { 'x-github-event': 'star', 'x-hub-signature-256': sign(body, 'other') }
    const packed = { ...headers, 'content-encoding': 'gzip' }
    expect((await door.send(path, { headers: packed })).status).toBe(415)
    const large = new Uint8Array(4 * 1024 * 1024 + 1)
    const unannounced = new ReadableStream({
      start(out) {
        out.enqueue(large)
        out.close()
      },
    })
    for (const body of [large, unannounced])
      expect([path, (await door.send(path, { headers, body })).status]).toEqual([path, 413])
  }
  // It is not parsed: that it has too many values is not seen.
  const wide = `[${'[],'.repeat(400_000)}[]]`
  expect((await send(sign(wide, 'other'), '/notify/home', wide)).status).toBe(401)
  expect((await send(sign(wide), '/notify/home', wide)).status).toBe(413)
  // A topic without a secret, an unknown one and the root answer the same.
  for (const path of ['/notify/work', '/notify/garden', '/'])
    expect((await send(sign(body), path)).body).toMatchObject({ code: 'unauthorized' })
  // Without the event it is no sender that signs.
  const bare = { 'x-hub-signature-256': sign('hello') }
  expect((await door.send('/notify/home', { headers: bare })).status).toBe(401)
  expect(door.gateway.taken).toHaveLength(1)
  expect(JSON.stringify(door.lines) + JSON.stringify(await send('sha256=', '/notify/home'))).not.toContain(
    secret,
  )
})

test('slow bodies with a signature hold up nobody with a key', async () => {
  await using door = await openDoor({ token })
  const KEY = await door.key()
  const slow = (topic: string) =>
    `POST /notify/${topic} HTTP/1.1\r\nhost: localhost\r\nx-github-event: star\r\ncontent-length: 4000000\r\n` +
    `x-hub-signature-256: sha256=${'0'.repeat(64)}\r\n\r\n${'x'.repeat(100_000)}`
  expect(await raw(door.rest.server, slow(''))).toStartWith('HTTP/1.1 401')
  // The first to be refused says that the share is used up.
  const held: Promise<string>[] = []
  for (let nth = 0; nth < 60; nth++) held.push(raw(door.rest.server, slow('home')))
  expect(await Promise.race(held)).toStartWith('HTTP/1.1 429')
  const body = JSON.stringify({ text: 'x'.repeat(900_000) })
  const headers = { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' }
  expect((await door.send('/notify/home', { body, headers })).status).toBe(200)
  const answers = await Promise.all(held)
  expect(new Set(answers.map(answer => answer.slice(0, 12)))).toEqual(
    new Set(['HTTP/1.1 429', 'HTTP/1.1 422']),
  )
})

test('web pages do not send, whatever they know', async () => {
  await using door = await openDoor()
  for (const headers of [
    { origin: 'https://evil.example' },
    { 'sec-fetch-site': 'cross-site' },
    { host: 'evil.example' },
  ])
    for (const path of ['/notify/home', '/home', '/notify/home?message=x']) {
      const method = path.includes('?') ? 'GET' : 'POST'
      const answer = await raw(
        door.rest.server,
        `${method} ${path} HTTP/1.1\r\n${Object.entries({
          host: 'localhost',
          ...headers,
          'content-length': '0',
          connection: 'close',
        })
          .map(([name, value]) => `${name}: ${value}\r\n`)
          .join('')}\r\n`,
      )
      expect(answer).toStartWith('HTTP/1.1 403')
    }
  expect(door.gateway.taken).toEqual([])
})

test('a file is stored for its notice, and a picture is a picture', async () => {
  await using door = await openDoor()
  const png = Buffer.from('89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489', 'hex')
  await door.send('/home', {
    method: 'PUT',
    body: png,
    headers: { Filename: 'door.png', Message: 'Somebody' },
  })
  await door.send('/home', { method: 'PUT', body: new Uint8Array([0xff, 0, 1]) })
  expect(door.gateway.uploads).toMatchObject([{ bytes: png.length, file_name: 'door.png' }, { bytes: 3 }])
  expect(door.gateway.taken.map(({ notice }) => notice)).toMatchObject([
    { text: 'Somebody', media: { kind: 'image', file_name: 'door.png', upload_id: expect.any(String) } },
    { text: '', media: { kind: 'file' } },
  ])
  // The same picture again is another notice.
  expect(new Set(door.gateway.taken.map(({ notice }) => notice.fingerprint)).size).toBe(2)
})

test('an address in a private network is not fetched, and the text arrives with the address', async () => {
  await using door = await openDoor()
  const camera = `http://127.0.0.1:${door.rest.server.port}/snapshot.jpg`
  expect((await door.send('/home', { headers: { Attach: camera } })).status).toBe(200)
  const { notice } = door.gateway.taken[0]!
  expect(notice.text).toStartWith(`hello\n${camera} (127.0.0.1 `)
  expect(notice.media).toBeUndefined()
})

test('a camera in a private network is fetched for a topic that allows it', async () => {
  await using door = await openDoor()
  const png = Buffer.from('89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489', 'hex')
  using camera = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: ({ url }) =>
      url.endsWith('.png') ? new Response(png) : Response.redirect('http://169.254.169.254/'),
  })
  await door.send('/camera', { headers: { Attach: `${camera.url}now.png` } })
  await door.send('/camera', { headers: { Attach: `${camera.url}elsewhere` } })
  const [shown, refused] = door.gateway.taken.map(({ notice }) => notice)
  expect(shown).toMatchObject({ text: 'hello', media: { kind: 'image', file_name: 'now.png' } })
  expect(refused?.text).toContain('(169.254.169.254 ')
})

test('what a key sends counts in its bytes', async () => {
  await using door = await openDoor()
  const limits = { bytes_per_day: 1000 }
  const { key } = await door.gateway.keys.add(
    { name: 'small', can: ['notify'], topics: ['home'], limits },
    owner,
  )
  const send = (size: number) =>
    door.send('/home', { body: 'x'.repeat(size), headers: { authorization: `Bearer ${key}` } })
  expect((await send(900)).status).toBe(200)
  expect((await send(200)).body).toMatchObject({ code: 'rate_limited' })
  expect((await send(50)).status).toBe(200)
})

test('bodies and headers without end are cut off', async () => {
  await using door = await openDoor()
  const { server } = door.rest
  const head = (path: string, more: string) => `POST ${path} HTTP/1.1\r\nHost: localhost\r\n${more}\r\n`
  for (const path of ['/notify/home', '/home'])
    expect(await raw(server, head(path, 'Content-Length: 1000000000\r\n'))).toStartWith('HTTP/1.1 413')
  const streamed = await raw(server, socket => {
    socket.write(head('/home', 'Transfer-Encoding: chunked\r\n'))
    const block = Buffer.concat([Buffer.from('100000\r\n'), Buffer.alloc(2 ** 20), Buffer.from('\r\n')])
    let sent = 0
    const more = () => {
      while (sent++ < 1000 && !socket.destroyed)
        if (!socket.write(block)) return void socket.once('drain', more)
    }
    more()
  })
  expect(streamed).toStartWith('HTTP/1.1 413')
  const headers = Array.from({ length: 10_000 }, (_, nth) => `X-${nth}: 1\r\n`).join('')
  expect(await raw(server, head('/home', `${headers}Content-Length: 0\r\n`))).toStartWith('HTTP/1.1 431')
  expect((await door.send('/home', { headers: { 'content-encoding': 'gzip' } })).status).toBe(415)
  const wide = `{"a":[${'[],'.repeat(500_000)}[]]}`
  expect((await door.send('/home', { body: wide })).status).toBe(413)
  const deep = (most: number) => `{"a":${'['.repeat(most)}${']'.repeat(most)}}`
  expect((await door.send('/home', { body: deep(30_000) })).status).toBe(200)
  expect((await door.send('/home', { body: deep(100_000) })).status).toBe(413)
  const file = { filename: 'a.bin', base64: Buffer.alloc(15 * 2 ** 20 + 1).toString('base64') }
  const apprise = { version: '1.0', message: 'x', type: 'info', attachments: [file] }
  expect((await door.send('/home', { body: JSON.stringify(apprise) })).status).toBe(413)
  const many = Array(11).fill({ filename: 'a', base64: 'aGk=' })
  door.gateway.taken.length = 0
  expect((await door.send('/home', { body: JSON.stringify({ ...apprise, attachments: many }) })).status).toBe(
    200,
  )
  const [first, ...others] = door.gateway.taken.map(({ notice }) => notice)
  expect([others.length, first!.text.split('\n').length]).toEqual([9, 2])
  const form = new FormData()
  for (let nth = 0; nth < 12; nth++) form.append('file', new File(['x'], `${nth}.txt`))
  expect((await door.send('/home', { body: form })).status).toBe(200)
  const last = door.gateway.taken.slice(-2).map(({ notice }) => [notice.media, notice.text])
  expect(last).toEqual([10, 11].map(nth => [undefined, expect.stringContaining(`${nth}.txt`)]))
})

test('a key that may not send gives no topic a secret, by which it would reach people without an approval', async () => {
  await using t = await withGateway()
  const { user_id: to } = t.bots.get('default')!
  const keys = [['topics', 'draft'] as const, ['topics', 'send'] as const]
  const statuses: number[][] = []
  for (const can of keys) {
    const { key } = await t.gateway.keys.add({ name: can.join('-'), can: [...can] }, owner)
    await using rest = await restOf(t.gateway)
    const call = async (method: string, path: string, body: object) => {
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
      return (await fetch(`${rest.url}${path}`, { method, body: JSON.stringify(body), headers })).status
    }
    const [name, secret] = [can[1], 'sixteen letters!']
    statuses.push([
      await call('POST', '/topics', { name: `${name}-2`, to: [to], secret }),
      await call('POST', '/topics', { name, to: [to] }),
      await call('PATCH', `/topics/${name}`, { secret }),
      await call('PATCH', `/topics/${name}`, { secret: '' }),
    ])
  }
  expect(statuses).toEqual([
    [403, 200, 403, 200],
    [200, 200, 200, 200],
  ])
})

test('what a program sends reaches the person, and its key opens this topic alone', async () => {
  await using t = await withGateway()
  const { gateway, sandbox } = t
  await sandbox.say('hi')
  await t.receive(1)
  const { user_id: to } = t.bots.get('default')!
  for (const name of ['home', 'work']) await gateway.topics.add(owner, { name, to: [to] })
  const { key } = await gateway.keys.add({ name: 'ntfy', can: ['notify'], topics: ['home'] }, owner)
  await using rest = await restOf(gateway)
  const send = (path: string, init: RequestInit = {}) =>
    fetch(`${rest.url}${path}`, {
      method: 'POST',
      body: 'hello',
      ...init,
      headers: { authorization: `Bearer ${key}`, ...init.headers },
    })
  for (const path of ['/notify/work', '/work', '/notify/garden', '/garden'])
    expect((await send(path)).status).toBe(404)
  for (const path of [
    '/me',
    '/topics',
    '/topics/home',
    '/sessions',
    '/tools/default/history',
    '/users',
    '/outbox',
  ]) {
    const answer = await fetch(`${rest.url}${path}`, { headers: { authorization: `Bearer ${key}` } })
    expect(await answer.text()).not.toContain(to)
  }
  const png = Buffer.from('89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489', 'hex')
  const message = { Title: 'The door', Message: 'Somebody rings', Priority: 'high', Filename: 'door.png' }
  expect((await send('/home', { method: 'PUT', body: png, headers: message })).status).toBe(200)
  const seen = await t.soon('on the phone', async () => {
    const messages = await sandbox.messages({ from: 'bot' })
    return messages.length >= 2 && messages
  })
  expect(JSON.stringify(seen)).toContain('Somebody rings')
  expect(seen.map(({ items }) => items[0]!.kind).sort()).toEqual(['image', 'text'])
  const body = JSON.stringify({
    version: '4',
    groupKey: '{}',
    alerts: Array.from({ length: 1500 }, (_, nth) => ({
      status: 'firing',
      labels: { alertname: `A${nth}` },
      annotations: {},
    })),
  })
  const accepted = await (await send('/home', { body })).json()
  expect(accepted.notices).toHaveLength(1500)
})
