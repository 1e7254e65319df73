/** Runs the commands of a release, one at a time, each to its end. */
import process from 'node:process'

export interface RunOptions {
  cwd: string
  env?: Record<string, string | undefined>
  stdin?: Uint8Array
  /** Prints the command's output while it runs. */
  printsOutput?: boolean
}

export interface Result {
  status: number
  stdout: string
  stderr: string
}

export class Stopped extends Error {}

let current: { pid: number; isGroup: boolean } | undefined
let stopped: NodeJS.Signals | undefined

/**
 * Ends the running command (the second time by force) and starts no other, so that the caller can tidy up.
 */
export function stop(signal: NodeJS.Signals): void {
  const how = stopped ? 'SIGKILL' : 'SIGTERM'
  stopped = signal
  if (current) process.kill(current.isGroup ? -current.pid : current.pid, how)
}

const throwIfStopped = () => {
  if (stopped) throw new Stopped(`stopped by ${stopped}`)
}

async function read(
  from: ReadableStream<Uint8Array<ArrayBuffer>>,
  to?: NodeJS.WritableStream,
): Promise<string> {
  let text = ''
  for await (const chunk of from.pipeThrough(new TextDecoderStream())) {
    text += chunk
    to?.write(chunk)
  }
  return text
}

/** Runs a command. @returns its status and output, also when it fails */
export async function runCommand(
  command: readonly string[],
  { cwd, env, printsOutput, stdin }: RunOptions,
): Promise<Result> {
  throwIfStopped()
  const child = Bun.spawn([...command], {
    cwd,
    env: { ...process.env, ...env },
    stdin: stdin ?? 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
    // A long command starts other programs, which must end with it. A short one may ask a person, for example
    // for a signature.
    detached: printsOutput === true,
  })
  current = { pid: child.pid, isGroup: printsOutput === true }
  const [stdout, stderr, status] = await Promise.all([
    // The output of a command is not a result of this script, so it goes to stderr.
    read(child.stdout, printsOutput ? process.stderr : undefined),
    read(child.stderr, printsOutput ? process.stderr : undefined),
    child.exited,
  ])
  current = undefined
  throwIfStopped()
  return { status, stdout, stderr }
}

/**
 * Runs a command and returns its stdout without the final line end.
 *
 * @throws Error when it fails
 */
export async function run(command: readonly string[], options: RunOptions): Promise<string> {
  const { status, stdout, stderr } = await runCommand(command, options)
  if (status === 0) return stdout.trimEnd()
  const reason = options.printsOutput ? 'the lines above show why' : `${stdout}${stderr}`.trim()
  throw new Error(`${command.join(' ')} failed with ${status}: ${reason}`)
}

/** Returns `git` for one folder. */
export const gitIn =
  (cwd: string) =>
  (...args: string[]): Promise<string> =>
    run(['git', ...args], { cwd })
