/**
 * Erases people from the store, in steps that do not delay writers. Names go last, because they are needed to find the
 * person: so a repeated call completes what a killed one began.
 *
 * Each engine has its own: the content of messages, which its index for search has too, and leases of rows (`PeopleParts`);
 * what refuses to store anything about an erased person (`sqlite/erased-users.ts`, triggers in
 * `postgres/write-functions.ts`); and what removes from the disk what was erased (`sqlite/scrub.ts`, `postgres/people.ts`).
 */
import { nameKeyOf } from '../../model/user-name.ts'
import { constantSql, type Sql, sql } from '../../platform/sql.ts'
import { erasedSession, placesPerMessage } from '../log-rows.ts'
import { type ErasedPerson, eraseFromData, eraseFromSubject, patternOf } from '../mentions.ts'
import type { EndReason } from '../outbox.ts'
import { filesOf } from '../outbox-limits.ts'
import { type ErasedUser, erasedHash, erasedMark, type PeopleStore } from '../people.ts'
import {
  EngineVerbs,
  type Modes,
  type NounContext,
  openNoun,
  type Routine,
  type Runner,
  readAll,
  readFirst,
  type Verbs,
  write,
} from '../routine.ts'
import { endWaiting } from '../rules/outbox-ends.ts'
import { storeTables } from '../table-list.ts'
import { removeEmptyTopics } from './topic-rows.ts'
import { cursorDigits } from './webhooks.ts'

/** Messages that lose their content in one step, and lines or events that are checked in one step. */
const [erasedAtOnce, checkedAtOnce] = [300, 2000]
/** Pause between two steps, so that writers come in between. */
const pauseMs = 5

/** Tables whose rows go with the person that they name. */
const ownRows = storeTables.flatMap(({ isErased, name }) => (isErased ? [constantSql(name)] : []))

const forgottenReason: EndReason = { code: 'cancelled', detail: 'the user was erased' }

/** What an engine does for the erasure of a person. */
export interface PeopleParts {
  /** The table with one row, about the store. */
  readonly store: Sql
  /** The condition that a lane has a context without a time, as one that was imported. */
  readonly isUndated: Sql
  /** Statements that tell those who keep the names of a session, where no triggers do that. */
  beforeUnnaming(user: string): readonly Sql[]
  /** Statements that take the user's messages from the leases of readers. */
  eraseFromLeases(user: string): readonly Sql[]
  /** Erases the content of some messages of a user. @returns how many */
  eraseMessages(user: string, most: number): Routine<number>
  /** Resolves when nobody writes any more who may not see what was written before. */
  othersEnded(): Promise<void>
}

/** How far an erasure has come. A step that lost against another writer runs again, so each notes at once what it wrote. */
interface Erasure extends ErasedPerson {
  readonly mark: string
  readonly erased: ErasedUser
  /** Lines of the audit log and events up to here were checked. */
  line: number
  place: number
}

/** A step of an erasure. @returns whether there may be more to do */
type Step = (erasure: Erasure) => Promise<boolean>

interface Steps extends Pick<PeopleStore, 'countErasures' | 'hashOf' | 'listFiles'> {
  mark(user: string): Promise<void>
  eraseTurns(user: string): Promise<void>
  find(user: string): Promise<Erasure>
  eraseState(erasure: Erasure): Promise<void>
  eraseMessages: Step
  eraseMentions: Step
  eraseRest(erasure: Erasure): Promise<void>
}

export function openPeople(
  context: NounContext,
  run: Runner,
  parts: PeopleParts,
): Omit<PeopleStore, 'scrub' | 'listRemains'> {
  const { mark, eraseTurns, find, eraseState, eraseMessages, eraseMentions, eraseRest, ...rest } = openNoun(
    { verbs: new ErasureSteps(context, parts), modes },
    run,
  )
  const begin = async (user: string) => {
    await mark(user)
    await parts.othersEnded()
    await eraseTurns(user)
  }
  return {
    ...rest,
    begin,
    async erase(user) {
      await begin(user)
      const erasure = await find(user)
      await eraseState(erasure)
      for (const step of [eraseMessages, eraseMentions])
        do await context.clock.sleep(pauseMs)
        while (await step(erasure))
      await eraseRest(erasure)
      return erasure.erased
    },
  }
}

