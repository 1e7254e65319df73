import { batchPartOf } from '../deduplication.ts'
import type { ImportedMessage } from '../messages.ts'
import { mapRaw } from '../sealed-places.ts'
import { toSearchableText } from '../search-text.ts'
import { EnginePart } from './engine-part.ts'
import { receivedElsewhere } from './messages.ts'

export class SqliteImportedMessages extends EnginePart {
  count(): number {
    // Ids have no gaps.
    return this.db.one<{ n: number }>`SELECT coalesce(max(id) - min(id) + 1, 0) AS n FROM message`.n
  }

  has(batch: readonly ImportedMessage[]): boolean[] {
    return batch.map(message => this.#newIdOf(message) === undefined)
  }

  add(batch: readonly ImportedMessage[]): number {
    return this.db.transaction(() => {
      let added = 0
      for (const message of batch) {
        const place = this.#newIdOf(message)
        if (!place) continue
        this.#insert(message, place)
        added += 1
      }
      return added
    })
  }

  /** Returns the id and content hash to store it under; undefined if it is stored already. */
  #newIdOf(message: ImportedMessage): { id: string; hash?: string } | undefined {
    if (message.direction === 'received') {
      const [judged] = this.messages.judge(message.bot_id, batchPartOf([message]))
      return judged?.verdict === 'new' || judged?.verdict === 'renamed' ? judged : undefined
    }
    const id = message.message_id ?? `local:${message.derived_id}`
    const known = this.db.get`SELECT 1 AS found FROM message WHERE message_id = ${id}`
    return known ? undefined : { id }
  }

  #insert(message: ImportedMessage, { id, hash }: { id: string; hash?: string }): void {
    const sent = message.direction === 'sent'
    const text = toSearchableText(message.text)
    const raw = mapRaw(message.raw, id, this.sealer.seal)
    const { lastInsertRowid } = this.db.run`INSERT INTO message (message_id, session, sent, status, bot_id,
      peer, msg_type, timestamp, stored_at, content_hash, text, raw)
      VALUES (${id}, ${this.messages.ensureKey(message.session)}, ${sent ? 1 : receivedElsewhere},
      ${sent ? 'accepted' : undefined}, ${message.bot_id}, ${message.from_user}, ${message.msg_type},
      ${message.timestamp}, ${this.clock.now()}, ${hash}, ${text}, ${raw})`
    this.messages.grams.add(lastInsertRowid, text)
  }
}
