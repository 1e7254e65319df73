/** `svc mcp --url`: a client over standard input and output, a service elsewhere, and a bridge between them. */
import { expect, spyOn, test } from 'bun:test'
import { readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { createLazyMcpDoor } from '../../src/cli/serve-mcp.ts'
import { bridgeMcp } from '../../src/mcp/bridge.ts'
import type { SvcError } from '../../src/model/error.ts'
import { silentLog } from '../../src/platform/log.ts'
import { svc } from '../support/command.ts'
import { deno, denoEnv, denoRun } from '../support/deno.ts'
import { failure } from '../support/failure.ts'
import { folderOfTest } from '../support/folder.ts'
import { withGateway } from '../support/gateway.ts'
import {
  bridgeCommand,
  bridgeHere,
  connectBridge,
  logInOver,
  type McpClient,
  mcpHere,
  type Told,
} from '../support/mcp.ts'
import { overhear } from '../support/overheard.ts'
import { freePort } from '../support/port.ts'
import { httpServer } from '../support/servers.ts'
import { until } from '../support/until.ts'

const token = 'the-token-of-the-service'
const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url))

for (const kind of ['2025', '2026', 'sdk1'] as const)
  test(`${kind}: tools, a picture, progress, waiting, and a cancelled call go through`, async () => {
    await using service = await mcpHere('http', { config: { structured: true, token } })
    const { clock, gateway, lines, sandbox } = service.t
    await using client = await bridgeHere(service.url, { kind, token })
    await using direct = await service.connect({ kind, headers: { authorization: `Bearer ${token}` } })
    // The 1.x client over stdio does not tell.
    if (kind !== 'sdk1') expect(client.version).toBe(direct.version)
    expect(client.instructions).toBe(direct.instructions)
    expect(await client.tools()).toEqual(await direct.tools())

    const asked = await client.call('login', { timeout: 0 })
    expect(asked.content.map(({ type }: { type: string }) => type)).toContain('image')
    await logInOver(client, sandbox)
    const arriving = client.value('recv', { timeout: 120 })
    await sandbox.say('over the bridge')
    const [{ from_user: to, text }] = await arriving
    expect(text).toBe('over the bridge')

    // Cancelled while it waits: the message goes to the next call.
    const stop = new AbortController()
    const told: Told[] = []
    const onprogress = (step: Told) => void told.push(step)
    using recv = spyOn(gateway.inbox, 'recv')
    const given = failure(client.call('recv', { timeout: 120 }, { signal: stop.signal, onprogress }))
    await until('it waits', 30_000, () => recv.mock.calls.length > 0)
    clock.advance(3000)
    await until('a sign of life', 30_000, () => told.length > 0)
    stop.abort()
    await given
    // The client does not wait for the service; what comes before that one knows is still this call's.
    await until('the service knows', 30_000, () => lines.some(one => /cancelled .*tool=recv/.test(one)))
    await sandbox.say('kept')
    expect(await client.value('recv', { timeout: 120 })).toMatchObject([{ text: 'kept' }])

    const large = Buffer.alloc(3 * 1024 * 1024, 'svc ').toString('base64')
    const media = [{ kind: 'file', data: large, file_name: 'large.bin' }]
    expect(await client.value('send', { to, media })).toMatchObject({ success: true })
    expect(client.log()).not.toContain(token)
  })

test('the service asks the person behind the client', async () => {
  await using service = await mcpHere('http', {
    sessions: ['default'],
    config: { structured: true, confirmSend: true },
  })
  const { sandbox } = service.t
  const questions: unknown[] = []
  await using client = await bridgeHere(service.url, {
    answer: params => {
      questions.push(params)
      return { action: 'accept', content: { send: true } }
    },
  })
  await sandbox.say('ask first')
  const [{ from_user: to }] = await client.value('recv', { timeout: 120 })
  await client.call('send', { to, text: 'yes?' })
  expect(questions).toHaveLength(1)
})

test('a service on a Unix socket is reached there', async () => {
  const socket = join(folderOfTest(), 'svc.sock')
  await using service = await mcpHere('http', { socket, config: { structured: true } })
  const works = async (client: McpClient) => {
    for (let call = 0; call < 20; call++) expect(await client.value('sessions')).toEqual([])
    // The calls share a few connections.
    expect((await connectionsOf(socket)).length).toBeLessThan(10)
  }
  {
    await using client = await bridgeHere(service.url)
    await works(client)
  }
  // Deno has a pool of connections for each client of HTTP.
  if (!deno) return
  const command = [...denoRun(main), 'mcp']
  await using client = await connectBridge(service.url, { command, env: denoEnv })
  await works(client)
})

/** As Linux knows them; none elsewhere. */
const connectionsOf = async (socket: string): Promise<string[]> =>
  (await readFile('/proc/net/unix', 'utf8').catch(() => ''))
    .split('\n')
    .filter(line => line.endsWith(` ${socket}`))

