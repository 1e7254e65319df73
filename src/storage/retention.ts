/** The rule of retention for rows of the log (README, "Retention"). */

export const dayMs = 24 * 60 * 60_000
/** A consumer that has not read for this long no longer counts as a reader. */
export const liveMs = 30 * dayMs

export interface RetentionRules {
  /** Unix ms. */
  now: number
  /**
   * Whether `now` can be trusted: otherwise nothing is removed by age, and every consumer counts as a reader.
   */
  trusted: boolean
  /** 0: no limit. */
  maxAgeDays: number
  /** 0: no limit. */
  maxCount: number
  /** The highest row id. Ids have no gaps. */
  last: number
}

export interface DatedRow {
  id: number
  /** Unix ms. */
  storedAt: number
}

/**
 * Decides about the oldest rows of the log.
 *
 * @param nextDated returns the first row after an id that is not dated in the future
 * @returns `end`: the last row that is removed, if any; `isKept`: whether a later one of these rows stays
 */
export function findRemoved(
  oldest: readonly DatedRow[],
  { now, trusted, maxAgeDays, maxCount, last }: RetentionRules,
  nextDated: (id: number) => Pick<DatedRow, 'storedAt'> | undefined,
): { end: number | undefined; isKept: boolean } {
  // The newest maxCount rows are those with a higher id than this.
  const lastSurplusId = maxCount > 0 ? last - maxCount : 0
  const before = trusted && maxAgeDays > 0 ? now - maxAgeDays * dayMs : Number.NEGATIVE_INFINITY
  // A row dated in the future was stored by a clock that was set back since: it is older than the rows after
  // it.
  const dated = (storedAt: number) => storedAt <= now + dayMs
  const kept = oldest.findIndex(
    ({ id, storedAt }) => id > lastSurplusId && storedAt >= before && dated(storedAt),
  )
  const doomed = kept === -1 ? [...oldest] : oldest.slice(0, kept)
  const goes = (row: DatedRow) => row.id <= lastSurplusId || row.storedAt < before
  const beyond = kept === -1 ? nextDated(doomed.at(-1)?.id ?? 0) : undefined
  if (!beyond || beyond.storedAt >= before) doomed.length = doomed.findLastIndex(goes) + 1
  return { end: doomed.at(-1)?.id, isKept: kept !== -1 }
}
