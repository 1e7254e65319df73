/**
 * This process: how it was started and is stopped, and the programs that it runs. Imports no other file of
 * svc, because the start of a service loads this file twice.
 */
import { existsSync, readFileSync } from 'node:fs'
import { homedir, hostname, userInfo } from 'node:os'
import { dirname, resolve } from 'node:path'
import process from 'node:process'
import { fileURLToPath } from 'node:url'
import { attempt } from './fields.ts'

interface BunRuntime {
  isStandaloneExecutable?: boolean
}
interface DenoRuntime {
  mainModule: string
}

/** Returns the name of this process among those of all machines: `<host>:<pid>`. Under Deno, needs a permission. */
export const nameOfProcess = (): string => `${hostname()}:${process.pid}`

/** Returns the name of the user that runs this process, or the number. Bun's function takes it from the environment. */
export function findSystemUser(): string {
  const uid = process.getuid?.()
  if (uid === undefined) return userInfo().username
  const users = attempt(() => readFileSync('/etc/passwd', 'utf8').split('\n'))
  return users?.find(line => line.split(':')[2] === `${uid}`)?.split(':')[0] || `${uid}`
}

/** Whether this is the compiled binary. */
export const isCompiled: boolean = (globalThis as { Bun?: BunRuntime }).Bun?.isStandaloneExecutable === true

/** Returns the arguments after the program's name, in the compiled binary too. */
export const readArguments = (): string[] => process.argv.slice(2)

/** Whether this is Node itself. Bun and Deno also claim to be Node. */
export const isNode: boolean = !process.versions.bun && !('Deno' in globalThis)

/**
 * Returns the command that starts this program again from anywhere: program and first arguments, with
 * absolute paths.
 */
export function findOwnCommand(): [file: string, ...args: string[]] {
  if (isCompiled) return [process.execPath]
  const { Deno } = globalThis as { Deno?: DenoRuntime }
  if (!Deno) return [findBun(), resolve(process.argv[1] ?? '')]
  const { mainModule } = Deno
  // A program that was run from a URL runs from that URL again; Deno keeps a copy.
  const script = mainModule.startsWith('file:') ? fileURLToPath(mainModule) : mainModule
  return [process.execPath, 'run', '--allow-all', script]
}

/** What main.ts says: whether this process is svc itself, and not a program that uses its library. */
export const program: { isSvc: boolean } = { isSvc: false }

/** The words with which svc starts a part of itself as a process of its own (`partCommand`). */
export const partWords = { decodeVoice: 'decode-voice', remind: 'remind-stdio' } as const

/**
 * npm's Bun is called bun.exe on every system. Its package manager links it under the usual name beside the
 * package.
 */
export function findBun(): string {
  const link = process.execPath.replace(/\/bun\/bin\/bun\.exe$/, '/.bin/bun')
  return existsSync(link) ? link : process.execPath
}

/** The variable from which Bun reads, at its very start, how many fetches may run at the same time. */
export const fetchLimitVariable = 'BUN_CONFIG_MAX_HTTP_REQUESTS'
const raisedFetchLimit = 60_000
/** Bun's default limit. */
export const defaultFetchLimit = 256

/**
 * A start runs its code a few dozen times, and JavaScriptCore then begins to compile it to machine code. That
 * costs 5 ms of a start and 3 MB of an idle service, for what a service needs only under load. These options
 * delay it; after 10,000 calls a service is as fast as without them. Set only for the binary, because they
 * are options of its own Bun.
 */
const lateCompilingOptions = {
  BUN_JSC_thresholdForJITAfterWarmUp: '3000',
  BUN_JSC_thresholdForOptimizeAfterWarmUp: '10000',
}

/** Returns how many fetches the runtime allows this process at the same time. Deno has no limit. */
export function readFetchLimit(env: NodeJS.ProcessEnv = process.env): number {
  if (!process.versions.bun) return raisedFetchLimit
  const limit = Number(env[fetchLimitVariable] ?? '')
  return Number.isInteger(limit) && limit >= 1 && limit <= 65_535 ? limit : defaultFetchLimit
}

/** Returns the descriptors of the sockets that systemd holds for this process. See sd_listen_fds(3). */
export const listActivatedFds = (env: NodeJS.ProcessEnv = process.env): number[] =>
  process.versions.bun && env.LISTEN_PID === String(process.pid)
    ? Array.from({ length: Number(env.LISTEN_FDS) || 0 }, (_, nth) => 3 + nth)
    : []

