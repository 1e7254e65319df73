/** svc as an operating system sees it: a process that can be killed at any moment, before it is ready too. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Ended, ended } from '../../support/ended.ts'
import { overhear } from '../../support/overheard.ts'
import type { Json } from '../../support/service.ts'
import { svcProgram } from '../../support/svc-program.ts'

export { until } from '../../support/until.ts'

export interface Answer<T = Json> {
  status: number
  body: T
}

export interface Program extends AsyncDisposable {
  readonly pid: number
  /** Address of the first ready line; '' before it. */
  readonly url: string
  /** Of the sandbox it runs or uses; ''. */
  readonly phoneUrl: string
  /** When it was killed, Unix ms. */
  readonly killedAt: number | undefined
  /** Resolves to false when it ended before it was ready. */
  readonly ready: Promise<boolean>
  readonly exited: Promise<number>
  /** Everything on stderr so far. */
  log(): string
  /** POSTs a tool call. @throws when the connection breaks */
  call<T = Json>(tool: string, input?: unknown, signal?: AbortSignal): Promise<Answer<T>>
  get<T = Json>(path: string): Promise<Answer<T>>
  kill(signal?: NodeJS.Signals): Promise<number>
}

export interface ProgramOptions {
  /** Put before the command: `setpriv --reuid …`. */
  prefix?: string[]
  /** The program and its first arguments; the sources under this Bun by default. */
  command?: readonly string[]
  cwd?: string
}

/** Starts `svc <args>`; does not wait. */
export function runSvc(args: readonly string[], options: ProgramOptions = {}): Program {
  const command = options.command ?? svcProgram
  const child = Bun.spawn([...(options.prefix ?? []), ...command, ...args], {
    cwd: options.cwd ?? '/',
    env: { PATH: process.env.PATH ?? '', HOME: '/nonexistent' },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  })
  let killedAt: number | undefined
  const readiness = Promise.withResolvers<boolean>()
  const found = (pattern: RegExp) => pattern.exec(said.stdout)?.[1] ?? ''
  const listening = () => found(/^listening on (\S+)/m)
  const phone = () => found(/^phone on (\S+?)\/phone/m)
  const said = overhear(child, () => {
    // The lines come in one breath, the phone's after the service's.
    const lines = args[0] === 'openapi' && !args.includes('--sandbox') ? listening() : phone()
    if (lines) readiness.resolve(true)
  })
  const { exited } = said
  void exited.then(() => readiness.resolve(false))
  const answerOf = async (response: Response) => ({
    status: response.status,
    body: JSON.parse(await response.text()),
  })
  const program: Program = {
    pid: child.pid,
    get url() {
      return listening()
    },
    get phoneUrl() {
      return phone()
    },
    get killedAt() {
      return killedAt
    },
    ready: readiness.promise,
    exited,
    log: () => said.stderr,
    async call(tool, input, signal) {
      const response = await fetch(`${listening()}/tools/default/${tool}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(input ?? {}),
        // One connection per call: a kept one that breaks is retried by fetch in silence.
        keepalive: false,
        ...(signal && { signal }),
      })
      return answerOf(response)
    },
    get: async path => answerOf(await fetch(`${listening()}${path}`, { keepalive: false })),
    kill(signal = 'SIGKILL') {
      if (signal === 'SIGKILL') killedAt ??= Date.now()
      child.kill(signal)
      return exited
    },
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      await exited
    },
  }
  return program
}

/** A command that does one thing and ends. */
export const runOnce = (args: readonly string[]): Promise<Ended> =>
  ended([...svcProgram, ...args], {
    cwd: '/',
    env: { PATH: process.env.PATH ?? '', HOME: '/nonexistent' },
    withinMs: 60_000,
  })

/** Waits until it is ready. @throws with its words when it is not */
export async function started(program: Program): Promise<Program> {
  if (!(await program.ready)) throw new Error(`svc did not start: ${program.log()}`)
  return program
}

/** Who took the poll lock last and when (Unix ms), by the note in its file; undefined when nobody ever did. */
export function pollLockNote(dir: string): { pid: number; at: number } | undefined {
  try {
    const found = /taken by process (\d+) at (\S+)/.exec(readFileSync(join(dir, '.poll.lock'), 'utf8'))
    return found ? { pid: Number(found[1]), at: Date.parse(found[2]!) } : undefined
  } catch {
    return undefined
  }
}
