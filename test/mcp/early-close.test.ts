/** A client that closes its connection as soon as it has its answer, at every door: what it read counts as read. */
import { describe, expect, test } from 'bun:test'
import { connect } from 'node:net'
import { PassThrough } from 'node:stream'
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

const recv = (id = 1) => ({
  jsonrpc: '2.0',
  id,
  method: 'tools/call',
  params: { name: 'recv', arguments: { timeout: 0 } },
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

const settled = ({ settled }: MemoryGateway, count: number) =>
  until('it is settled', 30_000, () => settled.length >= count)

describe('a client that closes as soon as it has its answer', () => {
  test('REST: it is read', async () => {
    await using rest = await startRest()
    for (let at = 1; at <= times; at++) {
      rest.gateway.say(`message ${at}.`)
      await readAndClose(`${rest.url}/tools/default/recv`, `message ${at}.`, { body: { timeout: 0 } })
      await settled(rest.gateway, at)
    }
    expect(rest.gateway.settled).toEqual(Array(times).fill(true))
  })

  test.each([
    ['2025-11-25, no session', {}, {}],
    ['2026-07-28', { _meta: modernMeta() }, modernHeaders('recv')],
  ])('MCP over HTTP, %s: it is read', async (_version, more, headers) => {
    await using door = await startDoor()
    for (let at = 1; at <= times; at++) {
      door.gateway.say(`message ${at}.`)
      const call = recv()
      const body = { ...call, params: { ...call.params, ...more } }
      await readAndClose(door.url, `message ${at}.`, { body, headers })
      await settled(door.gateway, at)
    }
    expect(door.gateway.settled).toEqual(Array(times).fill(true))
  })

  test('MCP over HTTP, in a session: its next request says that it was read', async () => {
    await using door = await startDoor()
    const headers = await openSession(door.url)
    for (let at = 1; at <= times; at++) {
      door.gateway.say(`message ${at}.`)
      await readAndClose(door.url, `message ${at}.`, { body: recv(at), headers })
      // A notice is no request.
      await post(door.url, { jsonrpc: '2.0', method: 'notifications/initialized' }, headers)
      expect(door.gateway.settled).toHaveLength(at - 1)
      await (await post(door.url, { jsonrpc: '2.0', id: 'p', method: 'ping' }, headers)).text()
      await settled(door.gateway, at)
    }
    expect(door.gateway.settled).toEqual(Array(times).fill(true))
  })

  test('MCP over HTTP, in a session: who is silent afterwards is gone, and a service that stops waits for nobody', async () => {
    await using door = await startDoor({ undecidedMs: 50 })
    const headers = await openSession(door.url)
    door.gateway.say('unread.')
    await readAndClose(door.url, 'unread.', { body: recv(1), headers })
    await settled(door.gateway, 1)
    await using patient = await startDoor()
    const session = await openSession(patient.url)
    patient.gateway.say('unread.')
    await readAndClose(patient.url, 'unread.', { body: recv(2), headers: session })
    await patient.door.close(5000)
    expect([door.gateway.settled, patient.gateway.settled]).toEqual([[false], [false]])
  })

  test('MCP over HTTP, in a session: who takes a call back that was answered has read it', async () => {
    await using door = await startDoor()
    const headers = await openSession(door.url)
    for (let at = 1; at <= times; at++) {
      door.gateway.say(`message ${at}.`)
      const answer = await post(door.url, recv(at), headers)
      for await (const chunk of answer.body!)
        if (new TextDecoder().decode(chunk).includes(`message ${at}.`)) break
      const params = { requestId: at }
      await post(door.url, { jsonrpc: '2.0', method: 'notifications/cancelled', params }, headers)
    }
    await (await post(door.url, { jsonrpc: '2.0', id: 'p', method: 'ping' }, headers)).text()
    await settled(door.gateway, times)
    expect(door.gateway.settled).toEqual(Array(times).fill(true))
  })

  test('MCP over HTTP, in a session that is ended in order: it is read', async () => {
    await using door = await startDoor()
    const headers = await openSession(door.url)
    door.gateway.say('read.')
    await readAndClose(door.url, 'read.', { body: recv(), headers })
    await fetch(door.url, { method: 'DELETE', headers })
    expect(door.gateway.settled).toEqual([true])
  })

  test('MCP over SSE: it is read', async () => {
    await using door = await startDoor({ transport: 'sse' })
    for (let at = 1; at <= times; at++) {
      door.gateway.say(`message ${at}.`)
      const stream = connect(Number(new URL(door.url).port), '127.0.0.1')
      const gone = Promise.withResolvers<void>()
      const { promise, resolve } = Promise.withResolvers<string>()
      let text = ''
      stream.on('data', chunk => {
        text += chunk
        const endpoint = /data: (\/messages\S+)/.exec(text)?.[1]
        if (endpoint) resolve(new URL(endpoint, door.url).href)
        if (text.includes(`message ${at}.`)) stream.destroy()
      })
      stream.on('close', () => gone.resolve())
      stream.write(`GET /sse HTTP/1.1\r\nhost: ${new URL(door.url).host}\r\n\r\n`)
      const endpoint = await promise
      for (const message of [initialize('2024-11-05'), recv()]) await post(endpoint, message)
      await gone.promise
      await settled(door.gateway, at)
    }
    expect(door.gateway.settled).toEqual(Array(times).fill(true))
  })

  test('MCP over stdio: it is read', async () => {
    const gateway = new MemoryGateway()
    for (let at = 1; at <= times; at++) {
      gateway.say(`message ${at}.`)
      const [input, output] = [new PassThrough(), new PassThrough()]
      const server = serveMcpStdio({ ...sharedOver(gateway), by: stdio, local: true }, { input, output })
      output.on('data', chunk => {
        if (String(chunk).includes(`message ${at}.`)) setImmediate(() => input.end())
      })
      for (const message of [initialize(), recv()]) input.write(`${JSON.stringify(message)}\n`)
      await server.ended
    }
    expect(gateway.settled).toEqual(Array(times).fill(true))
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
