/** What a child process says, as it comes. */
import type { Subprocess } from 'bun'

interface Overheard {
  readonly stdout: string
  readonly stderr: string
  /** Its exit code, once all that it said has been read. */
  readonly exited: Promise<number>
}

/** @param came is called whenever something came on stdout, which has it by then */
export function overhear(
  child: Pick<Subprocess<'ignore' | 'pipe' | Uint8Array, 'pipe', 'pipe'>, 'stdout' | 'stderr' | 'exited'>,
  came?: () => void,
): Overheard {
  const own = { stdout: '', stderr: '' }
  const read = async (from: 'stdout' | 'stderr') => {
    for await (const chunk of child[from].pipeThrough(new TextDecoderStream())) {
      own[from] += chunk
      if (from === 'stdout') came?.()
    }
  }
  const exited = Promise.all([child.exited, read('stdout'), read('stderr')]).then(([code]) => code)
  return Object.assign(own, { exited })
}

/** The whole lines so far, each of which is JSON. */
export const jsonLines = <T>({ stdout }: Pick<Overheard, 'stdout'>): T[] => {
  const lines = stdout.split('\n')
  // What comes after the last line end is no whole line yet.
  lines.pop()
  return lines.map(line => JSON.parse(line))
}
