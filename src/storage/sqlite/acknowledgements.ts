/** Consumers that acknowledge: the position of each, for all sessions and for single sessions. */
import { isWhole } from '../../model/access.ts'
import type { ReadFilter } from '../messages.ts'
import { notDeliveredError } from '../nouns/readers.ts'
import { createRowBudget } from '../row-budget.ts'
import type { ConsumerClaim } from '../store.ts'
import type { SqliteConsumers } from './consumers.ts'
import { LinkedPart } from './engine-part.ts'
import { listIdsIn } from './scope.ts'

/** Stands for all sessions among the session keys. */
const allSessions = 0

interface Place {
  position: number
  handedOut: number
}
const nowhere: Place = { position: 0, handedOut: 0 }
/** Positions of one consumer, by session key. */
type Places = ReadonlyMap<number, Place>

export class SqliteAcknowledgements extends LinkedPart<{ consumers: SqliteConsumers }> {
  readAfter(
    consumer: string,
    ack: number,
    { characters, limit, session, scope }: Omit<ReadFilter, 'direction'>,
  ): Pick<ConsumerClaim, 'rows' | 'redelivered'> {
    const keys = this.#listKeys(session)
    let places = this.#readPlaces(consumer)
    const isNews = (keys.length > 0 ? keys : [allSessions]).some(
      key => ack > highestOf(places, key, 'position'),
    )
    // Most calls find nothing new. Such a call takes no write lock.
    if (isNews || !places.has(allSessions) || !this.ports.consumers.isKnown(consumer)) {
      this.db.transaction(() => this.#acknowledge(consumer, ack, keys))
      places = this.#readPlaces(consumer)
    }
    const positionOf = (key: number) => highestOf(places, key, 'position')
    const found =
      scope && !isWhole(scope)
        ? listIdsIn(this.db, {
            scope,
            keys: this.messages.listKeysIn(session, scope),
            after: positionOf(allSessions),
            place: { consumer, table: 'acknowledged' },
            limit,
          })
        : session === undefined
          ? this.#listIdsOfAll(consumer, positionOf(allSessions), limit)
          : this.messages.listIdsBySession(keys, positionOf, limit)
    const redelivered = found.filter(({ id, key }) => id <= highestOf(places, key, 'handedOut'))
    const ids = found.map(({ id }) => id)
    return {
      rows: this.messages.read(ids, createRowBudget(characters)),
      redelivered: new Set(redelivered.map(({ id }) => id)),
    }
  }

  markHandedOut(consumer: string, upTo: number, session?: string): void {
    const places = this.#readPlaces(consumer)
    for (const key of this.#listKeys(session)) {
      if (highestOf(places, key, 'handedOut') >= upTo) continue
      this.db.run`INSERT INTO acknowledged (consumer, session, position, handed_out)
        SELECT name, ${key}, 0, ${upTo} FROM consumer WHERE name = ${consumer}
        ON CONFLICT (consumer, session) DO UPDATE SET handed_out = excluded.handed_out`
    }
  }

  #listKeys(session: string | undefined): number[] {
    return session === undefined ? [allSessions] : this.messages.listSessionKeys(session)
  }

  #readPlaces(consumer: string): Places {
    const rows = this.db.all<Place & { session: number }>`SELECT session, position, handed_out AS handedOut
      FROM acknowledged WHERE consumer = ${consumer}`
    return new Map(rows.map(row => [row.session, row]))
  }

  /** @throws SvcError `invalid_arguments`; nothing has changed then */
  #acknowledge(consumer: string, ack: number, keys: readonly number[]): void {
    if (!this.#readPlaces(consumer).has(allSessions)) this.#begin(consumer)
    this.ports.consumers.position(consumer)
    const places = this.#readPlaces(consumer)
    const reached = [allSessions, ...keys].filter(key => ack <= highestOf(places, key, 'handedOut'))
    if (reached.length === 0) throw notDeliveredError()
    for (const key of keys.filter(key => reached.includes(key) && ack > highestOf(places, key, 'position'))) {
      this.db.run`INSERT INTO acknowledged (consumer, session, position, handed_out)
        VALUES (${consumer}, ${key}, ${ack}, ${ack})
        ON CONFLICT (consumer, session) DO UPDATE SET position = excluded.position`
      // The tables in which older versions, retention and the backlog counts look the position up.
      if (key === allSessions) this.db.run`UPDATE consumer SET position = ${ack} WHERE name = ${consumer}`
      else
        this.db.run`INSERT OR REPLACE INTO consumer_ahead (consumer, session, position)
          VALUES (${consumer}, ${key}, ${ack})`
    }
  }

  /** Starts at the consumer's position, or before the rows that were delivered and not confirmed. */
  #begin(consumer: string): void {
    const isNew = !this.db.get`SELECT 1 AS found FROM consumer WHERE name = ${consumer}`
    const position = this.ports.consumers.position(consumer)
    const open = this.db.get<{ first?: number }>`SELECT min(json_extract(ids, '$[0]')) AS first FROM lease
      WHERE consumer = ${consumer}`?.first
    const before = open === undefined ? Number.MAX_SAFE_INTEGER : open - 1
    this.db.run`INSERT INTO acknowledged (consumer, session, position, handed_out)
      VALUES (${consumer}, ${allSessions}, ${Math.min(position, before)}, ${isNew ? 0 : position})`
    this.db.run`INSERT INTO acknowledged (consumer, session, position, handed_out)
      SELECT consumer, session, min(position, ${before}), position FROM consumer_ahead
      WHERE consumer = ${consumer}`
    this.db.run`DELETE FROM lease WHERE consumer = ${consumer}`
    this.db.run`UPDATE consumer SET position = min(position, ${before}) WHERE name = ${consumer}`
    this.db.run`UPDATE consumer_ahead SET position = min(position, ${before}) WHERE consumer = ${consumer}`
  }

  #listIdsOfAll(consumer: string, position: number, limit: number): { id: number; key: number }[] {
    return this.db.all`SELECT m.id, m.session AS key FROM message m
      LEFT JOIN acknowledged a ON a.consumer = ${consumer} AND a.session = m.session
      WHERE m.id > ${position} AND m.sent = 0 AND m.id > coalesce(a.position, 0)
      ORDER BY m.id LIMIT ${limit}`
  }
}

/** A value for all sessions also counts for each session. */
const highestOf = (places: Places, key: number, what: keyof Place): number =>
  Math.max((places.get(key) ?? nowhere)[what], (places.get(allSessions) ?? nowhere)[what])
