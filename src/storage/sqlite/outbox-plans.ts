/** Writes plans of the outbox, in the open transaction. */
import type { EntryPart } from '../outbox.ts'
import { partId } from '../outbox-limits.ts'
import {
  type EntryFacts,
  type NewEntryRow,
  OutboxPlan,
  type PartChange,
  type PartSender,
  type SlotChange,
} from '../rules/outbox-plan.ts'
import { LinkedPart } from './engine-part.ts'
import type { SqliteOutboxEntries } from './entries.ts'
import type { SqliteLane } from './lanes.ts'

export class SqliteOutboxPlans extends LinkedPart<{ entries: SqliteOutboxEntries }> {
  /** Lets `work` decide, and writes that. */
  decide<T>(work: (plan: OutboxPlan<SqliteLane>) => T): T {
    const plan = new OutboxPlan<SqliteLane>(this.clock.now())
    const result = work(plan)
    this.#write(plan)
    return result
  }

  /** Same for an entry, if there is one of that id. */
  change<T>(
    id: number,
    work: (found: EntryFacts<SqliteLane>, plan: OutboxPlan<SqliteLane>) => T,
  ): T | undefined {
    const [found] = this.ports.entries.load([id])
    return found && this.decide(plan => work(found, plan))
  }

  #write(plan: OutboxPlan<SqliteLane>): void {
    for (const lane of plan.changedLanes) this.#writeLane(lane)
    for (const slot of plan.slots) this.#writeSlot(slot)
    for (const one of plan.newEntries) this.#addEntry(one)
    for (const row of plan.rows) this.messages.changeSent(row)
    for (const { lane, part, row } of plan.newRows)
      part.message = this.messages.insertSent(lane.sessionKey, row)
    for (const { part, sender } of plan.newParts) this.#addPart(part, sender)
    for (const { id, changed } of plan.entries) {
      const columns = Object.keys(changed).map(column => `${column} = ?`)
      this.db.run(`UPDATE outbox SET ${columns.join(', ')} WHERE id = ?`, ...Object.values(changed), id)
    }
    for (const one of plan.parts) if (!plan.removed.includes(one.part.entry)) this.#writePart(one)
    for (const { id, at, used, received_at, has_content } of plan.ended) {
      this.db
        .run`UPDATE outbox SET ended_at = ${at}, used = ${used}, received_at = ${received_at} WHERE id = ${id}`
      if (has_content)
        this.db.run`UPDATE outbox_part SET file = NULL, text = '""', raw = ''
          WHERE id >= ${partId(id, 0)} AND id < ${partId(id + 1, 0)}`
    }
    for (const id of plan.removed) this.remove(id)
  }

  #writeLane({ id, counter, hold, owner, lease_until }: SqliteLane): void {
    this.db.run`UPDATE outbox_lane SET received_at = ${counter.received_at}, used = ${counter.used},
      last_sent_at = ${counter.last_sent_at}, held_at = ${hold?.since}, held_until = ${hold?.until},
      holds = ${hold?.count ?? 0}, owner = ${owner}, lease_until = ${lease_until} WHERE id = ${id}`
  }

  #writeSlot(change: SlotChange<SqliteLane>): void {
    const { sessionKey, user } = change.lane
    if ('given_back' in change)
      this.db.run`DELETE FROM turn WHERE rowid = (SELECT rowid FROM turn WHERE session = ${sessionKey}
        AND peer = ${user} AND at = ${change.given_back} LIMIT 1)`
    else {
      // Two statements: with OR, SQLite walks through all slots of the session.
      this.db.run`DELETE FROM turn WHERE session = ${sessionKey} AND at <= ${change.old}`
      this.db.run`DELETE FROM turn WHERE session = ${sessionKey} AND at > ${change.late}`
      this.db.run`INSERT INTO turn (session, peer, at) VALUES (${sessionKey}, ${user}, ${change.taken})`
    }
  }

  /** Gives it and its parts their ids. */
  #addEntry({ entry, lane, owner, key, origin }: NewEntryRow): void {
    const { asked, content, created_at, expires_at, made_by, mode, send_at } = entry
    const { lastInsertRowid: id } = this.db.run`INSERT INTO outbox (lane, mode, owner, key, content,
      created_at, expires_at, asked, send_at, made_by, origin)
      VALUES (${lane}, ${mode}, ${owner}, ${key}, ${content}, ${created_at}, ${expires_at},
      ${asked}, ${send_at}, ${made_by}, ${origin})`
    entry.id = id
    for (const [nth, part] of entry.parts.entries()) Object.assign(part, { id: partId(id, nth), entry: id })
  }

  #addPart(
    { id, entry, lane, kind, msg_type, status, message, slot, file, text, raw }: EntryPart,
    sender: PartSender,
  ): void {
    // Text as JSON: SQLite stores neither NUL nor lone surrogates.
    this.db.run`INSERT INTO outbox_part (id, entry, lane, kind, msg_type, status, message, slot, owner,
      began_at, file, text, raw)
      VALUES (${id}, ${entry}, ${lane}, ${kind}, ${msg_type}, ${status}, ${message}, ${slot}, ${sender.owner},
      ${sender.began_at}, ${toJson(file)}, ${JSON.stringify(text)}, ${raw})`
  }

  #writePart({ part, sender, isRewritten }: PartChange): void {
    const { id, status, tries, message, message_id, error, slot, text, raw } = part
    if (sender)
      this.db.run`UPDATE outbox_part SET status = ${status}, tries = ${tries}, message = ${message},
        message_id = ${message_id}, error = ${toJson(error)}, slot = ${slot}, owner = ${sender.owner},
        began_at = ${sender.began_at} WHERE id = ${id}`
    else
      this.db
        .run`UPDATE outbox_part SET status = ${status}, message_id = ${message_id}, error = ${toJson(error)},
        slot = ${slot} WHERE id = ${id}`
    if (isRewritten)
      this.db.run`UPDATE outbox_part SET text = ${JSON.stringify(text)}, raw = ${raw} WHERE id = ${id}`
  }

  remove(id: number): void {
    this.db.run`DELETE FROM outbox_part WHERE id >= ${partId(id, 0)} AND id < ${partId(id + 1, 0)}`
    this.db.run`DELETE FROM outbox WHERE id = ${id}`
  }
}

const toJson = (value: object | undefined): string | undefined => value && JSON.stringify(value)
