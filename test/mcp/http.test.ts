import { describe, expect, spyOn, test } from 'bun:test'
import { McpServer } from '@modelcontextprotocol/server'
import type { McpHttpOptions } from '../../src/mcp/http.ts'
import { createMcpServer } from '../../src/mcp/server.ts'
import { owner } from '../../src/model/principal.ts'
import { shares } from '../../src/model/shares.ts'
import { tools } from '../../src/operations/tools.ts'
import { failure } from '../support/failure.ts'
import { connectHttp, startMcp } from '../support/mcp.ts'
import { startDoor } from '../support/mcp-door.ts'
import { initialize, openSession, post } from '../support/mcp-raw.ts'
import { withSandbox } from '../support/sandbox.ts'
import { stopwatch } from '../support/stopwatch.ts'
import { until } from '../support/until.ts'

describe('who may call', () => {
  test.each(['http', 'sse'] as const)('%s: with a token, nobody without it', async transport => {
    await using door = await startDoor({ config: { token: 's3cret' }, transport })
    for (const authorization of ['', 'Bearer', 'Bearer wrong', 's3cret']) {
      const response = await fetch(door.url, { headers: authorization ? { authorization } : {} })
      expect(response.status).toBe(401)
      expect(response.headers.get('www-authenticate')).toStartWith('Bearer')
      expect(await response.json()).toMatchObject({ code: 'unauthorized' })
    }
    expect((await post(door.url, initialize())).status).toBe(401)
    const headers = { authorization: 'Bearer s3cret' }
    await using client = await connectHttp(door.url, { kind: 'sdk1', headers })
    expect(await client.tools()).toHaveLength(tools.length)
  })

  test.each(['http', 'sse'] as const)(
    '%s: a scheme with nothing behind it is no wrong token',
    async transport => {
      await using door = await startDoor({ transport })
      for (const authorization of ['Bearer', 'basic ']) {
        await using client = await connectHttp(door.url, { kind: 'sdk1', headers: { authorization } })
        expect(await client.tools()).toHaveLength(tools.length)
      }
    },
  )

  // Which headers are foreign is told by test/server/auth.test.ts.
  test.each(['http', 'sse'] as const)('%s: no foreign page', async transport => {
    await using door = await startDoor({ transport })
    const response = await post(door.url, initialize(), { origin: 'https://evil.test' })
    expect([response.status, await response.json()]).toMatchObject([403, { code: 'forbidden' }])
  })

  test('an address open to others is not served without a token', async () => {
    const { message } = await failure(startDoor({ config: { host: '0.0.0.0' } }))
    expect(message).toContain('0.0.0.0')
  })
})

