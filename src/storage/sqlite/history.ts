/**
 * Pages of the log, newest first, by any filter, with a total.
 *
 * A filter may match one row of millions, so the log is looked through in windows of ids, a few milliseconds each, and
 * whoever else has work goes between two of them. A window is walked by whatever narrows it most: the index of
 * character pairs, of users, of kinds, of sessions, or the rows themselves. It ends early after a number of candidates, so its
 * cost is bounded whatever is in it; windows in which little is found grow.
 */
import { badArgument } from '../../model/error.ts'
import { turns } from '../../platform/clock.ts'
import type { SqlValue } from '../../platform/sqlite.ts'
import type { HistoryFilter, HistoryRows } from '../messages.ts'
import { gramQuery, likePattern, searchable } from './bigram-index.ts'
import { EnginePart } from './engine-part.ts'
import { within } from './messages.ts'
import { idsBetweenTimes } from './time-range.ts'

/** Totals are counted up to here. */
const exactTotal = 10_000
/** SQLite refuses longer patterns. */
const needleLimit = 10_000
/** Up to this many characters of a needle, LIKE is the faster. */
const likedNeedle = 32
/** Ids in the first window, and in the widest one. */
const firstWidth = 4096
const widestWidth = 1 << 24
/** Candidates looked at in one go. */
const candidateLimit = 2000
/** Windows grow when they are faster than this, shrink when slower than four times this. */
const briskMs = 2
/** So few rows of a user or session in a window are compared with the needle directly. */
const fewRows = 300
/** When fewer than a quarter of this many candidates matched, the range of times is turned into one of ids. */
const sparseAfter = 4000

/** What narrows a window, and the SQL that walks it from the highest id down. */
interface Way {
  from: string
  where: string
  params: SqlValue[]
  id: string
  /** Rows with a higher id are not found by it. */
  upTo?: number
}

interface Plan {
  ways: Way[]
  /** What the ways do not guarantee. */
  match: string
  matchParams: SqlValue[]
  widest: number
  since: number | undefined
  until: number | undefined
  /** The ids of the range of times, once they were worth finding out. */
  range?: { low: number; high: number }
}

interface Window {
  /** Ids of candidates that match, highest first; empty when only counted. */
  ids: number[]
  matched: number
  seen: number
  /** The lowest id looked at. */
  low: number
}

export class History extends EnginePart {
  /** @throws SvcError `invalid_arguments` for a needle that is too long; the signal's reason when it aborts */
  async page(filter: HistoryFilter, signal?: AbortSignal): Promise<HistoryRows> {
    const plan = this.#plan(filter)
    if (!plan) return { rows: [], total: 0, total_is_lower_bound: false }
    const last = this.messages.head()
    const top = filter.before === undefined ? last : Math.min(last, filter.before - 1)
    // One more than asked for tells whether there are more.
    const page = await this.#find(plan, top, filter.offset, filter.limit + 1, signal)
    let isCut = false
    const fits = within(filter.characters)
    const rows = this.messages.read(page.slice(0, filter.limit), row => {
      isCut = !fits(row)
      return !isCut
    })
    const next = isCut ? rows.at(-1)?.id : page[filter.limit] && page[filter.limit - 1]
    const total = await this.#total(plan, last, signal)
    return {
      rows,
      total: Math.min(total, exactTotal),
      total_is_lower_bound: total > exactTotal,
      next_before: next,
    }
  }

  /** Undefined when nothing can match. */
  #plan(filter: HistoryFilter): Plan | undefined {
    const { direction, msg_type, session, since, text_contains = '', until, user_id } = filter
    const keys = session === undefined ? undefined : this.messages.sessionKeys(session)
    if (keys?.length === 0) return undefined
    const inSession = keys && ofSession(keys)
    const needle = searchable(text_contains)
    const clauses = [...clausesOf(filter, inSession), ...(needle === '' ? [] : [clauseOf(needle)])]
    // Said twice for the index, which knows only what is not text.
    const kind = `m.msg_type <> 'TEXT' AND m.msg_type = ?`
    const ways: Way[] = []
    if (user_id !== undefined) ways.push(way('message m INDEXED BY message_peer', 'm.peer = ?', user_id))
    if (msg_type !== undefined && msg_type !== 'TEXT')
      ways.push(way('message m INDEXED BY message_kind', kind, msg_type))
    if (direction === 'sent') ways.push(way('message m INDEXED BY message_sent', 'm.sent = 1'))
    if (inSession) ways.push(way('message m INDEXED BY message_session', ...inSession))
    if (needle !== '') ways.push(this.#wayOf(needle))
    const match = clauses.map(([clause]) => clause)
    return {
      ways: ways.length > 0 ? ways : [everyRow],
      // CASE stops at the first thing that does not match; the text, long, is looked at last.
      match: match.length > 0 ? `CASE WHEN ${match.join(' AND ')} THEN 1 END` : '1',
      matchParams: clauses.flatMap(([, ...values]) => values),
      // Several keys are not walked in the order of ids: a whole window is sorted.
      widest: keys && keys.length > 1 ? firstWidth * 4 : widestWidth,
      ...{ since, until },
    }
  }

