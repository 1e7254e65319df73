/** Changes of many rows, of which one may fail: the others are changed all the same. */
import { SvcError } from '../model/error.ts'

/** What could not be changed. */
export interface RowFailure {
  /** Which row it was, as in `topic home`. */
  readonly row: string
  readonly error: unknown
}

/** Some rows could not be changed, and all others were. */
export class RowsFailedError<T = unknown> extends Error {
  readonly failures: readonly RowFailure[]
  /** What the call returns if no row fails: here, for the other rows. */
  readonly done: T

  constructor(failures: readonly RowFailure[], done: T) {
    const [{ error = undefined, row = '' } = {}] = failures
    super(`${row}: ${error instanceof Error ? error.message : String(error)}`, { cause: error })
    this.failures = failures
    this.done = done
  }
}

/** @throws RowsFailedError if there are failures */
export function doneApart<T>(failures: readonly RowFailure[], done: T): T {
  if (failures.length > 0) throw new RowsFailedError(failures, done)
  return done
}

/** Notes what was set aside. */
export type SetAside = (...failures: readonly RowFailure[]) => void

/** Returns what a call did, though some rows failed, and sets those aside. */
export async function settingAside<T>(setAside: SetAside, call: Promise<T>): Promise<T> {
  try {
    return await call
  } catch (error) {
    if (!(error instanceof RowsFailedError)) throw error
    setAside(...error.failures)
    return error.done as T
  }
}

/**
 * Changes rows together, and if that fails, one after the other.
 *
 * @returns those that failed
 * @throws SvcError `store_unavailable`, `shutting_down`: then no row is the cause
 */
export async function changeApart<T>(
  rows: readonly T[],
  nameOf: (row: T) => string,
  change: (rows: readonly T[]) => Promise<unknown>,
): Promise<RowFailure[]> {
  if (rows.length === 0) return []
  try {
    await change(rows)
    return []
  } catch (error) {
    if (error instanceof SvcError && error.status === 503) throw error
    if (rows.length === 1) return [{ row: nameOf(rows[0]!), error }]
  }
  const failures: RowFailure[] = []
  for (const row of rows) failures.push(...(await changeApart([row], nameOf, change)))
  return failures
}

/**
 * Same for rows that are listed step by step, in an order in which those that failed come first.
 *
 * @returns whether there may be more
 * @throws RowsFailedError with that; SvcError as above
 */
export async function stepApart<T>(
  rows: readonly T[],
  most: number,
  nameOf: (row: T) => string,
  change: (rows: readonly T[]) => Promise<unknown>,
): Promise<boolean> {
  const failures = await changeApart(rows, nameOf, change)
  return doneApart(failures, rows.length === most && failures.length < most)
}
