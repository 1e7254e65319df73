/** `POST /events/link`: a stream for a browser, whose EventSource sends no token. */
import { expect, test } from 'bun:test'
import { owner } from '../../src/model/principal.ts'
import { createLog } from '../../src/platform/log.ts'
import { testClock } from '../support/clock.ts'
import { eventSource } from '../support/event-source.ts'
import { withGateway } from '../support/gateway.ts'
import { type Json, type Rest, restOf } from '../support/rest.ts'
import { writer } from './cut-streams.ts'

const token = 'a-long-enough-token'

const post = async (rest: Pick<Rest, 'url'>, body?: unknown, headers: Record<string, string> = {}) => {
  const answer = await fetch(`${rest.url}/events/link`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body ?? {}),
  })
  return { status: answer.status, body: (await answer.json()) as Json }
}
const linkTo = async (rest: Pick<Rest, 'url'>, body?: unknown): Promise<Json> => {
  const made = await post(rest, body)
  expect([made.status, made.body.url]).toEqual([200, expect.stringMatching(/^\/events\?link=[\w.-]+$/)])
  return made.body
}
const ask = async (url: string, init?: RequestInit) => {
  const answer = await fetch(url, init)
  const { status } = answer
  const body = status === 200 ? undefined : ((await answer.json()) as Json)
  return [status, body?.code]
}

test('a link opens one stream without the token, from where it was made', async () => {
  await using t = await withGateway({ start: false })
  await using rest = await restOf(t.gateway, { token })
  await using log = await writer(t)
  await log.say('before')
  const began = Date.now()
  const { url, after, expires_at } = await linkTo(rest)
  expect(expires_at).toBeGreaterThanOrEqual(began + 60_000)
  expect(expires_at).toBeLessThanOrEqual(Date.now() + 60_000)
  // Neither a look nor a stranger's try spends it.
  expect((await fetch(rest.url + url, { method: 'HEAD' })).status).toBe(401)
  await log.say('while nobody listened')
  await using stream = await eventSource(rest.url + url)
  expect(stream.response.headers.get('content-type')).toBe('text/event-stream')
  expect((await stream.next())?.data.data.text).toBe('while nobody listened')
  await log.say('live')
  expect((await stream.next())?.data.data.text).toBe('live')
  expect(await ask(rest.url + url)).toEqual([403, 'forbidden'])
  expect(await ask(rest.url + url, { headers: { 'last-event-id': stream.lastId! } })).toEqual([
    403,
    'forbidden',
  ])
  // With the place that the first one told, nothing is missed.
  await using again = await eventSource(rest.url + (await linkTo(rest, { after })).url)
  expect((await again.next())?.data.data.text).toBe('while nobody listened')
  await using whole = await eventSource(rest.url + (await linkTo(rest, { after: '0' })).url)
  expect((await whole.next())?.data.data.text).toBe('before')
})

test('what it is narrowed to cannot be widened by who opens it', async () => {
  await using t = await withGateway({ start: false })
  await using rest = await restOf(t.gateway, { token })
  await using log = await writer(t)
  await log.say('old', 'v@x')
  const wanted = { types: 'message.received', user: 'v@x', consumer: 'page' }
  const { url, after } = await linkTo(rest, wanted)
  for (const more of ['&user=u@x', '&after=0', '&types=session.status', '&consumer=other', '&what=1'])
    expect(await ask(rest.url + url + more)).toEqual([422, 'invalid_arguments'])
  await log.say('1', 'u@x')
  await log.say('2', 'v@x')
  await using stream = await eventSource(rest.url + url, { 'last-event-id': '0' })
  expect((await stream.next())?.data.data.text).toBe('2')
  // The place of the named reader: that of the link, not what who opened it said.
  const again = await linkTo(rest, wanted)
  expect(again.after).toBe(after)
  expect((await linkTo(rest, { ...wanted, after: stream.lastId })).after).toBe(stream.lastId!)
  expect((await linkTo(rest, wanted)).after).toBe(stream.lastId!)
})

test('it opens for 60 seconds, and nobody makes too many', async () => {
  await using t = await withGateway({ start: false })
  const clock = testClock({ runs: false })
  await using rest = await restOf(t.gateway, { token, clock })
  const [late, early] = [await linkTo(rest), await linkTo(rest)]
  clock.advance(50_000)
  await using stream = await eventSource(rest.url + early.url)
  expect(stream.response.status).toBe(200)
  clock.advance(10_000)
  expect(await ask(rest.url + late.url)).toEqual([403, 'forbidden'])
  for (const code of ['', 'x', '__proto__', 'constructor', token, `${late.url.split('=')[1]}x`])
    expect(await ask(`${rest.url}/events?link=${code}`)).toEqual([403, 'forbidden'])
  for (let nth = 0; nth < 1000; nth++) expect((await post(rest)).status).toBe(200)
  expect((await post(rest)).body).toMatchObject({ code: 'rate_limited', retry_after: 60 })
  // A key has its own number.
  const { key } = await t.gateway.keys.add({ name: 'other', can: ['events'] }, owner)
  expect((await post(rest, {}, { authorization: `Bearer ${key}` })).status).toBe(200)
  clock.advance(60_000)
  expect((await post(rest)).status).toBe(200)
})

test('who may not follow events makes none, and what they would be refused for is said at once', async () => {
  await using t = await withGateway({ start: false })
  await using rest = await restOf(t.gateway, { token, allowHosts: ['svc.example.org'] })
  for (const authorization of ['', 'Bearer wrong-but-long-enough'])
    expect((await post(rest, {}, { authorization })).status).toBe(401)
  for (const [body, code] of [
    [{ session: 'nobody' }, 'session_not_found'],
    [{ user: 'nobody' }, 'invalid_arguments'],
    [{ types: 'a' }, 'invalid_arguments'],
    [{ after: 'x' }, 'invalid_arguments'],
    [{ what: 1 }, 'invalid_arguments'],
  ] as const)
    expect((await post(rest, body)).body.code).toBe(code)
  // Pages of other origins have no use of a link, nor of a guess.
  const { url } = await linkTo(rest)
  const foreign: Record<string, string>[] = [
    { origin: 'https://evil.example' },
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
    { host: 'evil.example' },
  ]
  for (const headers of foreign) expect(await ask(rest.url + url, { headers })).toEqual([403, 'forbidden'])
  await using stream = await eventSource(rest.url + url, {
    ...{ host: 'svc.example.org', 'sec-fetch-site': 'same-origin' },
  })
  expect(stream.response.status).toBe(200)
  expect(stream.response.headers.get('access-control-allow-origin')).toBeNull()
})

test('a service that wants no token takes links too, and no log shows one', async () => {
  await using t = await withGateway({ start: false })
  const written: string[] = []
  const log = createLog('DEBUG', line => void written.push(line))
  await using rest = await restOf(t.gateway, { log })
  const made = await fetch(`${rest.url}/events/link`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{}',
  })
  const { url } = (await made.json()) as Json
  const code = url.split('=')[1]
  await using stream = await eventSource(rest.url + url)
  expect(stream.response.status).toBe(200)
  const refused = await fetch(rest.url + url)
  expect(await refused.text()).not.toContain(code)
  const lines = written.join('')
  expect(lines).toContain('/events')
  expect(lines).toContain('/events/link')
  expect(lines).not.toContain(code)
})
