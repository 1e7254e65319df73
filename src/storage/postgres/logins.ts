/** QR logins: the table `login_flow`. Any node can report on a login, and one at a time asks WeChat about it. */
import { type BotInfo, normalizeSessionName, sessionKeyOf } from '../../model/session.ts'
import { joinSql, type Sql, sql } from '../../platform/sql.ts'
import { placeOf, toJoined } from '../joined-logins.ts'
import type { LoginKey, LoginStore, StoredLogin } from '../logins.ts'
import { planJoin } from '../nouns/invitations.ts'
import { type LoginAsWritten, mapLogin } from '../sealed-places.ts'
import type { Attempt } from './database.ts'
import { drive } from './drive.ts'
import { type EngineContext, PgPart } from './part.ts'
import { createNounContext } from './routines.ts'
import type { PgSessions } from './sessions.ts'

/** Longer than a poll of upstream takes. */
const leaseMs = 60_000
/** Expired logins are removed later: the clock of another node may be behind. */
const sweepAfterMs = 60 * 60_000
/** Interval for removing them. */
const sweepEveryMs = 60_000
/** Longest wait for a change, after which it is checked whether the store is closed. */
const waitMs = 60_000
const never = new AbortController().signal

const keyOf = (session: string) => sessionKeyOf(normalizeSessionName(session))

export class PgLogins extends PgPart implements LoginStore {
  readonly #sessions: PgSessions
  #sweptAt = 0
  #touched: Promise<void> | undefined
  /** Keys whose versions the next query reads. */
  #asked: { keys: string[]; versions: Promise<ReadonlyMap<string, string>> } | undefined

  constructor(context: EngineContext, sessions: PgSessions) {
    super(context)
    this.#sessions = sessions
  }

  listRunning(now: number): Promise<readonly StoredLogin[]> {
    return this.#read(sql`NOT ended AND until > ${now}`)
  }

  list(now: number): Promise<readonly StoredLogin[]> {
    return this.#read(sql`until > ${now}`)
  }

  async get(session: string, now: number): Promise<StoredLogin | undefined> {
    return (await this.#read(sql`name_key = ${keyOf(session)} AND until > ${now}`))[0]
  }

  async #read(condition: Sql): Promise<StoredLogin[]> {
    const rows = await this.db.all<{ data: string }>(sql`SELECT data FROM login_flow WHERE ${condition}`)
    return rows.map(
      ({ data }) => mapLogin(JSON.parse(data) as LoginAsWritten, this.sealer.open) as StoredLogin,
    )
  }

  async put(login: StoredLogin, now: number): Promise<StoredLogin | undefined> {
    const { stored, statement } = this.#planPut(login, now)
    const { n } = await this.db.one<{ n: number }>(
      sql`WITH put AS (${statement}) SELECT count(*) AS n FROM put`,
    )
    if (n === 0) return undefined
    await this.#sweep(now)
    await this.db.touch()
    return stored
  }

  async finish(login: StoredLogin, bot: BotInfo, now: number): Promise<StoredLogin | undefined> {
    const done = await this.durably(() =>
      this.db.retry(async queries => {
        const joined = await this.#planJoin(queries, login, bot, now)
        const { stored, statement } = this.#planPut(joined.login, now)
        const { session, invitation } = joined
        const own = { ...bot, ...(invitation !== undefined && { invitation }) }
        const plan = session === undefined ? undefined : await this.#sessions.planSave(queries, session, own)
        const saved = !plan || plan.token === bot.token ? [] : plan.statements
        const kept = await queries.get<{ version: string }>(
          sql`SELECT version FROM login_flow WHERE name_key = ${keyOf(login.session)} AND until > ${now} ${queries.lock}`,
        )
        if ((kept?.version ?? '') !== login.version) return undefined
        await queries.script([
          sql`WITH put AS (${statement}) SELECT expect(EXISTS (SELECT 1 FROM put))`,
          ...saved,
          ...joined.statements,
        ])
        return stored
      }),
    )
    if (done) await this.db.touch()
    return done
  }

