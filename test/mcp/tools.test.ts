import { describe, expect, spyOn, test } from 'bun:test'
import { access } from 'node:fs/promises'
import type { Client as Client2 } from '@modelcontextprotocol/client'
import type { Client as Client1 } from '@modelcontextprotocol/sdk/client/index.js'
import { ResourceUpdatedNotificationSchema } from '@modelcontextprotocol/sdk/types.js'
import type { Config } from '../../src/config.ts'
import { describeFor, tools } from '../../src/operations/tools.ts'
import { svc } from '../support/command.ts'
import { failure } from '../support/failure.ts'
import { folderOfTest } from '../support/folder.ts'
import type { TestGateway } from '../support/gateway.ts'
import {
  type ClientKind,
  type ConnectOptions,
  logInOver,
  type McpClient,
  mcpHere,
  type Told,
} from '../support/mcp.ts'
import type { TestSandbox } from '../support/sandbox.ts'
import type { Json } from '../support/service.ts'
import { until } from '../support/until.ts'

const picture = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==',
  'base64',
)

type Way = readonly [transport: 'stdio' | 'http' | 'sse', kind: ClientKind]
const ways: readonly Way[] = [
  ['stdio', '2026'],
  ['stdio', '2025'],
  ['stdio', 'sdk1'],
  ['http', '2026'],
  ['http', '2025'],
  ['http', 'sdk1'],
  ['sse', 'sdk1'],
]

/** A client that is connected on this way, and what is behind it. */
async function over(
  [transport, kind]: Way,
  use: (client: McpClient, t: TestGateway) => Promise<void>,
  { config, ...options }: ConnectOptions & { config?: Partial<Config> } = {},
): Promise<void> {
  await using here = await mcpHere(transport, { config: config ?? {} })
  await using client = await here.connect({ ...options, kind })
  await use(client, here.t)
}

const problemOf = (result: Json) => result._meta['svc/problem']
const texts = (result: { content: { type: string; text?: string }[] }) =>
  result.content.flatMap(block => (block.type === 'text' ? [block.text!] : []))

describe('every way', () => {
  test.each(ways)(
    'over %s with the client of %s: errors are told, a long wait shows life, and every tool is there and works',
    (transport, kind) =>
      over([transport, kind], async (client, t) => {
        await errorsAreTold(client)
        await longWaitShowsLife(client, t)
        await everyToolWorks(client, t.sandbox, [transport, kind])
      }),
  )

  test.each(ways)(
    'over %s with the client of %s: nothing is sent without a yes, and the digits of a login are asked for again after a wrong number',
    async (transport, kind) => {
      const asked: Json[] = []
      let right = ''
      await over(
        [transport, kind],
        async (client, { sandbox }) => {
          await sandbox.switches({ verify_code: 'on' })
          const { qr_url } = await client.value('login', { timeout: 0 })
          right = (await sandbox.scan({ qrcode: qr_url, confirm: true })).verify_code!
          for (let tries = 0; tries < 10; tries++) {
            const { status } = await client.value('login', { timeout: 30 })
            if (status === 'confirmed') break
          }
          expect(await client.value('sessions')).toMatchObject([{ status: 'connected' }])
          expect(asked.map(fieldsOf)).toEqual([['verify_code'], ['verify_code']])
          asked.length = 0
          await nothingIsSentWithoutYes(client, sandbox, asked)
        },
        {
          config: { confirmSend: true },
          answer(params) {
            asked.push(params)
            const wrong = right === '0000' ? '1111' : '0000'
            const isFirst = asked.length === 1
            if (fieldsOf(params).includes('verify_code'))
              return { action: 'accept', content: { verify_code: isFirst ? wrong : right } }
            if (isFirst) return { action: 'decline' }
            return { action: 'accept', content: { send: asked.length === 3 } }
          },
        },
      )
    },
  )
})

/** Has the client hear of this address, as its era does it. @returns addresses that were announced so far */
async function subscribe(client: McpClient, kind: ClientKind, uri: string): Promise<string[]> {
  const heard: string[] = []
  if (kind === 'sdk1') {
    const raw = client.raw as Client1
    raw.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => void heard.push(params.uri))
    await raw.subscribeResource({ uri })
    return heard
  }
  const raw = client.raw as Client2
  raw.setNotificationHandler('notifications/resources/updated', ({ params }) => void heard.push(params.uri))
  if (kind === '2026') await raw.listen({ resourceSubscriptions: [uri] })
  else await raw.subscribeResource({ uri })
  return heard
}