describe('what is no message', () => {
  test('gets the status and the error of its fault', async () => {
    await using door = await startDoor()
    const refusal = async (response: Response) => [response.status, (await response.json()).error.code]
    expect(await refusal(await post(door.url, '{'))).toEqual([400, -32700])
    const { error } = await (await post(door.url, '{"jsonrpc":\n"2.0",}')).json()
    expect(error).toMatchObject({ code: -32700, data: { line: 2, column: 7 } })
    expect(await refusal(await post(door.url, initialize(), { 'content-type': 'text/plain' }))).toEqual([
      415, -32000,
    ])
    const large = await post(door.url, `"${'x'.repeat(25 * 1024 * 1024)}"`)
    expect(large.status).toBe(413)
    expect((await large.json()).error).toMatchObject({
      code: -32000,
      message: expect.stringContaining(' /media '),
    })
    const lost = { 'mcp-session-id': 'gone' }
    expect(await refusal(await post(door.url, { jsonrpc: '2.0', id: 1, method: 'ping' }, lost))).toEqual([
      404, -32001,
    ])
    expect(await refusal(await fetch(door.url, { headers: lost }))).toEqual([404, -32001])
    const session = await openSession(door.url)
    for (const body of ['null', '5', '"x"', '[]', '[null]', '{}', '{"jsonrpc":"2.0","params":7}']) {
      for (const headers of [{}, session]) {
        const { status } = await post(door.url, body, headers as Record<string, string>)
        expect([body, [202, 400].includes(status) || status]).toEqual([body, true])
      }
    }
    for (const [headers, status] of [
      [session, 200],
      [lost, 404],
      [{}, 405],
    ] as const) {
      const head = await fetch(door.url, { method: 'HEAD', headers: headers as Record<string, string> })
      expect(head.status).toBe(status)
    }
    expect((await fetch(door.url)).status).toBe(405)
    expect((await fetch(door.url, { method: 'PUT' })).status).toBe(405)
    const elsewhere = await fetch(`${door.server.url}/sse`)
    expect([elsewhere.status, await elsewhere.json()]).toMatchObject([404, { code: 'not_found' }])
  })

  test('sse: an unknown stream, or something else than a message', async () => {
    await using door = await startDoor({ transport: 'sse' })
    const messages = `${door.server.url}/messages?sessionId=`
    expect((await post(`${messages}gone`, initialize())).status).toBe(404)
    const { body } = await fetch(door.url)
    const reader = body!.getReader()
    let text = ''
    while (!text.includes('\n\n')) text += new TextDecoder().decode((await reader.read()).value)
    const id = /sessionId=(\S+)/.exec(text)![1]
    expect((await post(messages + id, { hello: 1 })).status).toBe(400)
    expect((await post(messages + id, '{')).status).toBe(400)
    const deleted = await fetch(door.url, { method: 'DELETE' })
    expect([deleted.status, deleted.headers.get('allow')]).toEqual([405, 'GET, HEAD'])
    const head = await fetch(door.url, { method: 'HEAD' })
    expect([head.status, head.headers.get('content-type')]).toEqual([200, 'text/event-stream'])
    await reader.cancel()
  })
})

/** Makes a thousand of them in no time. */
const bareServer = () => new McpServer({ name: 'bare', version: '1' })

/** Tells of each server that it makes when it was closed, in the order of sessions. */
function closings(make: McpHttpOptions['server'] = createMcpServer) {
  const closed: AbortSignal[] = []
  const server: typeof createMcpServer = context => {
    closed.push(context.closed)
    return make(context)
  }
  return { closed, server }
}

