/** The service as a user runs it: a process of its own on a temporary folder, from source or as the binary. */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { end, family, innermost } from './family.ts'
import { overhear } from './overheard.ts'
import { stopwatch } from './stopwatch.ts'
import { svcProgram } from './svc-program.ts'

export interface ServiceOptions {
  /** An existing data directory; a temporary one, removed at the end, otherwise. */
  dir?: string
  /** More options of `svc openapi`. */
  args?: string[]
  env?: Record<string, string>
  /** The program and its first arguments; the sources under Bun by default. */
  command?: readonly string[]
  /** False: no `--sandbox`; then pass an upstream in `args`. */
  sandbox?: boolean
  /** The data directory as the program sees it, when that is not as it is seen from here. */
  dirInside?: string
  /** Where it is started; the data directory by default. */
  cwd?: string
  /** 30 s. */
  readyWithinMs?: number
  /** Gives up the start. */
  signal?: AbortSignal
}

/** A service, as its callers see it. */
export interface Served {
  readonly url: string
  /** Of the sandbox; '' without one. */
  readonly phoneUrl: string
  /** POSTs a tool call; the parsed body and status. */
  call<T = Json>(tool: string, input?: unknown, signal?: AbortSignal): Promise<{ status: number; body: T }>
  /** POSTs to the simulated phone. */
  phone<T = Json>(path: string, body?: unknown): Promise<T>
}

export interface Service extends Served, AsyncDisposable {
  readonly pid: number
  readonly dir: string
  readonly exited: Promise<number>
  /** Everything on stderr so far. */
  log(): string
  stdout(): string
  /** Signals the program, also when what was started only wraps it, and waits for the end. */
  kill(signal: NodeJS.Signals): Promise<number>
}

// biome-ignore lint/suspicious/noExplicitAny: answers are looked into freely by the tests
export type Json = any

/** Where it listens, once its ready lines say so; they may be JSON. */
export function servedAt(stdout: string, sandboxed = true): Served | undefined {
  const url = /^(?:\{.*"event":")?listening on ([^\s"]+)/m.exec(stdout)?.[1]
  const phoneUrl = /phone on (\S+?)\/phone/m.exec(stdout)?.[1] ?? ''
  if (url === undefined || (sandboxed && phoneUrl === '')) return undefined
  const post = (to: string, body: unknown, signal?: AbortSignal) =>
    fetch(to, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: typeof body === 'string' ? body : JSON.stringify(body ?? {}),
      ...(signal && { signal }),
    })
  return {
    url,
    phoneUrl,
    async call(tool, input, signal) {
      const response = await post(`${url}/tools/default/${tool}`, input, signal)
      return { status: response.status, body: await response.json() }
    },
    async phone(path, body) {
      const response = await post(`${phoneUrl}/phone/${path}`, body)
      const text = await response.text()
      if (!response.ok) throw new Error(`phone ${path}: ${response.status} ${text}`)
      return JSON.parse(text)
    },
  }
}

/** Starts `svc openapi` on free ports and waits for its ready lines. */
export async function startService(options: ServiceOptions = {}): Promise<Service> {
  const dir = options.dir ?? (await mkdtemp(join(tmpdir(), 'svc-')))
  const command = options.command ?? svcProgram
  const sandboxed = options.sandbox !== false
  const dirInside = options.dirInside ?? dir
  const child = Bun.spawn(
    [
      ...command,
      'openapi',
      '--no-banner',
      ...['--port', '0', '-d', dirInside],
      ...(sandboxed ? ['--sandbox', '--sandbox-port', '0'] : []),
      ...(options.args ?? []),
    ],
    {
      cwd: options.cwd ?? dir,
      env: { PATH: process.env.PATH ?? '', HOME: dirInside, ...options.env },
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'pipe',
    },
  )
  const said = overhear(child)
  const { exited } = said
  const kill = (signal: NodeJS.Signals) => {
    if (child.exitCode !== null || child.signalCode !== null) return exited
    for (const pid of signal === 'SIGKILL' ? family(child.pid) : innermost(child.pid)) end(pid, signal)
    return exited
  }
  using watch = stopwatch()
  let served = servedAt(said.stdout, sandboxed)
  for (; !served; served = servedAt(said.stdout, sandboxed)) {
    const isLate = watch.ms > (options.readyWithinMs ?? 30_000)
    if (child.exitCode !== null || isLate || options.signal?.aborted) {
      const late = child.exitCode === null && child.signalCode === null
      await kill('SIGKILL')
      const how = late ? 'in time' : `(exit ${child.exitCode ?? child.signalCode})`
      throw new Error(`the service did not start ${how}:\n${said.stdout}${said.stderr}`)
    }
    await Bun.sleep(10)
  }
  return {
    ...served,
    pid: child.pid,
    dir,
    exited,
    log: () => said.stderr,
    stdout: () => said.stdout,
    kill,
    async [Symbol.asyncDispose]() {
      await kill('SIGKILL')
      if (!options.dir) await rm(dir, { recursive: true, force: true })
    },
  }
}

/** Logs a session in through the simulated phone. */
export async function logIn(service: Served, name = '', user?: string): Promise<Json> {
  const first = await service.call('login', { session_name: name })
  if (first.body.status !== 'waiting') throw new Error(`login: ${JSON.stringify(first.body)}`)
  await service.phone('scan', { confirm: true, qrcode: first.body.qr_url, ...(user && { user }) })
  for (let tries = 0; tries < 20; tries++) {
    const { body } = await service.call('login', { session_name: name, timeout: 5 })
    if (body.status === 'confirmed') return body
  }
  throw new Error('login was never confirmed')
}
