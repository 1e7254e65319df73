/**
 * Search: pages of the log, newest first, by any filter, with a total.
 *
 * A filter may match one row of millions. So the log is searched in windows of ids, and other work runs
 * between two windows; only one search works at a time. Each window is walked by the path that narrows it
 * most: the index of character pairs, of users, of kinds, of sessions, or the rows themselves. A window ends
 * early after a number of candidates, or when its time is over, so its cost is limited. Windows with few
 * matches get wider.
 *
 * Starting in the index of pairs takes time proportional to all entries after the start. So a search drops
 * that path if pairs are frequent: for 100,000 messages that have every pair of a phrase, its windows took
 * 7.3 s, the rows 0.2 s.
 */
import { SvcError } from '../../model/error.ts'
import { SharedTurns } from '../../platform/clock.ts'
import { constantSql, joinSql, type Sql, sql } from '../../platform/sql.ts'
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
import { createRowBudget } from '../row-budget.ts'
import { needlesOf } from '../search-text.ts'
import { gramQueryOf } from './bigram-index.ts'
import { sqliteDialect } from './dialect.ts'
import { EnginePart } from './engine-part.ts'
import { findIdRange } from './time-range.ts'

/** Number of ids in the first window, in the widest window, and in the widest window of the pair index. */
const firstWidth = 4096
const widestWidth = 1 << 24
const widestOfPairs = 1 << 17
/** Maximum number of candidates checked in one window. */
const candidateLimit = 2000
/** Windows that are faster than this get wider. */
const briskMs = 2
/** A window ends after this time. */
const searchWindowMs = 8
/** A search that has worked this long counts as long; `mostLong` of them may run. */
const longMs = 500
const mostLong = 8
/** Up to this many rows of a user or session in a window are compared with the search text directly. */
const fewRows = 300
/** If fewer than a quarter of this many candidates matched, the time range is converted to a range of ids. */
const sparseAfter = 4000

/** An index to search by, with the SQL that walks it from the highest id down. */
interface SearchPath {
  from: Sql
  where: Sql
  id: Sql
  /** Highest id that this path finds; undefined: no limit. */
  upTo?: number
  /** Maximum width of this path's windows. */
  widest?: number
}

interface Plan {
  /** If empty, the rows themselves are walked. */
  paths: SearchPath[]
  /** Conditions that the paths do not guarantee; undefined: all rows match whose content was not erased. */
  match: Sql | undefined
  widest: number
  since: number | undefined
  until: number | undefined
  /** The ids of the time range, once they were computed. */
  range?: { low: number; high: number }
}

interface Window {
  /** Ids of candidates that match, highest first. */
  ids: number[]
  seen: number
  /** Lowest id that was checked. */
  low: number
}

export class SqliteHistory extends EnginePart {
  readonly #slices = new SharedTurns(this.clock)
  /** Number of long searches that run. */
  #long = 0

  /**
   * @throws SvcError `invalid_arguments` for a search text that is too long; the signal's reason when it
   *   aborts
   */
  async findPage(filter: HistoryFilter, signal?: AbortSignal): Promise<HistoryRows> {
    const plan = this.#createPlan(filter)
    if (!plan) return noMatches
    const last = this.messages.getHead()
    const top = filter.before === undefined ? last : Math.min(last, filter.before - 1)
    // One more row than requested shows whether there are more.
    const range = { skip: filter.offset, count: filter.limit + 1 }
    const { ids: page, total } = await this.#find(plan, last, top, range, signal)
    let isCut = false
    const fits = createRowBudget(filter.characters)
    const rows = this.messages.read(page.slice(0, filter.limit), row => {
      isCut = !fits(row)
      return !isCut
    })
    return pageOf(filter, page, { rows, isCut }, total)
  }

  /** Returns the ids of a time range, same as `MessageLog.findRange`. */
  findRange({ since, until }: { since?: number | undefined; until?: number | undefined }) {
    return findIdRange(this.db, { since, until }, () => this.clock.sleep(0))
  }

