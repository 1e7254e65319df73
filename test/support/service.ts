/** The service as users run it: in its own process on a temporary folder, from source or as the binary. */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ended } from './ended.ts'
import { end, family, innermost } from './family.ts'
import { overhear } from './overheard.ts'
import { stopwatch } from './stopwatch.ts'
import { svcProgram } from './svc-program.ts'

export interface ServiceOptions {
  /** Existing data directory; default: a temporary one, removed at the end. */
  dir?: string
  /** More options of `svc openapi`. */
  args?: string[]
  env?: Record<string, string>
  /** Program and its first arguments; default: `svcProgram`. */
  command?: readonly string[]
  /** False: starts without `--sandbox`; pass an upstream in `args`. */
  sandbox?: boolean
  /** Data directory as the program sees it, if its path differs there. */
  dirInside?: string
  /** Working directory; default: the data directory. */
  cwd?: string
  /** Longest wait for the ready lines; default 90 s, which a busy machine needs. */
  readyWithinMs?: number
  /** Aborts the start. */
  signal?: AbortSignal
}

/** A service as its callers see it. */
export interface Served {
  readonly url: string
  /** URL of the sandbox; '' without one. */
  readonly phoneUrl: string
  /** POSTs a tool call. Returns status and parsed body. */
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
  /** Signals the program, also if it runs inside a wrapper, and waits for its end. */
  kill(signal: NodeJS.Signals): Promise<number>
}

// biome-ignore lint/suspicious/noExplicitAny: tests read any field of an answer
export type Json = any

/** Returns the service if its ready lines are in the output; they may be JSON. */
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
      tls: { rejectUnauthorized: false },
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
      '--port',
      '0',
      '-d',
      dirInside,
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
  const output = overhear(child)
  const { exited } = output
  const kill = (signal: NodeJS.Signals) => {
    if (child.exitCode !== null || child.signalCode !== null) return exited
    for (const pid of signal === 'SIGKILL' ? family(child.pid) : innermost(child.pid)) end(pid, signal)
    return exited
  }
  using watch = stopwatch()
  let served = servedAt(output.stdout, sandboxed)
  for (; !served; served = servedAt(output.stdout, sandboxed)) {
    const isLate = watch.ms > (options.readyWithinMs ?? 90_000)
    if (child.exitCode !== null || isLate || options.signal?.aborted) {
      const late = child.exitCode === null && child.signalCode === null
      await kill('SIGKILL')
      const how = late ? 'in time' : `(exit ${child.exitCode ?? child.signalCode})`
      throw new Error(`the service did not start ${how}:\n${output.stdout}${output.stderr}`)
    }
    await Bun.sleep(10)
  }
  return {
    ...served,
    pid: child.pid,
    dir,
    exited,
    log: () => output.stderr,
    stdout: () => output.stdout,
    kill,
    async [Symbol.asyncDispose]() {
      await kill('SIGKILL')
      if (!options.dir) await rm(dir, { recursive: true, force: true })
    },
  }
}

/** Returns path and query of a link that signs in to the panel of the service on this directory. */
export async function panelLinkOf(dir: string): Promise<string> {
  const env = { PATH: process.env.PATH ?? '', HOME: dir }
  const { stdout, stderr } = await ended([...svcProgram, 'panel', 'link', '-d', dir], { cwd: dir, env })
  const link = URL.parse(stdout.trim())
  if (!link) throw new Error(`svc panel link: ${stdout}${stderr}`)
  return `${link.pathname}${link.search}`
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

/** A new person joins by an invitation to an account of this name. @returns the person's id */
export async function joinAsGuest({ phone, url }: Served, name: string): Promise<string> {
  const post = async (path: string, body: unknown): Promise<Json> => {
    const headers = { 'content-type': 'application/json' }
    const answer = await fetch(`${url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
    return answer.json()
  }
  const { link } = await post('/invitations', { name })
  const [, secret] = link.split('#')
  const { qr_url } = await post('/invite/join', { secret })
  const { id } = await phone('users', { name })
  await phone('scan', { confirm: true, qrcode: qr_url, user: id })
  return id
}
