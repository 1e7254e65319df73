/** What the log knows of arriving messages: `judgeMessages` decides by it which of them are new. */
import type { PgQueries } from '../../platform/postgres.ts'
import { type Sql, sql } from '../../platform/sql.ts'
import { type DuplicateLookup, type JudgedMessage, type KnownMessage, repeatMs } from '../deduplication.ts'
import type { ReceivedMessage } from '../messages.ts'

/** Messages of the log as the decision needs them, with those that were just decided to be stored. */
export interface KnownLog extends DuplicateLookup {
  /** Call it for a message that will be stored: those after it see it. */
  note(id: string, message: KnownMessage): void
}

/** Selects the messages with these ids, and those that the messages may be repeats of: `decide` takes the rows. */
export const queriesFor = (
  ids: readonly string[],
  messages: readonly ReceivedMessage[],
  now: number,
): [known: Sql, copies: Sql] => [selectKnown(ids), selectCopies(messages, now)]

interface KnownRow {
  id: string
  bot: string
  sent: boolean
  hash: string
}

interface Copy {
  id: string
  bot: string
  peer: string
  timestamp: number
  hash: string
}

/**
 * Returns what `judge` returns. It is called again, with a new `KnownLog`, if it looks up other ids than `ids`.
 *
 * @param rows of the queries from `queriesFor`
 */
export async function decide<T>(
  queries: Pick<PgQueries, 'all'>,
  ids: readonly string[],
  rows: readonly [known: readonly object[], copies: readonly object[]],
  judge: (log: KnownLog) => T,
): Promise<T> {
  const known = toKnown(rows[0] as KnownRow[])
  const copies = Map.groupBy(rows[1] as Copy[], ({ timestamp, hash }) => `${timestamp} ${hash}`)
  const asked = new Set(ids)
  for (;;) {
    const missing = new Set<string>()
    const noted = new Map<string, KnownMessage>()
    const result = judge({
      findById(id) {
        const found = noted.get(id) ?? known.get(id)
        if (!found && !asked.has(id)) missing.add(id)
        return found
      },
      findCopies: (bot, { message, hash }) =>
        (copies.get(`${message.timestamp} ${hash}`) ?? [])
          .filter(copy => copy.bot === bot && copy.peer === message.from_user)
          .map(({ id }) => id),
      note: (id, message) => void noted.set(id, message),
    })
    if (missing.size === 0) return result
    // An id is taken: the id that the message gets instead may be taken too.
    for (const [id, message] of toKnown(await queries.all<KnownRow>(selectKnown([...missing]))))
      known.set(id, message)
    for (const id of missing) asked.add(id)
  }
}

/** Whether the message will be stored. Then those after it see it. */
export function noteNew(log: KnownLog, botId: string, { id, hash, verdict }: JudgedMessage): boolean {
  if (verdict === 'known' || verdict === 'repeat') return false
  log.note(id, { botId, sent: false, hash })
  return true
}

const toKnown = (rows: readonly KnownRow[]) =>
  new Map(rows.map(({ id, bot, sent, hash }): [string, KnownMessage] => [id, { botId: bot, sent, hash }]))

/** LATERAL makes the server look up each value in the index, whatever it knows of the tables. */
const selectKnown = (ids: readonly string[]): Sql => sql`SELECT known.*
  FROM unnest(${ids}::text[]) AS given(id) CROSS JOIN LATERAL (
    SELECT m.message_id AS id, m.bot_id AS bot, m.sent = 1 AS sent, coalesce(m.content_hash, '') AS hash
    FROM message m WHERE id_hash(m.message_id) = id_hash(given.id) LIMIT 1) known`

/** Selects the polled messages of the last seconds that state one of the times of these messages. */
function selectCopies(messages: readonly ReceivedMessage[], now: number): Sql {
  const times = messages.flatMap(({ timed, timestamp }) => (timed && timestamp % 1000 !== 0 ? timestamp : []))
  return sql`SELECT copy.* FROM unnest(${[...new Set(times)]}::bigint[]) AS given(at) CROSS JOIN LATERAL (
      SELECT m.message_id AS id, m.bot_id AS bot, m.peer, m.timestamp, m.content_hash AS hash FROM message m
      WHERE m.timestamp = given.at AND m.sent = 0 AND m.stored_at > ${now - repeatMs} OFFSET 0) copy`
}
