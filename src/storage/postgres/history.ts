/**
 * Search: pages of the log, newest first, by any filter, with a total.
 *
 * A filter may match one row of millions. So the log is searched from its end in windows of ids, each one statement.
 * Within a window the server chooses an index of users, sessions, kinds or times. A search for a text reads the index
 * of pairs instead, as far as it reaches: first for one block of rows, then, if the text is rare there, for all others.
 */
import { isWhole } from '../../model/access.ts'
import { Permits } from '../../platform/permits.ts'
import type { PgQueries } from '../../platform/postgres.ts'
import { constantSql, joinSql, noSql, prepared, type Sql, sql } from '../../platform/sql.ts'
import {
  conditionsOf,
  containsOne,
  exactTotal,
  noMatches,
  pageOf,
  type SearchSql,
  searchedCharacters,
} from '../history-filter.ts'
import { erasedSession } from '../log-rows.ts'
import type { HistoryFilter, HistoryRows } from '../messages.ts'
import { needlesOf } from '../search-text.ts'
import { blockBits, candidatesOf } from './grams.ts'
import { isKept, readRows, rowsOf } from './message-rows.ts'
import { inScope, PgPart } from './part.ts'
import { keysOfName } from './session-keys.ts'
import { horizon } from './tables.ts'

/** Number of ids in the first window, and in the widest one. Windows that are faster than `briskMs` get wider. */
const [firstWidth, widestWidth, briskMs] = [4096, 1 << 20, 50]
/** If the index has no more candidates than this, by the count of one block, they are checked at once. */
const candidatesAtOnce = 50_000
/** Up to this many rows of a user, a session or a kind are compared with a search text directly. */
const fewRows = 2000
/** Searches of this process that ask the server at the same time: other work needs connections too. */
const mostAtOnce = 2

interface Search {
  /** Conditions on a row `m`. */
  match: Sql
  /** All rows match whose content was not erased. */
  isForAll: boolean
  /** Rows of the index that may match. */
  candidates: ReturnType<typeof candidatesOf>
}

/** Ends of the log, the last row in the index, and sessions. */
interface Ends {
  first: number
  last: number
  upto: number
  /** Keys of the sessions that may have matches; undefined: all. */
  keys?: number[]
}

/** How many ids match, the highest of them that are wanted, highest first, and the lowest id that was checked. */
interface Window {
  count: number
  ids: readonly number[]
  low: number
}

/** What is looked for: `most` matches from `from` down are counted; `wanted` of them, from `top` down, are returned. */
interface Aim {
  from: number
  most: number
  top: number
  wanted: number
}

export class PgHistory extends PgPart {
  readonly #permits = new Permits(mostAtOnce)

