import type { StoredMessage } from './messages.ts'

/**
 * Whether a row still fits. Called for one row after another; the first row that does not fit ends the
 * reading.
 */
export type RowBudget = (row: Pick<StoredMessage, 'raw'>) => boolean

/** Fits until the raw messages exceed this many characters. The first row always fits. */
export function createRowBudget(characters = Number.POSITIVE_INFINITY): RowBudget {
  let left: number | undefined
  return ({ raw }) => {
    const isFirst = left === undefined
    left = (left ?? characters) - raw.length
    return isFirst || left >= 0
  }
}
