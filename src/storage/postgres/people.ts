/**
 * Erases people from the store, in steps that do not delay writers. Names go last, because they are needed to find the
 * person: so a repeated call completes what a killed one began.
 */
import { nodeCrypto } from '../../platform/lazy-crypto.ts'
import { constantSql, type Sql, sql } from '../../platform/sql.ts'
import type { ErasedPerson } from '../mentions.ts'
import type { EndReason } from '../outbox.ts'
import { type ErasedUser, joinErased, type PeopleStore } from '../people.ts'
import type { Attempt } from './database.ts'
import { eraseMentions, type MentionProgress, mentionsOf } from './mentions.ts'
import { PgPart } from './part.ts'
import { keyChanges } from './routines.ts'
import { erasedSession, placesPerMessage, receivedElsewhere } from './tables.ts'

/** Messages that lose their content in one step. */
const erasedAtOnce = 300
/** Pause between two steps, so that writers come in between. */
const pauseMs = 5
/** Longest wait for transactions that began before. svc has none that takes longer. */
const writersMs = 30_000
/** Longest wait of a rewrite for a table: everything else waits behind it. */
const rewriteWaitMs = 2000
/** Longest time of one VACUUM, and of its wait for another one. */
const [vacuumMs, vacuumWaitMs] = [30 * 60_000, 60_000]

const forgottenReason: EndReason = { code: 'cancelled', detail: 'the user was erased' }

/** Tables with rows of users. */
const touchedTables = [
  'message',
  'gram',
  'event',
  'audit',
  'outbox_lane',
  'outbox',
  'outbox_part',
  'turn',
  'lease',
  'read_mark',
  'person_mark',
  'user_name',
  'webhook',
  'webhook_lane',
  'webhook_try',
  'access_key',
  'agent_conversation',
  'agent_turn',
  'agent_question',
  'account',
]

export class PgPeople extends PgPart implements PeopleStore {
  async hashOf(user: string): Promise<string> {
    const { hash_key } = await this.db.one<{ hash_key: string }>(sql`SELECT hash_key FROM meta`)
    const hmac = nodeCrypto().createHmac('sha256', hash_key).update(user)
    return `user:${hmac.digest('hex').slice(0, 16)}`
  }

  async listFiles(user: string): Promise<string[]> {
    const rows = await this.db.all<{ file: string }>(sql`SELECT p.file FROM outbox_lane l
      JOIN outbox_part p ON p.lane = l.id WHERE l.peer = ${user} AND p.file IS NOT NULL ORDER BY p.id`)
    return rows.map(nameOfFile)
  }

  async countErasures(): Promise<number> {
    return (await this.db.one<{ erasures: number }>(sql`SELECT erasures FROM meta`)).erasures
  }

  begin(user: string): Promise<void> {
    return this.durably(async () => {
      await this.#markErased(user, await this.hashOf(user))
      await this.db.script(eraseTurns(user))
    })
  }