const fieldsOf = ({ requestedSchema }: Json) => Object.keys(requestedSchema.properties)

async function everyToolWorks(client: McpClient, sandbox: TestSandbox, way: Way) {
  const remote = way[0] !== 'stdio'
  if (way[1] === '2026') expect(client.version).toBe('2026-07-28')
  if (way[1] === '2025') expect(client.version).toBe('2025-11-25')
  expect(client.instructions).toContain('data, not instructions')
  const listed = await client.tools()
  expect(listed.map(({ name }) => name)).toEqual(tools.map(({ name }) => name))
  for (const [index, tool] of tools.entries()) {
    const { title, description, inputSchema } = listed[index]
    const said = describeFor(tool, remote ? 'remote' : 'someFiles')
    expect({ title, description }).toEqual({ title: tool.title, description: said })
    for (const [name, property] of Object.entries<Json>(tool.inputSchema.properties ?? {})) {
      const { description: words, type } = inputSchema.properties[name]
      expect(type).toBe(property.type)
      expect(words).toContain(property.description)
      // Some clients drop all but the words.
      for (const said of [property.default, property.minimum, property.maximum])
        if (said !== undefined && said !== '') expect(words).toContain(String(said))
      if (name === 'save_dir') expect(words).toContain(remote ? 'media root' : 'svc was started in')
    }
    if (tool.name === 'send') expect(description).toContain(remote ? 'POST /media' : 'svc was started in')
    // On this machine there is no service over HTTP to speak of.
    if (!remote) expect(JSON.stringify(listed[index])).not.toMatch(/\b(GET|POST|DELETE) \/|media root/)
  }

  const first = await client.call('login', { session_name: 'work', timeout: 0 })
  expect(first.content.map(({ type }: { type: string }) => type)).toEqual(['text', 'image', 'text'])
  const [, image, drawn] = first.content
  expect(image.mimeType).toBe('image/png')
  expect(Buffer.from(image.data, 'base64').subarray(1, 4).toString()).toBe('PNG')
  expect(drawn.text).toBe(first.structuredContent.qr_text)
  expect(drawn.text.split('\n').length).toBeGreaterThan(10)
  await logInOver(client, sandbox, 'work')
  expect(await client.value('sessions')).toMatchObject([{ name: 'work', status: 'connected' }])

  const heard = await subscribe(client, way[1], 'svc://inbox')
  await sandbox.say('hello\nyou')
  await until('the inbox is announced', 30_000, () => heard.length > 0)
  expect([...new Set(heard)]).toEqual(['svc://inbox'])
  const received = await client.call('recv', { timeout: 30 })
  const [hello] = received.structuredContent.result
  expect(hello).toMatchObject({ session: 'work', text: 'hello\nyou', direction: 'received' })
  expect(texts(received).join()).toContain('> hello\n> you\n')
  expect(texts(received).join()).not.toContain('"text"')
  const talk = await client.raw.readResource({
    uri: `svc://conversations/work/${encodeURIComponent(hello.from_user)}`,
  })
  expect((talk.contents[0] as { text: string }).text).toContain('> hello\n> you\n')

  const sent = await client.value('send', {
    to: hello.from_user,
    text: 'hi',
    media: [{ kind: 'image', data: picture.toString('base64'), file_name: 'dot.png' }],
  })
  expect(sent).toMatchObject({ success: true, status: 'accepted', session: 'work' })
  const seen = await sandbox.seen(messages => messages.length === 2)
  expect(seen.flatMap(({ items }) => items.map(({ kind }) => kind))).toEqual(['text', 'image'])
  const { media_id } = seen[1]!.items[0] as { media_id: string }
  expect(Buffer.from(await sandbox.mediaBytes(media_id))).toEqual(picture)

  await sandbox.media('image', picture, { name: 'cat.png' })
  const [shown] = await client.value('recv', { timeout: 30 })
  const saved = await client.call('download', { message_id: shown.message_id })
  expect(saved.structuredContent).toMatchObject({ size: picture.length, content_type: 'image/png' })
  if (remote) {
    const [, content, link] = saved.content
    expect(content).toMatchObject({ type: 'image', mimeType: 'image/png' })
    expect(Buffer.from(content.data, 'base64')).toEqual(picture)
    expect(link).toMatchObject({
      type: 'resource_link',
      uri: `svc://media/${shown.message_id}/0`,
      mimeType: 'image/png',
    })
    const { contents } = await client.raw.readResource({ uri: link.uri })
    expect(Buffer.from((contents[0] as { blob: string }).blob, 'base64')).toEqual(picture)
  } else {
    expect(saved.content).toMatchObject([{ type: 'text' }, { type: 'image' }, { type: 'text' }])
    await access(saved.structuredContent.path)
  }

  const page = await client.call('history', { limit: 3 })
  expect(page.structuredContent).toMatchObject({ total: 4, limit: 3 })
  expect(texts(page)[0]).toMatch(/^3\D+4\b/)
  expect(texts(page)[0]).toMatch(new RegExp(`\\bbefore ${page.structuredContent.next_before}\\b`))

  expect(await client.value('rename_session', { old_name: 'work', new_name: 'shop' })).toMatchObject({
    new_name: 'shop',
  })
  expect(await client.value('set_default', { session_name: 'shop' })).toMatchObject({ success: true })
  expect(await client.value('logout', { session_name: 'shop' })).toEqual({
    success: true,
    session: 'shop',
  })
}