describe('sessions', () => {
  test('behind a proxy a call waits for 45 seconds at most, with a session and without', async () => {
    await using door = await startDoor()
    const session = await openSession(door.url)
    const call = { name: 'recv', arguments: { timeout: 300 } }
    const message = { jsonrpc: '2.0', id: 7, method: 'tools/call', params: call }
    for (const headers of [{}, session]) {
      for (const [forwarded, timeout] of [
        [{ via: '1.1 proxy' }, 45],
        [{}, 300],
      ] as const) {
        door.gateway.asked.length = 0
        const answer = await post(door.url, message, { ...headers, ...forwarded })
        expect(answer.headers.get('x-accel-buffering')).toBe('no')
        const asked = await until('it waits', 30_000, () =>
          door.gateway.asked.find(({ verb }) => verb === 'recv'),
        )
        expect(asked).toMatchObject({ request: { timeout } })
        await answer.body?.cancel()
      }
    }
  })

  test('a session ends when its client says so', async () => {
    await using door = await startDoor()
    const headers = await openSession(door.url)
    const ping = { jsonrpc: '2.0', id: 1, method: 'ping' }
    expect((await post(door.url, ping, headers)).status).toBe(200)
    expect((await fetch(door.url, { method: 'DELETE', headers })).status).toBe(200)
    expect((await post(door.url, ping, headers)).status).toBe(404)
  })

  test('an idle session makes room; one with an open stream stays', async () => {
    const { closed: all, server } = closings()
    await using door = await startDoor({ idleMs: 0, server })
    const open = async () => {
      const headers = await openSession(door.url)
      return { headers, closed: all.at(-1)! }
    }
    /** Opening one ends those that are idle, which they are a moment after their answer was read. */
    const swept = async (closed: AbortSignal) => {
      for (let tries = 0; tries < 100 && !closed.aborted; tries++) await open()
      return closed.aborted
    }
    expect(await swept((await open()).closed)).toBe(true)
    const kept = await open()
    const stream = await fetch(door.url, { headers: { ...kept.headers, accept: 'text/event-stream' } })
    expect(stream.status).toBe(200)
    expect(await swept((await open()).closed)).toBe(true)
    expect(kept.closed.aborted).toBe(false)
    await stream.body!.cancel()
  })

  test('many sessions of one caller cost no other caller a session, and of its own those that only were opened', async () => {
    const { closed, server } = closings(bareServer)
    await using door = await startDoor({ server })
    const ask = (caller: string, body: unknown, headers: Record<string, string> = {}) =>
      door.door.fetch(
        new Request(door.url, {
          method: 'POST',
          headers: {
            host: 'localhost',
            'content-type': 'application/json',
            accept: 'application/json, text/event-stream',
            ...headers,
          },
          body: JSON.stringify(body),
        }),
        { remoteAddress: caller, accept() {} },
      )
    const open = async (caller: string) => {
      const response = await ask(caller, initialize())
      await response.text()
      return { 'mcp-session-id': response.headers.get('mcp-session-id')! }
    }
    const ping = { jsonrpc: '2.0', id: 1, method: 'ping' }
    const statusOf = async (caller: string, session: Record<string, string>) => {
      const response = await ask(caller, ping, session)
      await response.text()
      return response.status
    }
    const [other, bare] = [await open('127.0.0.2'), await open('127.0.0.1')]
    const used = await open('127.0.0.1')
    expect(await statusOf('127.0.0.1', used)).toBe(200)
    for (let more = 0; more < 255; more++) await open('127.0.0.1')
    expect(closed.slice(0, 3).map(({ aborted }) => aborted)).toEqual([false, true, false])
    // It goes on all the same, with its id.
    expect(await statusOf('127.0.0.1', bare)).toBe(200)
    expect(await statusOf('127.0.0.2', other)).toBe(200)
    // Nobody else does.
    expect(await statusOf('127.0.0.1', other)).toBe(404)
    expect(await statusOf('127.0.0.2', bare)).toBe(404)
  })

  test.each(['http', 'sse'] as const)(
    '%s: all streams that one caller may hold refuse no other caller, and no key at its address',
    async transport => {
      await using door = await startDoor({ transport, server: bareServer })
      const ask = (caller: string, init: RequestInit, more: Record<string, string>) =>
        door.door.fetch(
          new Request(door.url, {
            ...init,
            headers: { host: 'localhost', 'content-type': 'application/json', ...init.headers, ...more },
          }),
          { remoteAddress: caller, accept() {} },
        )
      const accept = 'application/json, text/event-stream'
      const hold = async (caller: string, more: Record<string, string> = {}) => {
        if (transport === 'sse') return ask(caller, {}, more)
        const body = JSON.stringify(initialize())
        const opened = await ask(caller, { method: 'POST', headers: { accept }, body }, more)
        await opened.text()
        const session = opened.headers.get('mcp-session-id')
        if (session === null) return opened
        return ask(caller, { headers: { accept: 'text/event-stream', 'mcp-session-id': session } }, more)
      }
      const held: Response[] = []
      const statuses: number[] = []
      for (let more = 0; more < shares.mcpStreams.each + 50; more++) {
        held.push(await hold('127.0.0.1'))
        statuses.push(held.at(-1)!.status)
      }
      expect(statuses.indexOf(503)).toBe(shares.mcpStreams.each)
      held.push(await hold('127.0.0.2'))
      expect(held.at(-1)!.status).toBe(200)
      const { key } = await door.gateway.keys.add({ name: 'other', can: ['read'] }, owner)
      held.push(await hold('127.0.0.1', { authorization: `Bearer ${key}` }))
      expect(held.at(-1)!.status).toBe(200)
      await Promise.all(held.map(({ ok, body }) => ok && body!.cancel()))
    },
  )

  test('a cancelled call ends its stream', async () => {
    await using door = await startDoor()
    const headers = await openSession(door.url)
    const call = { name: 'recv', arguments: { timeout: 60 } }
    const waiting = await post(
      door.url,
      { jsonrpc: '2.0', id: 5, method: 'tools/call', params: call },
      headers,
    )
    const cancel = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 5 } }
    expect((await post(door.url, cancel, headers)).status).toBe(202)
    expect(await waiting.text()).toContain('"error"')
  })

  test('an id that is none is written down nowhere: nested deep enough that would take seconds', async () => {
    await using door = await startDoor()
    const headers = await openSession(door.url)
    const cancel = {
      jsonrpc: '2.0',
      method: 'notifications/cancelled',
      params: { requestId: { a: { b: 0 } } },
    }
    const body = JSON.stringify(cancel)
    using written = spyOn(JSON, 'stringify')
    expect((await post(door.url, body, headers)).status).toBe(202)
    // What follows from it is done by the next turn.
    for (let turns = 0; turns < 5; turns++) await new Promise(resolve => setImmediate(resolve))
    const ids = written.mock.calls.map(([value]) => (value as { id?: unknown } | undefined)?.id)
    expect(ids.filter(id => typeof id === 'object' && id !== null)).toEqual([])
  })
})

