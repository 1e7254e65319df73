/** Callers with keys at the HTTP doors: who gets in, what ends with a key, and what a key may use up. */
import { afterAll, beforeAll, describe, expect, spyOn, test } from 'bun:test'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { NewKeyInput } from '../../src/model/key.ts'
import { owner } from '../../src/model/principal.ts'
import { createLog } from '../../src/platform/log.ts'
import { type RunningServer, serve } from '../../src/platform/serve.ts'
import { createOpenApiApp } from '../../src/server/openapi.ts'
import { ensureToken, readStoredToken } from '../../src/server/token.ts'
import { eventSource } from '../support/event-source.ts'
import { folderOfFile, forFile } from '../support/folder.ts'
import { rowsIn, type TestGateway, withGateway } from '../support/gateway.ts'
import { endSecret, keyEnds } from '../support/key-ends.ts'
import { type Json, type Rest, restOf, startRest } from '../support/rest.ts'
import { isOnPostgres } from '../support/shared-store.ts'
import { until } from '../support/until.ts'

const folder = folderOfFile()
const media = forFile(await startRest())

const bearer = (key: string) => ({ authorization: `Bearer ${key}` })
const json = { 'content-type': 'application/json' }

/** Calls a tool. @returns status, body and headers */
async function call(rest: Pick<Rest, 'url'>, tool: string, input: unknown, headers: Record<string, string>) {
  const answer = await fetch(`${rest.url}/tools/default/${tool}`, {
    method: 'POST',
    body: JSON.stringify(input),
    headers: { ...json, ...headers },
  })
  return { status: answer.status, body: (await answer.json()) as Json, headers: answer.headers }
}

const statusOf = async (rest: Pick<Rest, 'url'>, token?: string) =>
  (await fetch(`${rest.url}/tools`, { headers: token === undefined ? {} : bearer(token) })).status