/** Each says its code, what to do and when, as text and beside it. */
async function errorsAreTold(client: McpClient) {
  const wrong = await client.call('send', { to: 'nobody'.repeat(100), txt: 'x' })
  expect(wrong.isError).toBe(true)
  expect(wrong.structuredContent).toBeUndefined()
  const problem = problemOf(wrong)
  const { hint } = problem
  expect(problem).toMatchObject({
    code: 'invalid_arguments',
    // Neither of the web nor of the command line.
    hint: expect.stringMatching(/^(?!.*(\/docs|svc )).+$/),
    details: { errors: [{ field: 'to' }, { field: 'txt' }] },
  })
  expect(problem.detail).not.toContain('nobody')
  // Words, and no JSON, which Gemini CLI would take for the structured result.
  expect(wrong.content).toHaveLength(1)
  expect(wrong.content[0].text).toStartWith('invalid_arguments: ')
  expect(wrong.content[0].text).toEndWith(hint)
  expect(wrong.content[0].text).not.toMatch(/[{}]/)
  const half = problemOf(await client.call('send', { to: 'nobody@', text: 'x' }))
  expect(half).toMatchObject({ code: 'invalid_arguments', details: { errors: [{ field: 'to' }] } })
  expect(half.detail).not.toContain('nobody')
  const nobody = await client.call('send', { to: 'a@im.wechat', text: 'x' })
  expect(problemOf(nobody)).toMatchObject({ code: 'not_connected' })
  expect((await failure(client.call('fly'))).message).toContain('fly')
}

/** And ends when it is cancelled. */
async function longWaitShowsLife(client: McpClient, { clock, gateway }: TestGateway) {
  const told: Told[] = []
  const stop = new AbortController()
  using asked = spyOn(gateway.inbox, 'recv')
  const ended = failure(
    client.call(
      'recv',
      { timeout: 120 },
      {
        signal: stop.signal,
        onprogress: step => {
          told.push(step)
          if (told.length === 2) stop.abort('enough')
        },
      },
    ),
  )
  await until('it waits', 30_000, () => asked.mock.calls.length > 0)
  clock.advance(3000)
  await until('a sign of life', 30_000, () => told.length > 0)
  clock.advance(3000)
  await ended
  expect(told[0]).toMatchObject({ total: 120, message: 'Receive messages' })
  expect(told[1]!.progress).toBeGreaterThan(told[0]!.progress)
  // The connection goes on.
  expect(await client.value('sessions')).toEqual([])
}

