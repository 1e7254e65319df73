/** A program run to its end: what it said, and how it ended. */
import { end, family } from './family.ts'
import { stopwatch } from './stopwatch.ts'

export interface Ended {
  status: number
  stdout: string
  stderr: string
}

export interface RunOptions {
  cwd: string
  /** All of its environment. */
  env: Record<string, string>
  /** What comes on stdin; nothing otherwise. */
  stdin?: string
  /** One that goes on longer, 120 s, is killed, with all that it started, and counts as failed. */
  withinMs?: number
}

export async function ended(command: readonly string[], options: RunOptions): Promise<Ended> {
  const child = Bun.spawn([...command], {
    cwd: options.cwd,
    env: options.env,
    stdin: options.stdin === undefined ? 'ignore' : new TextEncoder().encode(options.stdin),
    stdout: 'pipe',
    stderr: 'pipe',
  })
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
