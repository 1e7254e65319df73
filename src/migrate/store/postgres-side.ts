/** A store on PostgreSQL, as one side of a copy. */
import { SvcError } from '../../model/error.ts'
import type { Clock } from '../../platform/clock.ts'
import type { Log } from '../../platform/log.ts'
import { connectPg, type PgConnection, type PgQueries } from '../../platform/postgres.ts'
import { RoomPart } from '../../platform/runtime.ts'
import { createKeyRing, type Sealer } from '../../platform/sealing.ts'
import { constantSql, joinSql, noSql, type Sql, sql } from '../../platform/sql.ts'
import { ClockTrust } from '../../storage/clock-trust.ts'
import type { MediaStores } from '../../storage/media-store.ts'
import { PgDatabase } from '../../storage/postgres/database.ts'
import { placeOf, storeErrorOf } from '../../storage/postgres/errors.ts'
import { PgMediaStore } from '../../storage/postgres/media.ts'
import { followKeys, type KeyState, migrate } from '../../storage/postgres/migrate.ts'
import type { EngineContext } from '../../storage/postgres/part.ts'
import { newestForm } from '../../storage/postgres/schema.ts'
import { copyLock } from '../../storage/postgres/tables.ts'
import { copiedTables, type StoreRow, type StoreTable } from '../../storage/table-list.ts'
import { rejectUnreleased, wayFromDatabase } from '../../storage/unreleased.ts'
import { columnsOf, sequenceOf, writerOf } from './postgres-writer.ts'
import type { CopiedState, CopySide, CopySource, CopyTarget, StoreIdentity, TargetState } from './side.ts'
import { pageCharacters, pageRows, uploadRules } from './side.ts'

export interface PgSideOptions {
  /** Secret. */
  url: string
  /** Text of the secret key. */
  secret: string
  clock: Clock
  log: Log
}

/** Longest wait for an answer about the lock. */
const answerMs = 8000

/** Returns the address of a database without user and password. */
const placeOfUrl = (url: string): string => `postgres://${placeOf(url)}`

/** @throws SvcError `store_unavailable` for a store that a process uses; `not_found` if there is none */
export async function openPgSource(options: PgSideOptions): Promise<CopySource & { movedTo?: string }> {
  const { side, meta } = await open(options, rejectAbsent)
  if (meta.copying !== undefined) {
    await side[Symbol.asyncDispose]()
    throw new SvcError('store_unavailable', `a copy into ${side.place} has not finished`, {
      hint: 'Run the same svc store copy again: it carries on.',
    })
  }
  return Object.assign(side, {
    identity: identityOf(meta),
    ...(meta.moved_to !== undefined && { movedTo: meta.moved_to }),
    markMoved: (to: string) => side.decide(sql`UPDATE meta SET moved_to = ${to}`),
  })
}

/** Longest wait for a page of rows. */
const snapshotAnswerMs = 60_000

/**
 * Opens a database as it is at this moment, while processes use it. Nothing is changed.
 *
 * @throws SvcError `store_unavailable`; `not_found` if there is no store
 */
export async function openPgSnapshot({ url, secret, clock, log }: PgSideOptions): Promise<CopySource> {
  const sealer = createKeyRing(secret)
  const settings = { idle_in_transaction_session_timeout: '0' }
  const db = new PgDatabase({ url, clock, log, node: crypto.randomUUID() })
  let snapshot: PgConnection | undefined
  try {
    const place = placeOfUrl(url)
    await rejectAbsent(db, place)
    snapshot = await connectPg({ url, name: 'svc backup', answerMs: snapshotAnswerMs, settings })
    await snapshot.run(sql`BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`)
    const meta = await snapshot.one<Meta & KeyState & { form: number }>(
      sql`SELECT store_id, hash_key, events_removed, copying, form, secret_key, old_key FROM meta`,
    )
    rejectUnreleased(`the store in ${place}`, meta.form, wayFromDatabase)
    if (meta.copying !== undefined || meta.form !== newestForm)
      throw new SvcError('store_unavailable', `the store in ${place} is incomplete, or of another version`, {
        hint: 'Use the version of svc that the nodes run.',
      })
    followKeys(meta, sealer)
    const context = { db, clock, log, sealer, clockTrust: new ClockTrust(clock, {}) }
    const side = new PgSide({
      db: snapshot,
      lock: snapshot,
      place,
      sealer,
      media: mediaOf(context),
      close: () => db.close(),
    })
    return Object.assign(side, {
      identity: identityOf(meta),
      markMoved: async () => {},
    })
  } catch (error) {
    snapshot?.destroy()
    await db.close()
    throw storeErrorOf(error)
  }
}

