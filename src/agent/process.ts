/**
 * Runs a program for an agent, in a process group of its own, and ends it together with everything that it started.
 *
 * A watcher, a second process of the same group, reads from a pipe that only svc holds. When svc closes the pipe or
 * dies, even by SIGKILL, the watcher kills the group. Only a process that leaves the group (setsid) escapes it; with
 * isolation there is no escape, because the sandbox ends with its first process. Windows has neither groups nor
 * watcher.
 */
import { Buffer } from 'node:buffer'
import { type ChildProcess, spawn } from 'node:child_process'
import { constants } from 'node:fs'
import { access, open } from 'node:fs/promises'
import { delimiter, join, resolve } from 'node:path'
import process from 'node:process'
import type { Readable, Writable } from 'node:stream'
import { type Environment, getEnvironment } from '../config.ts'
import { SvcError } from '../index.ts'
import { badArgument } from '../model/error.ts'
import { endsWithin } from '../platform/clock.ts'
import { attempt } from '../platform/fields.ts'
import { statOf } from '../platform/files.ts'
import { isolate } from './isolation.ts'
import { toPlainText } from './terminal.ts'

/** A program that SIGTERM does not end gets SIGKILL after this time. */
const defaultGraceMs = 3000
/** Processes that a program left running may hold its output open for this time. */
const leftoverMs = 1000
/** Bytes of stderr that are kept: its end, which has the reason of a failure. */
const keptErrorBytes = 4096

/** Bytes of a script that are read to find its first line; Linux reads no longer one. */
const longestFirstLine = 256

/**
 * Starts the watcher, then becomes the program, which is therefore the leader of the group. The traps are set before
 * the watcher starts, so that no signal ends it alone.
 */
const watched = [
  `trap '' HUP INT TERM`,
  '{ read -r line; kill -KILL 0; } <&3 >/dev/null 2>&1 &',
  'trap - HUP INT TERM',
  'exec "$@" 3<&-',
].join('\n')

/** How an agent program is started, whatever it works on. */
export interface ProgramCommand {
  /** Program and arguments. A program with a slash is relative to the folder in which svc was started. */
  readonly command: readonly string[]
  /** The environment of svc, from which that of the program is derived. */
  readonly env?: Environment
  /** Names of variables that it gets besides: those that svc reads itself, and in a sandbox others. */
  readonly given?: readonly string[] | undefined
  /** Runs it in a sandbox that sees the working folder and the system's programs, and not this data directory. */
  readonly isolatedFrom?: string | undefined
}

export interface ProgramOptions extends ProgramCommand {
  /**
   * The words of the command that the user configured. In a sandbox the files that they name by absolute paths are
   * visible.
   */
  readonly settings: readonly string[]
  /** Working folder. */
  readonly folder: string
}

/** How a program ended. */
export interface ProgramEnd {
  /** Exit status; absent if a signal ended it. */
  readonly status?: number
  readonly signal?: string
}

/** Why an agent failed, for its owner (`failure-text.ts`). */
export interface FailureReason {
  /**
   * status, signal: how its program ended. error: it reported an error. unreachable, refused: the address of a model,
   * and the status that it answered. acp: it does not speak the protocol.
   */
  readonly how: 'status' | 'signal' | 'error' | 'unreachable' | 'refused' | 'acp'
  readonly value?: string | number
  /** What the program or the address itself said. */
  readonly said?: string
}

/** An agent that failed. Only the log and the turn show its message. */
export class AgentFailure extends SvcError {
  readonly reason: FailureReason

  constructor(problem: string, hint: string, reason: FailureReason) {
    super('upstream_error', problem, { hint })
    this.reason = reason
  }
}

/** Makes the error for an agent that failed. */
export const agentError = (
  problem: string,
  hint = 'Run the agent by hand with the same input.',
  reason: FailureReason = { how: 'error', said: problem },
): AgentFailure => new AgentFailure(problem, hint, reason)

/**
 * Starts a program.
 *
 * @throws SvcError `invalid_arguments` for an absent program, and where there is no isolation
 */
