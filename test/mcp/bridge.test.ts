/** `svc mcp --url`: a client over standard input and output, a service elsewhere, and a bridge between them. */
import { expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { deno, denoEnv, denoRun } from '../support/deno.ts'
import { failure } from '../support/failure.ts'
import { folderOfTest } from '../support/folder.ts'
import { bridgeCommand, connectBridge, connectHttp, logInOver, startMcp, type Told } from '../support/mcp.ts'
import { overhear } from '../support/overheard.ts'
import { freePort } from '../support/port.ts'
import { withSandbox } from '../support/sandbox.ts'
import { svcProgram } from '../support/svc-program.ts'
import { until } from '../support/until.ts'

const token = 'the-token-of-the-service'
const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url))

for (const kind of ['2025', '2026', 'sdk1'] as const)
  test(`${kind}: tools, a picture, progress, waiting, and a cancelled call go through`, async () => {
    await using sandbox = await withSandbox()
    const args = ['--structured', '--token', token, '--pace', 'off', '--log-level', 'debug']
    await using service = await startMcp('openapi', { sandbox, args })
    await using client = await connectBridge(service.url, { kind, env: { SVC_TOKEN: token } })
    await using direct = await connectHttp(service.url, {
      ...{ kind, headers: { authorization: `Bearer ${token}` } },
    })
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
    const given = failure(client.call('recv', { timeout: 120 }, { signal: stop.signal, onprogress }))
    await until('it waits', 30_000, () => told.length > 0)
    stop.abort()
    await given
    // The client does not wait for the service; what comes before that one knows is still this call's.
    await until('the service knows', 30_000, () => /cancelled .*tool=recv/.test(service.log()))
    await sandbox.say('kept')
    expect(await client.value('recv', { timeout: 120 })).toMatchObject([{ text: 'kept' }])

    const large = Buffer.alloc(3 * 1024 * 1024, 'svc ').toString('base64')
    const media = [{ kind: 'file', data: large, file_name: 'large.bin' }]
    expect(await client.value('send', { to, media })).toMatchObject({ success: true })
    expect(client.log()).not.toContain(token)
  }, 300_000)

test('the service asks the person behind the client', async () => {
  await using sandbox = await withSandbox()
  await using service = await startMcp('openapi', {
    ...{ sandbox, args: ['--structured', '--confirm-send', '--pace', 'off'] },
  })
  const questions: unknown[] = []
  await using client = await connectBridge(service.url, {
    answer: params => {
      questions.push(params)
      return { action: 'accept', content: { send: true } }
    },
  })
  await logInOver(client, sandbox)
  await sandbox.say('ask first')
  const [{ from_user: to }] = await client.value('recv', { timeout: 120 })
  await client.call('send', { to, text: 'yes?' })
  expect(questions).toHaveLength(1)
}, 300_000)

test('a service on a Unix socket is reached there', async () => {
  const dir = folderOfTest()
  const socket = join(dir, 'svc.sock')
  const words = ['openapi', '--sandbox', '--sandbox-port', '0', '-d', join(dir, 'data'), '--socket', socket]
  const service = Bun.spawn([...svcProgram, ...words], { stdout: 'ignore', stderr: 'ignore' })
  try {
    await until('it listens', 30_000, () => existsSync(socket))
    for (const command of [bridgeCommand, ...(deno ? [[...denoRun(main), 'mcp']] : [])]) {
      await using client = await connectBridge(`unix:${socket}`, { command, env: denoEnv })
      for (let call = 0; call < 20; call++) expect(await client.value('sessions')).toEqual([])
      // The calls share a few connections.
      expect((await connectionsOf(socket)).length).toBeLessThan(10)
    }
  } finally {
    service.kill('SIGKILL')
    await service.exited
  }
}, 120_000)

/** As Linux knows them; none elsewhere. */
const connectionsOf = async (socket: string): Promise<string[]> =>
  (await readFile('/proc/net/unix', 'utf8').catch(() => ''))
    .split('\n')
    .filter(line => line.endsWith(` ${socket}`))

