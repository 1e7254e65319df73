/** Consumers that acknowledge: the position of each, for all sessions and for single sessions. */
import { badArgument } from '../../model/error.ts'
import type { Wanted } from '../messages.ts'
import type { Claim } from '../store.ts'
import type { Consumers } from './consumers.ts'
import { EnginePart, type Ground } from './engine-part.ts'
import { within } from './messages.ts'

/** Stands for all sessions among the session keys. */
const all = 0

interface Place {
  position: number
  handedOut: number
}
const nowhere: Place = { position: 0, handedOut: 0 }
/** Positions of one consumer, by session key. */
type Places = ReadonlyMap<number, Place>

export class Acknowledgements extends EnginePart {
  readonly #consumers: Consumers

  constructor(ground: Ground, consumers: Consumers) {
    super(ground)
    this.#consumers = consumers
  }

  after(
    consumer: string,
    ack: number,
    { characters, limit, session }: Omit<Wanted, 'direction'>,
  ): Pick<Claim, 'rows' | 'redelivered'> {
    const keys = this.#keys(session)
    let places = this.#places(consumer)
    const isNews = (keys.length > 0 ? keys : [all]).some(key => ack > highest(places, key, 'position'))
    // Most calls find nothing new; those take no write lock.
    if (isNews || !places.has(all) || !this.#consumers.isKnown(consumer)) {
      this.db.transaction(() => this.#acknowledge(consumer, ack, keys))
      places = this.#places(consumer)
    }
    const positionOf = (key: number) => highest(places, key, 'position')
    const found =
      session === undefined
        ? this.#idsOfAll(consumer, positionOf(all), limit)
        : this.messages.idsAfter(keys, positionOf, limit)
    const redelivered = found.filter(({ id, key }) => id <= highest(places, key, 'handedOut'))
    const ids = found.map(({ id }) => id)
    return {
      rows: this.messages.read(ids, within(characters)),
      redelivered: new Set(redelivered.map(({ id }) => id)),
    }
  }

  handedOut(consumer: string, upTo: number, session?: string): void {
    const places = this.#places(consumer)
    for (const key of this.#keys(session)) {
      if (highest(places, key, 'handedOut') >= upTo) continue
      this.db.run`INSERT INTO acknowledged (consumer, session, position, handed_out)
        VALUES (${consumer}, ${key}, 0, ${upTo})
        ON CONFLICT (consumer, session) DO UPDATE SET handed_out = excluded.handed_out`
    }
  }

  #keys(session: string | undefined): number[] {
    return session === undefined ? [all] : this.messages.sessionKeys(session)
  }

  #places(consumer: string): Places {
    const rows = this.db.all<Place & { session: number }>`SELECT session, position, handed_out AS handedOut
      FROM acknowledged WHERE consumer = ${consumer}`
    return new Map(rows.map(row => [row.session, row]))
  }

  /** @throws SvcError `invalid_arguments`; nothing has changed then */
  #acknowledge(consumer: string, ack: number, keys: readonly number[]): void {
    if (!this.#places(consumer).has(all)) this.#begin(consumer)
    this.#consumers.position(consumer)
    const places = this.#places(consumer)
    const reached = [all, ...keys].filter(key => ack <= highest(places, key, 'handedOut'))
    if (reached.length === 0)
      throw badArgument('ack', 'expected at most the id of the last message that this consumer was given', {
        hint: 'Give the id of the last message that is dealt with, 0 to begin.',
      })
    for (const key of keys.filter(key => reached.includes(key) && ack > highest(places, key, 'position'))) {
      this.db.run`INSERT INTO acknowledged (consumer, session, position, handed_out)
        VALUES (${consumer}, ${key}, ${ack}, ${ack})
        ON CONFLICT (consumer, session) DO UPDATE SET position = excluded.position`
      // The tables in which older versions, retention and the backlog counts look the position up.
      if (key === all) this.db.run`UPDATE consumer SET position = ${ack} WHERE name = ${consumer}`
      else
        this.db.run`INSERT OR REPLACE INTO consumer_ahead (consumer, session, position)
          VALUES (${consumer}, ${key}, ${ack})`
    }
  }

  /** Starts at the consumer's position, or before the rows that were delivered and not confirmed. */
  #begin(consumer: string): void {
    const isNew = !this.db.get`SELECT 1 AS found FROM consumer WHERE name = ${consumer}`
    const position = this.#consumers.position(consumer)
    const open = this.db.get<{ first?: number }>`SELECT min(json_extract(ids, '$[0]')) AS first FROM lease
      WHERE consumer = ${consumer}`?.first
    const before = open === undefined ? Number.MAX_SAFE_INTEGER : open - 1
    this.db.run`INSERT INTO acknowledged (consumer, session, position, handed_out)
      VALUES (${consumer}, ${all}, ${Math.min(position, before)}, ${isNew ? 0 : position})`
    this.db.run`INSERT INTO acknowledged (consumer, session, position, handed_out)
      SELECT consumer, session, min(position, ${before}), position FROM consumer_ahead
      WHERE consumer = ${consumer}`
    this.db.run`DELETE FROM lease WHERE consumer = ${consumer}`
    this.db.run`UPDATE consumer SET position = min(position, ${before}) WHERE name = ${consumer}`
    this.db.run`UPDATE consumer_ahead SET position = min(position, ${before}) WHERE consumer = ${consumer}`
  }

  #idsOfAll(consumer: string, position: number, limit: number): { id: number; key: number }[] {
    return this.db.all`SELECT m.id, m.session AS key FROM message m
      LEFT JOIN acknowledged a ON a.consumer = ${consumer} AND a.session = m.session
      WHERE m.id > ${position} AND m.sent = 0 AND m.id > coalesce(a.position, 0)
      ORDER BY m.id LIMIT ${limit}`
  }
}

/** A value for all sessions also counts for each session. */
const highest = (places: Places, key: number, what: keyof Place): number =>
  Math.max((places.get(key) ?? nowhere)[what], (places.get(all) ?? nowhere)[what])
