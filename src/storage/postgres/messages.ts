/** Reads rows of the message log. Readers stop at the horizon. */
import { isWhole, type Scope } from '../../model/access.ts'
import { constantSql, noSql, prepared, type Sql, sql } from '../../platform/sql.ts'
import type { ReadFilter, StoredMessage } from '../messages.ts'
import type { MessageLog } from '../store.ts'
import { findIdRange, PgHistory } from './history.ts'
import { isKept, ofDirection, readRows, rowsOf } from './message-rows.ts'
import { inScope, PgPart } from './part.ts'
import { keysOfName } from './session-keys.ts'
import { horizon } from './tables.ts'

/** How often rows of a consumer that are leased end a wait: a lease expires without a signal. */
const leasedMs = 1000

export class PgMessages extends PgPart implements MessageLog {
  readonly #history = new PgHistory(this)
  #leased: { until: number; are: Promise<boolean> } | undefined

  async getHead(): Promise<number> {
    const { last } = await this.db.one<{ last?: number }>(
      prepared(sql`SELECT max(id) AS last FROM message WHERE id <= ${horizon}`),
    )
    return last ?? 0
  }

  async wait(seen: number, ms: number, signal: AbortSignal): Promise<void> {
    this.db.assertOpen()
    const ends = performance.now() + ms
    for (;;) {
      const began = performance.now()
      const step = Math.min(ends - began, leasedMs)
      await this.db.wait(({ row }) => row > seen, step, signal)
      const now = performance.now()
      if (signal.aborted || now >= ends || now - began < step || this.db.isClosed) return
      if (await this.#areLeased()) return
    }
  }

  /** Whether rows of any consumer are leased. Those who wait share the answer. */
  #areLeased(): Promise<boolean> {
    const now = performance.now()
    if (!this.#leased || this.#leased.until < now) {
      const asked = this.db.one<{ are: boolean }>(sql`SELECT EXISTS (SELECT 1 FROM lease) AS are`)
      // A caller that waits tries again, and gets the error then.
      const are = asked.then(
        found => found.are,
        () => true,
      )
      this.#leased = { until: now + leasedMs / 2, are }
    }
    return this.#leased.are
  }

  async listAfter(id: number, { characters, ...wanted }: ReadFilter): Promise<StoredMessage[]> {
    const { rows } = await readRows(this.db, sql`(${idsAfter(id, wanted)}) AS chosen`, characters)
    return rows
  }

  async getByIds(ids: readonly number[], characters?: number, scope?: Scope): Promise<StoredMessage[]> {
    if (ids.length === 0) return []
    const { rows } = await readRows(this.db, rowsOf(ids), characters, sql`${isKept}${inScope(scope)}`)
    return rows
  }

  async getByMessageIds(
    ids: readonly string[],
    characters?: number,
    scope?: Scope,
  ): Promise<{ rows: StoredMessage[]; rest: readonly string[] }> {
    if (ids.length === 0) return { rows: [], rest: [] }
    const source = sql`(SELECT given.nth, k.id FROM unnest(${ids}::text[]) WITH ORDINALITY AS given(id, nth)
      JOIN message k ON id_hash(k.message_id) = id_hash(given.id)) AS chosen`
    const { rows, cut } = await readRows(this.db, source, characters, sql`${isKept}${inScope(scope)}`)
    return { rows, rest: cut === undefined ? [] : ids.slice(cut - 1) }
  }

  search: MessageLog['search'] = (filter, signal) => this.#history.findPage(filter, signal)

  findRange: MessageLog['findRange'] = range => findIdRange(this.db, range)
}

/** Ids after a row, oldest first, each as `nth` and `id`. */
function idsAfter(id: number, { limit, direction, session, scope }: Omit<ReadFilter, 'characters'>): Sql {
  const narrowed = sql`m.id > ${id} AND m.id <= ${horizon}${ofDirection(direction)}`
  const ordered = sql`ORDER BY m.id LIMIT ${limit}`
  const columns = constantSql('SELECT m.id AS nth, m.id FROM message m WHERE')
  const keys = session === undefined ? undefined : keysOfName(session)
  // One walk of an index for each user, or each session, then merged.
  const merged = (values: Sql, column: Sql, more: Sql) =>
    sql`SELECT w.id AS nth, w.id FROM unnest(${values}) AS wanted(value) CROSS JOIN LATERAL
      (SELECT m.id FROM message m WHERE ${column} = wanted.value AND ${narrowed}${more} ${ordered}) w
      ORDER BY w.id LIMIT ${limit}`
  if (scope?.users) {
    const inSession = keys ? sql` AND m.session = ANY (${keys})` : noSql
    return merged(sql`${scope.users}::text[]`, sql`m.peer`, sql`${inScope(scope)}${inSession}`)
  }
  if (scope && !isWhole(scope)) {
    const ofBots = sql`SELECT DISTINCT session FROM session_bot WHERE bot_id = ANY (${scope.bots ?? []}::text[])`
    const named = keys ? sql` AND session = ANY (${keys})` : noSql
    const own = scope.bots ? sql`ARRAY(${ofBots}${named})` : keys
    if (own) return merged(own, sql`m.session`, inScope(scope))
  }
  if (keys) return merged(keys, sql`m.session`, noSql)
  return sql`${columns} ${narrowed} ${ordered}`
}
