/**
 * `bun scripts/smoke.ts [--data DIR] [--data-inside DIR] [--patience N] [--thorough] -- COMMAND…`: has a whole
 * conversation with svc, only over HTTP. COMMAND may start anything: the sources, a binary, one in another
 * root directory or in a container that shares the network.
 */
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import process from 'node:process'
import { parseArgs } from 'node:util'
import { bypassProxyForLoopback } from '../src/platform/process.ts'
import { ended } from '../test/support/ended.ts'
import { type Service, startService } from '../test/support/service.ts'
import { stopwatch } from '../test/support/stopwatch.ts'
import { checkPages, checkStillThere, continueConversation, startConversation } from './smoke/conversation.ts'
import { expectMatch } from './smoke/expected.ts'
import { checkAgent, checkBackup } from './smoke/thorough.ts'

export interface SmokeOptions {
  /** The program and its first arguments, as `['dist/svc']`. */
  command: readonly string[]
  /** The command for the second start, on the same data; by default the same. */
  again?: readonly string[]
  /** The data directory as this script sees it; created if absent. Must be empty. */
  data: string
  /** The data directory as the program sees it, when that is another path. */
  dataInside?: string
  /** The whole environment, besides PATH and HOME. */
  env?: Record<string, string>
  /** The folder in which the program starts; by default the data directory. */
  cwd?: string
  /** The expected version; any by default. */
  version?: string
  /** Also tries a backup, its restore and an agent, whose files are beside the data directory. */
  thorough?: boolean
  /** How many times longer than on an ordinary machine each step may take. */
  patience?: number
  /** Ends the conversation and the programs that it started. */
  signal?: AbortSignal
  /** Called for each step that succeeded. */
  print?(line: string): void
}

/** A step that takes longer than this fails. */
const stepMs = 30_000

/** @throws Error that names the failed step, with the last output of the program */
export async function smoke(options: SmokeOptions): Promise<void> {
  const { command, again = command, patience = 1, print = () => {} } = options
  const data = resolve(options.data)
  const dataInside = options.dataInside ?? data
  await mkdir(data, { recursive: true })

  let service: Service | undefined
  let starting: Promise<Service> | undefined
  const giveUp = new AbortController()
  const step = async <T>(name: string, work: () => Promise<T>): Promise<T> => {
    const started = performance.now()
    try {
      const result = await runWithin(stepMs * patience, work(), options.signal)
      print(`ok ${name} (${Math.round(performance.now() - started)} ms)`)
      return result
    } catch (error) {
      const log = service
        ? `\nstderr of ${command.join(' ')}:\n${service.log().slice(-4000) || '(nothing)'}`
        : ''
      const why = error instanceof Error ? error.message : String(error)
      throw new Error(`failed: ${name}\n${why}${log}`, { cause: error })
    }
  }
  const start = async (program: readonly string[]) => {
    starting = startService({
      dir: data,
      dirInside: dataInside,
      command: [...program],
      // At the default pace each send would wait for a second.
      args: ['--admin-port', '0', '--pace', '10/s'],
      // Shorter than the step, because its error says more about a slow start.
      readyWithinMs: stepMs * patience * 0.9,
      signal: giveUp.signal,
      ...(options.env && { env: options.env }),
      ...(options.cwd !== undefined && { cwd: options.cwd }),
    })
    service = await starting
    await service.phone('switches', { burst: 'off' })
    return { service, data, dataInside, step }
  }

  try {
    const version = await step('says its version', () => versionOf(options))
    const first = await step('starts', () => start(command))
    await checkPages(first, version)
    const before = await startConversation(first)
    await step('ends well on SIGTERM', async () => expectMatch(await first.service.kill('SIGTERM'), 0))

    const second = await step('starts again on the same data', () => start(again))
    const middle = await checkStillThere(second, before)
    const later = await continueConversation(second, middle)
    await step('is ended by SIGKILL', () => second.service.kill('SIGKILL'))

    const third = await step('starts again after that', () => start(command))
    await checkStillThere(third, later)
    const { messages } = (await third.service.call('history')).body
    await step('ends well on SIGTERM once more', async () =>
      expectMatch(await third.service.kill('SIGTERM'), 0),
    )
    if (!options.thorough) return
    const env = { PATH: process.env.PATH ?? '', HOME: dataInside, ...options.env }
    const place = {
      command,
      data,
      dataInside,
      cwd: options.cwd ?? data,
      env,
      withinMs: stepMs * patience * 0.9,
    }
    await step('makes a backup and restores it', () => checkBackup(place, { ...later, messages }))
    await step('answers through an agent', () => checkAgent(place))
  } finally {
    // Limited: a program that does not even end on SIGKILL must not block the caller.
    giveUp.abort()
    await runWithin(10_000, Promise.resolve(starting?.then(last => last.kill('SIGKILL')))).catch(() => {})
  }
}