/**
 * Raises Bun's limit of 256 fetches at the same time. Bun reads the limit from the environment at its very
 * start, so the process replaces itself once (same pid, same terminal). Call this first: code loaded before
 * it is loaded twice. Returns where there is nothing to do: not Bun, already raised, or no execve (Windows).
 *
 * If the system cannot start this file again (a newer one has just replaced it, or an emulator runs it), the
 * process goes on with the limit that it has. Then logins beyond the limit are rejected, and svc doctor
 * reports it.
 */
export function raiseFetchLimit(): void {
  if (!process.versions.bun || process.env[fetchLimitVariable] !== undefined || !process.execve) return
  // Bun's execve closes the sockets that systemd holds. The unit of svc has the variable.
  if (listActivatedFds().length > 0) return
  const args = isCompiled
    ? [process.execPath, ...process.argv.slice(2)]
    : [process.execPath, ...process.execArgv, ...process.argv.slice(1)]
  try {
    process.execve(process.execPath, args, {
      ...(isCompiled && lateCompilingOptions),
      ...process.env,
      [fetchLimitVariable]: String(raisedFetchLimit),
    })
  } catch {
    // The process goes on unchanged.
  }
}

/**
 * Makes requests to this machine (the sandbox) bypass a proxy from the environment; fetch would send them to
 * it.
 */
export function bypassProxyForLoopback(env: NodeJS.ProcessEnv = process.env): void {
  if (!['HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY'].some(name => env[name] || env[name.toLowerCase()])) return
  // Where both spellings are set, the lower-case one is used.
  const name = env.no_proxy === undefined ? 'NO_PROXY' : 'no_proxy'
  const exempt = (env[name] ?? '').split(',').map(host => host.trim())
  if (exempt.includes('*')) return
  env[name] = [...new Set([...exempt.filter(Boolean), '127.0.0.1', 'localhost', '::1'])].join(',')
}

/**
 * Returns the user's home folder. Bun's `homedir` keeps the HOME of its start, even when HOME changes later.
 *
 * @throws Error without HOME, for a user that the system does not know, as in some containers
 */
export const findHomeFolder = (): string =>
  (process.platform === 'win32' ? undefined : process.env.HOME) || homedir()

/** Signals that ask a process to stop. */
export type StopSignal = 'SIGINT' | 'SIGTERM' | 'SIGHUP'

/** Exit status of a process ended by a signal, as a shell reports it. */
const signalStatus: Readonly<Record<StopSignal, number>> = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 }

/**
 * A repeated signal within this time counts once: a terminal signals a whole process group, and wrappers pass
 * it on.
 */
const repeatMs = 500

/** Called with a signal. Returns true if the next signal must not end the process, but call it again. */
export type StopListener = (signal: StopSignal) => unknown

/**
 * Calls `stop` on the first SIGINT, SIGTERM or SIGHUP (a terminal that closes). A second signal ends the
 * process at once, unless `stop` wants that one too.
 *
 * @returns a function that removes the handlers
 */
export function onStopSignals(stop: StopListener): () => void {
  let last: { signal: string; at: number } | undefined
  let isMoreWanted: unknown = true
  const handlers = listStopSignals().map(signal => {
    const handler = () => {
      if (last?.signal === signal && performance.now() - last.at < repeatMs) return
      if (isMoreWanted !== true) process.exit(signalStatus[signal])
      last = { signal, at: performance.now() }
      isMoreWanted = stop(signal)
    }
    process.on(signal, handler)
    return () => process.off(signal, handler)
  })
  return () => {
    for (const remove of handlers) remove()
  }
}

/** Under nohup a process goes on when its terminal closes. A SIGHUP handler would undo that. */
function listStopSignals(): StopSignal[] {
  const handlesHangUp =
    process.platform === 'linux' ? !ignoresHangUp() : process.getBuiltinModule('node:tty').isatty(0)
  return handlesHangUp ? ['SIGINT', 'SIGTERM', 'SIGHUP'] : ['SIGINT', 'SIGTERM']
}

function ignoresHangUp(): boolean {
  const status = attempt(() => readFileSync('/proc/self/status', 'utf8')) ?? ''
  const [, ignored = ''] = /^SigIgn:\s*\w*(\w)$/m.exec(status) ?? []
  return Number.parseInt(ignored, 16) % 2 === 1
}

/**
 * Returns the proxy for requests to `url` that the environment names, if any. Runtimes read NO_PROXY
 * differently. If one of them would exempt a host, it is exempt here: a request without proxy has its address
 * checked.
 */