/**
 * Opens a database for a copy from `from`.
 *
 * @throws SvcError `store_unavailable` if a process uses it; `invalid_arguments` if there is a store in it
 */
export async function openPgTarget(
  options: PgSideOptions,
  from: { place: string; identity: StoreIdentity },
): Promise<CopyTarget> {
  const { db, side, sealer, meta } = await open(options)
  try {
    const state = await readTargetState(db, meta, from, side.place)
    return Object.assign(side, writerOf(db, { from, sealer, side, state }))
  } catch (error) {
    await side[Symbol.asyncDispose]()
    throw error
  }
}

const identityOf = ({ store_id: id, hash_key, events_removed }: Meta): StoreIdentity => ({
  id,
  hash_key,
  events_removed,
})

interface Meta extends Copying {
  store_id: string
  hash_key: string
  events_removed: number
  moved_to?: string
}

interface Copying {
  /** JSON: where the copy comes from, and whether it is complete. */
  copying?: string
}

/** @throws SvcError `invalid_arguments` */
async function readTargetState(
  db: PgDatabase,
  meta: Meta,
  from: { identity: StoreIdentity },
  place: string,
): Promise<TargetState> {
  if (meta.copying !== undefined) {
    if (meta.store_id !== from.identity.id) return 'empty'
    return (JSON.parse(meta.copying) as { verified?: boolean }).verified === true ? 'verified' : 'begun'
  }
  const used = joinSql(
    [...copiedTables.map(({ name }) => name), 'account'].map(
      name => sql`EXISTS (SELECT 1 FROM ${constantSql(name)})`,
    ),
    ' OR ',
  )
  const { there } = await db.one<{ there: boolean }>(sql`SELECT ${used} OR last > 0 AS there FROM head`)
  if (!there && meta.moved_to === undefined) return 'empty'
  throw new SvcError('invalid_arguments', `there is a store in ${place} already`, {
    hint: 'Name an empty database, or drop the schema svc in this one if you do not need it.',
  })
}

/** @throws SvcError `not_found` for a database without the tables of svc */
async function rejectAbsent(db: PgDatabase, place: string): Promise<void> {
  const { there } = await db.one<{ there: boolean }>(sql`SELECT to_regclass('svc.meta') IS NOT NULL AS there`)
  if (!there) throw new SvcError('not_found', `there is no store in ${place}`, { hint: 'Check its address.' })
}

/**
 * Opens a database that no process uses, and keeps every process out.
 *
 * @param check called before anything is changed
 */
async function open(
  { url, secret, clock, log }: PgSideOptions,
  check: (db: PgDatabase, place: string) => Promise<void> = async () => {},
) {
  const db = new PgDatabase({ url, clock, log, node: crypto.randomUUID() })
  const sealer = createKeyRing(secret)
  let lock: PgConnection | undefined
  try {
    await check(db, placeOfUrl(url))
    await migrate(db, { log, keys: sealer, closed: true })
    await rejectUsed(db, placeOfUrl(url))
    lock = await takeLock(url)
    await rejectUsed(db, placeOfUrl(url))
    const meta = await db.one<Meta>(
      sql`SELECT store_id, hash_key, events_removed, moved_to, copying FROM meta`,
    )
    const context = { db, clock, log, sealer, clockTrust: new ClockTrust(clock, {}) }
    const side = new PgSide({
      db,
      lock,
      place: placeOfUrl(url),
      sealer,
      close: () => db.close(),
      media: mediaOf(context),
    })
    return { db, side, sealer, meta }
  } catch (error) {
    lock?.destroy()
    await db.close()
    throw error
  }
}

/** Node processes look at this lock when they join and when they renew their lease. */
async function takeLock(url: string): Promise<PgConnection> {
  try {
    const connection = await connectPg({
      url,
      name: 'svc store copy',
      answerMs,
      settings: { synchronous_commit: 'on' },
    })
    const { got } = await connection.one<{ got: boolean }>(
      sql`SELECT pg_try_advisory_lock(${copyLock}) AS got`,
    )
    if (got) return connection
    connection.destroy()
  } catch (error) {
    throw storeErrorOf(error)
  }
  throw new SvcError('store_unavailable', `another process copies the store in ${placeOfUrl(url)}`, {
    hint: 'Wait until it is done.',
  })
}

