/** Rows of the message log: inserts, settles and reads them. */
import { isWhole, type Scope } from '../../model/access.ts'
import { clockSkewMs, type Inbound, nextContextOf } from '../../model/session.ts'
import { systemClock } from '../../platform/clock.ts'
import { constantSql, noSql, type Sql, sql } from '../../platform/sql.ts'
import {
  type BatchPart,
  batchPartOf,
  type DuplicateLookup,
  type JudgedMessage,
  judgeMessages,
  type KnownMessage,
} from '../deduplication.ts'
import { erasedSession, receivedElsewhere } from '../log-rows.ts'
import type { ReadFilter, ReceivedMessage, StoredMessage } from '../messages.ts'
import { createRowBudget, type RowBudget } from '../row-budget.ts'
import type { NewRow, RowChange } from '../rules/outbox-plan.ts'
import { mapContextToken, mapRaw } from '../sealed-places.ts'
import { toSearchableText } from '../search-text.ts'
import { BigramIndex } from './bigram-index.ts'
import { sqliteDialect } from './dialect.ts'
import { removeErased } from './erased-users.ts'
import { isReceived, listIdsIn, scopeSqlOf } from './scope.ts'
import { SqliteSessionKeys } from './session-keys.ts'

/** SQL that continues a WHERE: the content of the row was not erased. */
const isKept = ` AND m.session <> ${erasedSession}`

/** Returns SQL for the name of the key in a principal; NULL if it is not one of a key, as `agent:NAME` is. */
export const keyNameOf = (principal: string): string =>
  `(SELECT name FROM access_key WHERE id = substr(${principal}, instr(${principal}, ':') + 1)
    AND ${principal} NOT LIKE 'agent:%')`

const sender = `substr(m.sent_by, 1, instr(m.sent_by || ' ', ' ') - 1)`

/** Columns of a `StoredMessage`, except that `past` is 1 here. */
const columns = `m.id, m.message_id, (SELECT name FROM session WHERE key = m.session) AS session, m.bot_id, m.peer,
  iif(m.sent = 1, 'sent', 'received') AS direction, m.status, iif(m.sent = 1, m.bot_id, m.peer) AS from_user,
  m.msg_type, m.text, m.timestamp, m.raw, m.reason, m.reason_code, m.reason_quote, m.sent_with,
  ${sender} AS sent_by, ${keyNameOf(sender)} AS sent_by_name,
  (SELECT name FROM user_name u WHERE u.session = m.session AND u.peer = m.peer) AS user_name,
  nullif(m.sent = ${receivedElsewhere}, 0) AS past`

/** Returns the context of a user about whom nothing else is known, with the token as it is given. */
export const firstContextOf = (inbound: Inbound): string =>
  JSON.stringify(nextContextOf(undefined, inbound, inbound.received_at))

export { erasedSession, receivedElsewhere } from '../log-rows.ts'

/** Continues a WHERE: the direction as `ReadFilter` has it. */
const ofDirection = (direction: ReadFilter['direction']): Sql =>
  direction === undefined ? constantSql(isKept) : direction === 'sent' ? sql` AND m.sent = 1` : isReceived

export class SqliteMessages extends SqliteSessionKeys {
  readonly grams = new BigramIndex(this.ports)
  readonly #db = this.ports.db