  /** @throws SvcError `invalid_arguments` for a search text that is too long; the signal's reason when it aborts */
  async findPage(filter: HistoryFilter, signal?: AbortSignal): Promise<HistoryRows> {
    const needles = needlesOf(filter.text_contains ?? '')
    const ends = await this.db.one<Ends>(
      prepared(sql`SELECT coalesce((SELECT min(id) FROM message), 1) AS first,
      coalesce((SELECT max(id) FROM message WHERE id <= ${horizon}), 0) AS last, (SELECT upto FROM indexed) AS upto,
      ${keysOf(filter)} AS keys`),
    )
    if (ends.keys?.length === 0) return noMatches
    const search = searchOf(filter, needles, ends.keys)
    if (search.candidates && (await this.#areFew(filter, ends.keys))) search.candidates = undefined
    const top = Math.min(ends.last, (filter.before ?? Number.POSITIVE_INFINITY) - 1)
    // One more row than requested shows whether there are more.
    const wanted = filter.offset + filter.limit + 1
    const { ids, total } = await this.#find(search, ends, top, wanted, signal)
    const page = ids.slice(filter.offset, wanted)
    const { rows, cut } = await readRows(this.db, rowsOf(page.slice(0, filter.limit)), filter.characters)
    return pageOf(filter, page, { rows, isCut: cut !== undefined }, total)
  }

  /** Whether few rows have the user, the sessions or the kind of a filter, so that comparing their texts is fast. */
  async #areFew({ user_id, msg_type }: HistoryFilter, keys: readonly number[] | undefined): Promise<boolean> {
    const narrowed = [
      ...(user_id === undefined ? [] : [sql`m.peer = ${user_id}`]),
      ...(keys === undefined ? [] : [sql`m.session = ANY (${keys}::bigint[])`]),
      ...(msg_type === undefined || msg_type === 'TEXT' ? [] : [sql`m.msg_type = ${msg_type}`]),
    ]
    const counts = narrowed.map(
      one => sql`(SELECT count(*) FROM (SELECT 1 FROM message m WHERE ${one} LIMIT ${fewRows + 1}) own)`,
    )
    if (counts.length === 0) return false
    const { least } = await this.db.one<{ least: number }>(sql`SELECT least(${joinSql(counts)}) AS least`)
    return least <= fewRows
  }

  /** Returns the highest matching ids up to `top`, `wanted` of them if there are, and the number of all matches. */
  async #find(search: Search, ends: Ends, top: number, wanted: number, signal?: AbortSignal) {
    const most = exactTotal + 1
    const aim = { from: top, most: wanted, top, wanted }
    if (search.isForAll) {
      const page = this.#collect(search, ends, aim, signal)
      const [areMany, { ids }] = await Promise.all([this.#areMany(ends), page])
      if (areMany) return { ids, total: most }
    }
    const { count, ids } = await this.#collect(search, ends, { from: ends.last, most, top, wanted }, signal)
    // All of them are known, or enough.
    if (count <= exactTotal || ids.length >= wanted) return { ids, total: count }
    const rest = await this.#collect(search, ends, aim, signal)
    return { ids: rest.ids, total: count }
  }

  /** Whether there are more rows than are counted. Ids have few gaps, which are known. */
  async #areMany({ last }: Ends): Promise<boolean> {
    const most = exactTotal + 1
    const { rows, erased } = await this.db.one<{ rows: number; erased: number }>(
      prepared(sql`SELECT count_rows(0, ${last}) AS rows, (SELECT count(*) FROM
        (SELECT 1 FROM message WHERE session = ${erasedSession} LIMIT ${most}) e) AS erased`),
    )
    return erased < most && rows - erased >= most
  }

  async #collect(search: Search, ends: Ends, aim: Aim, signal?: AbortSignal) {
    const ids: number[] = []
    let count = 0
    for await (const window of this.#walk(search, ends, aim, signal)) {
      count += window.count
      for (const id of window.ids) ids.push(id)
      if (count >= aim.most) break
    }
    return { count, ids: ids.slice(0, aim.wanted) }
  }

  /** Returns the matches from `from` down, window by window. */
  async *#walk(
    { match, candidates }: Search,
    { first, upto }: Ends,
    aim: Aim,
    signal?: AbortSignal,
  ): AsyncGenerator<Window> {
    let high = aim.from
    let width = firstWidth
    let isRare = false
    while (high >= first) {
      signal?.throwIfAborted()
      const started = performance.now()
      const limit = { ...aim, match, high }
      const next = async (): Promise<Window> => {
        using _permit = await this.#permits.take(signal)
        if (!candidates || high > upto) {
          const end = candidates ? Math.max(first, upto + 1) : first
          return await this.#scan({ ...limit, low: Math.max(end, high - width + 1) })
        }
        if (isRare) return await this.#lookUp({ ...limit, low: first }, candidates())
        const low = Math.max(first, Math.floor(high / 2 ** blockBits) * 2 ** blockBits)
        const found = await this.#lookUp({ ...limit, low }, candidates(high))
        isRare = found.seen * ((low - first) / 2 ** blockBits) <= candidatesAtOnce
        return found
      }
      const window = await next()
      const tookMs = performance.now() - started
      if (tookMs < briskMs) width = Math.min(width * 4, widestWidth)
      else if (tookMs > 10 * briskMs) width = Math.max(width / 4, firstWidth)
      high = window.low - 1
      yield window
    }
  }

  /** Reads the rows of a window. */
  async #scan({ match, low, high, most, ...aim }: Limits): Promise<Window> {
    const found = await this.db.one<Found>(
      sql`WITH own AS MATERIALIZED (SELECT m.id FROM message m
        WHERE m.id BETWEEN ${low} AND ${high} AND ${match} ORDER BY m.id DESC LIMIT ${most}) ${chosenOf(aim)}`,
    )
    return windowOf(found, low, most)
  }

  /** Reads the rows of a window that the index selects. */
  async #lookUp(
    { match, low, high, most, ...aim }: Limits,
    candidates: Sql,
  ): Promise<Window & { seen: number }> {
    // What the server expects of an array is far from the truth: the index is always the right way.
    const results = await this.db.script([
      ...['seqscan', 'hashjoin', 'mergejoin'].map(way => constantSql(`SET LOCAL enable_${way} = off`)),
      sql`WITH found AS MATERIALIZED (${candidates}), own AS MATERIALIZED (
          SELECT m.id FROM (SELECT id FROM found WHERE id BETWEEN ${low} AND ${high} ORDER BY id DESC) f
            JOIN message m ON m.id = f.id WHERE ${match} ORDER BY f.id DESC LIMIT ${most})
        ${chosenOf(aim)}, (SELECT count(*) FROM found) AS seen`,
    ])
    const found = results.at(-1)![0] as unknown as Found & { seen: number }
    return { ...windowOf(found, low, most), seen: found.seen }
  }
}

