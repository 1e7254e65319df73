/** How far an upload or download is, as one line of stderr that is drawn over again. */
import type { Progress } from '../model/call.ts'
import { byteSize } from '../platform/format.ts'
import { cutTo } from './columns.ts'
import { colours, columnsOf, type Io, oneLine } from './terminal.ts'

export interface ProgressBar {
  /** For `Call.progress`. */
  step(progress: Progress): void
  /** Takes the line away. */
  clear(): void
}

/** Drawn at most so often. */
const everyMs = 80
const barWidth = 24

/** The bar, where stderr is a terminal. */
export function progressBar(io: Io): ProgressBar | undefined {
  if (!io.err.isTerminal) return undefined
  let drawnAt = Number.NEGATIVE_INFINITY
  let shown = false
  return {
    step({ what, done, total }) {
      const now = performance.now()
      if (now - drawnAt < everyMs && done !== total) return
      drawnAt = now
      shown = true
      void io.err.write(`\r${drawn({ what, done, total }, columnsOf(io))}\u001b[K`)
    },
    clear() {
      if (shown) void io.err.write('\r\u001b[K')
      shown = false
    },
  }
}

function drawn({ what, done, total }: Progress, columns: number): string {
  const share = total ? Math.min(1, done / total) : undefined
  const bar =
    share === undefined
      ? ''
      : `${colours.green('█'.repeat(Math.round(share * barWidth)))}${'░'.repeat(barWidth - Math.round(share * barWidth))} `
  const amount =
    share === undefined
      ? byteSize(done)
      : `${String(Math.floor(share * 100)).padStart(3)} %  ${byteSize(done)} of ${byteSize(total!)}`
  return `${bar}${amount}  ${cutTo(oneLine(what), Math.max(10, columns - barWidth - 34))}`
}
