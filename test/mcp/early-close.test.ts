/**
 * What shows that an answer was read, at every door: over MCP a sign of life after it, elsewhere that it was written. Many
 * clients close their connection as soon as they have it.
 */
import { describe, expect, test } from 'bun:test'
import { Agent, request } from 'node:http'
import { connect } from 'node:net'
import { PassThrough } from 'node:stream'
import { text } from 'node:stream/consumers'
import { Svc } from '../../src/index.ts'
import { serveMcpStdio } from '../../src/mcp/stdio.ts'
import { stdio } from '../../src/model/principal.ts'
import { withGateway } from '../support/gateway.ts'
import { upstreamFlags } from '../support/mcp.ts'
import { sharedOver, startDoor } from '../support/mcp-door.ts'
import { initialize, modernHeaders, modernMeta, openSession, post } from '../support/mcp-raw.ts'
import { MemoryGateway } from '../support/memory-gateway.ts'
import { startRest } from '../support/rest.ts'
import { libraryStoreOf, storeVariablesOf } from '../support/shared-store.ts'
import { svcProgram } from '../support/svc-program.ts'
import { until } from '../support/until.ts'

/** How often each is tried: what depends on the order of two events shows in one of some. */
const times = 10

const recv = (id = 1, timeout = 0) => ({
  jsonrpc: '2.0',
  id,
  method: 'tools/call',
  params: { name: 'recv', arguments: { timeout } },
})

interface Asked {
  readonly method?: string
  readonly body?: object
  readonly headers?: Record<string, string>
}

