/** MCP with keys: each client sees and may use only what its key contains, until the key ends. */
import { describe, expect, spyOn, test } from 'bun:test'
import { ResourceChangeNotifier } from '../../src/mcp/announcements.ts'
import { conversationUri, mediaUri, usersUri } from '../../src/mcp/uris.ts'
import type { NewKeyInput } from '../../src/model/key.ts'
import { owner } from '../../src/model/principal.ts'
import { silentLog } from '../../src/platform/log.ts'
import { failure } from '../support/failure.ts'
import { withGateway } from '../support/gateway.ts'
import { endSecret, keyEnds } from '../support/key-ends.ts'
import { type ClientKind, connectHttp, type McpClient, mcpHere } from '../support/mcp.ts'
import { startDoor } from '../support/mcp-door.ts'
import { initialize, modernHeaders, modernMeta, openSession, post } from '../support/mcp-raw.ts'
import { until } from '../support/until.ts'

const bearer = (key: string) => ({ authorization: `Bearer ${key}` })
// biome-ignore lint/suspicious/noExplicitAny: tests read any field of an answer
type Json = any

/** A service over HTTP whose session "work" has two users, Ann and Bob; each has written. */
async function withUsers(transport: 'http' | 'sse' = 'http') {
  await using stack = new AsyncDisposableStack()
  const t = stack.use(await withGateway({ sessions: ['work'] }))
  const ann = t.bots.get('work')!.user_id
  const bob = await t.sandbox.addUser('Bob')
  const changes = new ResourceChangeNotifier({ gateway: t.gateway, log: silentLog })
  const door = stack.use(await startDoor({ gateway: t.gateway, transport, changes }))
  await t.sandbox.say('from Ann', { from: ann })
  await t.sandbox.say('from Bob', { from: bob })
  await t.until('both are known', async () => (await t.gateway.accounts.list())[0]?.user_count === 2)
  const opened = stack.move()
  let count = 0
  return {
    ...{ t, door, ann, bob },
    addKey: (input: Partial<NewKeyInput>) =>
      t.gateway.keys.add({ name: `key ${++count}`, ...input } as NewKeyInput, owner),
    connect: (key: string, kind: ClientKind = '2025') =>
      connectHttp(door.url, { kind, headers: bearer(key) }),
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  }
}

const listUris = async ({ raw }: McpClient) =>
  (await raw.listResources()).resources.map(({ uri }: { uri: string }) => uri)
const read = async ({ raw }: McpClient, uri: string): Promise<string> =>
  ((await raw.readResource({ uri })).contents[0] as { text: string }).text
const complete = async ({ raw }: McpClient, ref: Json, name: string): Promise<string[]> =>
  (await raw.complete({ ref, argument: { name, value: '' } })).completion.values
const conversationRef = { type: 'ref/resource', uri: 'svc://conversations/{session}/{user}' } as const
const numberOf = (error: unknown) => (error as { code?: unknown }).code
/** The code of the protocol's error. */
const refusal = async (work: Promise<unknown>) => numberOf(await failure(work))

/** Collects the URIs that a client is notified of, after it subscribed to them. */
async function follow({ raw, version }: McpClient, uris: string[]): Promise<string[]> {
  const heard: string[] = []
  const client = raw as Json
  if (version === '2026-07-28') {
    client.setNotificationHandler('notifications/resources/updated', ({ params }: Json) =>
      heard.push(params.uri),
    )
    await client.listen({ resourceSubscriptions: uris })
  } else {
    client.fallbackNotificationHandler = async ({ params }: Json) => void heard.push(params.uri)
    for (const uri of uris) await client.subscribeResource({ uri })
  }
  return heard
}