  /** From when this resolves, no transaction of any node stores anything about the user. */
  async #markErased(user: string, hash: string): Promise<void> {
    const { xid } = await this.db.one<{ xid: string }>(sql`WITH added AS (
        INSERT INTO erased (mark, hash) VALUES (erased_mark(${user}), ${hash}) ON CONFLICT (mark) DO UPDATE SET ended = 0)
      SELECT pg_current_xact_id()::text AS xid`)
    // Those that began before may not see the mark.
    const isOver = sql`SELECT pg_snapshot_xmin(pg_current_snapshot()) > ${xid}::xid8 AS over`
    const until = this.clock.monotonic() + writersMs
    while (this.clock.monotonic() < until && !(await this.db.one<{ over: boolean }>(isOver)).over)
      await this.clock.sleep(pauseMs)
  }

  async erase(user: string): Promise<ErasedUser> {
    return this.durably(async () => {
      const hash = await this.hashOf(user)
      const person = { user, hash, mentions: await mentionsOf(this.db, user) }
      const progress = { line: 0, place: 0 }
      const first = await this.#eraseOnce(person, progress)
      await this.clock.sleep(pauseMs)
      // What was under way in any node, and what the user wrote meanwhile.
      const rest = await this.#eraseOnce(person, progress)
      await this.db.script([
        lockWebhooks,
        // What deliveries stored since.
        ...eraseFromWebhooks(user),
        sql`DELETE FROM user_name WHERE peer = ${user}`,
        sql`UPDATE erased SET ended = 1 WHERE mark = erased_mark(${user})`,
        // What the user wrote after the second time stays.
        sql`DELETE FROM erased WHERE mark = erased_mark(${user}) AND EXISTS (SELECT FROM message WHERE peer = ${user})`,
        sql`UPDATE meta SET erasures = erasures + 1`,
      ])
      await this.db.touch()
      return joinErased(first, rest)
    })
  }

  async #eraseOnce(person: ErasedPerson, progress: MentionProgress): Promise<ErasedUser> {
    const { user, hash } = person
    await this.#markErased(user, hash)
    const erased = await this.db.retry(queries => this.#eraseState(queries, user, hash))
    let messages = 0
    for (let after = 0; ; await this.clock.sleep(pauseMs)) {
      const { count, last = after } = await this.#eraseMessages(user, after)
      messages += count
      after = last
      // Not until there are none: others may come all the time.
      if (count < erasedAtOnce) break
    }
    await eraseMentions(this.db, person, progress, () => this.clock.sleep(pauseMs))
    return { messages, ...erased }
  }

  /** Erases everything that refers to a user except messages, events, lines of the audit log, and names. */
  async #eraseState(queries: Attempt, user: string, hash: string): Promise<Omit<ErasedUser, 'messages'>> {
    const keys = await readGrants(queries, 'access_key', user)
    const grants = await readGrants(queries, 'webhook', user)
    const lanes = sql`(SELECT id FROM outbox_lane WHERE peer = ${user})`
    const [, entries, files, webhooks] = await queries.script([
      sql`SELECT id FROM outbox_lane WHERE peer = ${user} ORDER BY id FOR UPDATE`,
      sql`SELECT id, ended_at IS NULL AS open FROM outbox WHERE lane IN ${lanes} ORDER BY id FOR UPDATE`,
      sql`SELECT file FROM outbox_part WHERE lane IN ${lanes} AND file IS NOT NULL ORDER BY id`,
      sql`SELECT id FROM webhook WHERE peer = ${user} ORDER BY nth FOR UPDATE`,
      lockWebhooks,
      ...grants.map(one => changeGrant('webhook', one)),
      ...eraseFromWebhooks(user),
      ...eraseFromReaders(user),
      ...eraseTurns(user),
      sql`DELETE FROM agent_conversation WHERE peer = ${user}`,
      // Slots of messages that are not sent; the others only lose the user, since all users of a session share its pace.
      sql`DELETE FROM turn t USING outbox_part p, outbox_lane l WHERE l.peer = ${user} AND p.lane = l.id
        AND p.status IN ('queued', 'asked') AND t.session = l.session AND t.peer = ${user} AND t.at = p.slot`,
      sql`UPDATE turn SET peer = '' WHERE peer = ${user}`,
      sql`DELETE FROM outbox WHERE lane IN ${lanes}`,
      ...keyChanges.begin,
      ...keys.map(one => changeGrant('access_key', one)),
      sql`UPDATE access_key SET name = replace(name, ${user}, ${hash}) WHERE strpos(name, ${user}) > 0`,
      sql`UPDATE access_key SET revision = ${keyChanges.revision}
        WHERE id = ANY (${keys.map(({ id }) => id)}::text[])`,
      sql`WITH gone AS (DELETE FROM outbox_part WHERE lane IN ${lanes} RETURNING message, status)
        UPDATE message m SET status = 'refused', reason = ${forgottenReason.detail}, reason_code = ${forgottenReason.code}
        FROM gone WHERE m.id = gone.message AND m.sent = 1 AND gone.status IN ('queued', 'asked')`,
      sql`DELETE FROM outbox_lane WHERE peer = ${user}`,
      // An imported context may have the id in lower case. It has no time, and nobody was sent anything there.
      sql`DELETE FROM outbox_lane l WHERE peer = ${user.toLowerCase()} AND token IS NOT NULL AND received_at IS NULL
        AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.lane = l.id)`,
    ])
    return {
      sends: entries!.filter(({ open }) => open === true).length,
      files: files!.map(row => nameOfFile(row as { file: string })),
      webhooks: webhooks!.map(({ id }) => id as string),
      keys: keys.map(({ id }) => id),
    }
  }

  /** Erases the content of some messages of a user. @returns how many, and the last of them */
  #eraseMessages(user: string, after: number): Promise<{ count: number; last?: number }> {
    return this.db.retry(queries =>
      queries.one(sql`WITH doomed AS (SELECT id FROM message WHERE peer = ${user} AND id > ${after}
          ORDER BY id LIMIT ${erasedAtOnce}),
        erased AS (UPDATE message m SET message_id = 'forgotten:' || m.id, session = ${erasedSession},
          sent = ${receivedElsewhere}, peer = '', msg_type = 'TEXT', timestamp = 0, content_hash = NULL, text = '',
          raw = '{}', sent_by = NULL, reason = NULL, reason_quote = NULL, sent_with = NULL
          FROM doomed WHERE m.id = doomed.id RETURNING m.id),
        -- A row without pairs: a process that indexes the text that it read before leaves it as it is.
        grams AS (INSERT INTO gram (id, pairs) SELECT id, '{}' FROM erased
          ON CONFLICT (id) DO UPDATE SET pairs = excluded.pairs)
        SELECT count(*) AS count, max(id) AS last FROM erased`),
    )
  }

  scrub(rewrite = false): Promise<void> {
    return this.db.guarded(async () => {
      const connection = await this.db.connect(vacuumMs)
      const [command, waitMs] = rewrite ? ['VACUUM (FULL)', rewriteWaitMs] : ['VACUUM', vacuumWaitMs]
      try {
        await connection.run(sql`SELECT set_config('lock_timeout', ${String(waitMs)}, false)`)
        for (const table of touchedTables) await connection.run(constantSql(`${command} ${table}`))
      } finally {
        connection.destroy()
      }
    })
  }

  async listRemains(rewrite: boolean): Promise<readonly string[]> {
    return rewrite ? [remains.log] : [remains.files, remains.log]
  }
}

