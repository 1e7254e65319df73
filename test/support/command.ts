/** The commands of svc as a user runs them: processes of their own, on pipes or on a real pseudo-terminal. */
import { type Ended, ended } from './ended.ts'
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
}

/** Runs a command to its end; one that goes on is killed and counts as failed. */
export async function svc(args: readonly string[], options: CommandOptions): Promise<Ended> {
  return ended([...svcProgram, ...args], {
    cwd: options.home,
    env: { PATH: process.env.PATH ?? '', HOME: options.home, TZ: 'Asia/Shanghai', ...options.env },
    ...(options.stdin !== undefined && { stdin: options.stdin }),
    withinMs,
  })
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

/** A simulated WeChat that a process of its own runs. */
export interface AloneSandbox extends AsyncDisposable {
  /** A user writes. */
  say(text: string): Promise<void>
}

/** `svc sandbox` on a folder, until it is disposed. */
export async function sandboxAlone(folder: string, home: string): Promise<AloneSandbox> {
  const child = Bun.spawn([...svcProgram, 'sandbox', '--no-banner', '--sandbox-port', '0', '-d', folder], {
    env: { PATH: process.env.PATH ?? '', HOME: home },
    stdout: 'pipe',
    stderr: 'ignore',
  })
  const reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader()
  let out = ''
  while (!/^phone on (\S+)\n/m.test(out)) {
    const { value, done } = await reader.read()
    if (done) throw new Error(`the sandbox did not start:\n${out}`)
    out += value
  }
  const [, phone] = /^phone on (\S+)\n/m.exec(out)!
  return {
    async say(text: string) {
      const response = await fetch(`${phone}/say`, { method: 'POST', body: JSON.stringify({ text }) })
      if (!response.ok) throw new Error(await response.text())
    },
    async [Symbol.asyncDispose]() {
      child.kill('SIGTERM')
      await child.exited
    },
  }
}