async function versionOf({ command, env, cwd, data, version, patience = 1 }: SmokeOptions): Promise<string> {
  const { status, stdout, stderr } = await ended([...command, '--version'], {
    cwd: cwd ?? data,
    env: { PATH: process.env.PATH ?? '', ...env },
    withinMs: stepMs * patience,
  })
  expectMatch(
    { status, stdout, stderr: status === 0 ? '' : stderr },
    { status: 0, stdout: /\d+\.\d+\.\d+/, stderr: '' },
  )
  const printed = /\d+\.\d+\.\d+\S*/.exec(stdout)?.[0] ?? ''
  // A version without its commit is also that of every commit.
  if (version !== undefined)
    expectMatch(version.includes('+') ? printed : printed.replace(/\+.*/, ''), version)
  return printed
}

async function runWithin<T>(ms: number, work: Promise<T>, signal?: AbortSignal): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>()
  using watch = stopwatch()
  const timer = setInterval(() => watch.ms > ms && reject(new Error(`not within ${ms} ms`)), 100)
  const stop = () => reject(signal?.reason)
  signal?.addEventListener('abort', stop, { once: true })
  if (signal?.aborted) stop()
  try {
    return await Promise.race([work, promise])
  } finally {
    clearInterval(timer)
    signal?.removeEventListener('abort', stop)
  }
}

const ownOptions = {
  data: { type: 'string' },
  'data-inside': { type: 'string' },
  patience: { type: 'string', default: '1' },
  thorough: { type: 'boolean', default: false },
  'expect-version': { type: 'string' },
} as const

/** Bun removes the first --, so the command begins with the first word that is not one of our options. */
function splitArguments(args: string[]): { own: string[]; command: string[] } {
  const { tokens } = parseArgs({
    args,
    options: ownOptions,
    strict: false,
    allowPositionals: true,
    tokens: true,
  })
  const first = tokens.find(({ kind }) => kind !== 'option')
  const end = first?.index ?? args.length
  return { own: args.slice(0, end), command: args.slice(first?.kind === 'option-terminator' ? end + 1 : end) }
}

async function main(): Promise<void> {
  const { own, command } = splitArguments(process.argv.slice(2))
  const { values } = parseArgs({ args: own, options: ownOptions })
  if (command.length === 0) throw new Error('after -- comes the command that starts svc, as: -- dist/svc')
  const patience = Number(values.patience)
  if (!(patience > 0)) throw new Error(`--patience: expected a number above 0, got ${values.patience}`)
  bypassProxyForLoopback()
  const stop = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => stop.abort(new Error(`stopped by ${signal}`)))
  }
  // Settings of the person who runs this must not affect the conversation.
  const env = Object.entries(process.env).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && !entry[0].startsWith('SVC_'),
  )
  const folder = await mkdtemp(join(tmpdir(), 'svc-smoke-'))
  const data = values.data ?? join(folder, 'svc')
  const [program = '', ...rest] = command
  try {
    await smoke({
      // As an absolute path, because it is started in another folder.
      command: [program.includes('/') ? resolve(program) : program, ...rest],
      data,
      cwd: process.cwd(),
      env: Object.fromEntries(env),
      patience,
      thorough: values.thorough,
      signal: stop.signal,
      print: console.log,
      ...(values['data-inside'] !== undefined && { dataInside: values['data-inside'] }),
      ...(values['expect-version'] !== undefined && { version: values['expect-version'] }),
    })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

if (import.meta.main) {
  await main().catch(error => {
    console.error(error instanceof Error ? error.message : error)
    process.exitCode = 1
  })
}
