/** How far an upload or download is, as one line of stderr that is drawn over again. */
import type { Progress } from '../model/call.ts'
import { byteSize } from '../platform/format.ts'
import { cutTo } from './columns.ts'
import { columns, errColours, oneLine, terminal, writeErr } from './terminal.ts'

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
export function progressBar(): ProgressBar | undefined {
  if (!terminal.err) return undefined
  let drawnAt = Number.NEGATIVE_INFINITY
  let shown = false
  return {
    step({ what, done, total }) {
      const now = performance.now()
      if (now - drawnAt < everyMs && done !== total) return
      drawnAt = now
      shown = true
      void writeErr(`\r${drawn(what, done, total)}\u001b[K`)
    },
    clear() {
      if (shown) void writeErr('\r\u001b[K')
      shown = false
    },
  }
}

function drawn(what: string, done: number, total: number | undefined): string {
  const share = total ? Math.min(1, done / total) : undefined
  const bar =
    share === undefined
      ? ''
      : `${errColours.green('█'.repeat(Math.round(share * barWidth)))}${'░'.repeat(barWidth - Math.round(share * barWidth))} `
  const amount =
    share === undefined
      ? byteSize(done)
      : `${String(Math.floor(share * 100)).padStart(3)} %  ${byteSize(done)} of ${byteSize(total!)}`
  return `${bar}${amount}  ${cutTo(oneLine(what), Math.max(10, columns() - barWidth - 34))}`
}