  /** @param part part of a larger batch. @returns for each message its row id, or `duplicate` */
  insertReceived(
    session: string,
    botId: string,
    batch: readonly ReceivedMessage[],
    part = batchPartOf(batch),
  ): (number | 'duplicate')[] {
    if (batch.length === 0) return []
    return this.#db.transaction(() => {
      const now = this.ports.clock.now()
      const key = this.ensureKey(session)
      return this.judge(botId, part).map(judged => this.#insertArrived(judged, session, key, botId, now))
    })
  }

  /** Decides which messages are new. Inside the transaction that stores them. */
  judge(botId: string, part: BatchPart): JudgedMessage[] {
    const stored: DuplicateLookup = {
      findById: id => {
        const row = this.#db.get<Omit<KnownMessage, 'sent'> & { sent: number }>`SELECT bot_id AS botId, sent,
          coalesce(content_hash, '') AS hash FROM message WHERE message_id = ${id}`
        return row && { ...row, sent: row.sent === 1 }
      },
      findCopies: (bot, { message, hash }, since) =>
        this.#db.all<{ id: string }>`SELECT message_id AS id FROM message INDEXED BY message_time
          WHERE timestamp = ${message.timestamp} AND content_hash = ${hash} AND sent = 0
          AND peer = ${message.from_user} AND bot_id = ${bot} AND stored_at > ${since}`.map(({ id }) => id),
    }
    return judgeMessages(stored, botId, part, this.ports.clock.now())
  }

  #insertArrived(
    { message, verdict, id, hash }: JudgedMessage,
    session: string,
    key: number,
    botId: string,
    now: number,
  ): number | 'duplicate' {
    if (verdict === 'repeat')
      this.ports.log.info('message delivered again under a new id', { session, message_id: id })
    if (verdict === 'repeat' || verdict === 'known') {
      this.#renewToken(key, message)
      return 'duplicate'
    }
    if (verdict === 'renamed') {
      this.ports.log.warn('two different messages came under one id; both are kept', {
        session,
        message_id: id,
      })
    }
    removeErased(this.#db, message.from_user)
    const text = toSearchableText(message.text)
    const raw = mapRaw(message.raw, id, this.ports.sealer.seal)
    const { lastInsertRowid } = this.#db.run`INSERT INTO message (message_id, session, sent, bot_id, peer,
      msg_type, timestamp, stored_at, content_hash, text, raw)
      VALUES (${id}, ${key}, 0, ${botId}, ${message.from_user}, ${message.msg_type}, ${message.timestamp},
      ${now}, ${hash}, ${text}, ${raw})`
    this.grams.add(lastInsertRowid, text)
    this.forgetUser(message.from_user)
    // In the same write, so a reader in any process that answers immediately has the token of the message and
    // counts from the new counter, although contexts.json is written later. `withdraw` removes the context of
    // a new user again if the session is gone.
    const { written_at: at, from_user, contextToken } = message
    if (at === undefined || !from_user) return lastInsertRowid
    const token = contextToken ? mapContextToken(contextToken, from_user, this.ports.sealer.seal) : undefined
    const context = firstContextOf({ user_id: from_user, token, received_at: at })
    // A time in the future comes from a clock that has been set back since.
    this.#db.run`INSERT INTO outbox_lane (session, peer, received_at, token, token_at, context)
      VALUES (${key}, ${from_user}, ${at}, ${token}, ${at}, ${context})
      ON CONFLICT (session, peer) DO UPDATE SET received_at = excluded.received_at,
      used = iif(received_at = excluded.received_at, used, 0),
      token = coalesce(excluded.token, iif(token_at = received_at, token, NULL)), token_at = excluded.token_at,
      context = coalesce(context, iif(received_at IS NULL, excluded.context, NULL))
      WHERE received_at IS NULL OR received_at <= excluded.received_at OR received_at > ${now + clockSkewMs}`
    return lastInsertRowid
  }

  /** A repeated message may bring a new token for its answers. */
  #renewToken(key: number, { contextToken, from_user, repeated }: ReceivedMessage): void {
    if (!contextToken || !repeated) return
    const { received_at, again } = repeated
    const token = mapContextToken(contextToken, from_user, this.ports.sealer.seal)
    this.#db
      .run`UPDATE outbox_lane SET token = ${token}, token_at = received_at WHERE session = ${key} AND peer = ${from_user}
      AND (received_at = ${received_at} OR ${again ? 1 : 0} AND received_at < ${received_at})`
  }

  /** Adds the row of a message from the bot. Call it inside a transaction. */
  insertSent(session: number, row: NewRow): number {
    this.sentChanges += 1
    const { lastInsertRowid } = this.#db.run`INSERT INTO message (message_id, session, sent, status, bot_id,
      peer, msg_type, timestamp, stored_at, text, raw, reason, reason_code, reason_quote, sent_by, sent_with)
      VALUES (${row.message_id}, ${session}, 1, ${row.status}, ${row.bot_id}, ${row.peer}, ${row.msg_type},
      ${row.timestamp}, ${row.stored_at}, ${row.text}, ${row.raw}, ${row.reason}, ${row.reason_code},
      ${row.reason_quote}, ${row.sent_by}, ${row.sent_with})`
    this.grams.add(lastInsertRowid, row.text)
    return lastInsertRowid
  }

  /**
   * Erases the content of a row, which stays because ids have no gaps. Call it inside a transaction. The
   * status stays: a change of it would be an event.
   */
  erase(id: number): void {
    this.sentChanges += 1
    if (id <= this.grams.position) this.grams.update(id, '')
    this.#db.run`UPDATE message SET message_id = ${`forgotten:${id}`}, session = ${erasedSession},
      sent = ${receivedElsewhere}, peer = '', msg_type = 'TEXT', timestamp = 0, content_hash = NULL, text = '',
      raw = '{}', sent_by = NULL, reason = NULL, reason_quote = NULL, sent_with = NULL WHERE id = ${id}`
  }

  /** Changes the row of a sent message. Call it inside a transaction. */
  changeSent(row: RowChange): void {
    const { id, text } = row
    this.sentChanges += 1
    const before = row.is_new_text
      ? this.#db.get<{ text: string }>`SELECT text FROM message WHERE id = ${id}`
      : undefined
    if (row.local_id === undefined) this.#settle(row)
    else
      this.#db.run`UPDATE message SET message_id = ${row.local_id}, bot_id = coalesce(${row.bot_id}, bot_id),
        status = ${row.status}, timestamp = ${row.timestamp}, text = ${text}, raw = ${row.raw}, reason = ${row.reason},
        reason_code = ${row.reason_code}, reason_quote = ${row.reason_quote}, sent_with = ${row.sent_with}
        WHERE id = ${id} AND sent = 1`
    // The trigger that writes the event uses the system clock; the store's clock may be the sandbox's.
    if (this.ports.clock !== systemClock)
      this.#db.run`UPDATE event SET at = ${this.ports.clock.now()}
      WHERE place = (SELECT max(place) FROM event) AND message = ${id}`
    if (text !== undefined && before && before.text !== text) this.grams.update(id, text)
  }

  #settle({
    id,
    status,
    upstream_id,
    carrier,
    text,
    raw,
    reason,
    reason_code,
    reason_quote,
  }: RowChange): void {
    // The row may have been erased while its message was being sent.
    if (upstream_id !== undefined) {
      // If another row has this id already, the local id stays.
      const { changes } = this.#db.run`UPDATE OR IGNORE message SET status = ${status}, reason = ${reason},
        reason_code = ${reason_code}, reason_quote = ${reason_quote}, message_id = ${upstream_id}
        WHERE id = ${id} AND sent = 1`
      if (changes > 0) return
    }
    this.#db.run`UPDATE message SET status = ${status}, reason = ${reason}, reason_code = ${reason_code},
      reason_quote = ${reason_quote}, text = coalesce(${text}, text), raw = coalesce(${raw}, raw),
      sent_with = coalesce((SELECT message_id FROM message WHERE id = ${carrier}), sent_with)
      WHERE id = ${id} AND sent = 1`
  }

  listAfter(id: number, { characters, ...wanted }: ReadFilter): StoredMessage[] {
    return this.getByIds(this.listIdsAfter(id, wanted), characters)
  }

  /** Returns the ids after a row, oldest first. */
  listIdsAfter(id: number, { limit, direction, session, scope }: Omit<ReadFilter, 'characters'>): number[] {
    const narrowed = ofDirection(direction)
    if (scope && !isWhole(scope)) {
      const keys = this.listKeysIn(session, scope)
      return listIdsIn(this.#db, { scope, keys, after: id, narrowed, limit }).map(row => row.id)
    }
    const found =
      session === undefined
        ? this.#db.all<{ id: number }>(
            sql`SELECT m.id FROM message m WHERE m.id > ${id}${narrowed} ORDER BY m.id LIMIT ${limit}`,
          )
        : this.listIdsBySession(this.listSessionKeys(session), () => id, limit, narrowed)
    return found.map(row => row.id)
  }

  listRecent(since: number, { limit, direction, session, scope }: Omit<ReadFilter, 'characters'>): number[] {
    // Row ids grow with the time of storing, so one walk from the end finds the start.
    const before = this.#db.get<{ id: number }>`SELECT id FROM message WHERE stored_at < ${since}
      ORDER BY id DESC LIMIT 1`
    const inSession =
      session === undefined
        ? noSql
        : sql` AND ${sqliteDialect.isOneOf(sql`m.session`, this.listSessionKeys(session))}`
    const rows = this.#db.all<{ id: number }>(
      sql`SELECT m.id FROM message m NOT INDEXED WHERE m.id > ${before?.id ?? 0}${ofDirection(direction)}${inSession}
        ${sqliteDialect.inScope(scope)} ORDER BY m.id DESC LIMIT ${limit}`,
    )
    return rows.map(({ id }) => id).reverse()
  }

  /** Reads rows one by one. */
  getByIds(ids: readonly number[], characters?: number, scope?: Scope): StoredMessage[] {
    return this.read(ids, createRowBudget(characters), scope)
  }

  /** Reads up to the first row that does not fit. */
  read(ids: readonly number[], fits: RowBudget, scope?: Scope): StoredMessage[] {
    const rows: StoredMessage[] = []
    for (const id of ids) {
      const row = this.getById(id, scope)
      if (!row) continue
      if (!fits(row)) break
      rows.push(row)
    }
    return rows
  }

  /**
   * Returns the ids after a position in each of some sessions, oldest first: one index walk for each
   * session, then merged.
   */
  listIdsBySession(
    keys: readonly number[],
    positionOf: (key: number) => number,
    limit: number,
    narrowed = isReceived,
  ): { id: number; key: number }[] {
    return keys
      .flatMap(key =>
        this.#db.all<{ id: number; key: number }>(
          sql`SELECT m.id, m.session AS key FROM message m INDEXED BY message_session
            WHERE m.session = ${key} AND m.id > ${positionOf(key)}${narrowed} ORDER BY m.id LIMIT ${limit}`,
        ),
      )
      .sort((a, b) => a.id - b.id)
      .slice(0, limit)
  }

  getByMessageIds(
    ids: readonly string[],
    characters?: number,
    scope?: Scope,
  ): { rows: StoredMessage[]; rest: readonly string[] } {
    const rows: StoredMessage[] = []
    const fits = createRowBudget(characters)
    const { sql, params } = scopeSqlOf(scope)
    const text = `SELECT ${columns} FROM message m WHERE m.message_id = ?${isKept}${sql}`
    for (const [nth, id] of ids.entries()) {
      const found = this.#db.get<StoredMessage>(text, id, ...params)
      const row = found && toStoredMessage(found)
      if (row && !fits(row)) return { rows, rest: ids.slice(nth) }
      if (row) rows.push(row)
    }
    return { rows, rest: [] }
  }

  getById(id: number, scope?: Scope): StoredMessage | undefined {
    const { sql, params } = scopeSqlOf(scope)
    const text = `SELECT ${columns} FROM message m WHERE m.id = ?${isKept}${sql}`
    const row = this.#db.get<StoredMessage>(text, id, ...params)
    return row && toStoredMessage(row)
  }

  getHead(): number {
    return this.#db.get<{ last?: number }>`SELECT max(id) AS last FROM message`?.last ?? 0
  }
}

function toStoredMessage(row: StoredMessage): StoredMessage {
  if (row.past) row.past = true
  return row
}
