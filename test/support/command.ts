/** The commands of svc: in the test's own process, as a user runs them in a process of their own, or on a real pseudo-terminal. */
import { Readable } from 'node:stream'
import { runCli } from '../../src/cli/cli.ts'
import { type Io, type Output, withoutColours } from '../../src/cli/terminal.ts'
import { type Clock, systemClock } from '../../src/platform/clock.ts'
import type { StopSignal } from '../../src/platform/process.ts'
import { type Ended, ended } from './ended.ts'
import { type Served, servedAt } from './service.ts'
import { svcProgram } from './svc-program.ts'
import { until } from './until.ts'

export type { Ended } from './ended.ts'

const withinMs = 30_000

export interface CommandOptions {
  /** HOME and working directory. */
  home: string
  env?: Record<string, string>
  /** What comes on stdin; closed at once otherwise. */
  stdin?: string
  /** Of a command in this process; the system's otherwise. */
  clock?: Clock
}

const environment = ({ home, env }: CommandOptions): Record<string, string> => ({
  PATH: process.env.PATH ?? '',
  HOME: home,
  TZ: 'Asia/Shanghai',
  ...env,
})

/**
 * Runs a command to its end, in this process. Several may run at a time, if they have one home; the environment may differ
 * in what begins with SVC_.
 */
export const svc = (args: readonly string[], options: CommandOptions): Promise<Ended> =>
  svcRunning(args, options).exited

/** The same as a process of its own, for what only a process shows; one that goes on for 30 s is killed and counts as failed. */
export const svcProcess = (args: readonly string[], options: CommandOptions): Promise<Ended> =>
  ended([...svcProgram, ...args], {
    cwd: options.home,
    env: environment(options),
    ...(options.stdin !== undefined && { stdin: options.stdin }),
    withinMs,
  })

/** A command under way in this process. */
export interface Running {
  /** All that it wrote so far. */
  readonly stdout: string
  readonly stderr: string
  /** What a signal does to a process; a second one is not looked at. */
  stop(signal: StopSignal): void
  /** It needs its home no longer: commands with another may run. */
  leave(): void
  /** The status is 128 and more where it died of a signal. */
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

/** What a process has once, and the commands that run now share. */
let ground: { readonly key: string; commands: number; restore(): void } | undefined

/** Gives this process the home of a command, and its environment. @returns takes both away after the last command */
function enterGround(options: CommandOptions): () => void {
  const wanted = Object.entries(environment(options)).filter(([name]) => !name.startsWith('SVC_'))
  const key = JSON.stringify([options.home, wanted])
  if (ground && ground.key !== key) throw new Error('a command runs with another home or environment')
  if (!ground) {
    const before = Object.entries(process.env)
    const folder = process.cwd()
    process.chdir(options.home)
    replaceEnvironment(wanted)
    const restore = () => {
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

/** A command under way on a terminal. */
export interface OnTerminal extends AsyncDisposable {
  readonly pid: number
  /** All that was drawn so far, escapes included. */
  screen(): string
  /** As somebody reads it: without colours. */
  text(): string
  /** Types. */
  type(text: string): void
  /** Waits until the pattern is in `text()`. */
  until(pattern: RegExp): Promise<RegExpExecArray>
  /** Once it has ended, and all that it drew is there. */
  readonly exited: Promise<{ status: number; signal: string | null }>
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is taken away
const escapes = /\u001b\[[0-9;?]*[A-Za-z]/g

/** Starts a command on a pseudo-terminal of its own. */
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

/** A service under way in this process. */
export interface Serving extends Served, AsyncDisposable {
  readonly dir: string
  /** Everything on stderr so far. */
  log(): string
  stdout(): string
  /** Stops it, as a signal does; resolves with its exit status. */
  stop(): Promise<number>
}

/** `svc openapi` with a simulated WeChat in this process, on free ports, until it is disposed. */
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

/** What `look` finds in what a command that serves has written. */
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

/** A simulated WeChat that no service runs. */
export interface AloneSandbox extends AsyncDisposable {
  /** A user writes. */
  say(text: string): Promise<void>
  /** POSTs to the simulated phone. */
  phone(path: string, body: unknown): Promise<unknown>
}

/** `svc sandbox` on a folder, until it is disposed. */
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