interface Limits extends Aim {
  match: Sql
  low: number
  high: number
}

interface Found {
  count: number
  lowest?: number
  ids: number[]
}

/** Selects the columns of `Found` from the matches `own`. */
const chosenOf = ({ top, wanted }: Pick<Aim, 'top' | 'wanted'>): Sql =>
  sql`SELECT (SELECT count(*) FROM own) AS count, (SELECT min(id) FROM own) AS lowest,
    ARRAY(SELECT id FROM own WHERE id <= ${top} ORDER BY id DESC LIMIT ${wanted}) AS ids`

/** A window ends early at its limit of matches. */
const windowOf = ({ count, ids, lowest }: Found, low: number, most: number): Window => ({
  count,
  ids,
  low: count < most ? low : lowest!,
})

/** Returns the ids of a time range, same as `MessageLog.findRange`. */
export async function findIdRange(
  queries: Pick<PgQueries, 'one'>,
  { since, until }: { since?: number | undefined; until?: number | undefined },
): Promise<{ low: number; high: number }> {
  // OFFSET keeps the server from looking for the lowest id from the first row on.
  const found = await queries.one<{ low?: number; high?: number }>(
    sql`SELECT min(id) AS low, max(id) AS high
      FROM (SELECT id FROM message WHERE id <= ${horizon}
        ${since === undefined ? noSql : sql`AND timestamp >= ${since}`}
        ${until === undefined ? noSql : sql`AND timestamp < ${until}`} OFFSET 0) AS own`,
  )
  return { low: found.low ?? Number.POSITIVE_INFINITY, high: found.high ?? Number.NEGATIVE_INFINITY }
}

function searchOf(
  filter: HistoryFilter,
  needles: readonly string[],
  keys: readonly number[] | undefined,
): Search {
  const inSessions = keys === undefined ? [] : [sql`m.session = ANY (${keys}::bigint[])`]
  const contains = needles.length > 0 ? [containsOne(needles, searchSql)] : []
  const conditions = [...inSessions, ...conditionsOf(filter, searchSql), ...contains]
  return {
    match: sql`${joinSql([isKept, ...conditions], ' AND ')}${inScope(filter.scope)}`,
    isForAll: conditions.length === 0 && (filter.scope === undefined || isWhole(filter.scope)),
    candidates: needles.length > 0 ? candidatesOf(needles) : undefined,
  }
}

/** SQL for the keys of the sessions that a filter selects, or whose accounts it selects; NULL: all. */
function keysOf({ bot_id, scope, session }: HistoryFilter): Sql {
  const bots = bot_id === undefined ? scope?.bots : [bot_id]
  if (!bots) return session === undefined ? constantSql('NULL::bigint[]') : keysOfName(session)
  const named = session === undefined ? noSql : sql` AND session = ANY (${keysOfName(session)})`
  return sql`ARRAY(SELECT DISTINCT session FROM session_bot WHERE bot_id = ANY (${bots}::text[])${named})`
}

/** The collation "C" has no other case than A-Z. */
const searchSql: SearchSql = {
  has: needle => sql`position(lower(${needle}::text COLLATE "C") IN
    lower(left(m.text, CAST(${searchedCharacters} AS integer)) COLLATE "C")) > 0`,
  isLike: pattern => sql`m.text COLLATE "C" ILIKE ${pattern}`,
  hasRaw: text => sql`strpos(m.raw, ${text}) > 0`,
  hasItem: payload => sql`has_item(m.raw, ${payload})`,
}