  /** Creates the plan of a search; undefined if nothing can match. */
  #createPlan(filter: HistoryFilter): Plan | undefined {
    const { direction, msg_type, scope, session, since, text_contains = '', until, user_id } = filter
    const keys = this.messages.listKeysIn(session, scope)
    if (keys?.length === 0) return undefined
    if (user_id !== undefined && scope?.users?.includes(user_id) === false) return undefined
    const users = user_id === undefined ? scope?.users : undefined
    const inSession = keys ? [isOneOf('m.session', keys)] : []
    const needles = needlesOf(text_contains)
    const inScope = sqliteDialect.inScope(scope)
    const contains = needles.length > 0 ? [containsOne(needles, searchSql)] : []
    const conditions = [...inSession, ...conditionsOf(filter, searchSql), ...contains]
    const isNarrowed = conditions.length > 0 || scope?.bots !== undefined || scope?.users !== undefined
    const paths: SearchPath[] = []
    if (user_id !== undefined) paths.push(createSearchPath('message_peer', sql`m.peer = ${user_id}`))
    if (users) paths.push(createSearchPath('message_peer', isOneOf('m.peer', users)))
    // The first condition is for the index, which contains only rows that are not text.
    if (msg_type !== undefined && msg_type !== 'TEXT')
      paths.push(createSearchPath('message_kind', sql`m.msg_type <> 'TEXT' AND m.msg_type = ${msg_type}`))
    if (direction === 'sent') paths.push(createSearchPath('message_sent', sql`m.sent = 1`))
    for (const one of inSession) paths.push(createSearchPath('message_session', one))
    if (needles.length > 0) paths.push(this.#pathOf(needles))
    return {
      paths,
      // CASE stops at the first condition that fails; the long text is compared last.
      match: isNarrowed
        ? sql`CASE WHEN ${joinSql([isKept, ...conditions], ' AND ')}${inScope} THEN 1 END`
        : undefined,
      // Rows of several keys or users do not come in the order of ids: a whole window is sorted.
      widest: (keys ?? []).length > 1 || (users ?? []).length > 1 ? firstWidth * 4 : widestWidth,
      since,
      until,
    }
  }

  #pathOf(needles: readonly string[]): SearchPath {
    return {
      from: constantSql('gram CROSS JOIN message m ON m.id = gram.rowid'),
      id: constantSql('gram.rowid'),
      where: sql`gram MATCH ${needles.map(gramQueryOf).join(' OR ')}`,
      upTo: this.messages.grams.position,
      widest: widestOfPairs,
    }
  }

  /**
   * Returns the ids of matching rows from `top` down (`count` of them after the first `skip`), and the number
   * of matches from `last` down.
   */
  async #find(
    plan: Plan,
    last: number,
    top: number,
    { skip, count }: { skip: number; count: number },
    signal?: AbortSignal,
  ): Promise<{ ids: number[]; total: number }> {
    if (!plan.match) return this.#listUnfiltered(top, skip, count)
    const ids: number[] = []
    let total = 0
    // Counting starts at the end of the log. If the page starts there too, one walk does both.
    for (const from of new Set([last, top])) {
      for await (const found of this.#walkWindows(plan, from, skip + count, signal)) {
        if (from === last) total += found.length
        if (from === top && ids.length < skip + count) ids.push(...found)
        if ((from < last || total > exactTotal) && (from > top || ids.length >= skip + count)) break
      }
    }
    return { ids: ids.slice(skip, skip + count), total }
  }

  /** Without a filter, rows are skipped and counted without reading each id. */
  #listUnfiltered(top: number, skip: number, count: number): { ids: number[]; total: number } {
    const found = this.db.all<{ id: number }>`SELECT id FROM message NOT INDEXED WHERE id <= ${top}
      AND session <> ${erasedSession} ORDER BY id DESC LIMIT ${count} OFFSET ${skip}`
    // Counting in one narrow index reads the fewest pages.
    const { total } = this.db.one<{ total: number }>`SELECT count(*) AS total FROM (SELECT 1
      FROM message INDEXED BY message_session WHERE session > ${erasedSession} LIMIT ${exactTotal + 1})`
    return { ids: found.map(({ id }) => id), total }
  }

  /** Returns the matching ids from `top` down, window by window. */
  async *#walkWindows(
    plan: Plan,
    top: number,
    wanted: number,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<number[]> {
    let high = Math.min(top, plan.range?.high ?? top)
    let bottom = this.db.get<{ first?: number }>`SELECT min(id) AS first FROM message`?.first ?? 0
    if (plan.range) bottom = Math.max(bottom, plan.range.low)
    let width = firstWidth
    let candidates = Math.min(wanted, candidateLimit)
    let last: SearchPath | undefined
    let seen = 0
    let matched = 0
    const timed = plan.since !== undefined || plan.until !== undefined
    const turn = this.#slices.join()
    using work = this.#startWork()
    while (high >= bottom && high > 0) {
      signal?.throwIfAborted()
      await turn()
      const started = this.clock.monotonic()
      // A window does not cross the end of the index.
      const floor = Math.max(
        bottom,
        ...plan.paths.map(({ upTo = high }) => (upTo < high ? upTo + 1 : bottom)),
      )
      const lowOf = (path: SearchPath) =>
        Math.max(floor, high - Math.min(width, path.widest ?? plan.widest) + 1)
      const chosen = this.#choose(plan, Math.max(floor, high - width + 1), high)
      // Another path has other costs: the speed of the previous one says nothing about it.
      if (last && last !== chosen) width = firstWidth
      const window = this.#walk(plan, chosen, lowOf(chosen), high, candidates)
      const tookMs = this.clock.monotonic() - started
      if (tookMs < briskMs) width = Math.min(width * 4, plan.widest)
      else if (tookMs > searchWindowMs && chosen.widest !== undefined)
        plan.paths = plan.paths.filter(path => path !== chosen)
      candidates = Math.min(candidates * 4, candidateLimit)
      last = chosen
      high = window.low - 1
      seen += window.seen
      matched += window.ids.length
      yield window.ids
      work.took(tookMs)
      if (timed && !plan.range && seen >= sparseAfter && matched * 4 < seen) {
        plan.range = await findIdRange(this.db, plan, () => this.clock.sleep(0))
        high = Math.min(high, plan.range.high)
        bottom = Math.max(bottom, plan.range.low)
      }
    }
  }

  /**
   * Adds up the time of a search. @returns `took` throws SvcError `rate_limited` if too many long searches
   * run
   */
  #startWork() {
    let ms = 0
    let isLong = false
    return {
      took: (more: number) => {
        ms += more
        if (isLong || ms < longMs) return
        if (this.#long >= mostLong)
          throw new SvcError('rate_limited', `${mostLong} searches through much of the log run already`, {
            hint: 'Try again in a moment, or narrow the search: by user_id, session or since.',
            retryAfter: 2,
          })
        isLong = true
        this.#long++
      },
      [Symbol.dispose]: () => {
        if (isLong) this.#long--
      },
    }
  }

  /**
   * Returns the path for one window: the first one with few rows in it, else the pair index, else the first
   * one. Without any, the rows themselves.
   */
  #choose(plan: Plan, low: number, high: number): SearchPath {
    const paths = plan.paths.filter(({ upTo = high }) => upTo >= high)
    const last = paths.at(-1) ?? everyRow
    if (paths.length <= 1) return last
    const few = paths.find(path => path.id === rowId && this.#countIn(path, low, high) <= fewRows)
    return few ?? (last.id === rowId ? (paths[0] ?? last) : last)
  }

  #countIn({ from, where }: SearchPath, low: number, high: number): number {
    return this.db.one<{ rows: number }>(
      sql`SELECT count(*) AS rows FROM (SELECT 1 FROM ${from} WHERE ${where} AND m.id BETWEEN ${low} AND ${high}
        LIMIT ${fewRows + 1})`,
    ).rows
  }

  /** Walks from `high` down until the window ends, the candidates are used up, or its time is over. */
  #walk(plan: Plan, path: SearchPath, low: number, high: number, candidates: number): Window {
    const ids: number[] = []
    let seen = 0
    let lowest = high + 1
    const ends = this.clock.monotonic() + searchWindowMs
    const { from, id, where } = path
    const range = sql`FROM ${from} WHERE ${where} AND ${id} BETWEEN ${low} AND ${high} ORDER BY ${id} DESC LIMIT ${candidates}`
    const match = plan.match ?? sql`1`
    // With at most one session key (widest windows), ids come in order: `match` tests each id as it is
    // found. Ids of several keys are sorted and limited first; only the remaining ones are tested.
    const statement =
      plan.widest === widestWidth
        ? sql`SELECT ${id} AS id, ${match} AS hit ${range}`
        : sql`SELECT m.id AS id, ${match} AS hit FROM (SELECT ${id} AS id ${range}) AS found
            CROSS JOIN message m ON m.id = found.id`
    this.db.each<{ id: number; hit?: number }>(statement, [], ({ id, hit }) => {
      seen++
      lowest = id
      if (hit) ids.push(id)
      return this.clock.monotonic() < ends
    })
    // Either all candidates of the window were checked, or the rest is below the last one.
    const isThrough = seen < candidates && this.clock.monotonic() < ends
    return { ids: ids.sort((a, b) => b - a), seen, low: isThrough || seen === 0 ? low : lowest }
  }
}