describe('who gets in', () => {
  let t: TestGateway
  let rest: Rest<TestGateway['gateway']>
  const add = (input: Partial<NewKeyInput> = {}) =>
    t.gateway.keys.add({ name: crypto.randomUUID(), can: ['all'], ...input }, owner)
  beforeAll(async () => {
    t = await withGateway({ start: false })
    rest = await restOf(t.gateway, { basePath: t.dir, clock: t.clock })
  })
  afterAll(async () => {
    await rest[Symbol.asyncDispose]()
    await t[Symbol.asyncDispose]()
  })

  test('the first key ends what callers without a token have open', async () => {
    await using t = await withGateway({ start: false })
    await using rest = await restOf(t.gateway, { basePath: t.dir, clock: t.clock })
    const poll = call(rest, 'recv', { timeout: 300 }, {})
    const stream = await fetch(`${rest.url}/events`)
    const reading = stream.text()
    await using other = await t.beside({ start: false })
    await other.gateway.keys.add({ name: 'first', can: ['read'] }, owner)
    await t.pass(1000)
    expect(await poll).toMatchObject({ status: 401, body: { code: 'unauthorized' } })
    await reading
  })

  test('who makes the first key without a token gets it, however long the answer takes', async () => {
    await using t = await withGateway({ start: false })
    const answered = Promise.withResolvers<void>()
    const { audit } = t.gateway
    const slow = {
      ...t.gateway,
      audit: {
        list: audit.list.bind(audit),
        add: audit.add.bind(audit),
        async settle(...args: Parameters<typeof audit.settle>) {
          await answered.promise
          await audit.settle(...args)
        },
      },
    }
    await using rest = await restOf(slow, { basePath: t.dir, clock: t.clock })
    const stream = await fetch(`${rest.url}/events`)
    const reading = stream.text()
    const adding = fetch(`${rest.url}/keys`, {
      method: 'POST',
      body: JSON.stringify({ name: 'first', can: ['read'] }),
      headers: json,
    })
    await t.until('the key is stored', () => t.gateway.keys.hasAny())
    await t.pass(2000)
    answered.resolve()
    const added = await adding
    const { key } = (await added.json()) as Json
    expect([added.status, await statusOf(rest, key), await statusOf(rest)]).toEqual([200, 200, 401])
    await t.pass(1000)
    await reading
  })

  test('the first key, made by another process, closes a running service to calls without a token', async () => {
    expect(await statusOf(rest)).toBe(200)
    expect(await statusOf(rest, 'anything')).toBe(401)
    // A key of another directory is never taken for the owner.
    expect(await statusOf(rest, `svc_abcd1234_${'0'.repeat(64)}`)).toBe(401)
    await using other = await t.beside({ start: false })
    const { key } = await other.gateway.keys.add({ name: 'first', can: ['read'] }, owner)
    await t.pass(1000)
    for (const token of [undefined, '', 'anything', `${key}0`, key.replace('svc_', '')])
      expect(await statusOf(rest, token)).toBe(401)
    expect(await statusOf(rest, key)).toBe(200)
    expect((await fetch(`${rest.url}/healthz`)).status).toBe(200)
    expect((await fetch(`${rest.url}/healthz`, { headers: bearer('wrong') })).status).toBe(200)
    await other.gateway.keys.revoke('first', owner)
    await t.pass(1000)
    expect([await statusOf(rest), await statusOf(rest, key)]).toEqual([401, 401])
  })

  test('the first key leaves the owner a master token, whichever door made the key', async () => {
    await add()
    t.clock.advance(1000)
    expect(await statusOf(rest)).toBe(401)
    const token = (await readStoredToken({ basePath: t.dir }))!
    expect(await statusOf(rest, token)).toBe(200)
    expect(await statusOf(rest, `${token}x`)).toBe(401)
  })

  test('a key is over when it is revoked, expired or replaced', async () => {
    const made = await add({ expires_at: t.clock.now() + 60_000 })
    expect(await statusOf(rest, made.key)).toBe(200)
    t.clock.advance(60_000)
    expect(await statusOf(rest, made.key)).toBe(401)

    const rotated = await add()
    const kept = await t.gateway.keys.rotate(rotated.id, 60_000, owner)
    expect([await statusOf(rest, rotated.key), await statusOf(rest, kept.key)]).toEqual([200, 200])
    const replaced = await t.gateway.keys.rotate(rotated.id, 0, owner)
    expect([await statusOf(rest, kept.key), await statusOf(rest, replaced.key)]).toEqual([401, 200])
    await t.gateway.keys.revoke(rotated.id, owner)
    expect(await statusOf(rest, replaced.key)).toBe(401)
  })

  test('a token of --token stays the master token, beside keys', async () => {
    await using guarded = await restOf(t.gateway, { basePath: t.dir, token: 'correct-horse-battery' })
    const { key } = await add()
    expect([await statusOf(guarded, 'correct-horse-battery'), await statusOf(guarded, key)]).toEqual([
      200, 200,
    ])
    expect([await statusOf(guarded), await statusOf(guarded, 'wrong')]).toEqual([401, 401])
  })

  test('a Unix socket is the owner’s door; a key that is sent there counts', async () => {
    const socket = join(folder, 'svc.sock')
    await using app = await onSocket(t, socket)
    const { token } = await ensureToken(t.config)
    const { key } = await add({ can: ['read'] })
    const ask = async (path: string, headers = {}) =>
      (await fetch(`http://localhost${path}`, { unix: socket, headers })).status
    expect(await ask('/webhooks')).toBe(200)
    expect(await ask('/webhooks', bearer(key))).toBe(403)
    // Nothing behind its name: no token.
    expect(await ask('/webhooks', bearer(''))).toBe(200)
    for (const wrong of [
      'x',
      key.slice(0, -1),
      `${key}0`,
      key.replace(/.$/, '-'),
      key.replace('svc_', ''),
      `${key}, ${key}`,
    ])
      expect([wrong, await ask('/webhooks', bearer(wrong))]).toEqual([wrong, 401])
    expect(await ask('/webhooks', { authorization: `Basic ${btoa('svc:x')}` })).toBe(401)
    await t.gateway.keys.revoke((await t.gateway.keys.list(owner)).at(-1)!.id, owner)
    expect(await ask('/webhooks', bearer(key))).toBe(401)
    // The owner's own token is right there too.
    expect([await ask('/webhooks', bearer(token)), await ask('/webhooks')]).toEqual([200, 200])
    expect(app.url).toStartWith('unix:')
  })

  test('the access line names the key, and the use of the key its address', async () => {
    const lines: string[] = []
    await using heard = await restOf(t.gateway, { log: createLog('INFO', line => void lines.push(line)) })
    const made = await add({ name: 'support-bot' })
    expect(await statusOf(heard, made.key)).toBe(200)
    const line = lines.find(line => line.includes('answered'))
    expect(line).toContain(`caller=key:${made.id} name=support-bot`)
    const used = await until('it is noted', 10_000, async () => {
      const key = await t.gateway.keys.get(made.id, owner)
      return key.last_address !== undefined && key
    })
    expect(used.last_address).toMatch(/127\.0\.0\.1|::1/)
  })

  test('only a trusted proxy is believed about the address', async () => {
    const token = 'correct-horse-battery'
    const ask = async (trustedProxies: string[]) => {
      await using proxied = await restOf(t.gateway, {
        token,
        allowHosts: ['svc.example.org'],
        trustedProxies,
      })
      const made = await add()
      const headers = {
        host: 'svc.example.org',
        'x-forwarded-for': '203.0.113.9, 192.0.2.7',
        ...bearer(made.key),
      }
      expect((await fetch(`${proxied.url}/tools`, { headers })).status).toBe(200)
      const { last_address } = await until('it is noted', 10_000, async () => {
        const key = await t.gateway.keys.get(made.id, owner)
        return key.last_address !== undefined && key
      })
      return last_address
    }
    expect(await ask(['127.0.0.1'])).toBe('192.0.2.7')
    expect(await ask(['192.0.2.0/24'])).toBe('127.0.0.1')
    expect(await ask([])).toBe('127.0.0.1')
  })
})

