/** Writers of the log, and a reader that follows it and counts what must not happen. */
import type { Storage } from '../../../src/storage/storage.ts'

/**
 * The program of a process that appends batches, each message with the name of the writer and a number, and writes a
 * line for each batch that was stored: the numbers up to which it was.
 */
export const writer = (name: string, { batches, size }: { batches: number; size: number }): string => `
  for (let nth = 0; nth < ${batches}; nth++) {
    const messages = Array.from({ length: ${size} }, (_, at) => {
      const text = '${name} ' + (${size} * nth + at)
      return { message_id: text, derived_id: '', from_user: 'u', msg_type: 'TEXT', text, raw: '{}', timestamp: 1000,
        timed: false, contentHash: text }
    })
    await insert({ storage }, messages, '${name}', '${name}')
    process.stdout.write(${size} * (nth + 1) + '\\n')
  }
  await storage.close()`

export interface Followed {
  /** Ids that were not returned although a higher one was. Ids have no gaps. */
  skipped: number
  /** Messages that were not in the order in which their writer stored them. */
  disordered: number
  /** Messages by writer. */
  counts: Map<string, number>
}

/** Follows the log until there are so many rows. `stop`: also ends when it aborts and nothing follows. */
export async function follow(
  { store }: Storage,
  { until, limit, stop }: { until: number; limit: number; stop?: AbortSignal },
): Promise<Followed> {
  const found: Followed = { skipped: 0, disordered: 0, counts: new Map() }
  for (let seen = 0; seen < until; ) {
    const isOver = stop?.aborted === true
    const rows = await store.log.listAfter(seen, { limit })
    for (const { id, text } of rows) {
      found.skipped += id - seen - 1
      seen = id
      const [name = '', nth] = text.split(' ')
      const count = found.counts.get(name) ?? 0
      if (Number(nth) !== count) found.disordered += 1
      found.counts.set(name, Number(nth) + 1)
    }
    if (rows.length > 0) continue
    if (isOver) break
    await store.log.wait(seen, 1000, new AbortController().signal)
  }
  return found
}
