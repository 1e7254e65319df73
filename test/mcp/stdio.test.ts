import { describe, expect, test } from 'bun:test'
import { link, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import type { Gateway } from '../../src/gateway/gateway-api.ts'
import { serveMcpStdio } from '../../src/mcp/stdio.ts'
import { SvcError } from '../../src/model/error.ts'
import { stdio } from '../../src/model/principal.ts'
import { failure } from '../support/failure.ts'
import { folderOfTest } from '../support/folder.ts'
import { connectStdio, logInOver, type Told } from '../support/mcp.ts'
import { sharedOver } from '../support/mcp-door.ts'
import { MemoryGateway } from '../support/memory-gateway.ts'
import { withSandbox } from '../support/sandbox.ts'
import { svcProgram } from '../support/svc-program.ts'
import { until } from '../support/until.ts'

/** `svc mcp` with bare pipes. */
async function spawned(args: string[] = []) {
  const dir = await mkdtemp(join(tmpdir(), 'svc-mcp-'))
  const child = Bun.spawn([...svcProgram, 'mcp', '-d', dir, ...args], {
    env: { PATH: process.env.PATH ?? '', HOME: dir },
    ...{ cwd: dir, stdin: 'pipe', stdout: 'pipe', stderr: 'pipe' },
  })
  let stderr = ''
  const logged = (async () => {
    for await (const chunk of child.stderr.pipeThrough(new TextDecoderStream())) stderr += chunk
  })()
  return {
    child,
    write: (...lines: (object | string)[]) => {
      for (const line of lines)
        child.stdin.write(typeof line === 'string' ? line : `${JSON.stringify(line)}\n`)
      return child.stdin.flush()
    },
    /** Everything on stdout, once the process has ended. */
    async ended() {
      const stdout = await new Response(child.stdout).text()
      const code = await child.exited
      await logged
      return { code, stdout, stderr }
    },
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      await child.exited
      await rm(dir, { recursive: true, force: true })
    },
  }
}

const initialize = {
  ...{ jsonrpc: '2.0', id: 'first', method: 'initialize' },
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'raw', version: '1' } },
}
const initialized = { jsonrpc: '2.0', method: 'notifications/initialized' }
const call = (id: number, name: string, input: object = {}) => ({
  ...{ jsonrpc: '2.0', id, method: 'tools/call' },
  params: { name, arguments: input },
})

