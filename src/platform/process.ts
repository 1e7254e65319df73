/**
 * The process itself: how it was started, how it is stopped, and others that it starts. It imports nothing of ours, since the
 * start of a service loads it twice.
 */
import { existsSync, readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { resolve } from 'node:path'
import process from 'node:process'
import { fileURLToPath } from 'node:url'

interface BunRuntime {
  isStandaloneExecutable?: boolean
}
interface DenoRuntime {
  mainModule: string
}

/** Whether this is the compiled binary. */
export const isCompiled: boolean = (globalThis as { Bun?: BunRuntime }).Bun?.isStandaloneExecutable === true

/** The arguments after the program's name, run or compiled. */
export const commandArguments = (): string[] => process.argv.slice(2)

/** Neither Bun nor Deno, which both say that they are a Node too. */
export const isNode: boolean = !process.versions.bun && !('Deno' in globalThis)

/** How to start this program again from anywhere: the program and its first arguments, with absolute paths. */
export function ownCommand(): string[] {
  if (isCompiled) return [process.execPath]
  const { Deno } = globalThis as { Deno?: DenoRuntime }
  if (!Deno) return [bunFile(), resolve(process.argv[1] ?? '')]
  const { mainModule } = Deno
  // One that was run from an address is run from there again; Deno keeps a copy.
  const script = mainModule.startsWith('file:') ? fileURLToPath(mainModule) : mainModule
  return [process.execPath, 'run', '--allow-all', script]
}

/** npm's Bun is called bun.exe on every system; its package manager puts a link of the usual name beside the package. */
function bunFile(): string {
  const link = process.execPath.replace(/\/bun\/bin\/bun\.exe$/, '/.bin/bun')
  return existsSync(link) ? link : process.execPath
}

/** The variable that Bun reads its limit of fetches at a time from, at its very start. */
export const fetchLimitVariable = 'BUN_CONFIG_MAX_HTTP_REQUESTS'
const raisedFetchLimit = 60_000
/** What Bun allows unless told otherwise. */
export const usualFetchLimit = 256

/**
 * A start runs its code a few dozen times, which is when JavaScriptCore begins to compile it to machine code: 5 ms of a
 * start and 3 MB of an idle service for what a service needs under load alone. With these it begins later; after 10,000
 * calls a service is as fast as without them. Set for the binary alone, as they are the options of its own Bun.
 */
const lateCompiling = {
  BUN_JSC_thresholdForJITAfterWarmUp: '3000',
  BUN_JSC_thresholdForOptimizeAfterWarmUp: '10000',
}

/** How many fetches at a time the runtime lets this process have. Deno has no limit. */
export function fetchLimit(env: NodeJS.ProcessEnv = process.env): number {
  if (!process.versions.bun) return raisedFetchLimit
  const limit = Number(env[fetchLimitVariable] ?? '')
  return Number.isInteger(limit) && limit >= 1 && limit <= 65_535 ? limit : usualFetchLimit
}

/**
 * Bun allows 256 fetches at a time in a process, and reads the limit from the environment at its very start: so the
 * process replaces itself once (same pid, same terminal). To be called first: what was loaded by then is loaded twice.
 * Returns where there is nothing to do: not Bun, already raised, or no execve (Windows).
 *
 * Where the system does not start this file a second time (it was replaced by a newer one just now, or an emulator runs
 * it), the process goes on with the limit it has; logins beyond it are refused, and svc doctor tells of it.
 */
export function raiseFetchLimit(): void {
  if (!process.versions.bun || process.env[fetchLimitVariable] !== undefined || !process.execve) return
  const args = isCompiled
    ? [process.execPath, ...process.argv.slice(2)]
    : [process.execPath, ...process.execArgv, ...process.argv.slice(1)]
  try {
    process.execve(process.execPath, args, {
      ...(isCompiled && lateCompiling),
      ...process.env,
      [fetchLimitVariable]: String(raisedFetchLimit),
    })
  } catch {
    // Nothing has changed then.
  }
}

/** Requests to this machine (the sandbox) go past a proxy that the environment names; fetch would send even those to it. */
export function spareLoopbackTheProxy(env: NodeJS.ProcessEnv = process.env): void {
  if (!['HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY'].some(name => env[name] || env[name.toLowerCase()])) return
  // Where both spellings are set, the lower-case one is read.
  const name = env.no_proxy === undefined ? 'NO_PROXY' : 'no_proxy'
  const listed = (env[name] ?? '').split(',').map(host => host.trim())
  if (listed.includes('*')) return
  env[name] = [...new Set([...listed.filter(Boolean), '127.0.0.1', 'localhost', '::1'])].join(',')
}

/** The folder of the user: Bun's own answer stays that of its start whatever HOME says since. */
export const homeFolder = (): string =>
  (process.platform === 'win32' ? undefined : process.env.HOME) ?? homedir()

/** What asks a process to stop. */
export type StopSignal = 'SIGINT' | 'SIGTERM' | 'SIGHUP'

/** Exit status of a process that a signal ended, as a shell reports it. */
export const signalStatus: Readonly<Record<StopSignal, number>> = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 }