/** @throws SvcError `store_unavailable` while a node lives */
async function rejectUsed(db: PgDatabase, place: string): Promise<void> {
  const living = await db.all<{ name: string }>(
    sql`SELECT name FROM node WHERE lease_until > clock_timestamp() ORDER BY name LIMIT 5`,
  )
  if (living.length === 0) return
  throw new SvcError('store_unavailable', `a process uses the store in ${place}`, {
    hint: `Stop every svc on it, then run the same command again. It runs on: ${living.map(({ name }) => name).join(', ')}. A process that was killed counts for a few seconds more.`,
  })
}

const mediaOf = (context: EngineContext): MediaStores => ({
  uploads: new PgMediaStore(context, 'uploads', uploadRules),
  queued: new PgMediaStore(context, 'queued'),
})

interface PgSidePorts extends Pick<CopySide, 'place' | 'media'> {
  db: Pick<PgQueries, 'all' | 'one'>
  lock: PgConnection
  sealer: Sealer
  close(): Promise<void>
}

class PgSide extends RoomPart<PgSidePorts> implements CopySide {
  readonly place = this.ports.place
  readonly media = this.ports.media
  readonly open = this.ports.sealer.open

  async *read(table: StoreTable, after?: StoreRow): AsyncGenerator<StoreRow[]> {
    const { columns, key, name, owners, wide = [] } = table
    // Rows without a key are read by their place in the file, which nothing changes meanwhile.
    const order = key.length > 0 ? columnsOf(key) : constantSql('ctid')
    const rows = key.length > 0 ? columnsOf(columns) : sql`${columnsOf(columns)}, ctid`
    const read = constantSql(
      [...columns.map(column => `${owners?.[column] ?? `"${column}"`} AS "${column}"`), 'ctid'].join(', '),
    )
    const weight = constantSql(
      wide.length === 0 ? '0' : wide.map(column => `coalesce(octet_length("${column}"), 0)`).join(' + '),
    )
    for (let last = after; ; ) {
      const page = await this.ports.db.all<StoreRow & { ctid?: string; ids?: number[] }>(
        sql`SELECT ${rows} FROM (SELECT ${rows}, sum(weight) OVER (ORDER BY ${order}) - weight AS before FROM
          (SELECT ${read}, ${weight} AS weight FROM ${constantSql(name)} ${behind(key, last)}
           ORDER BY ${order} LIMIT ${pageRows}) part) page WHERE before < ${pageCharacters} ORDER BY ${order}`,
      )
      if (page.length === 0) return
      last = page.at(-1)
      yield page.map(({ ctid: _, ...row }) => fromRow(table, row))
    }
  }

  async readState(): Promise<CopiedState> {
    type Found = CopiedState['accounts'][number]
    const accounts =
      await this.ports.db.all<Found>(sql`SELECT name, bot_id, token, coalesce(cursor, '') AS cursor,
      coalesce(created_at, 0) AS created_at, coalesce(info, '{}') AS info, chosen FROM account
      WHERE bot_id IS NOT NULL`)
    return { accounts, damaged: [] }
  }

  async readNumbers(): Promise<ReadonlyMap<string, number>> {
    const numbers = new Map<string, number>()
    for (const { name, numbered } of copiedTables.filter(({ numbered }) => numbered !== undefined)) {
      const from =
        name === 'message'
          ? sql`SELECT last AS n FROM head`
          : sql`SELECT CASE WHEN is_called THEN last_value ELSE 0 END AS n FROM ${sequenceOf(name, numbered)}`
      numbers.set(name, (await this.ports.db.one<{ n: number }>(from)).n)
    }
    return numbers
  }

  async listUploads(): Promise<readonly string[]> {
    const found = await this.ports.db.all<{ id: string }>(
      sql`SELECT id FROM upload WHERE store = 'uploads' AND size IS NOT NULL ORDER BY id`,
    )
    return found.map(({ id }) => id)
  }

  /**
   * Changes who may open the store, durably. Uses the connection that has the lock: without it others may have come.
   *
   * @throws SvcError `store_unavailable`
   */
  async decide(statement: Sql): Promise<void> {
    try {
      await this.ports.lock.run(statement)
    } catch (error) {
      throw storeErrorOf(error)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.ports.lock.destroy()
    await this.ports.close()
  }
}

/** SQL that continues after the last row. */
function behind(key: readonly string[], last: StoreRow | undefined): Sql {
  if (last === undefined) return noSql
  if (key.length === 0) return sql`WHERE ctid > ${last.ctid}::tid`
  const values = joinSql(key.map(column => sql`${last[column]}`))
  return sql`WHERE (${columnsOf(key)}) > (${values})`
}

/** Returns a row as both engines understand it. */
const fromRow = ({ name }: StoreTable, row: StoreRow & { ids?: unknown }): StoreRow =>
  name === 'lease' ? { ...row, ids: JSON.stringify(row.ids) } : row
