/** Runs a program to its end, and returns its output and status. */
import { end, family } from './family.ts'
import { stopwatch } from './stopwatch.ts'

export interface Ended {
  status: number
  stdout: string
  stderr: string
}

export interface RunOptions {
  cwd: string
  /** The whole environment. */
  env: Record<string, string>
  /** Content of stdin; empty by default. */
  stdin?: string
  /**
   * After this time (default 120 s) the program and its child processes are killed, and it counts as
   * failed.
   */
  withinMs?: number
  /** Gets the process when it has started. */
  started?: (child: { readonly pid: number; readonly exited: Promise<number> }) => void
}

export async function ended(command: readonly string[], options: RunOptions): Promise<Ended> {
  const child = Bun.spawn([...command], {
    cwd: options.cwd,
    env: options.env,
    stdin: options.stdin === undefined ? 'ignore' : new TextEncoder().encode(options.stdin),
    stdout: 'pipe',
    stderr: 'pipe',
  })
  options.started?.(child)
  using watch = stopwatch()
  const timer = setInterval(() => {
    if (watch.ms > (options.withinMs ?? 120_000)) for (const pid of family(child.pid)) end(pid, 'SIGKILL')
  }, 100)
  const [stdout, stderr, status] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  clearInterval(timer)
  return { status, stdout, stderr }
}