  #wayOf(needle: string): Way {
    return {
      ...{ from: 'gram CROSS JOIN message m ON m.id = gram.rowid', id: 'gram.rowid' },
      ...{ where: 'gram MATCH ?', params: [gramQuery(needle)], upTo: this.messages.grams.position },
    }
  }

  /** Ids of matching rows from `top` down: `count` of them after the first `skip`. */
  async #find(plan: Plan, top: number, skip: number, count: number, signal?: AbortSignal): Promise<number[]> {
    if (plan.match === '1' && skip > 0) {
      // Where nothing is filtered, rows are skipped by count: the windows would build the id of each.
      const first = this.db.get<{ id: number }>`SELECT id FROM message WHERE id <= ${top}
        ORDER BY id DESC LIMIT 1 OFFSET ${skip}`
      return first ? this.#find(plan, first.id, 0, count, signal) : []
    }
    const found: number[] = []
    let left = skip
    for await (const { ids } of this.#windows(plan, top, { wanted: skip + count, withIds: true, signal })) {
      found.push(...ids.slice(left))
      left = Math.max(0, left - ids.length)
      if (found.length >= count) break
    }
    return found.slice(0, count)
  }

  async #total(plan: Plan, top: number, signal?: AbortSignal): Promise<number> {
    if (plan.match === '1') {
      // Every row of one narrow index is counted with the fewest pages.
      return this.db.one<{ total: number }>`SELECT count(*) AS total FROM (SELECT 1
        FROM message INDEXED BY message_session WHERE session >= 0 LIMIT ${exactTotal + 1})`.total
    }
    let total = 0
    for await (const { matched } of this.#windows(plan, top, {
      wanted: exactTotal,
      withIds: false,
      signal,
    })) {
      total += matched
      if (total > exactTotal) break
    }
    return total
  }

  /** The log from `top` down, window by window. */
  async *#windows(
    plan: Plan,
    top: number,
    { wanted, withIds, signal }: { wanted: number; withIds: boolean; signal: AbortSignal | undefined },
  ): AsyncGenerator<Window> {
    let high = Math.min(top, plan.range?.high ?? top)
    let bottom = this.db.get<{ first?: number }>`SELECT min(id) AS first FROM message`?.first ?? 0
    if (plan.range) bottom = Math.max(bottom, plan.range.low)
    let width = firstWidth
    let candidates = Math.min(wanted, candidateLimit)
    let last: Way | undefined
    let seen = 0
    let matched = 0
    const timed = plan.since !== undefined || plan.until !== undefined
    const turn = turns(this.clock)
    while (high >= bottom && high > 0) {
      signal?.throwIfAborted()
      const started = this.clock.monotonic()
      // A window lies on one side of where the index ends.
      const floor = Math.max(bottom, ...plan.ways.map(({ upTo = high }) => (upTo < high ? upTo + 1 : bottom)))
      let low = Math.max(floor, high - width + 1)
      const chosen = this.#choose(plan, low, high)
      if (last && last !== chosen) {
        // Another way has other costs: what was fast for one says nothing of the other.
        width = firstWidth
        low = Math.max(floor, high - width + 1)
      }
      const window = this.#walk(plan, chosen, low, high, candidates, withIds)
      const tookMs = this.clock.monotonic() - started
      if (tookMs < briskMs) width = Math.min(width * 4, plan.widest)
      else if (tookMs > briskMs * 4) width = Math.max(width >> 1, 256)
      candidates = Math.min(candidates * 4, candidateLimit)
      last = chosen
      high = window.low - 1
      seen += window.seen
      matched += window.matched
      yield window
      if (timed && !plan.range && seen >= sparseAfter && matched * 4 < seen) {
        plan.range = await idsBetweenTimes(this.db, plan, () => this.clock.sleep(0))
        high = Math.min(high, plan.range.high)
        bottom = Math.max(bottom, plan.range.low)
      }
      await turn()
    }
  }

  /** The way through one window: the first that has only few rows in it; else that of the needle, or the first. */
  #choose(plan: Plan, low: number, high: number): Way {
    const ways = plan.ways.filter(({ upTo = high }) => upTo >= high)
    const last = ways.at(-1) ?? everyRow
    if (ways.length <= 1) return last
    const few = ways.find(way => way.id === 'm.id' && this.#countIn(way, low, high) <= fewRows)
    return few ?? (last.id === 'm.id' ? (ways[0] ?? last) : last)
  }

  #countIn({ from, where, params }: Way, low: number, high: number): number {
    return this.db.one<{ rows: number }>(
      `SELECT count(*) AS rows FROM (SELECT 1 FROM ${from} WHERE ${where} AND m.id BETWEEN ? AND ? LIMIT ?)`,
      ...[...params, low, high, fewRows + 1],
    ).rows
  }

  #walk(plan: Plan, way: Way, low: number, high: number, candidates: number, withIds: boolean): Window {
    const found = this.db.one<{ seen: number; matched: number; low?: number; ids?: string }>(
      `SELECT count(*) AS seen, min(id) AS low, count(hit) AS matched${withIds ? ', json_group_array(id) FILTER (WHERE hit) AS ids' : ''}
         FROM (SELECT ${way.id} AS id, ${plan.match} AS hit FROM ${way.from}
               WHERE ${way.where} AND ${way.id} BETWEEN ? AND ? ORDER BY ${way.id} DESC LIMIT ?)`,
      ...[...plan.matchParams, ...way.params, low, high, candidates],
    )
    const ids: number[] = JSON.parse(found.ids ?? '[]')
    const { matched, seen } = found
    // All candidates of the window were looked at, or the rest of them lies below the last one.
    const lowest = seen === candidates ? found.low! : low
    return { ids: ids.sort((a, b) => b - a), matched, seen, low: lowest }
  }
}