async function onSocket({ gateway, config }: TestGateway, socket: string) {
  const app = createOpenApiApp({
    gateway,
    config: { ...config, socket },
    log: createLog('ERROR', () => {}),
    version: '0',
  })
  return disposable(
    await serve({ hostname: '', port: 0, socket, fetch: (request, peer) => app.fetch(request, peer) }),
  )
}

const disposable = (server: RunningServer) => ({
  url: server.url,
  [Symbol.asyncDispose]: () => server.stop(0),
})

describe('what a key may see and use', () => {
  const rest = media
  const add = async (input: Partial<NewKeyInput>) =>
    rest.gateway.keys.add({ name: crypto.randomUUID(), can: ['reply'], ...input }, owner)

  test('GET /tools lists the tools that the key may call', async () => {
    const listed = async (headers: Record<string, string>) => {
      const tools = (await (await fetch(`${rest.url}/tools`, { headers })).json()) as { name: string }[]
      return tools.map(({ name }) => name)
    }
    const { key } = await add({ can: ['read'], tools: ['set_default'] })
    const names = await listed(bearer(key))
    expect(names).toContain('recv')
    expect(names).toContain('set_default')
    for (const name of ['send', 'login', 'logout']) expect(names).not.toContain(name)
    const denied = await call(rest, 'logout', { session: 'a' }, bearer(key))
    expect([denied.status, denied.body.details]).toEqual([403, { right: 'logout' }])
  })

  test('calls per second: the headers say what is left, and more are answered with 429', async () => {
    const { key } = await add({ limits: { calls_per_second: 2 } })
    const first = await call(rest, 'sessions', {}, bearer(key))
    expect(first.headers.get('ratelimit-policy')).toBe('"key";q=2;w=1')
    expect(first.headers.get('ratelimit')).toBe('"key";r=1;t=1')
    const over = await until('too many', 10_000, async () => {
      const answer = await call(rest, 'sessions', {}, bearer(key))
      return answer.status !== 200 && answer
    })
    expect([over.status, over.body.code]).toEqual([429, 'rate_limited'])
    expect(over.body.retry_after).toBeGreaterThan(0)
    expect(over.headers.get('ratelimit')).toBe('"key";r=0;t=1')
    await until('it may call again', 10_000, async () => {
      return (await call(rest, 'sessions', {}, bearer(key))).status === 200
    })
  })

  test('a send says how many answers are left; a key with a rate has both in one header', async () => {
    const input = { to: 'u@im.wechat', text: 'hi' }
    const { key } = await add({ limits: { calls_per_second: 5 } })
    const sent = await call(rest, 'send', input, bearer(key))
    expect(sent.headers.get('ratelimit-policy')).toBe('"reply";q=10;w=86400, "key";q=5;w=1')
    expect(sent.headers.get('ratelimit')).toMatch(/^"reply";r=9;t=\d+, "key";r=4;t=1$/)
    const { key: unlimited } = await add({})
    const other = await call(rest, 'send', input, bearer(unlimited))
    expect(other.headers.get('ratelimit-policy')).toBe('"reply";q=10;w=86400')
  })

  test('long polls and streams of one key are counted together', async () => {
    const { key } = await add({ limits: { open: 2 } })
    const leave = new AbortController()
    const stream = await fetch(`${rest.url}/events`, { headers: bearer(key), signal: leave.signal })
    expect(stream.status).toBe(200)
    const entered = rest.gateway.nextCall
    const poll = call(rest, 'recv', { timeout: 20, consumer: 'a' }, bearer(key))
    await entered
    const over = await call(rest, 'recv', { timeout: 20, consumer: 'b' }, bearer(key))
    expect([over.status, over.body.code]).toEqual([429, 'rate_limited'])
    expect((await fetch(`${rest.url}/events`, { headers: bearer(key) })).status).toBe(429)
    // A call that does not wait is none of them.
    expect((await call(rest, 'recv', { timeout: 0, consumer: 'b' }, bearer(key))).status).toBe(200)
    // Bun ends the connection of a response that nothing refers to.
    expect(stream.bodyUsed).toBe(false)
    leave.abort()
    await until('the stream is over', 10_000, async () => {
      const leaving = new AbortController()
      const again = await fetch(`${rest.url}/events`, { headers: bearer(key), signal: leaving.signal })
      leaving.abort()
      return again.status === 200
    })
    rest.gateway.say('hi')
    expect((await poll).status).toBe(200)
  })

  test('bytes per day: of uploads and of media together', async () => {
    const { key } = await add({ limits: { bytes_per_day: 1000 } })
    const upload = (bytes: number | ReadableStream<Uint8Array>) =>
      fetch(`${rest.url}/media`, {
        method: 'POST',
        body: typeof bytes === 'number' ? new Uint8Array(bytes) : bytes,
        headers: { 'content-type': 'application/octet-stream', ...bearer(key) },
      })
    expect((await upload(600)).status).toBe(200)
    expect((await upload(600)).status).toBe(429)
    const unannounced = await upload(
      new ReadableStream({
        start(controller) {
          controller.enqueue(new Uint8Array(600))
          controller.close()
        },
      }),
    )
    expect([unannounced.status, ((await unannounced.json()) as Json).code]).toEqual([429, 'rate_limited'])
    const bytes = new Uint8Array(300)
    rest.gateway.opened = () => ({
      stream: new Blob([bytes]).stream(),
      size: 300,
      file_name: 'a.bin',
      content_type: 'application/octet-stream',
    })
    const download = () => fetch(`${rest.url}/media/1/0`, { headers: bearer(key) })
    const answer = await download()
    expect([answer.status, (await answer.bytes()).length]).toEqual([200, 300])
    expect((await download()).status).toBe(429)
    rest.gateway.opened = undefined
  })

  test('Idempotency-Key is the argument idempotency_key, in quotes or bare', async () => {
    await using own = await startRest()
    const keyOf = async (headers: Record<string, string>, input = {}) => {
      const sent = { to: 'u@im.wechat', text: 'hi', ...input }
      const answer = await call(own, 'send', sent, headers)
      const last = own.gateway.asked.at(-1)?.request as Json
      return answer.status === 200
        ? last.idempotency_key
        : [answer.body.code, answer.body.details.errors[0].field]
    }
    expect(await keyOf({ 'idempotency-key': '"order-1"' })).toBe('order-1')
    expect(await keyOf({ 'idempotency-key': String.raw`"a \"b\" \\"` })).toBe(String.raw`a "b" \ `.trim())
    expect(await keyOf({ 'idempotency-key': 'order-1' })).toBe('order-1')
    expect(await keyOf({ 'idempotency-key': '"order-1"' }, { idempotency_key: 'order-1' })).toBe('order-1')
    const wrong = ['invalid_arguments', 'Idempotency-Key']
    expect(await keyOf({ 'idempotency-key': '"order-1"' }, { idempotency_key: 'order-2' })).toEqual(wrong)
    for (const header of ['"order-1', '"a", "b"', '"a" b', 'x'.repeat(201)])
      expect(await keyOf({ 'idempotency-key': header })).toEqual(wrong)
    const { paths } = (await own.app.document()) as Json
    const { parameters } = paths['/tools/default/send'].post
    expect(parameters).toContainEqual(expect.objectContaining({ in: 'header', name: 'Idempotency-Key' }))
  })
})

