/**
 * Erases people from the store, in steps that do not delay writers. Names go last, because they are needed to
 * find the person: so a repeated call completes what a killed one began. Then `scrub.ts` rewrites the file.
 */
import { nameKeyOf } from '../../model/user-name.ts'
import { nodeCrypto } from '../../platform/lazy-crypto.ts'
import { type ErasedPerson, eraseFromData, eraseFromSubject, patternOf } from '../mentions.ts'
import type { EndReason } from '../outbox.ts'
import { type ErasedUser, joinErased } from '../people.ts'
import { endWaiting } from '../rules/outbox-ends.ts'
import { EnginePart, type SqliteContext } from './engine-part.ts'
import { addErased } from './erased-users.ts'
import { erasedSession } from './messages.ts'
import type { SqliteOutboxPlans } from './outbox-plans.ts'
import { placesPerMessage } from './tables.ts'

/** Messages that lose their content in one step, and lines or events that are checked in one step. */
const [erasedAtOnce, checkedAtOnce] = [300, 2000]

const forgottenReason: EndReason = { code: 'cancelled', detail: 'the user was erased' }

/** What `eraseMentions` still has to check. */
export interface EraseProgress extends ErasedPerson {
  /** Lines of the audit log and events up to here were checked. */
  line: number
  place: number
}

export class SqlitePeople extends EnginePart {
  readonly #plans: SqliteOutboxPlans

  constructor(ground: SqliteContext, plans: SqliteOutboxPlans) {
    super(ground)
    this.#plans = plans
  }

  hashOf(user: string): string {
    const { hash_key } = this.db.one<{ hash_key: string }>`SELECT hash_key FROM store_id`
    const hmac = nodeCrypto().createHmac('sha256', hash_key).update(user)
    return `user:${hmac.digest('hex').slice(0, 16)}`
  }

  begin(user: string): void {
    this.db.transaction(() => {
      addErased(this.db, user, this.hashOf(user), false)
      this.#eraseTurns(user)
    })
  }

