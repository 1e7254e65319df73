import { describe, expect, test } from 'bun:test'
import { once } from 'node:events'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { startAwakeTimer } from '../../src/platform/clock.ts'
import { folderOfTest } from '../support/folder.ts'
import { withGateway } from '../support/gateway.ts'
import { connectHttp, type McpHere, mcpHere, startMcp, upstreamFlags } from '../support/mcp.ts'
import { initialize, modernHeaders, modernMeta, openSession, post } from '../support/mcp-raw.ts'
import { raw } from '../support/rest.ts'
import { type TestSandbox, withSandbox } from '../support/sandbox.ts'
import { storeVariablesOf } from '../support/shared-store.ts'
import { svcProgram } from '../support/svc-program.ts'
import { until } from '../support/until.ts'

// biome-ignore lint/suspicious/noExplicitAny: answers are looked into freely by the tests
type Json = any

const recv = (id: number, timeout: number) => ({
  ...{ jsonrpc: '2.0', id, method: 'tools/call' },
  params: { name: 'recv', arguments: { timeout } },
})

/**
 * Asks and hangs up as soon as the answer has begun as told. With a bare socket, since a fetch that is aborted closes its
 * connection some time later. @returns what had come
 */
function leave(
  url: string,
  begun: RegExp,
  request: { method?: string; body?: object; headers?: Record<string, string> } = {},
): Promise<string> {
  const { port, pathname, host } = new URL(url)
  const { method = 'POST', headers = {} } = request
  const body = request.body ? JSON.stringify(request.body) : ''
  const lines = [
    `${method} ${pathname} HTTP/1.1`,
    `host: ${host}`,
    'content-type: application/json',
    'accept: application/json, text/event-stream',
    `content-length: ${Buffer.byteLength(body)}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
  ]
  return raw({ port: Number(port) }, `${lines.join('\r\n')}\r\n\r\n${body}`, text => begun.test(text))
}

/** The events of a stream, as they come. */
async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<{ id?: string; data: string }> {
  let text = ''
  const decoder = new TextDecoder()
  for await (const chunk of body) {
    text += decoder.decode(chunk, { stream: true })
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const lines = text.slice(0, end).split('\n')
      text = text.slice(end + 2)
      const field = (name: string) => lines.find(line => line.startsWith(`${name}: `))?.slice(name.length + 2)
      const id = field('id')
      const data = field('data')
      // Comments only keep the stream alive.
      if (id !== undefined || data !== undefined) yield { ...(id !== undefined && { id }), data: data ?? '' }
    }
  }
}

/** A session of a client that says what it speaks. */
async function opened(url: string, version = '2025-11-25'): Promise<Record<string, string>> {
  const headers = { ...(await openSession(url, version)), 'mcp-protocol-version': version }
  await post(url, { jsonrpc: '2.0', method: 'notifications/initialized' }, headers)
  return headers
}

/** Asks for what was sent after that event; false where the stream counts as open. */
async function comeBack(url: string, headers: Record<string, string>, id: string): Promise<Response | false> {
  const response = await fetch(url, {
    headers: { ...headers, accept: 'text/event-stream', 'last-event-id': id },
  })
  return response.status === 200 && response
}

async function withService(
  transport: 'http' | 'sse',
  use: (service: McpHere, sandbox: TestSandbox) => Promise<void>,
  after?: typeof startAwakeTimer,
): Promise<void> {
  await using service = await mcpHere(transport, { sessions: ['default'], ...(after && { after }) })
  await use(service, service.t.sandbox)
}

/** The time in which a client may come back: it passes when the test says so. */
function untilTold() {
  const begun = Promise.withResolvers<{ ms: number; over: () => void }>()
  const after: typeof startAwakeTimer = (ms, over) => {
    begun.resolve({ ms, over })
    return { restart() {}, stop() {}, unref() {} }
  }
  return { after, begun: begun.promise }
}

/** A data directory with an account that is logged in. */
async function withSession(sandbox: TestSandbox, dir: string): Promise<void> {
  await using _opened = await withGateway({ sandbox, dir, start: false })
}

/** What the next reader of the default position gets within a while. */
async function next(url: string, timeout = 30): Promise<Json[]> {
  await using client = await connectHttp(url, { kind: url.endsWith('/sse') ? 'sdk1' : '2025' })
  return await client.value('recv', { timeout })
}

describe('a message counts as read only when its answer reached the client', () => {
  test('http 2025: an answer that a client may resume is gone when a person was erased', async () => {
    await withService('http', async ({ t, url }, sandbox) => {
      await sandbox.say('hush-hush')
      const user = await t.until(
        'it is stored',
        async () => (await t.gateway.history.page({ limit: 1, offset: 0 })).messages[0]?.from_user,
      )
      const headers = await opened(url)
      const body = { ...{ jsonrpc: '2.0', id: 1 }, method: 'tools/call', params: { name: 'history' } }
      const answer = await leave(url, /hush-hush/, { body, headers })
      const id = /^id: (\S+)\n/m.exec(answer)![1]!
      const resumed = await comeBack(url, headers, id)
      expect(resumed && (await resumed.text())).toContain('hush-hush')
      await t.gateway.people.forget(user)
      const again = await comeBack(url, headers, id)
      expect(again && (await again.text())).toBe(false)
    })
  })

  test('http 2025: who leaves and does not come back gets nothing; the next reader does', async () => {
    const { after, begun } = untilTold()
    await withService(
      'http',
      async ({ t, url }, sandbox) => {
        const headers = await opened(url)
        const began = /^id: (\S+)\n/m
        const id = began.exec(await leave(url, began, { body: recv(1, 60), headers }))![1]!
        // Its call still waits for the client to come back, and takes the message.
        await sandbox.say('anybody there?')
        const { ms, over } = await begun
        // A request that asks for the rest but takes no stream is refused, and has read nothing.
        const wrong = { ...headers, accept: 'application/json', 'last-event-id': id }
        const refused = await fetch(url, { headers: wrong })
        expect([refused.status, await refused.text()]).toEqual([406, expect.any(String)])
        // Clients are told to come back after half a second.
        expect(ms).toBeGreaterThanOrEqual(1000)
        await t.until(
          'it has come',
          async () => (await t.gateway.history.page({ limit: 1, offset: 0 })).total === 1,
        )
        await t.until(
          'it is taken',
          async () =>
            (await t.gateway.inbox.getHead()) > 0 &&
            (await t.gateway.inbox.countWaiting({ consumer: 'default' }, 1)) === 0,
        )
        over()
        // It is marked if its answer was written before the time was over, which may be before or after it is taken.
        expect(await next(url)).toMatchObject([{ text: 'anybody there?' }])
        expect(await next(url, 0)).toEqual([])
      },
      after,
    )
  })

  test('http 2025: who comes back in time reads on, and that counts', async () => {
    const { after } = untilTold()
    await withService(
      'http',
      async ({ url }, sandbox) => {
        const headers = await opened(url)
        const begun = /^id: (\S+)\n/m
        const id = begun.exec(await leave(url, begun, { body: recv(1, 60), headers }))![1]!
        await sandbox.say('still here')
        // As soon as the server has seen the broken stream it gives another one; until then there is a conflict.
        const resumed = await until('it goes on', 30_000, () => comeBack(url, headers, id))
        const answers: Json[] = []
        for await (const { data } of events(resumed.body!)) if (data) answers.push(JSON.parse(data))
        expect(answers).toMatchObject([
          { id: 1, result: { content: [{ text: expect.stringContaining('> still here\n') }] } },
        ])
        expect(await next(url, 0)).toEqual([])
      },
      after,
    )
  })

  test('http 2025: who came back while svc stood still has it, and gets it once', async () => {
    const left = Promise.withResolvers<number>()
    const after: typeof startAwakeTimer = (ms, over) => {
      left.resolve(ms / 10)
      return startAwakeTimer(ms / 10, over)
    }
    await withService(
      'http',
      async ({ url }, sandbox) => {
        const headers = await opened(url)
        const begun = /^id: (\S+)\n/m
        const id = begun.exec(await leave(url, begun, { body: recv(1, 60), headers }))![1]!
        await sandbox.say('still here')
        const { port, pathname, host } = new URL(url)
        const coming = connect(Number(port), '127.0.0.1')
        await once(coming, 'connect')
        const withinMs = await left.promise
        coming.write(
          [
            ...[
              `GET ${pathname} HTTP/1.1`,
              `host: ${host}`,
              'accept: text/event-stream',
              'connection: close',
            ],
            ...Object.entries({ ...headers, 'last-event-id': id }).map(
              ([name, value]) => `${name}: ${value}`,
            ),
            '\r\n',
          ].join('\r\n'),
        )
        // Nothing in this process goes on until the time is over.
        Bun.sleepSync(withinMs * 1.5)
        expect(await text(coming)).toContain('still here')
        expect(await next(url, 0)).toEqual([])
      },
      after,
    )
  })

  test.each(['2025-06-18', '2024-11-05'])(
    'http %s: a revision that cannot come back is let go at once',
    async version => {
      const { after } = untilTold()
      await withService(
        'http',
        async ({ url }, sandbox) => {
          const headers = await opened(url, version)
          await leave(url, /^: open/m, { body: recv(1, 60), headers })
          await sandbox.say('hello')
          expect(await next(url)).toMatchObject([{ text: 'hello' }])
        },
        after,
      )
    },
  )

  test('http 2025: a session goes on after its process, by the same id, and is given what was not confirmed', async () => {
    await using sandbox = await withSandbox()
    const dir = folderOfTest()
    await withSession(sandbox, dir)
    const { headers, id } = await (async () => {
      await using service = await startMcp('http', { sandbox, dir })
      const headers = await opened(service.url)
      const begun = /^id: (\S+)\n/m
      const id = begun.exec(await leave(service.url, begun, { body: recv(1, 60), headers }))![1]!
      await sandbox.say('to the lost session')
      await service.kill('SIGKILL')
      return { headers, id }
    })()
    await using again = await mcpHere('http', { sandbox, dir })
    // Nobody answers what the process before was asked.
    const resumed = await fetch(again.url, {
      headers: { ...headers, accept: 'text/event-stream', 'last-event-id': id },
    })
    expect(resumed.status).toBe(400)
    const [answer, news] = await Promise.all([
      post(again.url, recv(3, 60), headers),
      fetch(again.url, { headers: { ...headers, accept: 'text/event-stream' } }),
    ])
    expect([answer.status, news.status]).toEqual([200, 200])
    expect(await answer.text()).toContain('to the lost session')
    expect(answer.headers.get('mcp-session-id')).toBe(headers['mcp-session-id']!)
    await news.body!.cancel()
    // One of another data directory is nobody's; a client that begins anew with it gets a session.
    await using other = await mcpHere('http', { sandbox })
    expect((await post(other.url, recv(4, 0), headers)).status).toBe(404)
    expect((await post(other.url, initialize(), headers)).headers.get('mcp-session-id')).toBeTruthy()
  })

  test('http 2026: who leaves gets nothing', async () => {
    await withService('http', async ({ url }, sandbox) => {
      const call = recv(1, 60)
      const body = { ...call, params: { ...call.params, _meta: modernMeta() } }
      const headers = modernHeaders('recv')
      // The stream begins before the call is over.
      await leave(url, /^: open/m, { body, headers })
      await sandbox.say('hello')
      expect(await next(url)).toMatchObject([{ text: 'hello' }])
    })
  })

  test('sse: who closes the stream gets nothing', async () => {
    await withService('sse', async ({ url }, sandbox) => {
      const { body } = await fetch(url)
      const stream = events(body!)
      const endpoint = new URL((await stream.next()).value.data, url).href
      for (const message of [
        initialize('2024-11-05'),
        { jsonrpc: '2.0', method: 'notifications/initialized' },
        recv(1, 60),
        { jsonrpc: '2.0', id: 2, method: 'ping' },
      ])
        expect((await post(endpoint, message)).status).toBe(202)
      for (let id: unknown; id !== 2; ) ({ id } = JSON.parse((await stream.next()).value.data))
      await stream.return(undefined)
      // Its address is gone once the service has seen that.
      const ping = { jsonrpc: '2.0', id: 3, method: 'ping' }
      await until('it is gone', 30_000, async () => (await post(endpoint, ping)).status === 404)
      await sandbox.say('hello')
      expect(await next(url)).toMatchObject([{ text: 'hello' }])
    })
  })

  test('stdio: who does not read any more gets nothing', async () => {
    await using sandbox = await withSandbox()
    const dir = folderOfTest()
    await withSession(sandbox, dir)
    const child = Bun.spawn([...svcProgram, 'mcp', '-d', dir, ...upstreamFlags(sandbox)], {
      env: { PATH: process.env.PATH ?? '', HOME: dir, ...(await storeVariablesOf(dir)) },
      stdin: 'pipe',
      stdout: 'pipe',
      stderr: 'pipe',
    })
    for (const message of [
      initialize('2025-11-25'),
      { jsonrpc: '2.0', method: 'notifications/initialized' },
      recv(1, 60),
      { jsonrpc: '2.0', id: 2, method: 'ping' },
    ])
      child.stdin.write(`${JSON.stringify(message)}\n`)
    await child.stdin.flush()
    const reader = child.stdout.getReader()
    for (let text = ''; !text.includes('"id":2'); )
      text += new TextDecoder().decode((await reader.read()).value)
    // Nobody reads the output any more, but the input stays open.
    await reader.cancel()
    await sandbox.say('hello')
    expect([await child.exited, await new Response(child.stderr).text()]).toEqual([0, expect.any(String)])
    await using here = await mcpHere('stdio', { sandbox, dir })
    await using client = await here.connect()
    // It is marked if the answer met the closed output, and not if the announcement before it did.
    expect(await client.value('recv', { timeout: 30 })).toMatchObject([{ text: 'hello' }])
    expect(await client.value('recv', { timeout: 0 })).toEqual([])
  })
})