/** Asks on a bare socket, and closes it in the very event that brought the end of `awaited`. */
function readAndClose(
  url: string,
  awaited: string,
  { method = 'POST', body, headers = {} }: Asked,
): Promise<void> {
  const { port, pathname, search, host } = new URL(url)
  const sent = body ? JSON.stringify(body) : ''
  const head = [
    `${method} ${pathname}${search} HTTP/1.1`,
    `host: ${host}`,
    'content-type: application/json',
    'accept: application/json, text/event-stream',
    `content-length: ${Buffer.byteLength(sent)}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
  ]
  return new Promise((resolve, reject) => {
    let text = ''
    const socket = connect(Number(port), '127.0.0.1')
    socket.on('connect', () => socket.write(`${head.join('\r\n')}\r\n\r\n${sent}`))
    socket.on('data', chunk => {
      text += chunk
      if (text.includes(awaited)) socket.destroy()
    })
    socket.on('close', () => (text.includes(awaited) ? resolve() : reject(new Error(text))))
    socket.on('error', reject)
  })
}

interface Pipes {
  input: PassThrough
  output: PassThrough
}

/** Asks again and again on one connection. */
function askOn(url: string) {
  const { port, pathname, host } = new URL(url)
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  return {
    ask: ({ body, headers = {} }: Asked) =>
      new Promise<string>((resolve, reject) => {
        const sent = JSON.stringify(body)
        const own = {
          ...{ host, 'content-type': 'application/json', 'content-length': Buffer.byteLength(sent) },
          ...{ accept: 'application/json, text/event-stream', ...headers },
        }
        const asked = request({ agent, port, path: pathname, method: 'POST', headers: own }, answer => {
          text(answer).then(resolve, reject)
        })
        asked.on('error', reject)
        asked.end(sent)
      }),
    async [Symbol.asyncDispose]() {
      agent.destroy()
    },
  }
}

/** Opens a stream of 2024, sends messages, and closes it in the very event that brought the end of `awaited`. */
async function readOverSse(
  url: string,
  messages: readonly object[],
  awaited: string,
  whenRead?: (endpoint: string) => Promise<void>,
): Promise<void> {
  const { port, host } = new URL(url)
  const stream = connect(Number(port))
  const gone = Promise.withResolvers<void>()
  const found = Promise.withResolvers<string>()
  const read = Promise.withResolvers<void>()
  let said = ''
  stream.on('data', chunk => {
    said += chunk
    const endpoint = /data: (\/messages\S+)/.exec(said)?.[1]
    if (endpoint) found.resolve(new URL(endpoint, url).href)
    if (!said.includes(awaited)) return
    read.resolve()
    if (!whenRead) stream.destroy()
  })
  stream.on('close', () => gone.resolve())
  stream.write(`GET /sse HTTP/1.1\r\nhost: ${host}\r\n\r\n`)
  const endpoint = await found.promise
  for (const message of messages) await post(endpoint, message)
  await read.promise
  await whenRead?.(endpoint)
  stream.destroy()
  await gone.promise
}

const settled = ({ settled }: MemoryGateway, count: number) =>
  until('it is settled', 30_000, () => settled.length >= count)

describe('an answer that was written', () => {
  test('REST: it is read', async () => {
    await using rest = await startRest()
    for (let at = 1; at <= times; at++) {
      rest.gateway.say(`message ${at}.`)
      await readAndClose(`${rest.url}/tools/default/recv`, `message ${at}.`, { body: { timeout: 0 } })
      await settled(rest.gateway, at)
    }
    expect(rest.gateway.settled).toEqual(Array(times).fill(true))
  })

  // Without a session, the connection is all that shows who sends the next request.
  test.each([
    ['2025-11-25, no session', {}, {}],
    ['2026-07-28', { _meta: modernMeta() }, modernHeaders('recv')],
  ])(
    'MCP over HTTP, %s: the next request on the same connection shows it',
    async (_version, more, headers) => {
      const call = recv()
      const body = { ...call, params: { ...call.params, ...more } }
      await using impatient = await startDoor({ confirmMs: 100 })
      impatient.gateway.say('unread.')
      await readAndClose(impatient.url, 'unread.', { body, headers })
      await settled(impatient.gateway, 1)
      expect(impatient.gateway.settled).toEqual([false])
      await using door = await startDoor()
      await using reader = askOn(door.url)
      door.gateway.say('read.')
      expect(await reader.ask({ body, headers })).toContain('read.')
      await until('it is written', 30_000, () => door.gateway.handedOut.length > 0)
      // One on another connection may be from anybody.
      await using other = askOn(door.url)
      await other.ask({
        body: { ...body, method: 'ping', params: more },
        headers: { ...headers, 'mcp-method': 'ping' },
      })
      expect(door.gateway.settled).toEqual([])
      expect(await reader.ask({ body, headers })).not.toContain('read.')
      expect(door.gateway.settled).toEqual([true])
    },
  )

  /** A session with an answer that was written, and read by a client that hung up at once. */
  async function answered() {
    const door = await startDoor<MemoryGateway>()
    const headers = await openSession(door.url)
    door.gateway.say('hello.')
    await readAndClose(door.url, 'hello.', { body: recv(7), headers })
    await until('it is written', 30_000, () => door.gateway.handedOut.length > 0)
    return { ...door, headers }
  }
  type Answered = Awaited<ReturnType<typeof answered>>
  const notice = (method: string, params = {}) => ({ jsonrpc: '2.0', method, params })
  const openStream = (door: Answered, more: Record<string, string> = {}) =>
    fetch(door.url, { headers: { ...door.headers, accept: 'text/event-stream', ...more } })

  test.each<[sign: string, send: (door: Answered) => Promise<Response>]>([
    ['a request', ({ url, headers }) => post(url, { jsonrpc: '2.0', id: 'p', method: 'ping' }, headers)],
    ['a notice', ({ url, headers }) => post(url, notice('notifications/roots/list_changed'), headers)],
    [
      'the cancellation of another call',
      ({ url, headers }) => post(url, notice('notifications/cancelled', { requestId: 6 }), headers),
    ],
    ['the stream of the session', door => openStream(door)],
    ['its end', ({ url, headers }) => fetch(url, { method: 'DELETE', headers })],
  ])('MCP over HTTP, in a session: %s shows it', async (_sign, send) => {
    await using door = await answered()
    expect(door.gateway.settled).toEqual([])
    const { body } = await send(door)
    await settled(door.gateway, 1)
    expect(door.gateway.settled).toEqual([true])
    await body?.cancel()
  })

  test('MCP over HTTP, in a session: a stream that is still open later shows it, but not through a proxy', async () => {
    for (const [header, isRead] of [
      ['x-other', true],
      ['x-forwarded-for', false],
    ] as const) {
      await using door = await startDoor({ confirmMs: 300 })
      const headers = await openSession(door.url)
      const proxied = { ...headers, [header]: '192.0.2.1' }
      const stream = await fetch(door.url, { headers: { ...proxied, accept: 'text/event-stream' } })
      door.gateway.say('hello.')
      await readAndClose(door.url, 'hello.', { body: recv(), headers: proxied })
      await settled(door.gateway, 1)
      expect([header, door.gateway.settled]).toEqual([header, [isRead]])
      await stream.body!.cancel()
    }
  })

  test('MCP over HTTP, in a session: silence shows nothing, nor does a call that is taken back or a stream that is resumed', async () => {
    await using impatient = await startDoor({ confirmMs: 100 })
    impatient.gateway.say('hello.')
    await readAndClose(impatient.url, 'hello.', { body: recv(), headers: await openSession(impatient.url) })
    await settled(impatient.gateway, 1)
    expect(impatient.gateway.settled).toEqual([false])
    await using door = await startDoor()
    const headers = { ...(await openSession(door.url)), 'mcp-protocol-version': '2025-11-25' }
    door.gateway.say('hello.')
    const answer = await (await post(door.url, recv(7), headers)).text()
    await until('it is written', 30_000, () => door.gateway.handedOut.length > 0)
    await post(door.url, notice('notifications/cancelled', { requestId: 7 }), headers)
    const id = /^id: (\S+)/m.exec(answer)![1]!
    const resumed = { ...headers, accept: 'text/event-stream', 'last-event-id': id }
    await (await fetch(door.url, { headers: resumed })).body!.cancel()
    expect(door.gateway.settled).toEqual([])
    await door.door.close(5000)
    expect(door.gateway.settled).toEqual([false])
  })

  test.each(['http', 'sse', 'stdio'] as const)(
    'MCP over %s: what was sent before the answer shows nothing',
    async door => {
      const gateway = new MemoryGateway()
      const history = { jsonrpc: '2.0', id: 2, method: 'tools/call', params: { name: 'history' } }
      const sent = [recv(1, 60), history]
      /** There is something to answer once all was sent. */
      const say = async () => {
        await until('all was sent', 30_000, () => gateway.asked.length === sent.length)
        gateway.say('hello.')
      }
      if (door === 'stdio') {
        const [input, output] = [new PassThrough(), new PassThrough()]
        const server = serveMcpStdio(
          { ...sharedOver(gateway), by: stdio, local: true },
          { input, output },
          200,
        )
        for (const message of [initialize(), ...sent]) input.write(`${JSON.stringify(message)}\n`)
        await say()
        await until('it is written', 30_000, () => gateway.handedOut.length > 0)
        output.destroy()
        input.end()
        await server.ended
        expect(gateway.settled).toEqual([false])
        return
      }
      await using service = await startDoor<MemoryGateway>({ gateway, transport: door, confirmMs: 100 })
      if (door === 'http') {
        const headers = await openSession(service.url)
        const read = sent.map(async body => readAndClose(service.url, '"jsonrpc"', { body, headers }))
        await Promise.all([...read, say()])
      } else
        await Promise.all([readOverSse(service.url, [initialize('2024-11-05'), ...sent], 'hello.'), say()])
      await settled(gateway, 1)
      expect(gateway.settled).toEqual([false])
    },
  )

  test('MCP over HTTP: a service that stops waits for nobody', async () => {
    await using door = await answered()
    await door.door.close(5000)
    expect(door.gateway.settled).toEqual([false])
  })

  test('MCP over SSE: the next request shows it, and a stream that is still open later', async () => {
    await using door = await startDoor({ transport: 'sse', confirmMs: 300 })
    door.gateway.say('first.')
    await readOverSse(door.url, [initialize('2024-11-05'), recv(1)], 'first.', async endpoint => {
      await until('it is written', 30_000, () => door.gateway.handedOut.length === 1)
      expect(door.gateway.settled).toEqual([])
      await post(endpoint, { jsonrpc: '2.0', id: 'p', method: 'ping' })
      await settled(door.gateway, 1)
      door.gateway.say('second.')
      await post(endpoint, recv(2))
      await settled(door.gateway, 2)
    })
    expect(door.gateway.settled).toEqual([true, true])
  })

  test.each<
    [end: string, isRead: boolean, ms: number, act: (streams: Pipes, close: () => Promise<void>) => unknown]
  >([
    ['its next line', true, 60_000, ({ input }) => input.write('{"jsonrpc":"2.0","id":9,"method":"ping"}\n')],
    ['the end of its input', true, 60_000, ({ input }) => input.end()],
    ['a minute in which it is there', true, 100, () => {}],
    [
      'the cancellation of the call, and its death',
      false,
      60_000,
      ({ input, output }) => {
        input.write('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}\n')
        output.destroy()
        input.end()
      },
    ],
    [
      'its death, where the output is noticed later',
      false,
      60_000,
      ({ input, output }) => {
        input.end()
        setTimeout(() => output.destroy(), 20)
      },
    ],
    ['a stop of svc', false, 60_000, (_pipes, close) => close()],
  ])('MCP over stdio, after %s: read is %p', async (_end, isRead, confirmMs, act) => {
    const gateway = new MemoryGateway()
    gateway.say('hello.')
    const [input, output] = [new PassThrough(), new PassThrough()]
    const shared = { ...sharedOver(gateway), by: stdio, local: true }
    const server = serveMcpStdio(shared, { input, output }, confirmMs)
    output.resume()
    for (const message of [initialize(), recv()]) input.write(`${JSON.stringify(message)}\n`)
    await until('it is written', 30_000, () => gateway.handedOut.length > 0)
    expect(gateway.settled).toEqual([])
    await act({ input, output }, () => server.close())
    await settled(gateway, 1)
    expect(gateway.settled).toEqual([isRead])
    await server.close()
  })

  test('the library and a pipe of the command line: it is read', async () => {
    await using t = await withGateway()
    for (const text of ['one', 'two', 'three']) await t.sandbox.say(text)
    await t.until('all are stored', async () => (await t.gateway.inbox.getHead()) === 3)
    await t.gateway.close()
    const upstream = { upstreamUrl: t.sandbox.url, cdnUrl: t.sandbox.cdnUrl }
    const options = { basePath: t.dir, ...(await libraryStoreOf(t.dir)), ...upstream }
    const svc = await Svc.open(options)
    const [first] = await svc.recv({ timeout: 0, limit: 1 })
    await svc.close()
    const args = ['recv', '--json', '-c', 'default', '-n', '1', '-d', t.dir, ...upstreamFlags(t.sandbox)]
    const child = Bun.spawn([...svcProgram, ...args], {
      env: { PATH: process.env.PATH ?? '', HOME: t.dir, ...(await storeVariablesOf(t.dir)) },
      stdout: 'pipe',
      stderr: 'pipe',
    })
    const reader = child.stdout.getReader()
    const { value } = await reader.read()
    await reader.cancel()
    expect(await child.exited).toBe(0)
    await using again = await Svc.open(options)
    const [third] = await again.recv({ timeout: 0 })
    const second = JSON.parse(new TextDecoder().decode(value))[0]
    expect([first, second, third]).toMatchObject([{ text: 'one' }, { text: 'two' }, { text: 'three' }])
    expect([second, third].map(({ redelivered }) => redelivered)).toEqual([undefined, undefined])
  })
})
