/**
 * The index for searches by substring in any script: pairs of neighbouring characters, each as a number, in an array
 * with a GIN index. A search finds candidates by it, and compares their texts: two pairs may have the same number.
 *
 * Adding a row to the index costs more than adding the row. So rows are indexed later, in order, up to
 * `indexed.upto`, by any node; a search reads the rows after it one by one.
 */

import { sqlStateOf } from '../../platform/postgres.ts'
import { toJsonb } from '../../platform/postgres-values.ts'
import { RoomPart } from '../../platform/runtime.ts'
import { type Sql, sql } from '../../platform/sql.ts'
import { toSearchableText } from '../search-text.ts'
import type { EngineContext } from './part.ts'

import { horizon } from './tables.ts'

/** Rows whose ids have all but these bits in common are a block: a search may be limited to one. */
export const blockBits = 16
/** Element of a row that is a candidate for every search. No pair has this number. */
const anyText = 0

/** Element of all rows of the block with that row. No pair has a negative number. */
const blockOf = (id: number): number => -Math.floor(id / 2 ** blockBits) - 1

/** Longer texts are not indexed by pairs, and are candidates for every search. WeChat's own messages are shorter. */
const indexedCharacters = 16_384
/** A longer search text is narrowed by its first pairs only: more would find the same rows. */
const needlePairs = 32
/** Rows that may be missing in the index, and rows that are indexed in one step. */
const [tailRows, stepRows] = [4000, 4000]
/** Longest wait before a step, and before one that follows a failure: what it wrote may be undone by it each time. */
const [waitMs, failedMs] = [1000, 120_000]

/** A frequent character is found soon without an index; other ones are also indexed alone. */
const isFrequent = (char: number): boolean =>
  char === 0x20 || (char >= 0x30 && char <= 0x39) || (char >= 0x61 && char <= 0x7a)

const numberOf = (first: number, second: number): number =>
  (Math.imul(first, 0x9e37_79b1) + Math.imul(second, 0x85eb_ca77)) >>> 1 || 1
const aloneOf = (char: number): number => numberOf(char, 0x11_0000)

/** Returns the characters, with A-Z folded. */
function charactersOf(text: string): number[] {
  const chars: number[] = []
  for (const one of text) {
    const char = one.codePointAt(0)!
    chars.push(char >= 0x41 && char <= 0x5a ? char + 0x20 : char)
  }
  return chars
}

const elementsOfAny = (id: number): number[] => [blockOf(id), anyText]

/** Returns the elements of a row in the index. */
function elementsOf(id: number, text: string): number[] {
  if (text.length > indexedCharacters) return elementsOfAny(id)
  const found = new Set<number>([blockOf(id)])
  let before: number | undefined
  for (const char of charactersOf(text)) {
    if (before !== undefined) found.add(numberOf(before, char))
    if (!isFrequent(char)) found.add(aloneOf(char))
    before = char
  }
  return [...found]
}

/** Returns the elements that a text with this search text has; undefined if the index does not help. */
function elementsOfNeedle(needle: string): number[] | undefined {
  const chars = charactersOf(needle)
  if (chars.length === 1) return isFrequent(chars[0]!) ? undefined : [aloneOf(chars[0]!)]
  const pairs = new Set<number>()
  for (let at = 1; at < chars.length && pairs.size < needlePairs; at++)
    pairs.add(numberOf(chars[at - 1]!, chars[at]!))
  return [...pairs]
}

/**
 * Returns SQL that selects the rows of the index which may have one of the search texts; undefined if the index does
 * not help.
 *
 * @returns a function of a row, to whose block the rows are limited
 */
export function candidatesOf(needles: readonly string[]): ((block?: number) => Sql) | undefined {
  const wanted = needles.map(elementsOfNeedle)
  if (wanted.some(elements => elements === undefined)) return undefined
  return block => {
    const own = block === undefined ? [] : [blockOf(block)]
    const each = [[anyText], ...(wanted as number[][])].map(
      elements => sql`pairs @> ${[...own, ...elements]}::integer[]`,
    )
    return sql`SELECT id FROM gram WHERE ${each.reduce((all, one) => sql`${all} OR ${one}`)}`
  }
}

/**
 * Statement for a script that changes the text of a row: the row is indexed by its new text. Indexing the log leaves
 * such a row as it is.
 */
export const reindex = (id: number, text: string): Sql => sql`INSERT INTO gram (id, pairs)
  VALUES (${id}, ${elementsOf(id, toSearchableText(text))}::integer[])
  ON CONFLICT (id) DO UPDATE SET pairs = excluded.pairs`

interface Tail {
  id: number
  text: string
  length: number
}

type IndexerContext = Pick<EngineContext, 'clock' | 'db' | 'log'>

/** Keeps the index close to the end of the log. */
export class GramIndexer extends RoomPart<IndexerContext> {
  readonly #stop = new AbortController()
  #work: Promise<unknown> = Promise.resolve()
  #upto = 0

  start(): void {
    const { clock, db, log } = this.ports
    const { signal } = this.#stop
    let isFailing = false
    const wait = (ms: number, either: AbortSignal) =>
      db.wait(({ row }) => row - this.#upto >= tailRows, ms, either)
    const failure = 'messages were not added to the index of texts'
    const options = { name: 'text_index', everyMs: waitMs, failure, log, signal, wait }
    this.#work = db.tasks.repeat(options, async () => {
      if (db.isClosed || db.horizon.row - this.#upto < tailRows) return
      // Other nodes notice it too. One of them is enough.
      await clock.sleep(Math.random() * (isFailing ? failedMs : waitMs), signal)
      isFailing = true
      while (!signal.aborted && (await this.step(tailRows)));
      isFailing = false
    }).done
  }

  /**
   * Indexes up to `most` of the oldest rows that are not indexed, if there are at least `least`.
   *
   * @returns false if there is nothing to do, or another node does it
   */
  async step(least: number, most = stepRows): Promise<boolean> {
    const { db } = this.ports
    const { upto, last } = await db.one<{ upto: number; last: number }>(
      sql`SELECT upto, ${horizon} AS last FROM indexed`,
    )
    this.#upto = upto
    if (last - upto < Math.max(1, least)) return false
    const tail = await db.all<Tail>(sql`SELECT id, length(text) AS length,
      CASE WHEN length(text) <= ${indexedCharacters} THEN text ELSE '' END AS text FROM message
      WHERE id > ${upto} AND id <= ${last} ORDER BY id LIMIT ${most}`)
    const end = tail.length < most ? last : tail.at(-1)!.id
    const rows = tail.flatMap(({ id, text, length }) => {
      if (length === 0) return []
      return { id, pairs: length > indexedCharacters ? elementsOfAny(id) : elementsOf(id, text) }
    })
    try {
      await db.script([
        sql`SELECT expect((SELECT true FROM indexed WHERE upto = ${upto} FOR UPDATE))`,
        sql`INSERT INTO gram (id, pairs) SELECT id, pairs
          FROM jsonb_to_recordset(${toJsonb(rows)}::jsonb) AS r(id bigint, pairs integer[]) ON CONFLICT (id) DO NOTHING`,
        sql`UPDATE indexed SET upto = ${end}`,
      ])
    } catch (error) {
      if (sqlStateOf(error) === '40001') return false
      throw error
    }
    this.#upto = end
    // Many rows at once: adding each to the index by itself costs several times as much. The rows are there if it fails.
    await db.one(sql`SELECT merge_grams()`)
    return true
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await this.#work
  }
}