test('a service that dies fails what waits; one that is back serves the same client', async () => {
  await using sandbox = await withSandbox()
  const dir = folderOfTest()
  const port = await freePort()
  const args = ['--structured', '--port', String(port)]
  await using first = await startMcp('openapi', { sandbox, dir, args })
  await using client = await connectBridge(first.url)
  const told: Told[] = []
  const waiting = failure(client.call('recv', { timeout: 120 }, { onprogress: step => void told.push(step) }))
  await until('it waits', 30_000, () => told.length > 0)
  await first.kill('SIGKILL')
  expect((await waiting).message).toContain('broke')
  expect((await failure(client.call('sessions'))).message).toContain('cannot be reached')
  await using _second = await startMcp('openapi', { sandbox, dir, args })
  expect(await client.value('sessions')).toEqual([])
  await Promise.all([client.value('sessions'), client.tools()])
}, 300_000)

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

test('a wrong token, an address of nobody and one of something else: status 1, one line, and an error to who asked', async () => {
  await using sandbox = await withSandbox()
  await using service = await startMcp('openapi', { sandbox, args: ['--token', token] })
  const nobody = `http://127.0.0.1:${await freePort()}/mcp`
  for (const [url, env, why] of [
    [service.url, { SVC_TOKEN: 'another' }, 'SVC_TOKEN'],
    [service.url, {}, 'SVC_TOKEN'],
    [nobody, {}, nobody],
    [service.url.replace('/mcp', '/elsewhere'), { SVC_TOKEN: token }, '404'],
  ] as const) {
    await using bridge = bare(['--url', url], env)
    await bridge.write(initialize)
    const { status, stderr, messages } = await bridge.ended()
    expect([status, stderr]).toEqual([1, expect.stringMatching(/^error: [^\n]+\n$/)])
    expect(stderr).toContain(why)
    expect(messages).toEqual([
      { jsonrpc: '2.0', id: 1, error: { code: -32000, message: expect.any(String) } },
    ])
    expect(messages[0].error.message).toContain(why)
  }
}, 120_000)

test('the end of the input ends the session and the process, and stdout carries protocol alone', async () => {
  const methods: string[] = []
  await using sandbox = await withSandbox()
  await using service = await startMcp('openapi', { sandbox })
  await using proxy = Bun.serve({
    ...{ hostname: '127.0.0.1', port: 0, idleTimeout: 0 },
    async fetch(request) {
      methods.push(request.method)
      const { pathname } = new URL(request.url)
      const headers = new Headers(request.headers)
      headers.delete('host')
      return fetch(new URL(pathname, service.url), {
        ...{ method: request.method, headers, signal: request.signal },
        ...(request.body && { body: await request.arrayBuffer() }),
      })
    },
  })
  const rest =
    line({ method: 'notifications/initialized' }) +
    `this is no JSON\n${line({ id: 2, method: 'tools/list' })}` +
    line({ id: 'three', method: 'tools/call', params: { name: 'sessions', arguments: {} } })
  const url = `http://127.0.0.1:${proxy.port}/mcp`
  await using bridge = bare(['--url', url, '--log-level', 'debug'])
  await bridge.write(initialize + rest)
  await until('all is answered', 60_000, () => bridge.lines().length === 3)
  bridge.end()
  const { status, messages } = await bridge.ended()
  expect(status).toBe(0)
  expect(messages.map(({ id }) => String(id)).toSorted()).toEqual(['1', '2', 'three'])
  for (const message of messages) expect(message).toHaveProperty('result')
  await until('the session is ended', 30_000, () => methods.includes('DELETE'))
}, 120_000)

for (const args of [
  ['--base-path', '/data'],
  ['--any-file'],
  ['--transport', 'http'],
  ['--sandbox'],
  ['--structured'],
  ['--port', '9000'],
])
  test(`${args.join(' ')} with --url is wrong usage`, async () => {
    await using bridge = bare(['--url', 'http://127.0.0.1:9/mcp', ...args])
    const { status, stdout, stderr } = await bridge.ended()
    expect([status, stdout]).toEqual([2, ''])
    expect(stderr).toStartWith(`error: ${args[0]}: `)
  }, 120_000)

test('an address that is none is wrong usage', async () => {
  await using bridge = bare(['--url', '127.0.0.1:8000'])
  expect((await bridge.ended()).status).toBe(2)
}, 120_000)
