/** The process itself: how it was started, how it is stopped. */
import process from 'node:process'

interface BunRuntime {
  isStandaloneExecutable?: boolean
}

/** Whether this is the compiled binary. */
export const isCompiled: boolean = (globalThis as { Bun?: BunRuntime }).Bun?.isStandaloneExecutable === true

/** The arguments after the program's name, run or compiled. */
export const commandArguments = (): string[] => process.argv.slice(2)

/** What Bun reads from the environment at its very start and has no flag for. */
const runtimeSettings = {
  // 256 fetches at a time by default, and every session holds one.
  BUN_CONFIG_MAX_HTTP_REQUESTS: '60000',
  // How much garbage may pile up depends on the machine's memory; streamed media would take tens of megabytes more.
  BUN_JSC_forceRAMSize: String(512 * 1024 * 1024),
}

/**
 * Gives the runtime its settings: the process replaces itself once (same pid, same terminal, about 5 ms). To be called
 * before anything else is loaded. Returns where there is nothing to do: not Bun, all set, or no execve (Windows). Also
 * keeps requests to this machine (the sandbox) away from a proxy that the environment names, to which fetch would send
 * even those.
 */
export function tuneRuntime(): void {
  spareLoopbackTheProxy(process.env)
  const missing = Object.entries(runtimeSettings).filter(([name]) => process.env[name] === undefined)
  if (!process.versions.bun || missing.length === 0 || !process.execve) return
  const args = isCompiled
    ? [process.execPath, ...process.argv.slice(2)]
    : [process.execPath, ...process.execArgv, ...process.argv.slice(1)]
  process.execve(process.execPath, args, { ...process.env, ...Object.fromEntries(missing) })
}

function spareLoopbackTheProxy(env: NodeJS.ProcessEnv): void {
  if (!['HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY'].some(name => env[name] || env[name.toLowerCase()])) return
  // Where both spellings are set, the lower-case one is read.
  const name = env.no_proxy === undefined ? 'NO_PROXY' : 'no_proxy'
  const listed = (env[name] ?? '').split(',').map(host => host.trim())
  if (listed.includes('*')) return
  env[name] = [...new Set([...listed.filter(Boolean), '127.0.0.1', 'localhost', '::1'])].join(',')
}

/**
 * Calls `stop` on the first SIGINT or SIGTERM; a second one ends the process at once.
 *
 * @returns takes the handlers away again
 */
export function onStopSignals(stop: (signal: 'SIGINT' | 'SIGTERM') => void): () => void {
  let stopping = false
  const handlers = (['SIGINT', 'SIGTERM'] as const).map(signal => {
    const handler = () => {
      // 128 + the signal's number, as a shell would report it.
      if (stopping) process.exit(signal === 'SIGINT' ? 130 : 143)
      stopping = true
      stop(signal)
    }
    process.on(signal, handler)
    return () => process.off(signal, handler)
  })
  return () => {
    for (const remove of handlers) remove()
  }
}
