/** Adds messages of other programs to the log. */
import type { PgQueries } from '../../platform/postgres.ts'
import { toJsonb } from '../../platform/postgres-values.ts'
import { sql } from '../../platform/sql.ts'
import { batchPartOf, judgeMessages } from '../deduplication.ts'
import type { ImportedMessage } from '../messages.ts'
import { mapRaw } from '../sealed-places.ts'
import { toSearchableText } from '../search-text.ts'
import type { Intake } from '../store.ts'
import { decide, type KnownLog, noteNew, queriesFor } from './known-messages.ts'
import { PgPart } from './part.ts'
import { ensureKey } from './session-keys.ts'
import { horizon, receivedElsewhere } from './tables.ts'

/** Messages that are added in one transaction. */
const atOnce = 500

/** Where a message is stored; undefined if the log has it already. */
type Place = { id: string; hash?: string } | undefined

export class PgImportedMessages extends PgPart implements Intake {
  async count(): Promise<number> {
    const { n } = await this.db.one<{ n: number }>(sql`SELECT count_rows(0, ${horizon}) AS n`)
    return n
  }

  async has(batch: readonly ImportedMessage[]): Promise<boolean[]> {
    const now = this.clock.now()
    const places = await this.#place(this.db, batch, now, log => ({ ...log, note: () => {} }))
    return places.map(place => place === undefined)
  }

  add(batch: readonly ImportedMessage[]): Promise<number> {
    return this.durably(async () => {
      let added = 0
      for (let from = 0; from < batch.length; from += atOnce) {
        const part = batch.slice(from, from + atOnce)
        added += await this.db.retry(queries => this.#add(queries, part))
      }
      return added
    })
  }

  async #add(queries: PgQueries, batch: readonly ImportedMessage[]): Promise<number> {
    const now = this.clock.now()
    const places = await this.#place(queries, batch, now)
    const keys = new Map<string, number>()
    const rows: object[] = []
    for (const [nth, message] of batch.entries()) {
      const place = places[nth]
      if (!place) continue
      const { session } = message
      const key = keys.get(session) ?? (await ensureKey(queries, session))
      keys.set(session, key)
      rows.push(this.#rowOf(message, place, key, now))
    }
    if (rows.length > 0) await queries.script([sql`SELECT add_messages(${toJsonb(rows)}::jsonb)`])
    return rows.length
  }

  /** Returns where each message is stored. */
  async #place(
    queries: PgQueries,
    batch: readonly ImportedMessage[],
    now: number,
    change = (log: KnownLog) => log,
  ): Promise<Place[]> {
    const parts = batch.map(message => batchPartOf([message]))
    const ids = batch.flatMap((message, nth) =>
      message.direction === 'sent' ? sentIdOf(message) : [...parts[nth]!.ids],
    )
    const rows = (await queries.script(queriesFor(ids, batch, now))) as [object[], object[]]
    return decide(queries, ids, rows, log => {
      const known = change(log)
      return batch.map((message, nth): Place => {
        if (message.direction === 'received') {
          const [judged] = judgeMessages(known, message.bot_id, { ...parts[nth]!, left: new Map() }, now)
          return judged && noteNew(known, message.bot_id, judged) ? judged : undefined
        }
        const id = sentIdOf(message)
        if (known.findById(id)) return undefined
        known.note(id, { botId: message.bot_id, sent: true, hash: '' })
        return { id }
      })
    })
  }

  #rowOf(message: ImportedMessage, { id, hash }: NonNullable<Place>, session: number, now: number): object {
    const sent = message.direction === 'sent'
    return {
      message_id: id,
      session,
      sent: sent ? 1 : receivedElsewhere,
      status: sent ? 'accepted' : undefined,
      bot_id: message.bot_id,
      peer: message.from_user,
      msg_type: message.msg_type,
      timestamp: message.timestamp,
      stored_at: now,
      content_hash: hash,
      text: toSearchableText(message.text),
      raw: mapRaw(message.raw, id, this.sealer.seal),
    }
  }
}

const sentIdOf = ({ message_id, derived_id }: ImportedMessage): string => message_id ?? `local:${derived_id}`
