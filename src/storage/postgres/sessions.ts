/** Sessions: the table `account`. */
import { SvcError } from '../../model/error.ts'
import {
  type BotInfo,
  inheritedMarksOf,
  type Marks,
  normalizeSessionName,
  sessionKeyOf,
  sessionNotFoundError,
  withMarks,
} from '../../model/session.ts'
import type { PgQueries } from '../../platform/postgres.ts'
import { noSql, prepared, type Sql, sql } from '../../platform/sql.ts'
import { planScan } from '../nouns/scans.ts'
import type { SessionChanges, SessionRecord, SessionStore } from '../state.ts'
import {
  type AccountRow,
  accountColumns,
  botOf,
  credentialsOf,
  recordOf,
  setCredentials,
} from './accounts.ts'
import type { Attempt } from './database.ts'
import { drive } from './drive.ts'
import { guard, PgPart } from './part.ts'
import { listSpellings, renameKeys, renameRows } from './renames.ts'
import { createNounContext } from './routines.ts'
import { keysOfName } from './session-keys.ts'

/**
 * Scripts that add or remove sessions, or choose the default, take this lock first. Only svc takes it. Then come rows of
 * `session`, of `account`, lanes and what is in them.
 */
const lockSessions: Sql = sql`SELECT pg_advisory_xact_lock(${0x737664})`

/** If no session is the default, the oldest becomes it. */
const chooseOldest: Sql = sql`UPDATE account SET chosen = true
  WHERE name_key = (SELECT name_key FROM account WHERE bot_id IS NOT NULL ORDER BY created_at, name_key LIMIT 1)
    AND NOT EXISTS (SELECT 1 FROM account WHERE chosen)`

export const touchSessions = (...keys: string[]): Sql => sql`SELECT touch_sessions(${keys}::text[])`

/** Key of a row that tells readers that no session is spelled like this any more. The space keeps it apart from names. */
const keyOfSpelling = (name: string): string => `${sessionKeyOf(name)} ${name}`
const addSpelling = (name: string): Sql =>
  sql`INSERT INTO account (name_key, name, created_at) VALUES (${keyOfSpelling(name)}, ${name}, now_ms())
    ON CONFLICT (name_key) DO UPDATE SET created_at = excluded.created_at`

const guardAccount = ({ name_key, version }: AccountRow): Sql =>
  guard(sql`SELECT true FROM account WHERE name_key = ${name_key} AND xmin = ${version}::xid`)

/** A session as of a revision; without a record it is gone. */
export interface KnownSession {
  changed: number
  record: SessionRecord | undefined
}

export class PgSessions extends PgPart implements SessionStore {
  readonly #known = new Map<string, KnownSession>()
  #revision: number | undefined

  async list(): Promise<readonly SessionRecord[]> {
    return [...(await this.readKnown()).values()].flatMap(({ record }) => record ?? [])
  }

  /** Returns all sessions, and some that are gone, by `name_key`. Reads only what changed since the previous call. */
  async readKnown(): Promise<ReadonlyMap<string, KnownSession>> {
    const { revision, rows } = await this.#readSince(this.#revision)
    for (const row of rows) {
      const known = this.#known.get(row.name_key)
      // Another call may have read a newer row meanwhile.
      if (known === undefined || known.changed < row.changed)
        this.#known.set(row.name_key, { changed: row.changed, record: recordOf(row, this.sealer) })
    }
    this.#revision = Math.max(this.#revision ?? 0, revision)
    return this.#known
  }

  async listChangedSince(since?: number): Promise<SessionChanges> {
    const { revision, rows } = await this.#readSince(since)
    return { revision, changed: new Map(rows.map(row => [row.name, recordOf(row, this.sealer)])) }
  }