export async function startProgram(options: ProgramOptions): Promise<AgentProgram> {
  const { folder, given, isolatedFrom, settings } = options
  const env = environmentFor(options.env, given)
  const program = await findProgram(options.command[0] ?? '', env.PATH)
  const command = [program, ...options.command.slice(1)]
  const { args, env: innerEnv } =
    isolatedFrom === undefined
      ? { args: command, env }
      : await isolate(command, { folder, env, given, settings, hidden: isolatedFrom })
  const isWindows = process.platform === 'win32'
  const [file = '', ...rest] = isWindows ? args : ['/bin/sh', '-c', watched, 'sh', ...args]
  const child = spawn(file, rest, {
    // The program that starts the sandbox is outside of it. It must not load files that the agent left in its folder.
    cwd: isolatedFrom === undefined ? folder : '/',
    env: innerEnv,
    detached: !isWindows,
    windowsHide: true,
    stdio: ['pipe', 'pipe', 'pipe', 'pipe'],
  })
  await new Promise<void>((started, failed) => {
    child.once('spawn', started)
    child.once('error', error =>
      failed(badArgument('command', `${program} cannot be started (${error.message})`)),
    )
  })
  return new AgentProgram(child, command)
}

/** A running program. Read its stdout to the end, or destroy it. */
export class AgentProgram {
  readonly stdin: Writable
  readonly stdout: Readable
  /** Resolves when the program and everything in its group has ended. Never rejects. */
  readonly ended: Promise<ProgramEnd>
  readonly #child: ChildProcess
  readonly #name: string
  #errors = ''
  /** Once true, the id of the group may belong to another program. */
  #isOver = false

  constructor(child: ChildProcess, [name = '']: readonly string[]) {
    const { stderr, stdin, stdout } = child
    if (!stdin || !stdout || !stderr) throw new Error('a program without pipes')
    this.#child = child
    this.#name = name
    this.stdin = stdin
    this.stdout = stdout
    // A program need not read its input.
    stdin.on('error', () => {})
    stdout.on('error', () => {})
    child.stdio[3]?.on('error', () => {})
    stderr.on('error', () => {})
    stderr.on('data', (bytes: Buffer) => {
      const end = bytes.subarray(-keptErrorBytes).toString('latin1')
      this.#errors = (this.#errors + end).slice(-keptErrorBytes)
    })
    this.ended = this.#watch()
  }

  /** Ends it: SIGTERM to the group, and SIGKILL after `graceMs`, by default 3 s. */
  async end(graceMs = defaultGraceMs): Promise<void> {
    this.#signal('SIGTERM')
    if (await endsWithin(graceMs, this.ended)) return
    this.#kill()
    await this.ended
  }

