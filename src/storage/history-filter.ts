/** Searches as both engines do them: a filter in SQL, and the page with its total. */
import { joinSql, type Sql, sql } from '../platform/sql.ts'
import type { HistoryFilter, HistoryRows, StoredMessage } from './messages.ts'
import { likePatternOf } from './search-text.ts'

/** Totals are counted up to this number. */
export const exactTotal = 10_000
/** LIKE is faster up to this many characters of a search text, and bytes of a message text. */
const likeNeedleLimit = 32
const likeBytesLimit = 4096
/** Only this many characters of a text are searched: at each position the whole search text may have to be compared. */
export const searchedCharacters = 1_000_000
/** Larger messages are not searched for the kinds of their items. */
const kindSearchLimit = 1024 * 1024

/** Conditions on a message `m`, as an engine writes them. */
export interface SearchSql {
  /** The first `searchedCharacters` of its text have the search text in them. */
  has(needle: string): Sql
  /** Its text is like a pattern of `likePatternOf`. */
  isLike(pattern: string): Sql
  /** Its `raw` has a text in it. */
  hasRaw(text: string): Sql
  /** Its `raw` has an item with that payload. Text that is no JSON has none. */
  hasItem(payload: string): Sql
}

/** Conditions of a filter, except for sessions, the scope and the text. */
export function conditionsOf(filter: HistoryFilter, search: SearchSql): Sql[] {
  const { bot_id, direction, has_kind, msg_type, since, until, user_id } = filter
  return [
    ...(user_id === undefined ? [] : [sql`m.peer = ${user_id}`]),
    ...(bot_id === undefined ? [] : [sql`m.bot_id = ${bot_id}`]),
    // For imported messages that were received elsewhere `sent` is neither 0 nor 1.
    ...(direction === undefined ? [] : [direction === 'sent' ? sql`m.sent = 1` : sql`m.sent <> 1`]),
    ...(msg_type === undefined ? [] : [sql`m.msg_type = ${msg_type}`]),
    ...(since === undefined ? [] : [sql`m.timestamp >= ${since}`]),
    ...(until === undefined ? [] : [sql`m.timestamp < ${until}`]),
    ...(has_kind === undefined ? [] : [hasKind(has_kind, search)]),
  ]
}

/**
 * The message has an item of this kind. `msg_type` is the kind of its first item. For further items, which few
 * messages have, `raw` is parsed if it contains the payload's name. Items of quoted messages do not count.
 */
function hasKind(kind: string, { hasItem, hasRaw }: SearchSql): Sql {
  const payload = `${kind.toLowerCase()}_item`
  return sql`CASE WHEN m.msg_type = ${kind} THEN true
    WHEN octet_length(m.raw) <= ${kindSearchLimit} AND ${hasRaw(`"${payload}"`)} THEN ${hasItem(payload)} ELSE false END`
}

/**
 * The text contains one of the search texts. LIKE restarts the comparison at every position (9 ms for a hostile text), but it
 * reads a short text without a copy.
 */
export function containsOne(needles: readonly string[], { has, isLike }: SearchSql): Sql {
  const each = needles.map(needle =>
    needle.length > likeNeedleLimit
      ? has(needle)
      : sql`CASE WHEN octet_length(m.text) < ${likeBytesLimit} THEN ${isLike(likePatternOf(needle))} ELSE ${has(needle)} END`,
  )
  return sql`(${joinSql(each, ' OR ')})`
}

export const noMatches: HistoryRows = { rows: [], total: 0, total_is_lower_bound: false }

/**
 * @param ids of the page, and one more if there is another page
 * @param isCut the limit of characters ended the rows
 */
export function pageOf(
  { limit }: HistoryFilter,
  ids: readonly number[],
  { rows, isCut }: { rows: StoredMessage[]; isCut: boolean },
  total: number,
): HistoryRows {
  const next = isCut ? rows.at(-1)?.id : ids[limit] && ids[limit - 1]
  return {
    rows,
    total: Math.min(total, exactTotal),
    total_is_lower_bound: total > exactTotal,
    ...(next !== undefined && { next_before: next }),
  }
}