  /** Returns the rows that changed; a session comes after a row that says that there was none of its name. */
  async #readSince(since: number | undefined): Promise<{ revision: number; rows: AccountRow[] }> {
    const wanted = since === undefined ? sql`a.bot_id IS NOT NULL` : sql`a.changed > ${since}`
    const found = await this.db.all<Partial<AccountRow> & { revision: number }>(
      prepared(sql`SELECT head.revision, a.* FROM head LEFT JOIN (SELECT ${accountColumns} FROM account) a ON ${wanted}
        ORDER BY a.bot_id IS NOT NULL`),
    )
    return {
      revision: found[0]?.revision ?? 0,
      rows: found.filter(row => row.name_key !== undefined) as AccountRow[],
    }
  }

  async get(name: string): Promise<SessionRecord | undefined> {
    return recordOf(await this.#read(this.db, name), this.sealer)
  }

  /** Returns the sessions as they are now. */
  async readRecords(queries: PgQueries): Promise<SessionRecord[]> {
    const rows = await queries.all<AccountRow>(
      sql`SELECT ${accountColumns} FROM account WHERE bot_id IS NOT NULL`,
    )
    return rows.flatMap(row => recordOf(row, this.sealer) ?? [])
  }

  async getDefaultName(): Promise<string | undefined> {
    return (await this.db.get<{ name: string }>(sql`SELECT name FROM account WHERE chosen`))?.name
  }

  #read(queries: PgQueries, name: string, lock: Sql = noSql): Promise<AccountRow | undefined> {
    return queries.get(
      prepared(sql`SELECT ${accountColumns} FROM account WHERE name_key = ${sessionKeyOf(name)} ${lock}`),
    )
  }

  /** Reads the row of a name for a script that takes `lockSessions`. An attempt that locks rows takes that lock first too. */
  async #readToChange(queries: Attempt, name: string): Promise<AccountRow | undefined> {
    if (queries.lock !== noSql) await queries.all(lockSessions)
    return this.#read(queries, name, queries.lock)
  }

  async #require(queries: Attempt, name: string): Promise<AccountRow> {
    const row = await this.#readToChange(queries, name)
    if (row?.bot_id === undefined) throw sessionNotFoundError(name)
    return row
  }

  async save(name: string, bot: BotInfo): Promise<void> {
    await this.durably(() =>
      this.db.retry(async queries => {
        const { statements } = await this.planSave(queries, name, bot)
        await queries.script(statements)
      }),
    )
    await this.db.touch()
  }

  /**
   * Returns the statements that save credentials, for a script; and the token that the session has now. The last
   * ones lock `head`.
   */
  async planSave(
    queries: Attempt,
    name: string,
    bot: BotInfo,
  ): Promise<{ token: string | undefined; statements: Sql[] }> {
    const spelling = normalizeSessionName(name)
    const key = sessionKeyOf(spelling)
    const row = await this.#readToChange(queries, spelling)
    const before = botOf(row, this.sealer)
    const stored = before && row ? row.name : spelling
    const columns = setCredentials(credentialsOf({ ...bot, ...inheritedMarksOf(before, bot) }, this.sealer))
    const isRespelled = row !== undefined && row.name !== stored
    const scan = await drive(queries, planScan(createNounContext(this), { session: stored, before, bot }))
    const statements = [
      lockSessions,
      sql`UPDATE session SET name = ${stored}, unused_since = NULL
        WHERE name_key = ${key} AND (name <> ${stored} OR unused_since IS NOT NULL)`,
      sql`INSERT INTO session (name, name_key, named) SELECT ${stored}, ${key}, coalesce(max(named), 0) FROM session
        HAVING NOT EXISTS (SELECT 1 FROM session WHERE name_key = ${key})`,
      row ? guardAccount(row) : sql`INSERT INTO account (name_key, name) VALUES (${key}, ${stored})`,
      sql`UPDATE account SET name = ${stored}, ${columns} WHERE name_key = ${key}`,
      ...(isRespelled ? [addSpelling(row.name)] : []),
      chooseOldest,
      ...(before?.bot_id === bot.bot_id ? [] : [forgetBot(stored)]),
      ...scan.first,
      touchSessions(key, ...(isRespelled ? [keyOfSpelling(row.name)] : [])),
      ...scan.last,
    ]
    return { token: before?.token, statements }
  }

  async mark(name: string, token: string, wanted: Marks): Promise<void> {
    const since = this.db.serverRun
    const isChanged = await this.#change(name, bot =>
      bot.token === token ? withMarks(bot, wanted) : undefined,
    )
    if (isChanged) await this.db.barrier(since)
  }

  /** Removes the id of a user who logged the account in. Not durable. */
  async removeUser(name: string, user: string): Promise<void> {
    await this.#change(name, ({ user_id, ...bot }) => (user_id === user ? bot : undefined))
  }

  /** @param next returns the credentials with other fields, or undefined if they stay. @returns whether it changed any */
  #change(name: string, next: (bot: BotInfo) => BotInfo | undefined): Promise<boolean> {
    return this.db.retry(async queries => {
      const row = await this.#read(queries, name, queries.lock)
      const bot = botOf(row, this.sealer)
      const changed = bot && next(bot)
      if (!row || !changed) return false
      const { info } = credentialsOf(changed, this.sealer)
      await queries.script([
        guardAccount(row),
        sql`UPDATE account SET info = ${info} WHERE name_key = ${row.name_key}`,
        touchSessions(row.name_key),
      ])
      return true
    })
  }

  async remove(name: string): Promise<void> {
    await this.durably(() =>
      this.db.retry(async queries => {
        const row = await this.#require(queries, name)
        await queries.script([
          lockSessions,
          guardAccount(row),
          sql`UPDATE account SET ${setCredentials(undefined)}, chosen = false WHERE name_key = ${row.name_key}`,
          chooseOldest,
          forgetBot(row.name, sql`, first_seen = NULL`),
          touchSessions(row.name_key),
        ])
      }),
    )
    await this.db.touch()
  }

  async setDefault(name: string): Promise<void> {
    await this.durably(() =>
      this.db.retry(async queries => {
        const row = await this.#require(queries, name)
        await queries.script([
          lockSessions,
          guardAccount(row),
          sql`UPDATE account SET chosen = false WHERE chosen`,
          sql`UPDATE account SET chosen = true WHERE name_key = ${row.name_key}`,
        ])
      }),
    )
  }

  async rename(oldName: string, newName: string): Promise<void> {
    await this.durably(() =>
      this.db.retry(async queries => {
        const from = await this.#require(queries, oldName)
        const to = normalizeSessionName(newName)
        if (from.name === to) return
        const isSame = sessionKeyOf(to) === from.name_key
        const taken = isSame ? undefined : await this.#read(queries, to, queries.lock)
        if (taken?.bot_id !== undefined)
          throw new SvcError('session_exists', `there is already a session named "${taken.name}"`)
        const spellings = await listSpellings(queries, from.name)
        await queries.script([
          lockSessions,
          renameKeys({ from: from.name, to }),
          guardAccount(from),
          ...(isSame
            ? [sql`UPDATE account SET name = ${to} WHERE name_key = ${from.name_key}`, addSpelling(from.name)]
            : moveAccount(from, taken, to)),
          ...renameRows({ to, spellings }),
          isSame
            ? touchSessions(from.name_key, keyOfSpelling(from.name))
            : touchSessions(
                from.name_key,
                sessionKeyOf(to),
                ...(taken && taken.name !== to ? [keyOfSpelling(taken.name)] : []),
              ),
        ])
      }),
    )
    // Endpoints have another epoch, and maybe another filter.
    await this.db.touch()
  }

  async sweep(): Promise<number> {
    return 0
  }
}