describe('two keys with different users', () => {
  for (const kind of ['2026', '2025', 'sdk1'] as const)
    test(`${kind}: neither sees the messages of the other`, async () => {
      await using s = await withUsers()
      const { t, ann, bob } = s
      const keys = {
        ann: await s.addKey({ can: ['reply'], users: [ann] }),
        bob: await s.addKey({ can: ['reply'], users: [bob] }),
      }
      await using first = await s.connect(keys.ann.key, kind)
      await using second = await s.connect(keys.bob.key, kind)
      for (const [client, own, foreign, text] of [
        [first, ann, bob, 'from Ann'],
        [second, bob, ann, 'from Bob'],
      ] as const) {
        const textsOf = (messages: Json[]) => messages.map(message => message.text)
        expect(textsOf((await client.value('history')).messages)).toEqual([text])
        expect(textsOf(await client.value('recv', { timeout: 0 }))).toEqual([text])
        const [session] = await client.value('sessions')
        expect(session).toMatchObject({ name: 'work', user_count: 1 })
        const uris = [
          'svc://sessions',
          'svc://inbox',
          'svc://users',
          usersUri('work'),
          conversationUri('work', own),
        ]
        expect(await listUris(client)).toEqual(uris)
        for (const uri of uris)
          expect([uri, (await read(client, uri)).includes(foreign)]).toEqual([uri, false])
        const unknown = {
          foreign: conversationUri('work', foreign),
          none: conversationUri('work', 'nobody@im.wechat'),
        }
        expect(await refusal(read(client, unknown.foreign))).toBe(await refusal(read(client, unknown.none)))
        expect(await complete(client, conversationRef, 'user')).toEqual([own])
        const sent = await client.call('send', { to: foreign, text: 'not mine' })
        const toNobody = await client.call('send', { to: 'nobody@im.wechat', text: 'not mine' })
        expect(sent.isError).toBe(true)
        expect(sent._meta['svc/problem'].code).toBe(toNobody._meta['svc/problem'].code)
      }
      const uris = ['svc://inbox', conversationUri('work', ann), conversationUri('work', bob)]
      const heard = { ann: await follow(first, uris), bob: await follow(second, uris) }
      await t.sandbox.say('again', { from: ann })
      await t.until('the first hears', () => heard.ann.length >= 2)
      await t.sandbox.say('again', { from: bob })
      await t.until('the second hears', () => heard.bob.length >= 2)
      expect(heard).toEqual({ ann: [uris[0]!, uris[1]!], bob: [uris[0]!, uris[2]!] })
      expect(await t.sandbox.messages({ from: 'bot' })).toEqual([])
    })

  test('over stdio', async () => {
    await using s = await withUsers()
    const { key } = await s.addKey({ can: ['read'], users: [s.bob] })
    await using here = await mcpHere('stdio', {
      gateway: s.t,
      by: (await s.t.gateway.keys.authenticate(key))!,
    })
    await using client = await here.connect({ kind: 'sdk1' })
    expect((await client.value('history')).messages).toMatchObject([{ text: 'from Bob' }])
    expect(await listUris(client)).not.toContain(conversationUri('work', s.ann))
  })

  test('a consumer belongs to its key, with the default of the client too', async () => {
    await using s = await withUsers()
    const { addKey, door, t } = s
    await t.gateway.inbox.begin('mine')
    for (const name of ['one', 'two']) {
      const { key } = await addKey({ name, can: ['read'] })
      await using client = await connectHttp(`${door.url}?consumer=mine`, { headers: bearer(key) })
      expect((await client.value('recv', { timeout: 0 })).length).toBeOneOf([0, 2])
      await t.sandbox.say(`to ${name}`)
      expect(await client.value('recv', { timeout: 30 })).toMatchObject([{ text: `to ${name}` }])
      expect(await client.value('recv', { timeout: 0, consumer: 'mine' })).toEqual([])
    }
    expect(await t.recv({ consumer: 'mine', timeout: 0 })).toHaveLength(4)
  })
})

