/** A program run to its end: what it said, and how it ended. */
import { end, family } from './family.ts'

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
  /** One that goes on longer is killed, with all that it started, and counts as failed. */
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
  const timer = setTimeout(() => {
    for (const pid of family(child.pid)) end(pid, 'SIGKILL')
  }, options.withinMs ?? 20_000)
  const [stdout, stderr, status] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  clearTimeout(timer)
  return { status, stdout, stderr }
}