test('parameters that no method takes are -32602, told by field', async () => {
  const level = { method: 'logging/setLevel', params: { level: 'loud' } }
  const bad = [
    { method: 'initialize', params: {} },
    { method: 'tools/call', params: {} },
    { method: 'tools/call' },
    { method: 'tools/call', params: { name: 'recv', arguments: [] } },
    { method: 'tools/call', params: { name: 'nothing', arguments: {} } },
    { method: 'tools/list', params: { cursor: 5 } },
    { method: 'resources/read', params: { uri: 5 } },
    { method: 'resources/read', params: { uri: 'no uri' } },
    { method: 'resources/subscribe', params: {} },
    { method: 'prompts/get', params: {} },
    { method: 'prompts/get', params: { name: 'summarise_conversation', arguments: { user: 5 } } },
    { method: 'completion/complete', params: { ref: { type: 'x' }, argument: {} } },
    {
      method: 'completion/complete',
      params: { ref: { type: 'ref/prompt', name: 'answer_newest' }, argument: {} },
    },
    level,
  ]
  const clientInfo = { name: 'test', version: '1' }
  const params = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo }
  await using svc = await spawned()
  await svc.write({ jsonrpc: '2.0', id: 0, method: 'initialize', params })
  await svc.write({ jsonrpc: '2.0', method: 'notifications/initialized' })
  await svc.write(...bad.map((request, at) => ({ jsonrpc: '2.0', id: at + 1, ...request })))
  await svc.child.stdin.end()
  const { stdout } = await svc.ended()
  const answers = stdout
    .trim()
    .split('\n')
    .map(line => JSON.parse(line))
  for (const [at, { method }] of bad.entries()) {
    const { error } = answers.find(({ id }) => id === at + 1)
    expect({ method, code: error.code }).toEqual({ method, code: -32602 })
    expect(error.message).not.toMatch(/[\n[{]|zod|invalid_/)
  }
  expect(answers.find(({ id }) => bad[id - 1] === level).error.message).toMatch(/\blevel: .*\bdebug\b/)
})

describe('standard output', () => {
  test('carries protocol alone, whatever comes in and however much is logged', async () => {
    await using svc = await spawned(['--log-level', 'debug', '--sandbox', '--sandbox-port', '0'])
    await svc.write(
      initialize,
      initialized,
      'this is no JSON\n\n{"jsonrpc":"1.0"}\n[]\n',
      call(1, 'sessions'),
      call(2, 'send', { to: 'x' }),
      call(3, 'fly'),
      call(4, 'login', { timeout: 0 }),
      { jsonrpc: '2.0', id: 5, method: 'no/such/method' },
      // In two pieces, and with what is no ASCII.
      `${JSON.stringify(call(6, 'history', { text_contains: '你好' })).slice(0, 60)}`,
    )
    await svc.write(`${JSON.stringify(call(6, 'history', { text_contains: '你好' })).slice(60)}\n`)
    svc.child.stdin.end()
    const { code, stdout, stderr } = await svc.ended()
    expect(code).toBe(0)
    const messages = stdout
      .trimEnd()
      .split('\n')
      .map(line => JSON.parse(line))
    for (const message of messages) expect(message.jsonrpc).toBe('2.0')
    const ids = messages.map(({ id }) => id).filter(id => id !== undefined)
    expect(ids.toSorted()).toEqual([1, 2, 3, 4, 5, 6, 'first'])
    // What people wrote is text alone, unless --structured says so.
    const { result } = messages.find(({ id }) => id === 6)
    expect([result.isError, result.structuredContent]).toEqual([undefined, undefined])
    expect(stderr).toContain('serving MCP')
    expect(stderr).toMatch(/http:\/\/127\.0\.0\.1:\d+\/phone/)
    expect(stderr).toContain('not a JSON-RPC message')
  })
})

test('the port of the phone is any free one where the usual one is taken, unless it was chosen', async () => {
  const take = () => {
    try {
      return Bun.serve({ hostname: '127.0.0.1', port: 8001, reusePort: false, fetch: () => new Response() })
    } catch {
      // Somebody else on this machine has it.
    }
  }
  // Who has it for a moment would give it back too early; who keeps it is as good.
  using _taken = await until('the port is had', 5000, take).catch(() => undefined)
  const ran = async (...args: string[]) => {
    await using server = await spawned(['--sandbox', ...args])
    server.child.stdin.end()
    return await server.ended()
  }
  const [free, chosen] = await Promise.all([ran(), ran('--sandbox-port', '8001')])
  expect(free).toMatchObject({ code: 0, stdout: '' })
  expect(free.stderr).toMatch(/http:\/\/127\.0\.0\.1:(?!8001\/)\d+\/phone/)
  expect(chosen.code).toBe(1)
  expect(chosen.stderr).toMatch(/ 8001 .*--sandbox-port/)
})

describe('the end', () => {
  test('of the input ends the process: waits give their empty answers, then it is gone', async () => {
    await using svc = await spawned()
    await svc.write(initialize, initialized, call(1, 'recv', { timeout: 300 }))
    svc.child.stdin.end()
    const { code, stdout } = await svc.ended()
    expect(code).toBe(0)
    expect(JSON.parse(stdout.trimEnd().split('\n')[1]!)).toMatchObject({
      id: 1,
      result: { content: [{ type: 'text', text: expect.stringContaining('No new messages') }] },
    })
  })

  test.each(['SIGTERM', 'SIGINT'] as const)('%s ends it the same way', async signal => {
    await using svc = await spawned()
    await svc.write(initialize, initialized, call(1, 'sessions'), call(2, 'recv', { timeout: 300 }))
    const reader = svc.child.stdout.getReader()
    let stdout = ''
    const read = async () => {
      const { done, value } = await reader.read()
      stdout += new TextDecoder().decode(value)
      return !done
    }
    while (!stdout.includes('"id":1') && (await read()));
    svc.child.kill(signal)
    while (await read());
    expect(await svc.child.exited).toBe(0)
    expect(stdout).toContain('"id":2')
  })
})

describe('the user’s own process', () => {
  test('names files in the media root and in the folder it works in, and no others', async () => {
    await using sandbox = await withSandbox()
    const top = folderOfTest()
    const [dir, project] = [join(top, 'home', 'data'), join(top, 'project')]
    const outside = join(top, 'secret.txt')
    for (const folder of [dir, join(project, 'sub')]) await mkdir(folder, { recursive: true, mode: 0o700 })
    for (const path of [outside, join(project, 'sub', 'own.txt')]) await writeFile(path, path)
    await symlink(outside, join(project, 'symbolic'))
    await link(outside, join(project, 'hard'))
    await using client = await connectStdio({ sandbox, dir, cwd: project, args: ['--pace', 'off'] })
    await logInOver(client, sandbox)
    await sandbox.say('send me something')
    const [{ from_user: to, ...said }] = await client.value('recv', { timeout: 30 })
    expect(said.text).toBe('send me something')
    await sandbox.media('file', new Blob(['theirs']), { name: 'theirs.txt' })
    const [{ message_id }] = await client.value('recv', { timeout: 30 })

    const problem = async (tool: string, input: object) =>
      (await client.call(tool, input))._meta['svc/problem']
    const asked = await client.tools()
    expect(asked.find(({ name }) => name === 'send').description).toContain('svc was started in')
    for (const path of [
      outside,
      '../secret.txt',
      '/etc/passwd',
      'symbolic',
      join(dir, 'default/token.json'),
    ]) {
      const told = await problem('send', { to, image_path: path })
      expect([path, told.code, told.hint.includes('--any-file')]).toEqual([path, 'forbidden', true])
      expect(told.hint).toContain(project)
      const media = [{ kind: 'file', path }]
      expect(await problem('send', { to, media })).toMatchObject({ code: 'forbidden' })
    }
    expect(await problem('send', { to, file_path: 'hard' })).toMatchObject({ code: 'forbidden' })
    for (const save_dir of [top, '..', join(dir, 'default')])
      expect(await problem('download', { message_id, save_dir })).toMatchObject({ code: 'forbidden' })

    const own = { to, file_path: 'sub/own.txt' }
    expect(await client.value('send', own)).toMatchObject({ success: true })
    const saved = await client.value('download', { message_id, save_dir: 'new' })
    expect(saved.path).toBe(join(project, 'new', 'theirs.txt'))
    const usual = await client.value('download', { message_id })
    expect(usual.path).toBe(join(dir, 'media', 'downloads', 'theirs.txt'))
    for (const { path } of [saved, usual])
      expect(await client.value('send', { to, file_path: path })).toMatchObject({ success: true })
  })

  test("sends with --any-file any file of this machine except svc's own, and takes a message of many megabytes", async () => {
    await using sandbox = await withSandbox()
    await using client = await connectStdio({ sandbox, args: ['--pace', 'off', '--any-file'] })
    await logInOver(client, sandbox)
    await sandbox.say('send me something')
    const [{ from_user: to }] = await client.value('recv', { timeout: 30 })
    const dir = folderOfTest()
    const file = join(dir, 'notes.txt')
    await writeFile(file, 'from elsewhere')
    expect(await client.value('send', { to, file_path: file })).toMatchObject({ success: true })
    // Whoever talks the agent into it gets no login.
    const own = { to, file_path: 'default/token.json' }
    expect((await failure(client.value('send', own))).message).toContain("svc's own files are not sent")
    const large = Buffer.alloc(12 * 1024 * 1024, 'svc ')
    const media = [{ kind: 'file', data: large.toString('base64'), file_name: 'large.bin' }]
    const told: Told[] = []
    const onprogress = (step: Told) => void told.push(step)
    expect(await client.value('send', { to, media }, { onprogress })).toMatchObject({ success: true })
    const last = told.at(-1)!
    expect(last).toMatchObject({ progress: last.total!, message: 'upload large.bin' })
    expect(last.total).toBeGreaterThan(large.length)
    expect(told.map(({ progress }) => progress)).toEqual(
      [...new Set(told.map(({ progress }) => progress))].toSorted((a, b) => a - b),
    )
    const seen = await sandbox.seen(messages => messages.length === 2)
    const id = (seen[1]!.items[0] as { media_id: string }).media_id
    expect(Buffer.from(await sandbox.mediaBytes(id)).equals(large)).toBe(true)
  })
})

test('what needs no store is answered before the store is open; a call waits for it, and fails with it', async () => {
  for (const isBroken of [false, true]) {
    const opening = Promise.withResolvers<Gateway>()
    opening.promise.catch(() => {})
    const [input, output] = [new PassThrough(), new PassThrough()]
    const shared = { ...sharedOver(new MemoryGateway()), gateway: opening.promise, by: stdio, local: true }
    const server = serveMcpStdio(shared, { input, output })
    let said = ''
    output.on('data', chunk => {
      said += chunk
    })
    const answers = () =>
      said
        .split('\n')
        .filter(Boolean)
        .map(line => JSON.parse(line))
    const ask = (id: number, method: string, params: object = {}) =>
      input.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`)
    input.write(`${JSON.stringify(initialize)}\n`)
    ask(1, 'tools/call', { name: 'sessions', arguments: {} })
    ask(2, 'tools/list')
    await until('what needs no store is answered', 30_000, () => answers().length === 2)
    expect(answers().map(({ id }) => id)).toEqual(['first', 2])
    if (isBroken) opening.reject(new SvcError('store_unavailable', 'the disk is gone'))
    else opening.resolve(new MemoryGateway())
    await until('the call is answered', 30_000, () => answers().length === 3)
    expect(answers()[2]).toMatchObject({ id: 1, result: isBroken ? { isError: true } : { content: [{}] } })
    await server.close()
  }
})