  /** Decides about a login by invitation. @returns `session`: the one to save the credentials in, if they are saved */
  async #planJoin(
    queries: Attempt,
    login: StoredLogin,
    bot: BotInfo,
    at: number,
  ): Promise<{ login: StoredLogin; session?: string; invitation?: string; statements: readonly Sql[] }> {
    if (!login.invitation) return { login, session: login.session, statements: [] }
    const invitation = login.invitation.id
    const place = placeOf(login, bot, await this.#sessions.readRecords(queries))
    const joining = { ...place, bot, invitation, login: login.id, at }
    const plan = await drive(queries, planJoin(createNounContext(this), joining))
    const joined = toJoined(login, plan.outcome, place.session)
    const { session } = joined.joined ?? {}
    // Two logins of a person may end at the same time. Those that save credentials go one after another.
    const isOther = sql`info::jsonb ->> 'user_id' = ${bot.user_id} AND name_key <> ${keyOf(place.session)}`
    const alone = sql`SELECT expect(NOT EXISTS (SELECT 1 FROM account WHERE bot_id IS NOT NULL AND ${isOther}))`
    return {
      login: joined,
      ...(session !== undefined && { session, invitation }),
      statements: [...(session === undefined ? [] : [alone]), ...plan.statements],
    }
  }

  /** Returns the statement that puts a login in place of the version that it has, and returns a row if it did. */
  #planPut(given: StoredLogin, now: number): { stored: StoredLogin; statement: Sql } {
    const stored = { ...given, version: crypto.randomUUID() }
    const key = keyOf(given.session)
    const data = JSON.stringify(mapLogin(stored, this.sealer.seal))
    const values = joinSql([
      sql`${stored.id}`,
      sql`${stored.version}`,
      sql`${stored.until}`,
      sql`${stored.ended}`,
      sql`${data}`,
    ])
    // The right to ask about a login belongs to that login alone.
    const others = (id: Sql) => sql`owner = CASE WHEN f.id = ${id} THEN f.owner END`
    const statement =
      given.version === ''
        ? sql`INSERT INTO login_flow AS f (name_key, id, version, until, ended, data) VALUES (${key}, ${values})
            ON CONFLICT (name_key) DO UPDATE SET id = excluded.id, version = excluded.version, until = excluded.until,
              ended = excluded.ended, data = excluded.data, ${others(sql`excluded.id`)}
            WHERE f.until <= ${now} RETURNING 1`
        : sql`UPDATE login_flow f SET (id, version, until, ended, data) = ROW (${values}), ${others(sql`${stored.id}`)}
            WHERE name_key = ${key} AND version = ${given.version} AND until > ${now} RETURNING 1`
    return { stored, statement }
  }

  async #sweep(now: number): Promise<void> {
    if (Math.abs(now - this.#sweptAt) < sweepEveryMs) return
    this.#sweptAt = now
    await this.db.retry(queries =>
      queries.run(
        sql`DELETE FROM login_flow WHERE ended = ANY (ARRAY[true, false]) AND until <= ${now - sweepAfterMs}`,
      ),
    )
  }

  async claim({ id, session }: LoginKey): Promise<boolean> {
    const now = this.clock.now()
    // Far more than a whole lease is left if the clock was set back.
    const taken =
      await this.db.run(sql`UPDATE login_flow SET owner = ${this.owner}, lease_until = ${now + leaseMs}
      WHERE name_key = ${keyOf(session)} AND id = ${id} AND (owner IS NULL OR owner = ${this.owner}
        OR lease_until <= ${now} OR lease_until > ${now + 2 * leaseMs} OR NOT lives(owner))`)
    return taken > 0
  }

  async release({ id, session }: LoginKey): Promise<void> {
    await this.db.run(sql`UPDATE login_flow SET owner = NULL, lease_until = 0
      WHERE name_key = ${keyOf(session)} AND id = ${id} AND owner = ${this.owner}`)
  }

  async wait(
    { session, version }: Pick<StoredLogin, 'session' | 'version'>,
    signal: AbortSignal,
  ): Promise<void> {
    const aborted = new Promise<void>(resolve => {
      if (signal.aborted) resolve()
      else signal.addEventListener('abort', () => resolve(), { once: true })
    })
    while (!signal.aborted && !this.db.isClosed) {
      // Before the version is read: a write after that ends this wait.
      const touched = this.#nextTouch()
      // While the database fails, nothing has changed as far as this process knows.
      const kept = await this.#versionOf(keyOf(session)).catch(() => version)
      if (kept !== version) return
      await Promise.race([touched, aborted])
    }
  }

  /** Resolves when a process has touched the store. All waits share it, since each message wakes `db.wait`. */
  #nextTouch(): Promise<void> {
    this.#touched ??= this.#untilTouched().finally(() => {
      this.#touched = undefined
    })
    return this.#touched
  }

  async #untilTouched(): Promise<void> {
    const { touched } = this.db.horizon
    const isTouched = () => this.db.horizon.touched !== touched
    while (!isTouched() && !this.db.isClosed) await this.db.wait(isTouched, waitMs, never)
  }

  /** Reads the versions that all waits ask for at the same time in one query. */
  async #versionOf(key: string): Promise<string | undefined> {
    this.#asked ??= { keys: [], versions: this.#readAsked() }
    this.#asked.keys.push(key)
    return (await this.#asked.versions).get(key)
  }

  async #readAsked(): Promise<ReadonlyMap<string, string>> {
    await new Promise(resolve => setTimeout(resolve))
    const keys = this.#asked?.keys ?? []
    this.#asked = undefined
    const rows = await this.db.all<{ name_key: string; version: string }>(
      sql`SELECT name_key, version FROM login_flow WHERE name_key = ANY (${keys}::text[])`,
    )
    return new Map(rows.map(({ name_key, version }) => [name_key, version]))
  }
}
