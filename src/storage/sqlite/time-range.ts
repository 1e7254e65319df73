/** Converts a time range to a range of ids, using only the index of times. */
import type { Database } from '../../platform/sqlite.ts'

/** Index entries read in one step: some milliseconds. */
const stepEntries = 20_000

interface Found {
  entries: number
  /** Ids, and the latest time; absent if there are no entries. */
  low?: number
  high?: number
  latest?: number
}

/**
 * Returns the lowest and highest id of the rows in a time range (Unix ms, `since` inclusive, `until`
 * exclusive). Times and ids mostly grow together, but a message may arrive late. `low` > `high` if there
 * are none.
 *
 * @param pause called between two steps
 */
export async function findIdRange(
  db: Database,
  range: { since: number | undefined; until: number | undefined },
  pause: () => Promise<void>,
): Promise<{ low: number; high: number }> {
  const until = range.until ?? Number.MAX_SAFE_INTEGER
  let since = range.since ?? Number.MIN_SAFE_INTEGER
  let low = Number.POSITIVE_INFINITY
  let high = Number.NEGATIVE_INFINITY
  const note = (found: Found) => {
    low = Math.min(low, found.low ?? low)
    high = Math.max(high, found.high ?? high)
  }
  for (;;) {
    const step = db.one<Found>`SELECT count(*) AS entries, min(id) AS low, max(id) AS high,
      max(timestamp) AS latest
      FROM (SELECT id, timestamp FROM message INDEXED BY message_time
      WHERE timestamp >= ${since} AND timestamp < ${until} ORDER BY timestamp LIMIT ${stepEntries})`
    note(step)
    if (step.entries < stepEntries) return { low, high }
    // More rows with the last time may come after this step.
    note(
      db.one<Found>`SELECT count(*) AS entries, min(id) AS low, max(id) AS high
        FROM message INDEXED BY message_time WHERE timestamp = ${step.latest}`,
    )
    since = step.latest! + 1
    await pause()
  }
}