/** The steps of an erasure, each of which is a transaction. */
class ErasureSteps extends EngineVerbs<PeopleParts> implements Verbs<Steps> {
  *#readKey(): Routine<string> {
    return (yield* readFirst<{ hash_key: string }>(sql`SELECT hash_key FROM ${this.parts.store}`))!.hash_key
  }

  /** Cancels sends, and erases all that refers to the user except messages, lines of the log, endpoints, keys and names. */
  *#eraseSends({ erased, user }: Erasure): Routine<void> {
    const lanes = sql`(SELECT id FROM outbox_lane WHERE peer = ${user})`
    const isOpen = sql`e.ended_at IS NULL AND e.lane IN ${lanes}`
    const files: string[] = []
    let sends = 0
    const ends = yield* this.context.changeEntries(isOpen, (found, plan) => {
      sends += 1
      files.push(...filesOf(found.entry.parts).map(({ name }) => name))
      if (found.lane) plan.relyOn(found.lane)
      endWaiting(found, forgottenReason, plan)
      plan.removed.push(found.entry.id)
    })
    yield* write(
      ...this.dialect.lock(sql`SELECT FROM outbox_lane WHERE peer = ${user} ORDER BY id`),
      ...this.dialect.expect(sql`(SELECT count(*) FROM outbox e WHERE ${isOpen}) = ${sends}`),
      ...this.parts.eraseFromLeases(user),
      ...eraseTurns(user),
      ...ownRows.map(table => sql`DELETE FROM ${table} WHERE peer = ${user}`),
      // An agent that runs and names the user in its settings writes the others again.
      sql`UPDATE agent_conversation SET kept = NULL WHERE session = 0 AND kept LIKE ${`%${user}%`}`,
      removeEmptyTopics,
      ...ends,
      // The time stays: all users of a session share its pace.
      sql`UPDATE turn SET peer = '' WHERE peer = ${user}`,
      sql`DELETE FROM outbox_part WHERE lane IN ${lanes}`,
      sql`DELETE FROM outbox WHERE lane IN ${lanes}`,
      sql`DELETE FROM outbox_lane WHERE peer = ${user}`,
      // An imported context may have the id in lower case. It has no time, and nobody was sent anything there.
      sql`DELETE FROM outbox_lane WHERE peer = ${user.toLowerCase()} AND ${this.parts.isUndated}
        AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.lane = outbox_lane.id)`,
    )
    erased.sends += sends
    erased.files.push(...files)
  }

  /** Erases the user from endpoints and keys. */
  *#eraseFromGrants({ erased, hash, user }: Erasure): Routine<void> {
    const own = sql`(SELECT id FROM webhook WHERE peer = ${user})`
    const webhooks = yield* readAll<{ id: string }>(
      sql`SELECT id FROM webhook WHERE peer = ${user} ORDER BY nth`,
    )
    const scoped = yield* this.#readGrants('webhook', user)
    const keys = yield* this.#readGrants('access_key', user)
    const ids = keys.map(({ id }) => id)
    const renamed = sql`replace(name, ${user}, ${hash})`
    yield* write(
      // All endpoints, before their lanes: those who deliver lock them in this order.
      ...this.dialect.lock(sql`SELECT FROM webhook ORDER BY nth`),
      ...this.dialect.expect(sql`(SELECT count(*) FROM webhook WHERE peer = ${user}) = ${webhooks.length}`),
      ...scoped.flatMap(one => this.#narrow('webhook', one)),
      sql`DELETE FROM webhook_lane WHERE webhook IN ${own}`,
      sql`DELETE FROM webhook_try WHERE webhook IN ${own}`,
      sql`DELETE FROM webhook WHERE peer = ${user}`,
      sql`UPDATE session_bot SET person = NULL WHERE person = ${user}`,
      // A new epoch: else a delivery in progress would store the user's lane again.
      sql`UPDATE webhook SET epoch = epoch + 1`,
      sql`UPDATE webhook SET last_error = NULL WHERE last_error IN (SELECT t.detail ${triesAbout(user)})`,
      sql`UPDATE webhook_try SET detail = NULL WHERE id IN (SELECT t.id ${triesAbout(user)})`,
      sql`UPDATE webhook_try SET answer = NULL
        WHERE answer IS NOT NULL AND id NOT IN (SELECT t.id ${triesOfOthers(user)})`,
      ...this.context.keyChanges.begin,
      ...keys.flatMap(one => this.#narrow('access_key', one)),
      sql`UPDATE access_key SET name = ${renamed}, revision = ${this.context.keyChanges.revision}
        WHERE name <> ${renamed} OR ${this.dialect.isOneOf(sql`id`, ids)}`,
    )
    erased.webhooks.push(...webhooks.map(({ id }) => id))
    erased.keys.push(...ids)
  }

  /** A grant whose only user was erased keeps an empty list, which matches nobody. */
  #narrow(table: GrantTable, { id, grant, without }: Granted): Sql[] {
    return [
      ...this.dialect.expect(sql`(SELECT "grant" FROM ${constantSql(table)} WHERE id = ${id}) = ${grant}`),
      sql`UPDATE ${constantSql(table)} SET "grant" = ${without} WHERE id = ${id}`,
    ]
  }

  *#readGrants(table: GrantTable, user: string): Routine<Granted[]> {
    const rows = yield* readAll<Omit<Granted, 'without'>>(sql`SELECT id, "grant"
      FROM ${constantSql(table)} WHERE "grant" LIKE '%"users"%' ORDER BY nth`)
    return rows.flatMap(row => {
      const { users, ...grant } = JSON.parse(row.grant) as { users?: string[] }
      if (!users?.includes(user)) return []
      return [{ ...row, without: JSON.stringify({ ...grant, users: users.filter(one => one !== user) }) }]
    })
  }

  *eraseMessages({ erased, user }: Erasure): Routine<boolean> {
    const count = yield* this.parts.eraseMessages(user, erasedAtOnce)
    erased.messages += count
    // Else somebody who writes all the time would keep this from its end.
    return count === erasedAtOnce
  }

  *countErasures(): Routine<number> {
    return (yield* readFirst<{ erasures: number }>(sql`SELECT erasures FROM ${this.parts.store}`))!.erasures
  }

  *hashOf(user: string): Routine<string> {
    return erasedHash(user, yield* this.#readKey())
  }

  *listFiles(user: string): Routine<string[]> {
    const rows = yield* readAll<{ file: string }>(sql`SELECT p.file FROM outbox_lane l
      JOIN outbox_part p ON p.lane = l.id WHERE l.peer = ${user} AND p.file IS NOT NULL ORDER BY p.id`)
    return rows.map(({ file }) => (JSON.parse(file) as { name: string }).name)
  }

  *mark(user: string): Routine<void> {
    const key = yield* this.#readKey()
    yield* write(
      sql`INSERT INTO erased (mark, hash) VALUES (${erasedMark(user, key)}, ${erasedHash(user, key)})
        ON CONFLICT (mark) DO UPDATE SET ended = 0`,
    )
  }

  *eraseTurns(user: string): Routine<void> {
    yield* write(...eraseTurns(user))
  }

  *find(user: string): Routine<Erasure> {
    const names = yield* readAll<{ name: string }>(
      sql`SELECT DISTINCT name FROM user_name WHERE peer = ${user}`,
    )
    const key = yield* this.#readKey()
    return {
      user,
      hash: erasedHash(user, key),
      mark: erasedMark(user, key),
      mentions: patternOf([user, ...names.flatMap(({ name }) => [name, nameKeyOf(name)])]),
      erased: { messages: 0, sends: 0, webhooks: [], keys: [], files: [] },
      line: 0,
      place: 0,
    }
  }

  *eraseState(erasure: Erasure): Routine<void> {
    yield* this.#eraseSends(erasure)
    yield* this.#eraseFromGrants(erasure)
  }

  eraseMentions(erasure: Erasure): Routine<boolean> {
    return eraseMentions(erasure)
  }

  /**
   * Erases the names and what came since the other steps: what was under way in any process when the user began to be
   * erased, and messages that the user wrote meanwhile.
   */
  *eraseRest(erasure: Erasure): Routine<void> {
    const { mark, user } = erasure
    yield* this.#eraseSends(erasure)
    while (yield* this.eraseMessages(erasure)) {}
    while (yield* eraseMentions(erasure)) {}
    yield* this.#eraseFromGrants(erasure)
    yield* write(
      ...this.parts.beforeUnnaming(user),
      sql`DELETE FROM user_name WHERE peer = ${user}`,
      sql`UPDATE erased SET ended = 1 WHERE mark = ${mark}`,
      // Where others write meanwhile, what the user has just written stays.
      sql`DELETE FROM erased WHERE mark = ${mark} AND EXISTS (SELECT 1 FROM message WHERE peer = ${user})`,
      sql`UPDATE ${this.parts.store} SET erasures = erasures + 1`,
    )
  }
}

