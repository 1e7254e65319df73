/** Runs the commands of svc: in the test's process, in their own process, or on a pseudo-terminal. */
import { Readable } from 'node:stream'
import { runCli } from '../../src/cli/cli.ts'
import { type Io, type Output, withoutColours } from '../../src/cli/terminal.ts'
import { type Clock, systemClock } from '../../src/platform/clock.ts'
import type { StopSignal } from '../../src/platform/process.ts'
import { type Ended, ended } from './ended.ts'
import { rowsIn } from './gateway.ts'
import { type Served, servedAt } from './service.ts'
import { svcProgram } from './svc-program.ts'
import { until } from './until.ts'

export type { Ended } from './ended.ts'

const withinMs = 30_000

export interface CommandOptions {
  /** HOME and working directory. */
  home: string
  env?: Record<string, string>
  /** Content of stdin; empty by default. */
  stdin?: string
  /** Clock of a command in this process; default: the system's. */
  clock?: Clock
}

const environment = ({ home, env }: CommandOptions): Record<string, string> => ({
  PATH: process.env.PATH ?? '',
  HOME: home,
  TZ: 'Asia/Shanghai',
  ...env,
})

/**
 * Runs a command in this process to its end. Commands that run at the same time must have the same home,
 * and the same environment except for SVC_ variables.
 */
export const svc = (args: readonly string[], options: CommandOptions): Promise<Ended> =>
  svcRunning(args, options).exited

/**
 * Runs a command in its own process, for tests that need one. After 30 s it is killed and counts as failed.
 */
export const svcProcess = (args: readonly string[], options: CommandOptions): Promise<Ended> =>
  ended([...svcProgram, ...args], {
    cwd: options.home,
    env: environment(options),
    ...(options.stdin !== undefined && { stdin: options.stdin }),
    withinMs,
  })

/** A running command in this process. */
export interface Running {
  /** Output so far. */
  readonly stdout: string
  readonly stderr: string
  /** Has the effect of a signal to a process. A second call has no effect. */
  stop(signal: StopSignal): void
  /** Declares that the command needs its home no longer, so that commands with another home may run. */
  leave(): void
  /** Status is 128 or more if a signal ended it. */
  readonly exited: Promise<Ended>
}

/** Starts a command in this process. */
export function svcRunning(args: readonly string[], options: CommandOptions): Running {
  const leave = enterGround(options)
  const written = { stdout: '', stderr: '' }
  const output = (name: 'stdout' | 'stderr'): Output => ({
    isTerminal: false,
    hasColours: false,
    columns: undefined,
    async write(text) {
      written[name] += withoutColours(text)
    },
    print(line) {
      written[name] += `${withoutColours(line)}\n`
    },
  })
  const stop = new AbortController()
  let diedOf: StopSignal | undefined
  const io: Io = {
    env: environment(options),
    clock: options.clock ?? systemClock,
    program: svcProgram,
    in: {
      isTerminal: false,
      stream: Readable.from(options.stdin === undefined ? [] : [Buffer.from(options.stdin)]),
    },
    out: output('stdout'),
    err: output('stderr'),
    log(lines) {
      written.stderr += lines
    },
    onStop(call) {
      const stopped = () => call(stop.signal.reason)
      stop.signal.addEventListener('abort', stopped, { once: true })
      return () => stop.signal.removeEventListener('abort', stopped)
    },
    die(signal) {
      diedOf = signal
    },
  }
  const exited = runCli(args, io)
    .finally(leave)
    .then(status => ({
      status: diedOf === undefined ? status : diedOf === 'SIGINT' ? 130 : 143,
      stdout: written.stdout,
      stderr: written.stderr,
    }))
  return Object.assign(written, { stop: (signal: StopSignal) => stop.abort(signal), leave, exited })
}

/** Home and environment of this process, which all running commands share. */
let ground: { readonly key: string; commands: number; restore(): void } | undefined

/**
 * Sets the home and environment of a command in this process.
 *
 * @returns restores both, and the console, when the last command ends
 */
function enterGround(options: CommandOptions): () => void {
  const variables = Object.entries(environment(options)).filter(([name]) => !name.startsWith('SVC_'))
  const key = JSON.stringify([options.home, variables])
  if (ground && ground.key !== key) throw new Error('a command runs with another home or environment')
  if (!ground) {
    const before = Object.entries(process.env)
    const folder = process.cwd()
    // A command that speaks a protocol on stdout redirects the console.
    const methods = { ...console }
    process.chdir(options.home)
    replaceEnvironment(variables)
    const restore = () => {
      Object.assign(console, methods)
      replaceEnvironment(before)
      process.chdir(folder)
    }
    ground = { key, commands: 0, restore }
  }
  const mine = ground
  mine.commands++
  let isIn = true
  return () => {
    if (isIn) mine.commands--
    isIn = false
    if (mine.commands > 0 || ground !== mine) return
    ground = undefined
    mine.restore()
  }
}

function replaceEnvironment(variables: readonly (readonly [string, string | undefined])[]): void {
  const names = new Set(variables.map(([name]) => name))
  for (const name of Object.keys(process.env)) if (!names.has(name)) delete process.env[name]
  for (const [name, value] of variables) process.env[name] = value
}