/** Few messages have several items: those that name the payload at all are looked into, not into what an item quotes. */
const hasKind = `CASE WHEN m.msg_type = ? THEN 1 WHEN instr(m.raw, ?) > 0 AND json_valid(m.raw) THEN EXISTS
  (SELECT 1 FROM json_tree(m.raw) WHERE key = ? AND type = 'object' AND path GLOB '*]' AND path NOT GLOB '*].*') END`

const everyRow: Way = { from: 'message m NOT INDEXED', where: '1', params: [], id: 'm.id' }

const way = (from: string, where: string, ...params: SqlValue[]): Way => ({ from, where, params, id: 'm.id' })

type Clause = [clause: string, ...values: SqlValue[]]

const ofSession = (keys: readonly number[]): [clause: string, value: SqlValue] =>
  keys.length === 1
    ? ['m.session = ?', keys[0]!]
    : ['m.session IN (SELECT value FROM json_each(?))', JSON.stringify(keys)]

/** What a filter asks of a row, but for its text. */
function clausesOf(filter: HistoryFilter, inSession: Clause | undefined): Clause[] {
  const { bot_id, direction, has_kind, msg_type, since, until, user_id } = filter
  const payload = `${has_kind?.toLowerCase()}_item`
  return [
    ...asked('m.peer = ?', user_id),
    ...(inSession ? [inSession] : []),
    // What another program received is neither 0 nor 1.
    ...asked(`m.sent ${direction === 'sent' ? '=' : '<>'} ?`, direction && 1),
    ...asked('m.bot_id = ?', bot_id),
    ...asked('m.msg_type = ?', msg_type),
    ...asked(hasKind, has_kind, `"${payload}"`, payload),
    ...asked('m.timestamp >= ?', since),
    ...asked('m.timestamp < ?', until),
  ]
}

const asked = (clause: string, value: SqlValue | undefined, ...more: SqlValue[]): Clause[] =>
  value === undefined ? [] : [[clause, value, ...more]]

/** What a text must contain. @throws SvcError `invalid_arguments` where it is too long */
function clauseOf(needle: string): [clause: string, value: SqlValue] {
  if (needle.length > needleLimit)
    throw badArgument('text_contains', `expected at most ${needleLimit} characters`)
  // LIKE compares anew at every place, 9 ms for a text made for it; but a short needle it finds without a copy.
  if (needle.length > likedNeedle) return ['instr(lower(m.text), lower(?))', needle]
  return [`m.text LIKE ? ESCAPE '\\'`, likePattern(needle)]
}