const modes: Modes<Steps> = {
  countErasures: 'plain',
  hashOf: 'plain',
  listFiles: 'plain',
  find: 'plain',
  mark: 'intake',
  eraseTurns: 'intake',
  eraseState: 'intake',
  eraseMessages: 'intake',
  eraseMentions: 'intake',
  eraseRest: 'news',
}

type GrantTable = 'webhook' | 'access_key'

/** A key or endpoint whose grant names the user. */
interface Granted {
  id: string
  grant: string
  /** The grant without the user. */
  without: string
}

const placeOfTry = sql`CAST(${cursorDigits('t.event')} AS bigint)`
/** SQL for the tries `t` with their messages `m`. Another event has a message near it. */
const triesWithMessages = sql`FROM webhook_try t LEFT JOIN event e ON e.place = ${placeOfTry}
  JOIN message m ON m.id = coalesce(e.message, ${placeOfTry} / ${constantSql(String(placesPerMessage))})`
const isOf = (user: string): Sql =>
  sql`(m.peer = ${user} OR m.session = ${constantSql(String(erasedSession))})`

/** SQL for the tries `t` whose errors are about messages of the user: they may quote id, name or text. */
const triesAbout = (user: string): Sql =>
  sql`${triesWithMessages} WHERE ${isOf(user)} AND t.detail IS NOT NULL`