describe('stopping', () => {
  test('ends waits with their empty answers, then streams; new calls are refused', async () => {
    await using door = await startDoor()
    await using client = await connectHttp(door.url)
    const asked = new Promise<void>(resolve => {
      const { recv } = door.gateway.inbox
      door.gateway.inbox.recv = (request, call) => {
        resolve()
        return recv.call(door.gateway.inbox, request, call)
      }
    })
    const waiting = client.value('recv', { timeout: 60 })
    await asked
    door.door.beginShutdown()
    expect(await waiting).toEqual([])
    const refused = await post(door.url, initialize())
    expect([refused.status, await refused.json()]).toMatchObject([503, { code: 'shutting_down' }])
    await door.door.close(5000)
    await door.server.stop(5000)
  })

  test('goes on answering while it drains: only what waits ends', async () => {
    await using door = await startDoor()
    const headers = await openSession(door.url)
    const stream = await fetch(door.url, { headers: { ...headers, accept: 'text/event-stream' } })
    await using client = await connectHttp(door.url)
    door.door.drain()
    // It stays open until then.
    await stream.text()
    expect(await client.value('recv', { timeout: 60 })).toEqual([])
    expect(await client.value('sessions')).toEqual([])
    expect((await post(door.url, initialize())).status).toBe(200)
  })
})

describe('beside REST', () => {
  test('one service, one gateway: what REST reads MCP does not get again; it stops with a client connected', async () => {
    await using sandbox = await withSandbox()
    await using service = await startMcp('openapi', { sandbox, args: ['--token', 's3cret'] })
    const { origin } = new URL(service.url)
    expect(service.stdout()).toContain(`mcp on ${origin}/mcp\n`)
    const headers = { authorization: 'Bearer s3cret' }
    await failure(connectHttp(service.url))
    await using client = await connectHttp(service.url, { kind: '2026', headers })
    const rest = async (tool: string, input: object) =>
      (await post(`${origin}/tools/default/${tool}`, input, headers)).json()
    const { qr_url } = await rest('login', {})
    await sandbox.scanAndConfirm({ qrcode: qr_url })
    for (let tries = 0; tries < 20; tries++) {
      if ((await client.value('login', { timeout: 30 })).status === 'confirmed') break
    }
    await sandbox.say('one')
    expect(await rest('recv', { timeout: 30 })).toMatchObject([{ text: 'one' }])
    await sandbox.say('two')
    expect(await client.value('recv', { timeout: 30 })).toMatchObject([{ text: 'two' }])
    expect(await client.value('history')).toMatchObject({ total: 2 })
    await using _other = await connectHttp(service.url, { kind: 'sdk1', headers })
    using watch = stopwatch()
    expect(await service.kill('SIGTERM')).toBe(0)
    // The grace for answers is 3 s: nobody waits for any here.
    expect(watch.ms).toBeLessThan(2500)
  })
})