export function proxyFor(url: URL, env: NodeJS.ProcessEnv = process.env): URL | undefined {
  const names = [url.protocol === 'https:' ? 'https_proxy' : 'http_proxy', 'all_proxy']
  const proxy = names.flatMap(name => [env[name], env[name.toUpperCase()]]).find(Boolean)
  if (!proxy) return undefined
  const { no_proxy, NO_PROXY } = env
  const listed = [no_proxy, NO_PROXY].flatMap(list => (list ?? '').toLowerCase().split(/[\s,]+/))
  const host = url.hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '')
  const isSpared = listed.some(listed => {
    if (listed === '*') return true
    const name = listed.replace(/^\*?\.?/, '').replace(/\.$/, '')
    const bare = name.replace(/^\[|\](:\d+)?$/g, '').replace(/^([^:]+):\d+$/, '$1')
    return (
      name !== '' &&
      [name, bare].some(
        candidate => candidate === url.host || candidate === host || host.endsWith(`.${candidate}`),
      )
    )
  })
  const address = proxy.includes('://') ? proxy : `http://${proxy}`
  return isSpared || !URL.canParse(address) ? undefined : new URL(address)
}

/** The result of a program. */
export interface ProgramResult {
  /** Exit status; absent if the program could not be started or was killed. */
  status?: number
  stdout: string
  stderr: string
}

/**
 * Runs a program to its end, with messages in English and times in UTC. Its stdin stays open until then. Never
 * throws.
 *
 * @param options.withinMs time limit; 0: none
 * @param options.signal asks the program to end (SIGTERM) when it aborts
 */
export async function runProgram(
  program: string,
  args: readonly string[],
  {
    env = {},
    signal,
    withinMs = 30_000,
  }: { env?: Record<string, string>; signal?: AbortSignal; withinMs?: number } = {},
): Promise<ProgramResult> {
  const { execFile } = await import('node:child_process')
  return new Promise(resolve => {
    execFile(
      program,
      [...args],
      {
        env: { ...env, ...process.env, LC_ALL: 'C', TZ: 'UTC' },
        signal,
        timeout: withinMs,
        maxBuffer: 4 * 1024 * 1024,
      },
      (error, stdout, stderr) => {
        const status = error === null ? 0 : typeof error.code === 'number' ? error.code : undefined
        resolve({ status, stdout, stderr })
      },
    )
  })
}

/**
 * Ends this process when its stdin ends, because the process that started it is gone. Until disposed.
 *
 * @see runProgram, which keeps the stdin of its program open
 */
export function endWithStdin(): Disposable {
  const { stdin } = process
  const end = () => process.exit(1)
  stdin.on('end', end).on('error', end).resume()
  return {
    [Symbol.dispose]() {
      stdin.off('end', end).off('error', end).destroy()
    },
  }
}

/** What a runtime needs of the environment: its folders, and those of Windows. */
const neededVariables =
  /^(PATH|HOME|TMPDIR|TEMP|TMP|DENO_\w+|XDG_\w+|SYSTEMROOT|USERPROFILE|(LOCAL)?APPDATA)$/i

/**
 * Runs a part of svc in another process: bytes in, bytes out. It gets none of the settings of svc, and starts in a
 * folder from which the runtime reads no settings.
 *
 * @throws Error if it fails, takes too long, or writes more than `maxBytes`; its message is what it wrote on stderr
 */
export async function runPart(
  [file, ...args]: readonly [file: string, ...args: string[]],
  input: Uint8Array,
  { maxBytes, signal, withinMs }: { maxBytes: number; withinMs: number; signal: AbortSignal },
): Promise<Uint8Array> {
  const { execFile } = await import('node:child_process')
  const options = {
    encoding: 'buffer',
    signal,
    timeout: withinMs,
    killSignal: 'SIGKILL',
    maxBuffer: maxBytes,
    windowsHide: true,
    cwd: dirname(process.execPath),
    env: Object.fromEntries(Object.entries(process.env).filter(([name]) => neededVariables.test(name))),
  } as const
  return new Promise((resolve, reject) => {
    const child = execFile(file, args, options, (error, output, said) =>
      error ? reject(new Error(`${said}`.trim() || error.message)) : resolve(output),
    )
    // If the process ends before it has read everything, its end says why.
    child.stdin?.on('error', () => {}).end(input)
  })
}

/** Redirects console output to stderr from now on, because stdout carries something else. */
export function keepStdoutClean(): void {
  const toStderr = (...values: unknown[]) => console.error(...values)
  for (const name of ['log', 'info', 'debug', 'table', 'dir'] as const) console[name] = toStderr
}