const rowId = constantSql('m.id')

const everyRow: SearchPath = {
  from: constantSql('message m NOT INDEXED'),
  where: constantSql('1'),
  id: rowId,
}

const createSearchPath = (index: string, where: Sql): SearchPath => ({
  from: constantSql(`message m INDEXED BY ${index}`),
  where,
  id: rowId,
})

/** The content of the message was not erased. */
const isKept = constantSql(`m.session <> ${erasedSession}`)

/** Compares one value as such: then ids come in order. */
const isOneOf = (column: string, values: readonly string[] | readonly number[]): Sql =>
  values.length === 1
    ? sql`${constantSql(column)} = ${values[0]}`
    : sqliteDialect.isOneOf(constantSql(column), values)

const searchSql: SearchSql = {
  has: needle => sql`instr(lower(substr(m.text, 1, ${searchedCharacters})), lower(${needle}))`,
  isLike: pattern => sql`m.text LIKE ${pattern} ESCAPE '\\'`,
  hasRaw: text => sql`instr(m.raw, ${text}) > 0`,
  hasItem: payload => sql`CASE WHEN json_valid(m.raw) THEN EXISTS (SELECT 1 FROM json_tree(m.raw)
    WHERE key = ${payload} AND type = 'object' AND path GLOB '*]' AND path NOT GLOB '*].*') END`,
}
