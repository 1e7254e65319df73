/** A client that was written from the text of SEP-3415 alone follows svc by poll and push. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { AjvJsonSchemaValidator } from '@modelcontextprotocol/server/validators/ajv'
import {
  type EventStream,
  type EventsError,
  errorCodes,
  type Occurrence,
  type SepClient,
  sepClient,
} from '../support/sep-client.ts'
import { logIn, type Service, startService } from '../support/service.ts'

const name = 'message.received'

let service: Service
let owner: string
let client: SepClient

beforeAll(async () => {
  service = await startService()
  await logIn(service)
  owner = (await newKey('all')).key
  client = sepClient(`${service.url}/mcp`, owner)
})
afterAll(() => service[Symbol.asyncDispose]())

test('the types of events have names of their own, a way of delivery, and schemas', async () => {
  expect(await client.settings()).toBeDefined()
  const types = await client.list()
  expect(types.length).toBeGreaterThan(0)
  expect(new Set(types.map(type => type.name)).size).toBe(types.length)
  for (const { name, delivery, inputSchema } of types) {
    expect(delivery.length, name).toBeGreaterThan(0)
    expect(['poll', 'push', 'webhook'], name).toEqual(expect.arrayContaining(delivery))
    expect(fits(inputSchema, {}), name).toBe(true)
    if (delivery.includes('poll')) expect((await client.poll({ name })).events, name).toEqual([])
  }
})

test('svc takes the arguments that the schema of an event takes, and no others', async () => {
  const { inputSchema } = (await client.list()).find(type => type.name === name)!
  const candidates = [
    {},
    { account: 'default' },
    { kinds: ['TEXT', 'IMAGE'], words: ['a'] },
    { account: 5 },
    { account: '' },
    { kinds: ['SONG'] },
    { kinds: 'TEXT' },
    { words: [''] },
    { unknown: true },
    [],
  ]
  for (const candidate of candidates) {
    const expected = fits(inputSchema, candidate) ? 'taken' : errorCodes.InvalidParams
    const subscription = { name, arguments: candidate }
    expect(await outcomeOf(client.poll(subscription)), JSON.stringify(candidate)).toBe(expected)
    expect(await outcomeOf(opened(subscription)), JSON.stringify(candidate)).toBe(expected)
  }
})

test('a poll from now has no events; later polls have every event once, in order, on pages', async () => {
  const start = await client.poll({ name, cursor: null })
  expect(start).toMatchObject({ events: [], truncated: false, hasMore: false })
  const said = await say(12)

  const sizes: number[] = []
  const events: Occurrence[] = []
  let cursor: string | null = null
  for await (const page of client.pages({ name, cursor: start.cursor, maxEvents: 5 })) {
    expect(page.truncated).toBe(false)
    sizes.push(page.events.length)
    events.push(...page.events)
    cursor = page.cursor
  }
  expect(textsOf(events)).toEqual(said)
  expect(new Set(events.map(event => event.eventId)).size).toBe(12)
  expect(Math.max(...sizes)).toBe(5)
  const { payloadSchema } = (await client.list()).find(type => type.name === name)!
  for (const event of events) {
    expect(event.name).toBe(name)
    expect(new Date(event.timestamp).toISOString()).toBe(event.timestamp)
    expect(fits(payloadSchema, event.data)).toBe(true)
  }
  expect(await client.poll({ name, cursor })).toMatchObject({ events: [], hasMore: false })
})

test('a stream that was cut goes on from its cursor, and a poll beside it has the same events', async () => {
  const { cursor } = await client.poll({ name })
  await using first = await client.stream({ name, cursor })
  expect(first.active.truncated).toBe(false)
  const before = await say(3)
  const seen = [await first.event(), await first.event()]
  first.cut()
  const after = await say(3)

  await using second = await client.stream({ name, cursor: seen[1]!.cursor })
  expect(second.active.truncated).toBe(false)
  seen.push(...(await eventsOf(second, 4)))
  expect(textsOf(seen)).toEqual([...before, ...after])
  const polled = await client.poll({ name, cursor })
  expect(polled.events).toEqual(
    seen.map(({ eventId, name, timestamp, data }) => ({ eventId, name, timestamp, data })),
  )
  expect((await client.poll({ name, cursor: second.cursor })).events).toEqual([])
})

test('each of many streams has the events of its own arguments', async () => {
  const streams = await Promise.all(
    Array.from({ length: 10 }, (_, at) => client.stream({ name, arguments: { words: [`word${at % 2}`] } })),
  )
  for (const text of ['word0', 'word1']) await service.phone('say', { text })
  for (const [at, stream] of streams.entries()) {
    expect((await stream.event()).data.text).toBe(`word${at % 2}`)
    stream.cut()
  }
})

test('events that are older than the client wants are left out, and it learns so', async () => {
  const { cursor } = await client.poll({ name })
  await say(2)
  const late = await client.poll({ name, cursor, maxAgeMs: 0 })
  expect(late).toMatchObject({ events: [], truncated: true })
  await using stream = await client.stream({ name, cursor, maxAgeMs: 0 })
  expect(stream.active.truncated).toBe(true)
  const [text] = await say(1)
  expect((await stream.event()).data.text).toBe(text)
  expect(textsOf((await client.poll({ name, cursor: late.cursor })).events)).toEqual([text!])
})

test('a cursor from elsewhere is a gap: the client learns so, and goes on from a fresh cursor', async () => {
  const { cursor } = await client.poll({ name })
  const foreign = cursor!.replace(/^\w+/, '0000000000')
  const gap = await client.poll({ name, cursor: foreign })
  expect(gap.truncated).toBe(true)
  await using stream = await client.stream({ name, cursor: foreign })
  expect(stream.active.truncated).toBe(true)
  for (const fresh of [gap.cursor, stream.active.cursor])
    expect((await client.poll({ name, cursor: fresh })).truncated).toBe(false)
})

test('an unknown type is not found, and what is not a subscription is refused', async () => {
  const { InvalidParams, NotFound, MethodNotFound } = errorCodes
  for (const ask of [client.poll, opened]) {
    expect(await outcomeOf(ask({ name: 'message.unknown' }))).toBe(NotFound)
    expect(await outcomeOf(ask({} as never))).toBe(InvalidParams)
    expect(await outcomeOf(ask({ name, cursor: 5 as never }))).toBe(InvalidParams)
    expect(await outcomeOf(ask({ name, maxAgeMs: -1 }))).toBe(InvalidParams)
  }
  expect(await outcomeOf(client.request('events/unknown'))).toBe(MethodNotFound)
})

test('a stream ends with "terminated" when its key is revoked, and polls fail', async () => {
  const { id, key } = await newKey('read')
  const reader = sepClient(`${service.url}/mcp`, key)
  await using stream = await reader.stream({ name })
  const { cursor } = await reader.poll({ name })
  await rest('DELETE', `/keys/${id}`)

  expect(await stream.next()).toMatchObject({ kind: 'terminated', error: { code: errorCodes.Forbidden } })
  expect(await stream.next()).toBeUndefined()
  expect(stream.closed).toBe(true)
  expect(await outcomeOf(reader.poll({ name, cursor }))).not.toBe('taken')
})

const validator = new AjvJsonSchemaValidator()
const fits = (schema: object, value: unknown) => validator.getValidator(schema)(value).valid

const textsOf = (events: Occurrence[]) => events.map(event => event.data.text as string)

async function eventsOf(stream: EventStream, count: number): Promise<Occurrence[]> {
  const events: Occurrence[] = []
  while (events.length < count) events.push(await stream.event())
  return events
}

let lastText = 0

/** A person says something `count` times. @returns the texts, when svc has them */
async function say(count: number): Promise<string[]> {
  await using stream = await client.stream({ name })
  const texts = Array.from({ length: count }, () => `text ${++lastText}`)
  for (const text of texts) await service.phone('say', { text })
  await eventsOf(stream, count)
  return texts
}

async function opened(subscription: Parameters<SepClient['stream']>[0]): Promise<void> {
  await using _stream = await client.stream(subscription)
}

const outcomeOf = (asked: Promise<unknown>): Promise<number | 'taken' | undefined> =>
  asked.then(
    () => 'taken' as const,
    (error: EventsError) => error.code,
  )

async function rest(method: string, path: string, body?: object) {
  const headers = { 'content-type': 'application/json', ...(owner && { authorization: `Bearer ${owner}` }) }
  const answer = await fetch(`${service.url}${path}`, { method, headers, body: JSON.stringify(body) })
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`)
  return answer.json()
}

const newKey = (can: string): Promise<{ id: string; key: string }> =>
  rest('POST', '/keys', { name: `${can}-key`, can: [can] })