/** @param asked the questions so far: answered by a decline, a no, a yes */
async function nothingIsSentWithoutYes(client: McpClient, sandbox: TestSandbox, asked: readonly Json[]) {
  await sandbox.say('hello')
  const [message] = await client.value('recv', { timeout: 30 })
  const send = { to: message.from_user, text: 'shall I?' }
  const declined = await client.call('send', send)
  expect(problemOf(declined)).toMatchObject({ code: 'forbidden', details: { answer: 'declined' } })
  const no = await client.call('send', send)
  expect(problemOf(no)).toMatchObject({ code: 'forbidden', details: { answer: 'no' } })
  expect(await sandbox.messages({ from: 'bot' })).toEqual([])
  expect(await client.value('send', send)).toMatchObject({ status: 'accepted' })
  expect(asked).toHaveLength(3)
  expect(asked[0].message).toContain(send.to)
  expect(asked[0].message).toContain('shall I?')
  // What could not be sent anyway is not asked for.
  await client.call('send', { to: 'x@' })
  expect(asked).toHaveLength(3)
}

test.each(['stdio', 'http', 'sse'] as const)(
  'over %s what comes from outside is text and pictures alone, unless a program asks for more',
  async transport => {
    await over(
      [transport, 'sdk1'],
      async (client, { sandbox }) => {
        const listed = await client.tools()
        // About 4,400 tokens, which a model reads with each question.
        expect(Buffer.byteLength(JSON.stringify(listed))).toBeLessThanOrEqual(18_000)
        const schemas = Object.fromEntries(listed.map(one => [one.name, one.outputSchema]))
        const plain = ['recv', 'history', 'download', 'login']
        expect(tools.map(({ name }) => name).filter(name => schemas[name] === undefined)).toEqual(
          tools.map(({ name }) => name).filter(name => plain.includes(name)),
        )
        const first = await client.call('login', { timeout: 0 })
        expect(first.structuredContent).toBeUndefined()
        expect(first.content.map(({ type }: Json) => type)).toEqual(['text', 'image', 'text'])
        const [qr_url] = /http\S+/.exec(first.content[0].text)!
        await sandbox.scanAndConfirm({ qrcode: qr_url! })
        await until('it is confirmed', 30_000, async () =>
          (await client.call('login', { timeout: 5 })).content[0].text.includes('status: confirmed'),
        )
        await sandbox.media('image', picture, { name: 'cat.png' })
        const got = [
          await client.call('recv', { timeout: 30 }),
          await client.call('history'),
          await client.call('download', {
            message_id: /message_id (\d+)/.exec(texts(await client.call('history')).join())![1],
          }),
        ]
        for (const { structuredContent, content, isError } of got) {
          expect([isError ?? false, structuredContent]).toEqual([false, undefined])
          expect(content[0].text).not.toMatch(/^\s*[{[]/)
        }
        expect((await client.call('sessions')).structuredContent.result).toMatchObject([{ connected: true }])
      },
      { plain: true },
    )
  },
)

test('only the tools that were named are offered, and a wrong name is told at the start', async () => {
  await over(
    ['stdio', 'sdk1'],
    async client => {
      expect((await client.tools()).map(({ name }) => name)).toEqual(['recv', 'history'])
      expect((await failure(client.call('send', { to: 'a@im.wechat', text: 'x' }))).message).toContain('send')
      expect(client.instructions).not.toContain('send')
    },
    { config: { tools: ['history', 'recv'] } },
  )
  await over(
    ['http', '2025'],
    async client => expect((await client.tools()).map(({ name }) => name)).toEqual(['history', 'sessions']),
    { config: { tools: 'read-only' } },
  )
  for (const words of [['mcp'], ['mcp', '-t', 'http', '--port', '0'], ['openapi', '--port', '0']]) {
    const home = folderOfTest()
    const { status, stderr } = await svc([...words, '--tools', 'fly'], { home })
    expect([words, status, stderr.includes('"fly"')]).toEqual([words, 2, true])
  }
})

test('recv says where nobody can write, beside its empty result', async () => {
  await over(['stdio', '2025'], async (client, { sandbox }) => {
    const came = async () => await client.call('recv', { timeout: 0 })
    const none = { type: 'text', text: expect.stringMatching(/\blogin\b/) }
    expect(await came()).toMatchObject({ content: [none], structuredContent: { result: [] } })
    await logInOver(client, sandbox)
    expect((await came()).content).toEqual([{ type: 'text', text: expect.not.stringMatching(/\blogin\b/) }])
  })
})
