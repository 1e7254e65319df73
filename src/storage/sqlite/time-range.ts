/** A range of times as a range of ids, from the index of times alone. */
import type { Database } from '../../platform/sqlite.ts'

/** Index entries looked at in one go: some milliseconds. */
const stepEntries = 20_000

interface Found {
  entries: number
  /** Ids; absent of nothing, like the latest time. */
  low?: number
  high?: number
  latest?: number
}

/**
 * The lowest and highest id among the rows of a range of times (Unix ms, `since` inclusive, `until` exclusive); times
 * and ids mostly rise together, but a message may come late. `low` > `high` when there are none.
 *
 * @param pause called between two steps
 */
export async function idsBetweenTimes(
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
    // More of the last moment may lie beyond the step.
    note(
      db.one<Found>`SELECT count(*) AS entries, min(id) AS low, max(id) AS high
        FROM message INDEXED BY message_time WHERE timestamp = ${step.latest}`,
    )
    since = step.latest! + 1
    await pause()
  }
}