test('a service that dies fails what waits; one that is back serves the same client', async () => {
  await using t = await withGateway({ sessions: [] })
  const port = freePort()
  const config = { structured: true }
  const serving = () => mcpHere('http', { gateway: t, port, config })
  await using first = await serving()
  await using client = await bridgeHere(first.url)
  using recv = spyOn(t.gateway.inbox, 'recv')
  const waiting = failure(client.call('recv', { timeout: 120 }))
  await until('it waits', 30_000, () => recv.mock.calls.length > 0)
  await first.die()
  expect((await waiting).message).toContain('broke')
  expect((await failure(client.call('sessions'))).message).toContain('cannot be reached')
  await using _second = await serving()
  expect(await client.value('sessions')).toEqual([])
  await Promise.all([client.value('sessions'), client.tools()])
})

const line = (message: object) => `${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`
const initialize = line({
  ...{ id: 1, method: 'initialize' },
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'raw', version: '1' } },
})
/** The bridge with bare pipes; its input stays open until `end`. */
function bare(args: string[], env: Record<string, string> = {}) {
  const child = Bun.spawn([...bridgeCommand, ...args], {
    ...{ cwd: tmpdir(), env: { PATH: process.env.PATH ?? '', HOME: tmpdir(), ...env } },
    ...{ stdin: 'pipe', stdout: 'pipe', stderr: 'pipe' },
  })
  const said = overhear(child)
  const lines = () => said.stdout.split('\n').filter(Boolean)
  return {
    lines,
    write: (text: string) => {
      child.stdin.write(text)
      return child.stdin.flush()
    },
    end: () => child.stdin.end(),
    async ended() {
      const status = await said.exited
      const { stderr, stdout } = said
      return { status, stderr, stdout, messages: lines().map(one => JSON.parse(one)) }
    },
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      await child.exited
    },
  }
}

test('a wrong token, an address of nobody and one of something else: it ends, and who asked hears why', async () => {
  await using service = await mcpHere('http', { config: { token } })
  const nobody = `http://127.0.0.1:${freePort()}/mcp`
  for (const [url, own, code, why] of [
    [service.url, 'another', 'unauthorized', 'SVC_TOKEN'],
    [service.url, undefined, 'unauthorized', 'SVC_TOKEN'],
    [nobody, undefined, 'not_found', nobody],
    [service.url.replace('/mcp', '/elsewhere'), token, 'not_found', '404'],
  ] as const) {
    const streams = { input: new PassThrough(), output: new PassThrough() }
    const bridge = bridgeMcp({ url, token: own, log: silentLog, streams })
    streams.input.write(initialize)
    const error = (await failure(bridge.ended)) as SvcError
    expect(error.code).toBe(code)
    expect(`${error.message}. ${error.advice.hint}`).toContain(why)
    streams.output.end()
    const messages = (await text(streams.output)).split('\n').filter(Boolean)
    expect(messages.map(one => JSON.parse(one))).toEqual([
      { jsonrpc: '2.0', id: 1, error: { code: -32000, message: expect.stringContaining(why) } },
    ])
  }
})

test('a service that cannot be used: status 1, one line, and an error to who asked', async () => {
  await using service = await mcpHere('http', { config: { token } })
  await using bridge = bare(['--url', service.url], { SVC_TOKEN: 'another' })
  await bridge.write(initialize)
  const { status, stderr, messages } = await bridge.ended()
  expect([status, stderr]).toEqual([1, expect.stringMatching(/^error: [^\n]+SVC_TOKEN[^\n]+\n$/)])
  expect(messages).toEqual([
    { jsonrpc: '2.0', id: 1, error: { code: -32000, message: expect.stringContaining('SVC_TOKEN') } },
  ])
})

test('the end of the input ends the session and the process, and stdout carries protocol alone', async () => {
  const methods: string[] = []
  await using t = await withGateway({ sessions: [], config: { token } })
  const door = createLazyMcpDoor({ ...t, log: silentLog })
  await using service = await httpServer(request => {
    methods.push(request.method)
    return door.fetch(request)
  })
  const rest =
    line({ method: 'notifications/initialized' }) +
    `this is no JSON\n${line({ id: 2, method: 'tools/list' })}` +
    line({ id: 'three', method: 'tools/call', params: { name: 'sessions', arguments: {} } })
  const url = `${service.url}/mcp`
  await using bridge = bare(['--url', url, '--log-level', 'debug'], { SVC_TOKEN: token })
  await bridge.write(initialize + rest)
  await until('all is answered', 60_000, () => bridge.lines().length === 3)
  bridge.end()
  const { status, messages } = await bridge.ended()
  expect(status).toBe(0)
  expect(messages.map(({ id }) => String(id)).toSorted()).toEqual(['1', '2', 'three'])
  for (const message of messages) expect(message).toHaveProperty('result')
  await until('the session is ended', 30_000, () => methods.includes('DELETE'))
  await door.close(0)
})

for (const args of [
  ['--base-path', '/data'],
  ['--any-file'],
  ['--transport', 'http'],
  ['--sandbox'],
  ['--structured'],
  ['--port', '9000'],
])
  test(`${args.join(' ')} with --url is wrong usage`, async () => {
    const words = ['mcp', '--url', 'http://127.0.0.1:9/mcp', ...args]
    const { status, stdout, stderr } = await svc(words, { home: folderOfTest() })
    expect([status, stdout]).toEqual([2, ''])
    expect(stderr).toStartWith(`error: ${args[0]}: `)
  })

test('an address that is none is wrong usage', async () => {
  expect((await svc(['mcp', '--url', '127.0.0.1:8000'], { home: folderOfTest() })).status).toBe(2)
})