/** SQL for the tries `t` of stored messages of others: no other answer is known not to quote the user. */
const triesOfOthers = (user: string): Sql =>
  sql`${triesWithMessages} WHERE t.type LIKE 'message.%' AND NOT ${isOf(user)}`

const eraseTurns = (user: string): Sql[] => {
  const conversations = sql`(SELECT id FROM agent_conversation WHERE peer = ${user})`
  return [
    sql`DELETE FROM agent_question WHERE turn IN (SELECT id FROM agent_turn WHERE conversation IN ${conversations})`,
    sql`DELETE FROM agent_turn WHERE conversation IN ${conversations}`,
  ]
}

/** Checks some lines of the audit log, then some events: puts the hash in place of the user. */
function* eraseMentions(erasure: Erasure): Routine<boolean> {
  return (yield* eraseFromLines(erasure)) || (yield* eraseFromEvents(erasure))
}

function* eraseFromLines(erasure: Erasure): Routine<boolean> {
  const rows = yield* readAll<{ id: number; subject: string }>(sql`SELECT id, subject FROM audit
    WHERE id > ${erasure.line} AND subject IS NOT NULL ORDER BY id LIMIT ${checkedAtOnce}`)
  const changed = rows.flatMap(({ id, subject }) => {
    const erased = eraseFromSubject(subject, erasure)
    return erased === subject ? [] : [sql`UPDATE audit SET subject = ${erased} WHERE id = ${id}`]
  })
  if (changed.length > 0) yield* write(...changed)
  erasure.line = rows.at(-1)?.id ?? erasure.line
  return rows.length === checkedAtOnce
}

function* eraseFromEvents(erasure: Erasure): Routine<boolean> {
  const rows = yield* readAll<{ place: number; data?: string }>(sql`SELECT place, data FROM event
    WHERE place > ${erasure.place} ORDER BY place LIMIT ${checkedAtOnce}`)
  const end = rows.at(-1)?.place
  if (end === undefined) return false
  const changed = rows.flatMap(({ place, data }) => {
    const erased = data && eraseFromData(data, erasure)
    return erased === data ? [] : [sql`UPDATE event SET data = ${erased} WHERE place = ${place}`]
  })
  const isBlank = sql`place > ${erasure.place} AND place <= ${end} AND EXISTS
    (SELECT 1 FROM message m WHERE m.id = event.message AND m.session = ${erasedSession})`
  yield* write(
    ...changed,
    // The newest place stays, since readers may have reached it. No reader gets an event with the status 'sending'.
    sql`DELETE FROM event WHERE ${isBlank} AND place < (SELECT max(place) FROM event)`,
    sql`UPDATE event SET status = 'sending' WHERE ${isBlank}`,
  )
  erasure.place = end
  return rows.length === checkedAtOnce
}