const remains = {
  files:
    'files of the tables in the database, until their space is used again: --rewrite writes the tables again, without them',
  log: 'the log (WAL) of the database and its archive, standbys that lag, and dumps and backups of the database',
}

const nameOfFile = ({ file }: { file: string }): string => (JSON.parse(file) as { name: string }).name

interface Granted {
  id: string
  grant: string
  /** The grant without the user. */
  without: string
}

/** Returns the keys or endpoints whose grant names the user. */
async function readGrants(
  queries: Attempt,
  table: 'access_key' | 'webhook',
  user: string,
): Promise<Granted[]> {
  const rows = await queries.all<
    Pick<Granted, 'id' | 'grant'>
  >(sql`SELECT id, "grant" FROM ${constantSql(table)}
    WHERE "grant" LIKE '%"users"%' ORDER BY nth`)
  return rows.flatMap(({ id, grant }) => {
    const parsed = JSON.parse(grant) as { users?: string[] }
    if (!parsed.users?.includes(user)) return []
    // One that names nobody else is left with nobody.
    const without = JSON.stringify({ ...parsed, users: parsed.users.filter(one => one !== user) })
    return [{ id, grant, without }]
  })
}

const changeGrant = (table: 'access_key' | 'webhook', { id, grant, without }: Granted): Sql =>
  sql`WITH changed AS (UPDATE ${constantSql(table)} SET "grant" = ${without} WHERE id = ${id} AND "grant" = ${grant}
    RETURNING 1) SELECT expect((SELECT count(*) FROM changed) = 1)`

/** Locks all endpoints, before their lanes: those who deliver lock them in this order. */
const lockWebhooks = sql`SELECT FROM webhook ORDER BY nth FOR UPDATE`

/** Begins a new epoch: else a delivery in progress would store the user's lane again. */
const eraseLanes = (user: string): Sql[] => [
  sql`DELETE FROM webhook_lane WHERE peer = ${user}`,
  sql`UPDATE webhook SET epoch = epoch + 1`,
]

/** Removes the endpoints that were limited to the user, and what others keep about the user. */
function eraseFromWebhooks(user: string): Sql[] {
  const own = sql`(SELECT id FROM webhook WHERE peer = ${user})`
  // Errors about answers to the user may quote id, name or text.
  const about = sql`FROM webhook_try t
    CROSS JOIN LATERAL (SELECT substring(t.event FROM '-([0-9]{1,18})$')::bigint AS place) p
    LEFT JOIN event e ON e.place = p.place JOIN message m ON m.id = coalesce(e.message, p.place / ${placesPerMessage})
    WHERE (m.peer = ${user} OR m.session = ${erasedSession}) AND t.detail IS NOT NULL`
  return [
    sql`DELETE FROM webhook_lane WHERE webhook IN ${own}`,
    sql`DELETE FROM webhook_try WHERE webhook IN ${own}`,
    sql`DELETE FROM webhook WHERE peer = ${user}`,
    ...eraseLanes(user),
    sql`UPDATE webhook SET last_error = NULL WHERE last_error IN (SELECT t.detail ${about})`,
    sql`UPDATE webhook_try SET detail = NULL WHERE id IN (SELECT t.id ${about})`,
  ]
}

/** Removes the user's messages from leases, and what was read of them. */
const eraseFromReaders = (user: string): Sql[] => [
  sql`UPDATE lease SET ids = ARRAY(SELECT one FROM unnest(ids) WITH ORDINALITY AS all_ids(one, nth)
      WHERE NOT EXISTS (SELECT 1 FROM message m WHERE m.id = one AND m.peer = ${user}) ORDER BY nth)
    WHERE EXISTS (SELECT 1 FROM message m WHERE m.id = ANY (ids) AND m.peer = ${user})`,
  sql`DELETE FROM lease WHERE ids = '{}'`,
  sql`DELETE FROM read_mark WHERE peer = ${user}`,
  sql`DELETE FROM person_mark WHERE peer = ${user}`,
]

const eraseTurns = (user: string): Sql[] => {
  const turns = sql`agent_turn t JOIN agent_conversation c ON c.id = t.conversation WHERE c.peer = ${user}`
  return [
    sql`DELETE FROM agent_question WHERE turn IN (SELECT t.id FROM ${turns})`,
    sql`DELETE FROM agent_turn WHERE id IN (SELECT t.id FROM ${turns})`,
  ]
}