  /** Returns the error for a program that ended, with the last lines that it wrote on stderr. */
  failure({ signal, status }: ProgramEnd, said = ''): AgentFailure {
    const how = signal === undefined ? `with status ${status}` : `by ${signal}`
    const last = toPlainText(decodeOutput(Buffer.from(this.#errors, 'latin1'))).trim() || said.trim()
    const reason =
      signal === undefined
        ? ({ how: 'status', value: status ?? -1, said: last } as const)
        : ({ how: 'signal', value: signal, said: last } as const)
    return agentError(`${this.#name} ended ${how}${last && `: ${last.slice(-500)}`}`, undefined, reason)
  }

  async #watch(): Promise<ProgramEnd> {
    const child = this.#child
    // The event `close` of a program waits for the watcher's pipe too, on Deno.
    const closed = Promise.all(
      [this.stdout, child.stderr].map(stream => new Promise(resolve => stream?.once('close', resolve))),
    )
    const end = await new Promise<ProgramEnd>(resolve => {
      child.once('exit', (status, signal) => resolve(signal === null ? { status: status ?? -1 } : { signal }))
    })
    this.#signal('SIGTERM')
    await endsWithin(leftoverMs, closed)
    this.#kill()
    if (!(await endsWithin(leftoverMs, closed)))
      for (const stream of [this.stdin, this.stdout, child.stderr]) stream?.destroy()
    this.#isOver = true
    return end
  }

  /** Kills everything in the group, the watcher included. */
  #kill(): void {
    this.#signal('SIGKILL')
    this.#child.stdio[3]?.destroy()
  }

  /** Signals the group. Its id is not used again while the watcher lives. */
  #signal(signal: NodeJS.Signals): void {
    const { pid } = this.#child
    if (pid === undefined || this.#isOver) return
    if (process.platform === 'win32') {
      // It has no signals: a program and its child processes end at once.
      spawn('taskkill', ['/PID', String(pid), '/T', '/F'], { stdio: 'ignore' }).on('error', () => {})
      return
    }
    try {
      process.kill(-pid, signal)
    } catch {
      // Fails if everything in the group has ended.
    }
  }
}

/**
 * Returns the environment of an agent: the caller's, without the variables that belong to svc: its settings and
 * secrets, those of its database, what it sets for its own runtime, and what its service manager gave it.
 */
export function environmentFor(
  env: Environment = getEnvironment(),
  given: readonly string[] = [],
): Record<string, string> {
  const own =
    /^(SVC_.*|PG[A-Z]+|CREDENTIALS_DIRECTORY|NOTIFY_SOCKET|LISTEN_\w+|BUN_JSC_\w+|BUN_CONFIG_MAX_HTTP_REQUESTS)$/i
  return Object.fromEntries(
    Object.entries(env).flatMap(([name, value]) =>
      value === undefined || (own.test(name) && !given.includes(name)) ? [] : [[name, value]],
    ),
  )
}

/**
 * Returns the absolute path of a program.
 *
 * @throws SvcError `invalid_arguments` if there is none
 */
export async function findProgram(name: string, path = ''): Promise<string> {
  const folders = /[\\/]/.test(name) ? [process.cwd()] : path.split(delimiter)
  const endings = process.platform === 'win32' ? ['', '.exe', '.cmd'] : ['']
  for (const folder of name === '' ? [] : folders)
    for (const ending of endings) {
      const found = /[\\/]/.test(name) ? resolve(folder, name + ending) : join(folder, name + ending)
      const isProgram = await access(found, constants.X_OK).then(
        async () => (await statOf(found))?.isFile() ?? false,
        () => false,
      )
      if (!isProgram) continue
      if (process.platform !== 'win32') await checkFirstLine(found, path)
      return resolve(found)
    }
  throw badArgument('command', `there is no program ${JSON.stringify(name)} that may be run`, {
    hint: 'Install it, make it executable (chmod +x), or give its absolute path.',
  })
}

/**
 * Checks that a script names an interpreter that is there. Otherwise the system says only that the script is absent.
 *
 * @throws SvcError `invalid_arguments`
 */
async function checkFirstLine(script: string, path: string): Promise<void> {
  const file = await open(script).catch(() => undefined)
  // It may be run, and not be read.
  if (!file) return
  const bytes = Buffer.alloc(longestFirstLine)
  const { bytesRead } = await file.read(bytes, 0, bytes.length, 0).finally(() => file.close())
  const [line = ''] = bytes.toString('utf8', 0, bytesRead).split('\n')
  if (!/^\ufeff?#!/.test(line)) return
  const wrong = (problem: string, hint: string) => badArgument('command', `${script} ${problem}`, { hint })
  if (line.startsWith('\ufeff')) throw wrong('begins with a byte order mark', 'Save it as UTF-8 without one.')
  if (line.endsWith('\r'))
    throw wrong('has line ends of Windows (CR LF)', "Save it with LF, or run: sed -i 's/\\r$//' FILE")
  const [interpreter = '', program = ''] = line.slice(2).trim().split(/\s+/)
  if (!(await statOf(interpreter))?.isFile())
    throw wrong(`needs ${interpreter}, which is not there`, 'Install it, or change the first line.')
  if (/\/env$/.test(interpreter) && /^\w[\w.+-]*$/.test(program)) await findProgram(program, path)
}

/** Turns what a program printed into text: UTF-8, where broken parts become U+FFFD, or GBK, as Chinese Windows has it. */
export function decodeOutput(bytes: Buffer): string {
  const text = bytes.toString('utf8')
  const count = (pattern: RegExp) => text.match(pattern)?.length ?? 0
  if (count(/\ufffd/g) <= count(/\p{Script=Han}/gu)) return text
  return attempt(() => new TextDecoder('gb18030', { fatal: true }).decode(bytes)) ?? text
}
