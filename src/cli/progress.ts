/** Draws the progress of an upload or download as one line of stderr. */
import type { Progress } from '../model/call.ts'
import { formatBytes } from '../platform/format.ts'
import { shortenTo } from './columns.ts'
import { colours, columnsOf, type Io, oneLine } from './terminal.ts'

export interface ProgressBar {
  /** Draws the line. Passed as `Call.progress`. */
  step(progress: Progress): void
  /** Removes the line. */
  clear(): void
}

/** Shortest time between two drawings. */
const redrawMs = 80
const barWidth = 24

/** Returns a progress bar if stderr is a terminal, else undefined. */
export function progressBar(io: Io): ProgressBar | undefined {
  if (!io.err.isTerminal) return undefined
  let drawnAt = Number.NEGATIVE_INFINITY
  let isDrawn = false
  return {
    step({ what, done, total }) {
      const now = performance.now()
      if (now - drawnAt < redrawMs && done !== total) return
      drawnAt = now
      isDrawn = true
      void io.err.write(`\r${formatBar({ what, done, total }, columnsOf(io))}\u001b[K`)
    },
    clear() {
      if (isDrawn) void io.err.write('\r\u001b[K')
      isDrawn = false
    },
  }
}

function formatBar({ what, done, total }: Progress, columns: number): string {
  const share = total ? Math.min(1, done / total) : undefined
  const bar =
    share === undefined
      ? ''
      : `${colours.green('█'.repeat(Math.round(share * barWidth)))}${'░'.repeat(barWidth - Math.round(share * barWidth))} `
  const amount =
    share === undefined
      ? formatBytes(done)
      : `${String(Math.floor(share * 100)).padStart(3)} %  ${formatBytes(done)} of ${formatBytes(total!)}`
  return `${bar}${amount}  ${shortenTo(oneLine(what), Math.max(10, columns - barWidth - 34))}`
}