  /** Erases everything that refers to a user except messages, lines of the log, and names. */
  eraseState(user: string): Omit<ErasedUser, 'messages'> & { progress: EraseProgress } {
    return this.db.transaction(() => {
      this.begin(user)
      const { files, sends } = this.#eraseSends(user)
      const [webhooks, keys] = [this.#eraseFromWebhooks(user), this.#eraseFromKeys(user)]
      this.#eraseFromLeases(user)
      // The time stays: all users of a session share its pace.
      this.db.run`UPDATE turn SET peer = '' WHERE peer = ${user}`
      this.db.run`DELETE FROM read_mark WHERE peer = ${user}`
      this.db.run`DELETE FROM person_mark WHERE peer = ${user}`
      this.db.run`DELETE FROM agent_conversation WHERE peer = ${user}`
      const hash = this.hashOf(user)
      const progress = { user, hash, mentions: this.#mentionsOf(user), line: 0, place: 0 }
      return { sends, webhooks, keys, files, progress }
    })
  }

  countErasures(): number {
    return this.db.one<{ erasures: number }>`SELECT erasures FROM store_id`.erasures
  }

  listFiles(user: string): string[] {
    const files = this.db.all<{ name: string }>`SELECT p.file ->> 'name' AS name
      FROM outbox_part p JOIN outbox_lane l ON l.id = p.lane WHERE l.peer = ${user} AND p.file IS NOT NULL`
    return files.map(({ name }) => name)
  }

  #eraseSends(user: string): Pick<ErasedUser, 'files' | 'sends'> {
    const found = this.db.all<{ id: number; open: number }>`SELECT o.id, o.ended_at IS NULL AS open
      FROM outbox o JOIN outbox_lane l ON l.id = o.lane WHERE l.peer = ${user}`
    const files = this.listFiles(user)
    for (const { id } of found) {
      this.#plans.change(id, (entry, plan) => {
        endWaiting(entry, forgottenReason, plan)
        plan.removed.push(id)
      })
    }
    this.db.run`DELETE FROM outbox_lane WHERE peer = ${user}`
    // An imported context may have the id in lower case. It has no time, and nobody was sent anything there.
    this.db.run`DELETE FROM outbox_lane WHERE peer = ${user.toLowerCase()} AND context IS NOT NULL
      AND context ->> 'received_at' IS NULL AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.lane = outbox_lane.id)`
    return { sends: found.filter(({ open }) => open === 1).length, files }
  }

  /** @returns the endpoints that were limited to the user; they are removed */
  #eraseFromWebhooks(user: string): string[] {
    const own = this.db.all<{ id: string }>`SELECT id FROM webhook WHERE peer = ${user}`.map(({ id }) => id)
    const removed = JSON.stringify(own)
    for (const table of ['webhook_lane', 'webhook_try'])
      this.db.run(`DELETE FROM ${table} WHERE webhook IN (SELECT value FROM json_each(?))`, removed)
    this.db.run`DELETE FROM webhook WHERE peer = ${user}`
    // Errors about answers to the user may quote id, name or text.
    const about = `FROM webhook_try t
      LEFT JOIN event e ON e.place = CAST(substr(t.event, instr(t.event, '-') + 1) AS INTEGER)
      JOIN message m ON m.id = coalesce(e.message, CAST(substr(t.event, instr(t.event, '-') + 1) AS INTEGER) / ${placesPerMessage})
      WHERE (m.peer = ? OR m.session = ${erasedSession}) AND t.detail IS NOT NULL`
    this.db.run(`UPDATE webhook SET last_error = NULL WHERE last_error IN (SELECT t.detail ${about})`, user)
    this.db.run(`UPDATE webhook_try SET detail = NULL WHERE id IN (SELECT t.id ${about})`, user)
    this.#eraseLanes(user)
    this.#eraseFromGrants('webhook', user)
    return own
  }

  /** Begins a new epoch: else a delivery in progress would store the user's lane again. */
  #eraseLanes(user: string): void {
    this.db.run`DELETE FROM webhook_lane WHERE peer = ${user}`
    this.db.run`UPDATE webhook SET epoch = epoch + 1`
  }

  /** @returns the keys whose grant named the user */
  #eraseFromKeys(user: string): string[] {
    const named = this.#eraseFromGrants('access_key', user)
    const hash = this.hashOf(user)
    this.db.run`UPDATE access_key SET name = replace(name, ${user}, ${hash}) WHERE instr(name, ${user}) > 0`
    this.db.run`UPDATE access_key SET revision = (SELECT max(revision) + 1 FROM access_key)
      WHERE id IN (SELECT value FROM json_each(${JSON.stringify(named)}))`
    return named
  }

  /** Removes the user from the grants that name it. One that names nobody else is left with nobody. @returns the ids */
  #eraseFromGrants(table: 'webhook' | 'access_key', user: string): string[] {
    const users = `FROM json_each("grant", '$.users') WHERE value`
    const named = this.db.all<{ id: string }>(
      `SELECT id FROM ${table} WHERE EXISTS (SELECT 1 ${users} = ?)`,
      user,
    )
    for (const { id } of named)
      this.db.run(
        `UPDATE ${table} SET "grant" = (SELECT json_set("grant", '$.users', json_group_array(value)) ${users} <> ?) WHERE id = ?`,
        ...[user, id],
      )
    return named.map(({ id }) => id)
  }

  #eraseTurns(user: string): void {
    this.db.run`DELETE FROM agent_question WHERE turn IN (SELECT t.id FROM agent_turn t
      JOIN agent_conversation c ON c.id = t.conversation WHERE c.peer = ${user})`
    this.db.run`DELETE FROM agent_turn
      WHERE conversation IN (SELECT id FROM agent_conversation WHERE peer = ${user})`
  }

  #eraseFromLeases(user: string): void {
    this.db.run`UPDATE lease SET ids = (SELECT json_group_array(value) FROM json_each(ids)
      WHERE value NOT IN (SELECT id FROM message WHERE peer = ${user}))`
    this.db.run`DELETE FROM lease WHERE ids = '[]'`
  }

  #mentionsOf(user: string): RegExp {
    const names = this.db.all<{ name: string }>`SELECT DISTINCT name FROM user_name WHERE peer = ${user}`
    return patternOf([user, ...names.map(({ name }) => nameKeyOf(name))])
  }

  /** Erases the content of some messages of a user. @returns how many */
  eraseMessages(user: string): number {
    return this.db.transaction(() => {
      const rows = this.db.all<{ id: number }>`SELECT id FROM message INDEXED BY message_peer
        WHERE peer = ${user} ORDER BY id LIMIT ${erasedAtOnce}`
      for (const { id } of rows) this.messages.erase(id)
      return rows.length
    })
  }

  /**
   * Checks some lines of the audit log, then some events: puts the hash in place of the user, and removes
   * events about erased messages.
   *
   * @returns whether there may be more
   */
  eraseMentions(progress: EraseProgress): boolean {
    return this.db.transaction(() => this.#eraseFromLines(progress) || this.#eraseFromEvents(progress))
  }

  #eraseFromLines(progress: EraseProgress): boolean {
    const { line } = progress
    const rows = this.db.all<{ id: number; subject?: string }>`SELECT id, subject FROM audit
      WHERE id > ${line} ORDER BY id LIMIT ${checkedAtOnce}`
    for (const { id, subject } of rows) {
      const erased = subject && eraseFromSubject(subject, progress)
      if (erased !== subject) this.db.run`UPDATE audit SET subject = ${erased} WHERE id = ${id}`
    }
    progress.line = rows.at(-1)?.id ?? line
    return rows.length === checkedAtOnce
  }

  #eraseFromEvents(progress: EraseProgress): boolean {
    const { place } = progress
    const rows = this.db.all<{ place: number; data?: string }>`SELECT place, data FROM event
      WHERE place > ${place} ORDER BY place LIMIT ${checkedAtOnce}`
    const end = rows.at(-1)?.place ?? place
    for (const { place, data } of rows) {
      const erased = data && eraseFromData(data, progress)
      if (erased !== data) this.db.run`UPDATE event SET data = ${erased} WHERE place = ${place}`
    }
    // The newest place stays, since readers may have reached it. No reader gets an event with the status 'sending'.
    const blank = `place > ? AND place <= ? AND EXISTS
      (SELECT 1 FROM message m WHERE m.id = event.message AND m.session = ${erasedSession})`
    this.db.run(
      `DELETE FROM event WHERE ${blank} AND place < (SELECT max(place) FROM event)`,
      ...[place, end],
    )
    this.db.run(`UPDATE event SET status = 'sending' WHERE ${blank}`, ...[place, end])
    progress.place = end
    return rows.length === checkedAtOnce
  }

  /**
   * Erases, in one transaction, the names and what came since the other steps: what was under way in any process when the
   * user began to be erased, and messages that the user wrote meanwhile.
   */
  eraseRest(user: string, progress: EraseProgress): ErasedUser {
    return this.db.transaction(() => {
      const { progress: _, ...erased } = this.eraseState(user)
      let messages = 0
      for (let count = -1; count !== 0; messages += count) count = this.eraseMessages(user)
      while (this.eraseMentions(progress)) {}
      this.db.run`DELETE FROM user_name WHERE peer = ${user}`
      addErased(this.db, user, progress.hash, true)
      this.db.run`UPDATE store_id SET erasures = erasures + 1`
      this.messages.forgetUser(user)
      return { ...erased, messages }
    })
  }
}

/** Pause between two steps, so that writers come in between. */
const pauseMs = 5

/**
 * Does the work of `PeopleStore.erase`.
 *
 * @param write runs one step. @throws SvcError
 */
export async function eraseInSteps(
  people: SqlitePeople,
  user: string,
  write: <T>(work: () => T) => T,
): Promise<ErasedUser> {
  const repeat = async (step: () => boolean) => {
    do await people.clock.sleep(pauseMs)
    while (write(step))
  }
  const { progress, ...erased } = write(() => people.eraseState(user))
  let messages = 0
  await repeat(() => {
    const count = people.eraseMessages(user)
    messages += count
    // Else somebody who writes all the time would keep this from its end.
    return count === erasedAtOnce
  })
  await repeat(() => people.eraseMentions(progress))
  const rest = write(() => people.eraseRest(user, progress))
  return joinErased({ ...erased, messages }, rest)
}
