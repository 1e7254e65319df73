/** `--log-format json`: whatever a command that serves writes is a line of JSON. */
import { describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { svc, svcProcess, svcRunning } from '../support/command.ts'
import { ended } from '../support/ended.ts'
import { folderOfFile } from '../support/folder.ts'
import { until } from '../support/until.ts'

const home = folderOfFile()
const sources = fileURLToPath(new URL('../..', import.meta.url))

interface Line {
  readonly time: string
  readonly level: string
  readonly event: string
  readonly url?: string
  readonly token?: string
}

/** Each line, parsed; with time, level and event, as a collector needs them. */
function linesOf(text: string): Line[] {
  const lines = text.split('\n').filter(line => line !== '')
  const parsed = lines.map((line): Line => JSON.parse(line))
  for (const { event, level, time } of parsed) {
    expect(typeof event).toBe('string')
    expect(['DEBUG', 'INFO', 'WARNING', 'ERROR']).toContain(level)
    expect(Number.isNaN(Date.parse(time))).toBe(false)
  }
  return parsed
}

const urlOf = (lines: readonly Line[], ready: string) =>
  lines.find(({ event }) => event.startsWith(ready))?.url

let nth = 0
/** A server with these options, until it said `ready`; all that it wrote. */
async function served(args: readonly string[], ready: string, env: Record<string, string> = {}) {
  const running = svcRunning([...args, '-d', join(home, `data-${nth++}`)], { home, env })
  await until(`it says ${ready}`, 30_000, () => running.stdout.includes(ready))
  const during = linesOf(running.stdout)
  const url = urlOf(during, ready)
  const status = url === undefined ? undefined : (await fetch(url)).status
  running.stop('SIGTERM')
  const { stderr, stdout } = await running.exited
  return {
    said: linesOf(stdout),
    logged: linesOf(stderr),
    status,
    token: during.find(line => line.token)?.token,
  }
}

const json = ['--log-format', 'json']
const phone = ['--sandbox', '--sandbox-port', '0']

describe('every line is JSON, and the ready lines carry their address', () => {
  test('svc openapi, with banner, panel, metrics and a token that is made', async () => {
    const args = ['openapi', '--host', '0.0.0.0', '--port', '0', '--admin-port', '0', '--metrics-port', '0']
    const { said, logged, status, token } = await served([...args, ...phone, ...json], 'listening on', {
      SVC_PROT: '1',
    })
    for (const ready of [
      'listening on',
      'docs on',
      'mcp on',
      'admin on',
      'metrics on',
      'phone on',
      'sign in',
    ])
      expect([ready, urlOf(said, ready)]).toEqual([ready, expect.stringMatching(/^http:\/\//)])
    expect([typeof status, token]).toEqual(['number', undefined])
    expect(JSON.stringify(said)).toContain('svc token')
    expect(JSON.stringify(said)).not.toContain('sign-in?')
    expect(logged.some(({ event, level }) => level === 'WARNING' && event.includes('SVC_PROT'))).toBe(true)
  })

  test('svc mcp over HTTP, svc admin, svc sandbox, and svc alone', async () => {
    const servers: [args: string[], ready: string][] = [
      [['mcp', '-t', 'http', '--port', '0', ...phone], 'listening on'],
      [['admin', '--admin-port', '0', ...phone], 'admin on'],
      [['sandbox', '--sandbox-port', '0'], 'phone on'],
      [['--port', '0', ...phone], 'listening on'],
    ]
    for (const [args, ready] of servers) {
      const { said } = await served([...args, ...json], ready)
      expect([args[0], urlOf(said, ready)]).toEqual([args[0], expect.stringMatching(/^http:\/\//)])
    }
  })

  test('by the variable too, and the text is as it was', async () => {
    const args = ['openapi', '--port', '0', ...phone]
    const { said } = await served(args, 'listening on', { SVC_LOG_FORMAT: 'JSON' })
    const texts = said.map(({ event }) => event)
    const plain = svcRunning([...args, '-d', join(home, `data-${nth++}`)], { home })
    await until('it listens', 30_000, () => plain.stdout.includes('phone on'))
    plain.stop('SIGTERM')
    const ports = (text: string) => text.replaceAll(/:\d+/g, ':PORT')
    const shown = (await plain.exited).stdout
      .split('\n')
      .filter(line => texts.map(ports).includes(ports(line)))
    expect(shown.length).toBe(texts.length)
  })

  test('svc mcp over stdio: the protocol on stdout, JSON on stderr', async () => {
    const hello = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 't', version: '1' } }
    const stdin = `${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params: hello })}\n`
    const args = ['mcp', '-t', 'stdio', '-d', join(home, 'stdio'), ...phone, ...json]
    const { status, stdout, stderr } = await svcProcess(args, { home, stdin, env: { SVC_PROT: '1' } })
    expect([status, JSON.parse(stdout).id]).toEqual([0, 1])
    const lines = linesOf(stderr)
    expect(urlOf(lines, 'phone on')).toMatch(/^http:/)
    expect(lines.every(({ level }) => level !== 'ERROR')).toBe(true)
  })
})

describe('errors', () => {
  test('one that ends a server is a line of its log; wrong usage is plain', async () => {
    using taken = Bun.serve({ hostname: '127.0.0.1', port: 0, reusePort: false, fetch: () => new Response() })
    const args = ['openapi', '-d', join(home, 'errors'), '--port', String(taken.port), ...phone]
    const busy = await svc([...args, ...json], { home })
    expect([busy.status, busy.stdout]).toEqual([1, ''])
    expect(linesOf(busy.stderr).at(-1)).toMatchObject({
      level: 'ERROR',
      code: 'internal',
      hint: expect.any(String),
    })
    const bad = await svc(['openapi', ...json], { home, env: { SVC_PORT: 'x' } })
    expect([bad.status, linesOf(bad.stderr).length]).toEqual([2, 1])
    expect(await svc(['openapi', '--prot', '1', ...json], { home })).toMatchObject({
      status: 2,
      stderr: expect.stringMatching(/^error: /),
    })
  })

  const program = (code: string) =>
    ended([process.execPath, '-e', `${head}\n${code}`], {
      cwd: sources,
      env: { PATH: process.env.PATH ?? '' },
    })
  const head = `
    const { processIo } = await import('./src/cli/terminal.ts')
    const { createLog } = await import('./src/platform/log.ts')
    processIo().logRuntime(createLog('INFO', undefined, 'json'))`

  test('what nothing caught, and a promise that was rejected, end the process with a line', async () => {
    for (const code of [
      "setTimeout(() => { throw new Error('gone wrong') })",
      "Promise.reject(new Error('gone wrong'))",
    ]) {
      const { status, stderr } = await program(`${code}; setTimeout(() => {}, 60_000)`)
      expect([status, linesOf(stderr)]).toMatchObject([1, [{ level: 'ERROR', error: 'gone wrong' }]])
    }
  })

  test('warnings of the runtime, and what a library prints to stderr', async () => {
    const { status, stderr } = await program(
      "process.emitWarning('be careful'); console.warn('a %s', 'note')",
    )
    const events = linesOf(stderr).map(({ event, level }) => [level, event])
    expect([status, events.sort()]).toEqual([
      0,
      [
        ['WARNING', 'a note'],
        ['WARNING', 'be careful'],
      ],
    ])
  })
})