/** A running command on a terminal. */
export interface OnTerminal extends AsyncDisposable {
  readonly pid: number
  /** Everything drawn so far, with escape sequences. */
  screen(): string
  /** Everything drawn so far, without colours. */
  text(): string
  /** Sends keystrokes. */
  type(text: string): void
  /** Waits until `text()` matches the pattern. */
  until(pattern: RegExp): Promise<RegExpExecArray>
  /** Resolves when the command has ended and its whole output has arrived. */
  readonly exited: Promise<{ status: number; signal: string | null }>
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: the expression removes control characters
const escapes = /\u001b\[[0-9;?]*[A-Za-z]/g

/** Starts a command on its own pseudo-terminal. */
export function svcOnTerminal(
  args: readonly string[],
  options: CommandOptions & { columns?: number; command?: readonly string[] },
): OnTerminal {
  let screen = ''
  const drawn = Promise.withResolvers<void>()
  const decoder = new TextDecoder()
  const child = Bun.spawn([...(options.command ?? svcProgram), ...args], {
    cwd: options.home,
    env: {
      PATH: process.env.PATH ?? '',
      HOME: options.home,
      TERM: 'xterm-256color',
      TZ: 'Asia/Shanghai',
      ...options.env,
    },
    terminal: {
      cols: options.columns ?? 100,
      rows: 40,
      data(_terminal, bytes) {
        screen += decoder.decode(bytes, { stream: true })
      },
      exit: () => drawn.resolve(),
    },
  })
  let isOver = false
  const exited = Promise.all([child.exited, drawn.promise]).then(([status]) => {
    isOver = true
    return { status, signal: child.signalCode as string | null }
  })
  const text = () => screen.replace(escapes, '').replaceAll('\r\n', '\n')
  return {
    pid: child.pid,
    screen: () => screen,
    text,
    type: typed => void child.terminal!.write(typed),
    until: pattern =>
      until(
        `${pattern} on the screen`,
        withinMs,
        () => {
          const found = pattern.exec(text())
          if (!found && isOver)
            throw new Error(`${pattern} did not come (exit ${child.exitCode}):\n${text()}`)
          return found ?? undefined
        },
        text,
      ),
    exited,
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      await child.exited
      child.terminal?.close()
    },
  }
}

/** A running service in this process. */
export interface Serving extends Served, AsyncDisposable {
  readonly dir: string
  /** Everything on stderr so far. */
  log(): string
  stdout(): string
  /** Stops it as SIGTERM does; resolves with its exit status. */
  stop(): Promise<number>
}

/** Runs `svc openapi` with a simulated WeChat in this process on free ports, until disposed. */
export async function serveHere(
  dir: string,
  options: CommandOptions,
  ...args: readonly string[]
): Promise<Serving> {
  const ports = ['--port', '0', '--sandbox', '--sandbox-port', '0']
  const running = svcRunning(['openapi', '--no-banner', ...ports, '-d', dir, ...args], options)
  const served = await ready(running, () => servedAt(running.stdout))
  const stop = async () => {
    running.stop('SIGTERM')
    return (await running.exited).status
  }
  return {
    ...served,
    dir,
    log: () => running.stderr,
    stdout: () => running.stdout,
    stop,
    [Symbol.asyncDispose]: async () => void (await stop()),
  }
}

/** Waits until `look` finds something in the output of a serving command. */
async function ready<T>(running: Running, look: () => T | undefined): Promise<T> {
  let isOver = false
  void running.exited.finally(() => {
    isOver = true
  })
  const found = await until('it is ready', withinMs, () => {
    if (isOver) throw new Error(`it ended:\n${running.stdout}${running.stderr}`)
    return look()
  })
  running.leave()
  return found
}

/** Waits until a consumer reads from a data directory. @param like its name, or a pattern of SQL for it */
export const consumerReads = (dir: string, like: string): Promise<true> =>
  until(
    `${like} reads`,
    withinMs,
    async () => (await rowsIn(dir, `SELECT 1 FROM consumer WHERE name LIKE '${like}'`)).length > 0,
  )

/** Waits until an agent beside a service reads: what came before that is not for it. */
export const agentReads = (dir: string, name: string): Promise<true> => consumerReads(dir, `agent-${name}`)

/** A simulated WeChat without a service. */
export interface AloneSandbox extends AsyncDisposable {
  /** Sends a message from a user. */
  say(text: string): Promise<void>
  /** POSTs to the simulated phone. */
  phone(path: string, body: unknown): Promise<unknown>
}

/** Runs `svc sandbox` on a folder, until disposed. */
export async function sandboxAlone(folder: string, home: string): Promise<AloneSandbox> {
  const args = ['sandbox', '--no-banner', '--sandbox-port', '0', '-d', folder]
  const running = svcRunning(args, { home })
  const at = await ready(running, () => /^phone on (\S+)\n/m.exec(running.stdout)?.[1])
  const phone = async (path: string, body: unknown) => {
    const response = await fetch(`${at}/${path}`, { method: 'POST', body: JSON.stringify(body) })
    if (!response.ok) throw new Error(await response.text())
    return response.json()
  }
  return {
    phone,
    say: async text => void (await phone('say', { text })),
    async [Symbol.asyncDispose]() {
      running.stop('SIGTERM')
      await running.exited
    },
  }
}
