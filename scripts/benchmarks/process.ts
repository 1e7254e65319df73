/**
 * Processes of a benchmark: the service, the bare baselines, the canned upstream; and what Linux reports
 * about them.
 */

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Service, startService } from '../../test/support/service.ts'

export type { Service } from '../../test/support/service.ts'

export const root = join(import.meta.dirname, '../..')

/** Makes a temporary folder, which is removed on disposal. */
export function createTemporaryFolder(): Disposable & { path: string } {
  const path = mkdtempSync(join(tmpdir(), 'svc-bench-'))
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) }
}

export interface Child extends AsyncDisposable {
  readonly pid: number
  /** The text after `ready`; for servers an address. */
  readonly ready: string
  readonly exited: Promise<number>
  /** All of stdout. Call it after `exited`. */
  output(): Promise<string>
}

/** Starts a script of this folder, or a program, and waits for its line `ready <text>`. */
export async function startChild(script: string, args: readonly string[] = []): Promise<Child> {
  const command = script.endsWith('.ts') ? [process.execPath, join(import.meta.dirname, script)] : [script]
  const child = Bun.spawn([...command, ...args], {
    // Raises Bun's limit of 256 fetches, as the service does.
    env: { ...process.env, BUN_CONFIG_MAX_HTTP_REQUESTS: '60000' },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'inherit',
  })
  let stdout = ''
  const line = Promise.withResolvers<string>()
  const reading = (async () => {
    for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
      stdout += chunk
      const ready = /^ready ?(.*)\n/m.exec(stdout)?.[1]
      if (ready !== undefined) line.resolve(ready)
    }
    line.reject(new Error(`${script} ended before it was ready`))
  })()
  return {
    pid: child.pid,
    ready: await line.promise,
    exited: child.exited,
    async output() {
      await reading
      return stdout
    },
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      await child.exited
      await reading.catch(() => {})
    },
  }
}

/** Starts the canned upstream in its own process; `ready` is its address. */
export const startUpstream = (args: readonly string[] = []): Promise<Child> => startChild('upstream.ts', args)

/** Starts the service on a folder, connected to `upstream`; by default from source, like `scripts/start`. */
export const startBenchService = (
  dir: string,
  upstream: string,
  options: { args?: string[]; command?: string[]; env?: Record<string, string> } = {},
): Promise<Service> =>
  startService({
    dir,
    sandbox: false,
    args: [
      '--upstream-url',
      upstream,
      '--cdn-url',
      `${upstream}/c2c`,
      '--pace',
      'off',
      '--log-level',
      'error',
      '--store-max-count',
      '0',
      '--store-max-age-days',
      '0',
      ...(options.args ?? []),
    ],
    ...(options.command && { command: options.command }),
    ...(options.env && { env: options.env }),
  })

export const botId = (session: string) =>
  `${Buffer.from(session).toString('hex').padStart(12, '0').slice(-12)}@im.bot`

/** Writes a logged-in session, as a login would leave it. */
export function writeSession(dir: string, name: string, upstream: string): void {
  mkdirSync(join(dir, name), { recursive: true, mode: 0o700 })
  const bot_id = botId(name)
  const token = {
    bot_id,
    token: `${bot_id}:${name}`,
    base_url: upstream,
    user_id: 'owner@im.wechat',
    cursor: '',
  }
  writeFileSync(join(dir, name, 'token.json'), JSON.stringify({ ...token, created_at: Date.now() }), {
    mode: 0o600,
  })
}

/** Returns bytes of memory: now (`rss`), and the maximum since `resetPeak`. */
export function memoryOf(pid: number): { rss: number; peak: number } {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  const field = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) * 1024
  return { rss: field('VmRSS'), peak: field('VmHWM') }
}

/** Restarts `peak` at the present size. */
export const resetPeak = (pid: number): void => writeFileSync(`/proc/${pid}/clear_refs`, '5')

/** Returns the processor time of the process in seconds, over all threads. The kernel counts hundredths. */
export function cpuSecondsOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ')
  return (Number(fields[11]) + Number(fields[12])) / 100
}

/** POSTs JSON and returns the parsed response. A status other than 2xx is an error. */
// biome-ignore lint/suspicious/noExplicitAny: canned responses, read freely
export async function post(url: string, body: unknown = {}): Promise<any> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  if (!response.ok) throw new Error(`${url}: ${response.status} ${await response.text()}`)
  return response.json()
}

/** Repeats `look` until it returns something. */
export async function waitUntil<T>(
  what: string,
  read: () => Promise<T | undefined>,
  withinMs = 60_000,
): Promise<T> {
  for (const deadline = Date.now() + withinMs; Date.now() < deadline; ) {
    const found = await read()
    if (found !== undefined) return found
    await Bun.sleep(20)
  }
  throw new Error(`not within ${withinMs} ms: ${what}`)
}