describe('a client is offered what its key may use', () => {
  const prompts = ['answer_newest', 'summarise_conversation']
  const fixed = ['svc://sessions', 'svc://inbox', 'svc://users']
  const toRead = ['recv', 'download', 'history', 'sessions']
  const cases: [
    input: Partial<NewKeyInput>,
    tools: string[],
    fixed: string[],
    templates: number,
    prompts: string[],
  ][] = [
    [{ can: ['read'] }, toRead, fixed, 3, ['summarise_conversation']],
    [{ can: ['draft'] }, ['recv', 'send', 'download', 'history', 'sessions'], fixed, 3, prompts],
    [{ can: ['sessions'] }, ['sessions'], ['svc://sessions'], 0, []],
    [{ can: ['users'] }, [], ['svc://users'], 1, []],
    [{ can: ['history'] }, ['history'], ['svc://inbox'], 1, ['summarise_conversation']],
    [{ can: ['download'] }, ['download'], [], 1, []],
    [{ tools: ['recv', 'send'] }, ['recv', 'send'], [], 0, []],
    [{ tools: ['history'] }, ['history'], ['svc://inbox'], 0, []],
    [{ can: ['webhooks'] }, [], [], 0, []],
  ]
  test.each(cases)('%j', async (input, tools, readable, templates, asked) => {
    await using s = await withUsers()
    const { key } = await s.addKey(input)
    await using client = await s.connect(key)
    const { raw } = client
    const can = raw.getServerCapabilities()!
    expect(can.tools ? (await client.tools()).map(({ name }) => name) : []).toEqual(tools)
    expect(can.prompts ? (await raw.listPrompts()).prompts.map(({ name }) => name) : []).toEqual(asked)
    const listed = can.resources ? await listUris(client) : []
    expect(listed.filter(uri => fixed.includes(uri))).toEqual(readable)
    if (can.resources) expect((await raw.listResourceTemplates()).resourceTemplates).toHaveLength(templates)
    for (const uri of listed) expect(await read(client, uri)).toBeString()

    const denied = async (what: string, work: Promise<unknown>) =>
      expect([what, [-32601, -32602, -32002].includes(Number(await refusal(work)))]).toEqual([what, true])
    for (const uri of [...fixed, conversationUri('work', s.ann), usersUri('work'), mediaUri('1', 0)]) {
      const isFixed = fixed.includes(uri)
      if (isFixed ? !readable.includes(uri) : templates === 0) await denied(uri, read(client, uri))
      const isHeard = await raw.subscribeResource({ uri }).then(Boolean, () => false)
      if (isHeard) await read(client, uri)
    }
    for (const name of prompts.filter(prompt => !asked.includes(prompt))) {
      await denied(name, raw.getPrompt({ name, arguments: { session: 'work', user: s.ann } }))
      await denied(name, complete(client, { type: 'ref/prompt', name }, 'session'))
    }
    for (const name of ['recv', 'send', 'sessions', 'logout'].filter(tool => !tools.includes(tool)))
      await denied(name, client.call(name, { to: s.ann, text: 'no' }))
    const isTold = client.instructions!.includes('svc://users')
    expect(isTold).toBe(tools.includes('send') && readable.includes('svc://users'))
  })

  test('2026: nothing is announced of a resource that the key may not read', async () => {
    await using s = await withUsers()
    const { key } = await s.addKey({ can: ['history'] })
    await using client = await s.connect(key, '2026')
    const heard = await follow(client, ['svc://users', 'svc://inbox', usersUri('work')])
    await s.t.sandbox.say('again', { from: s.ann })
    await s.t.until('it is announced', () => heard.length > 0)
    await s.t.sandbox.say('and again', { from: s.ann })
    await s.t.until('it is announced again', () => heard.length > 1)
    expect(new Set(heard)).toEqual(new Set(['svc://inbox']))
  })

  test('only with both the tools of the service and those of the key', async () => {
    await using s = await withUsers()
    const { key } = await s.addKey({ can: ['read'] })
    await using here = await mcpHere('http', {
      gateway: s.t,
      config: { tools: ['send', 'history', 'logout'] },
    })
    await using client = await here.connect({ headers: bearer(key) })
    expect((await client.tools()).map(({ name }) => name)).toEqual(['history'])
  })

  test('a key that may only draft learns that a person approves, and its client is not asked', async () => {
    await using s = await withUsers()
    const toSend = { to: s.ann, text: 'hello' }
    const descriptions: string[] = []
    for (const can of ['draft', 'reply']) {
      const { key } = await s.addKey({ can: [can] })
      await using here = await mcpHere('http', { gateway: s.t, config: { confirmSend: true } })
      let questions = 0
      const answer = () => {
        questions++
        return { action: 'decline' }
      }
      await using client = await here.connect({ headers: bearer(key), answer })
      const send = (await client.tools()).find(({ name }) => name === 'send')
      descriptions.push(send.description)
      await client.call('send', toSend)
      expect([can, questions]).toEqual([can, can === 'draft' ? 0 : 1])
      expect(await s.t.gateway.outbox.list(owner)).toMatchObject([{ waits_for: 'approval' }])
    }
    expect(descriptions[0]).toStartWith(`${descriptions[1]}\n\n`)
  })
})