test('the headers of an answer name only accounts that the key may see', async () => {
  await using t = await withGateway({ sessions: ['work', 'home'], start: false })
  await using rest = await restOf(t.gateway)
  const { key } = await t.gateway.keys.add({ name: 'bot', can: ['read'], sessions: ['work'] }, owner)
  const all = await t.gateway.keys.add({ name: 'all', can: ['read'] }, owner)
  await t.other.sessions.mark('home', t.bots.get('home')!.token, { expired_at: t.clock.now() })
  const silent = async (token: string) =>
    (await call(rest, 'recv', { timeout: 0 }, bearer(token))).headers.get('svc-silent-sessions')
  await t.until('it is noticed', async () => {
    t.clock.advance(1000)
    return (await silent(all.key)) === 'home=expired'
  })
  expect(await silent(key)).toBeNull()
})

describe('a key that ends takes with it', () => {
  test.each(keyEnds)('its long polls and streams, %s here or by another process; others go on', async way => {
    await using t = await withGateway({ start: false })
    await using rest = await restOf(t.gateway)
    await using beside = await t.beside({ start: false })
    const waiting = spyOn(t.gateway.inbox, 'recv')
    for (const gateway of [t.gateway, beside.gateway]) {
      const add = () => t.gateway.keys.add({ name: crypto.randomUUID(), can: ['read'] }, owner)
      const [ending, other] = [await add(), await add()]
      await using stream = await eventSource(`${rest.url}/events`, bearer(ending.key))
      const { body: link } = await linkOf(rest, ending.key)
      await using linked = await eventSource(`${rest.url}${link.url}`)
      const { body: unopened } = await linkOf(rest, ending.key)
      const { body: keptLink } = await linkOf(rest, other.key)
      await using kept = await eventSource(`${rest.url}/events`, bearer(other.key))
      expect([stream, linked, kept].map(({ response }) => response.status)).toEqual([200, 200, 200])
      const poll = (key: string) => call(rest, 'recv', { timeout: 100, consumer: key.slice(-9) }, bearer(key))
      const polls = [poll(ending.key), poll(ending.key)]
      let isOver = false
      const goOn = () => {
        isOver = true
      }
      void poll(other.key).then(goOn)
      void kept.next().then(goOn)
      await until('they wait', 10_000, () => waiting.mock.calls.length === 3)
      waiting.mockClear()
      await endSecret(way, gateway.keys, ending.id, t.clock)
      await t.pass(1000)
      const answers = await Promise.all(polls)
      expect(answers.map(({ status, body }) => [status, body.code])).toEqual([
        [401, 'unauthorized'],
        [401, 'unauthorized'],
      ])
      expect([await stream.next(), await linked.next()]).toEqual([undefined, undefined])
      expect((await fetch(`${rest.url}${unopened.url}`)).status).toBe(401)
      await using opened = await eventSource(`${rest.url}${keptLink.url}`)
      expect(opened.response.status).toBe(200)
      expect(isOver).toBe(false)
    }
  })

  test.each(keyEnds)('its uploads and downloads (%s)', async way => {
    await using t = await withGateway({ start: false })
    await using rest = await restOf(t.gateway)
    const { key, id } = await t.gateway.keys.add({ name: 'uploader', can: ['reply'] }, owner)
    const upload = fetch(`${rest.url}/media`, {
      method: 'POST',
      headers: { 'content-type': 'application/octet-stream', ...bearer(key) },
      body: new ReadableStream({
        start: controller => controller.enqueue(new Uint8Array(1000)),
      }),
    })
    await until('it comes in', 10_000, async () => {
      if (isOnPostgres) return (await rowsIn(t.dir, 'SELECT id FROM upload WHERE size IS NULL')).length > 0
      const files = await readdir(t.dir, { recursive: true })
      return files.some(file => /\buploads.[^.]+$/.test(file))
    })
    await endSecret(way, t.gateway.keys, id, t.clock)
    expect(await upload.then(({ status }) => status)).toBe(401)

    const { keys } = media.gateway
    // This service has the clock of the system.
    const endHere = (id: string) => endSecret(way === 'revoked' ? way : 'rotated', keys, id, t.clock)
    const reader = await keys.add({ name: `reader ${way}`, can: ['read'] }, owner)
    const source = Promise.withResolvers<unknown>()
    media.gateway.opened = () => ({
      stream: new ReadableStream({
        start: controller => controller.enqueue(new Uint8Array(1000)),
        cancel: source.resolve,
      }),
      file_name: 'a.bin',
      content_type: 'application/octet-stream',
    })
    const answer = await fetch(`${media.url}/media/1/0`, { headers: bearer(reader.key) })
    const body = answer.body!.getReader()
    expect((await body.read()).value?.length).toBe(1000)
    await endHere(reader.id)
    expect(
      await body.read().then(
        ({ done }) => done,
        () => 'broken',
      ),
    ).toBe('broken')
    await source.promise

    const waiter = await keys.add({ name: `waiter ${way}`, can: ['read'] }, owner)
    const opening = Promise.withResolvers<void>()
    using waiting = spyOn(media.gateway.media, 'open')
    waiting.mockImplementation((_request, signal) => {
      opening.resolve()
      return new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    })
    const waits = fetch(`${media.url}/media/1/0`, { headers: bearer(waiter.key) })
    await opening.promise
    await endHere(waiter.id)
    expect((await waits).status).toBe(401)
  })
})

async function linkOf(rest: Pick<Rest, 'url'>, key: string): Promise<{ body: Json }> {
  const answer = await fetch(`${rest.url}/events/link`, {
    method: 'POST',
    body: '{}',
    headers: { ...json, ...bearer(key) },
  })
  return { body: await answer.json() }
}
