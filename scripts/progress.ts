/** How far a run of the tests is: one line on a terminal that is kept up to date, a line now and then elsewhere. */
import { readFileSync } from 'node:fs'

/** How often a line says it where no terminal is. */
const everyMs = 10_000
/** How often the line on a terminal is drawn. */
const drawnMs = 500
const clearLine = '\r\x1b[K'

export interface Progress {
  /** Prints output of the tests, and looks for failures in it. */
  say(text: string): void
  /** From now on says how many of `files` are done. `done` has a line for each; there may be none yet. */
  count(files: number, done: string): void
  end(): void
}

export function startProgress(output: NodeJS.WriteStream = process.stdout): Progress {
  const startedAt = performance.now()
  let failed = 0
  let isAtLineStart = true
  let line = () => ''
  const draw = () => {
    if (line() && isAtLineStart) output.write(output.isTTY ? `${clearLine}${line()}` : `${line()}\n`)
  }
  const drawing = setInterval(draw, output.isTTY ? drawnMs : everyMs)
  return {
    say(text) {
      failed += text.match(/\(fail\)/g)?.length ?? 0
      output.write(output.isTTY && isAtLineStart ? `${clearLine}${text}` : text)
      isAtLineStart = text.endsWith('\n')
    },
    count(files, done) {
      line = () => {
        const minutes = ((performance.now() - startedAt) / 60_000).toFixed(1)
        return `${countLines(done)} of ${files} files, ${failed} failed, ${minutes} min`
      }
      draw()
    },
    end() {
      clearInterval(drawing)
      if (output.isTTY && isAtLineStart) output.write(clearLine)
    },
  }
}

function countLines(path: string): number {
  try {
    return readFileSync(path, 'utf8').split('\n').length - 1
  } catch {
    return 0
  }
}