describe('MCP sessions belong to their key', () => {
  test('http: another key, and the owner, do not know the session; the end of one ends only that', async () => {
    await using s = await withUsers()
    const [mine, other] = [await s.addKey({ can: ['read'] }), await s.addKey({ can: ['read'] })]
    const session = await openSession(s.door.url, undefined, bearer(mine.key))
    const ping = { jsonrpc: '2.0', id: 1, method: 'ping' }
    const status = async (key: string) =>
      (await post(s.door.url, ping, { ...session, ...bearer(key) })).status
    expect([await status(other.key), await status(mine.key)]).toEqual([404, 200])
    for (const method of ['GET', 'HEAD', 'DELETE']) {
      const headers = { ...session, ...bearer(other.key), accept: 'text/event-stream' }
      expect([method, (await fetch(s.door.url, { method, headers })).status]).toEqual([method, 404])
    }
    await s.t.gateway.keys.revoke(other.id, owner)
    expect([await status(other.key), await status(mine.key)]).toEqual([401, 200])
    // Who stole a secret goes on in no session after the rotation, and what was opened before ends with it.
    const next = await s.t.gateway.keys.rotate(mine.id, 0, owner)
    expect([await status(mine.key), await status(next.key)]).toEqual([401, 404])
  })

  test.each(keyEnds)('sse: only its key posts to a stream (%s)', async way => {
    await using s = await withUsers('sse')
    const [mine, other] = [await s.addKey({ can: ['read'] }), await s.addKey({ can: ['read'] })]
    const stream = await fetch(s.door.url, { headers: bearer(mine.key) })
    const reader = stream.body!.pipeThrough(new TextDecoderStream()).getReader()
    const [, path] = /data: (\S+)/.exec((await reader.read()).value!)!
    const status = async (key: string) =>
      (await post(new URL(path!, s.door.url).href, initialize(), bearer(key))).status
    expect([await status(other.key), await status(mine.key)]).toEqual([404, 202])
    await endSecret(way, s.t.gateway.keys, mine.id, s.t.clock)
    await until('the stream ends', 5000, async () => (await reader.read()).done)
    expect(await status(mine.key)).toBe(401)
  })

  for (const kind of ['2026', '2025', 'sdk1'] as const)
    test.each(keyEnds)(
      `${kind}: a key that ends takes its waiting calls and its subscriptions with it (%s)`,
      async way => {
        await using s = await withUsers()
        const { id, key } = await s.addKey({ can: ['read'] })
        const recv = spyOn(s.t.gateway.inbox, 'recv')
        await using client = await s.connect(key, kind)
        await client.value('recv', { timeout: 0 })
        const heard = await follow(client, ['svc://inbox'])
        const waiting = client.call('recv', { timeout: 60 })
        await s.t.sandbox.say('before', { from: s.ann })
        expect((await waiting).content[0].text).toContain('before')
        await s.t.until('it is announced', () => heard.length > 0)
        const stopped = client.call('recv', { timeout: 60 })
        await until('it waits', 5000, () => recv.mock.calls.length === 3)
        await endSecret(way, s.t.gateway.keys, id, s.t.clock)
        expect((await stopped)._meta['svc/problem']).toMatchObject({ code: 'unauthorized' })
        const count = heard.length
        await s.t.sandbox.say('after', { from: s.ann })
        await s.t.recv({ consumer: 'default', timeout: 30 })
        expect(heard).toHaveLength(count)
        expect(await failure(client.call('recv', { timeout: 0 }))).toBeInstanceOf(Error)
      },
    )

  test.each(keyEnds)('the streams of a key that ended are closed (%s)', async way => {
    await using s = await withUsers()
    const { id, key } = await s.addKey({ can: ['read'] })
    const session = await openSession(s.door.url, undefined, bearer(key))
    const legacy = await fetch(s.door.url, {
      headers: { ...session, ...bearer(key), accept: 'text/event-stream' },
    })
    const listen = {
      jsonrpc: '2.0',
      id: 1,
      method: 'subscriptions/listen',
      params: { _meta: modernMeta(), notifications: { resourceSubscriptions: ['svc://inbox'] } },
    }
    const headers = { ...modernHeaders(''), 'mcp-method': 'subscriptions/listen', 'mcp-name': '' }
    const modern = await post(s.door.url, listen, { ...headers, ...bearer(key) })
    expect([legacy.status, modern.status]).toEqual([200, 200])
    const ended = Promise.all([legacy.text(), modern.text()])
    await endSecret(way, s.t.gateway.keys, id, s.t.clock)
    await ended
  })

  test('streams and media count for the limits of their key', async () => {
    await using s = await withUsers()
    const { t } = s
    await t.sandbox.media('file', new Uint8Array(1000), { name: 'a.bin', from: s.ann })
    const message = await t.until(
      'the file is here',
      async () => (await t.gateway.history.page({ msg_type: 'FILE', limit: 1, offset: 0 })).messages[0],
    )
    const { key } = await s.addKey({ can: ['read'], limits: { open: 1, bytes_per_day: 1500 } })
    const session = await openSession(s.door.url, undefined, bearer(key))
    const open = async () =>
      fetch(s.door.url, { headers: { ...session, ...bearer(key), accept: 'text/event-stream' } })
    const stream = await open()
    expect([stream.status, (await open()).status]).toEqual([200, 429])
    await stream.body!.cancel()
    await until('the stream is gone', 5000, async () => (await open()).status === 200)

    await using client = await s.connect(key, '2026')
    const uri = mediaUri(message.message_id, 0)
    expect((await client.raw.readResource({ uri })).contents).toHaveLength(1)
    expect(await refusal(client.raw.readResource({ uri }))).toBe(-32603)
  })
})