/** Moves the credentials, and the node that polls with them, to another name. */
function moveAccount(from: AccountRow, taken: AccountRow | undefined, to: string): Sql[] {
  const key = sessionKeyOf(to)
  const { bot_id, token, info, cursor, created_at } = from
  const columns = sql`name = ${to}, bot_id = ${bot_id}, token = ${token}, info = ${info}, cursor = ${cursor},
    created_at = ${created_at}, chosen = ${from.chosen}`
  return [
    sql`UPDATE account SET ${setCredentials(undefined)}, chosen = false WHERE name_key = ${from.name_key}`,
    taken ? guardAccount(taken) : sql`INSERT INTO account (name_key, name) VALUES (${key}, ${to})`,
    ...(taken && taken.name !== to ? [addSpelling(taken.name)] : []),
    sql`UPDATE account a SET ${columns}, node = own.node, fence = greatest(a.fence, own.fence)
      FROM account own WHERE a.name_key = ${key} AND own.name_key = ${from.name_key}`,
  ]
}

/** Nothing is known any more of the users of a bot, none of its answers are counted, and no lane of it is held. */
const forgetBot = (name: string, more: Sql = noSql): Sql =>
  sql`UPDATE outbox_lane SET token = NULL, received_at = NULL, used = 0, last_sent_at = NULL, held_at = NULL,
    held_until = NULL, holds = 0, not_before = 0, failures = 0 ${more} WHERE session = ANY (${keysOfName(name)})`
