/** Collects the output of a child process while it runs. */
import type { Subprocess } from 'bun'

interface Overheard {
  readonly stdout: string
  readonly stderr: string
  /** Exit code; resolves when the whole output has been read. */
  readonly exited: Promise<number>
}

/**
 * Collects the output of a child process.
 *
 * @param came called after each chunk of stdout was added
 */
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

/** Parses the complete lines of stdout so far as JSON. */
export const jsonLines = <T>({ stdout }: Pick<Overheard, 'stdout'>): T[] => {
  const lines = stdout.split('\n')
  // The text after the last line end is an incomplete line.
  lines.pop()
  return lines.map(line => JSON.parse(line))
}
