/** One clock for what a storm notes: time as this process lived it, so that a machine that stands still ages nothing. */
import { stopwatch } from '../../support/stopwatch.ts'

const watch = stopwatch()

/** Milliseconds; only differences say something. */
export const lived = (): number => watch.ms