/** The same signal within this time is the same wish: the terminal tells a whole group, and wrappers pass it on. */
const echoMs = 500

/**
 * Calls `stop` on the first SIGINT, SIGTERM or SIGHUP (a terminal that closes); a second one ends the process at once.
 *
 * @returns takes the handlers away again
 */
export function onStopSignals(stop: (signal: StopSignal) => void): () => void {
  let first: { signal: string; at: number } | undefined
  const handlers = stopSignals().map(signal => {
    const handler = () => {
      if (first?.signal === signal && performance.now() - first.at < echoMs) return
      if (first) process.exit(signalStatus[signal])
      first = { signal, at: performance.now() }
      stop(signal)
    }
    process.on(signal, handler)
    return () => process.off(signal, handler)
  })
  return () => {
    for (const remove of handlers) remove()
  }
}

/** Started by nohup, a process goes on when its terminal closes: a handler would undo that. */
function stopSignals(): StopSignal[] {
  const isHeard =
    process.platform === 'linux' ? !ignoresHangUp() : process.getBuiltinModule('node:tty').isatty(0)
  return isHeard ? ['SIGINT', 'SIGTERM', 'SIGHUP'] : ['SIGINT', 'SIGTERM']
}

function ignoresHangUp(): boolean {
  try {
    const [, ignored = ''] = /^SigIgn:\s*\w*(\w)$/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? []
    return Number.parseInt(ignored, 16) % 2 === 1
  } catch {
    return false
  }
}

/**
 * Where requests to `url` go instead of to its server, as the environment says. Runtimes differ in what they take for spared by
 * NO_PROXY: whatever one of them spares is spared here, since what goes its own way is judged.
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
      name !== '' && [name, bare].some(one => one === url.host || one === host || host.endsWith(`.${one}`))
    )
  })
  const address = proxy.includes('://') ? proxy : `http://${proxy}`
  return isSpared || !URL.canParse(address) ? undefined : new URL(address)
}

/** How a program ended. */
export interface Ran {
  /** Absent: it could not be started, or was killed. */
  status?: number
  stdout: string
  stderr: string
}

/** Runs a program of the machine to its end, with its messages in English and its times in UTC. Never throws. */
export async function runProgram(
  program: string,
  args: readonly string[],
  { env = {}, withinMs = 30_000 }: { env?: Record<string, string>; withinMs?: number } = {},
): Promise<Ran> {
  const { execFile } = await import('node:child_process')
  return new Promise(resolve => {
    execFile(
      program,
      [...args],
      {
        env: { ...env, ...process.env, LC_ALL: 'C', TZ: 'UTC' },
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

/** From here on whatever prints by the console prints to stderr: stdout carries something else. */
export function keepStdoutClean(): void {
  const toStderr = (...values: unknown[]) => console.error(...values)
  for (const name of ['log', 'info', 'debug', 'table', 'dir'] as const) console[name] = toStderr
}
