/**
 * Changes the secret key of a store while nodes use it, in steps that can be repeated after a kill:
 * 1. The new key becomes the one that seals, if every living process has both. No process joins meanwhile.
 * 2. Every process says that it seals with it, and what it began before has ended.
 * 3. Values are sealed with it, until none is left under the old key. Until then no process may use the store without it.
 */
import { SvcError } from '../../model/error.ts'
import type { Clock } from '../../platform/clock.ts'
import { silentLog } from '../../platform/log.ts'
import type { PgConnection, PgOptions } from '../../platform/postgres.ts'
import { createKeyRing, sealedWith } from '../../platform/sealing.ts'
import { constantSql, joinSql, type Sql, sql } from '../../platform/sql.ts'
import {
  type LoginAsWritten,
  mapContextToken,
  mapLogin,
  mapRaw,
  mapToken,
  mapWebhook,
  type SecretChange,
  webhookSecrets,
} from '../sealed-places.ts'
import { answerMs, PgDatabase } from './database.ts'
import { storeErrorOf } from './errors.ts'
import { type KeyState, migrate } from './migrate.ts'

export interface RotateOptions {
  url: PgOptions['url']
  oldSecret: string
  newSecret: string
  clock: Clock
  /** Called when a step begins. */
  onStep?: (step: 'waiting' | 'sealing') => void
}

type Texts = Record<string, string>

/** A table with secrets. */
interface SecretTable {
  name: string
  /** Its key, and the type of that. */
  key: string
  type: 'bigint' | 'text'
  /** What `map` needs besides. */
  columns: readonly string[]
  secrets: readonly string[]
  map(row: Texts, change: SecretChange): object
}

const secretTables: readonly SecretTable[] = [
  {
    name: 'account',
    key: 'name_key',
    type: 'text',
    columns: ['bot_id'],
    secrets: ['token'],
    map: ({ bot_id, token }, change) => mapToken({ bot_id, token }, change),
  },
  {
    name: 'outbox_lane',
    key: 'id',
    type: 'bigint',
    columns: ['peer'],
    secrets: ['token'],
    map: ({ peer = '', token = '' }, change) => ({ token: mapContextToken(token, peer, change) }),
  },
  {
    name: 'webhook',
    key: 'id',
    type: 'text',
    columns: [],
    secrets: webhookSecrets,
    map: ({ id = '', headers = '', link_key = '', secrets = '' }, change) =>
      mapWebhook({ headers, link_key, secrets }, id, change),
  },
  {
    name: 'login_flow',
    key: 'name_key',
    type: 'text',
    columns: [],
    secrets: ['data'],
    map: ({ data = '' }, change) => ({
      data: JSON.stringify(mapLogin(JSON.parse(data) as LoginAsWritten, change)),
    }),
  },
  {
    name: 'message',
    key: 'id',
    type: 'bigint',
    columns: ['message_id'],
    secrets: ['raw'],
    map: ({ message_id = '', raw = '' }, change) => ({ raw: mapRaw(raw, message_id, change) }),
  },
]

/** Rows that are read and written at once. */
const stepRows = 200
/** Longest wait for an answer: a table is read whole. */
const patienceMs = 10 * 60_000
const askEveryMs = 250

/**
 * @returns the ids of the keys, and the number of values that were changed
 * @throws SvcError `store_unavailable`, also if a process lacks a key: it is named, and nothing was changed
 */
export async function rotateKey(
  options: RotateOptions,
): Promise<{ old_key_id: string; key_id: string; values: number }> {
  const { clock, newSecret, oldSecret, url } = options
  const [from, to] = [createKeyRing(oldSecret).keyId, createKeyRing(newSecret).keyId]
  const keys = createKeyRing(oldSecret, newSecret)
  const db = new PgDatabase({ url, clock, log: silentLog, node: crypto.randomUUID() })
  let connection: PgConnection | undefined
  try {
    await migrate(db, { log: silentLog, keys })
    connection = await db.connect(patienceMs)
    await choose(connection, from, to)
    options.onStep?.('waiting')
    const late = sql`SELECT FROM node WHERE lease_until > clock_timestamp() AND keys[1] <> ${to} LIMIT 1`
    while (await connection.get(late)) await clock.sleep(askEveryMs)
    // A write that was begun before has ended by then.
    await clock.sleep(answerMs)
    options.onStep?.('sealing')
    keys.sealWith(to)
    const change: SecretChange = (value, place) =>
      sealedWith(value) === from ? keys.seal(keys.open(value, place), place) : value
    let values = 0
    do for (const table of secretTables) values += await resealTable(connection, table, from, change)
    while (!(await finish(connection, from)))
    return { old_key_id: from, key_id: to, values }
  } catch (error) {
    throw storeErrorOf(error, db.address)
  } finally {
    connection?.destroy()
    await db.close()
  }
}

/** Makes the new key the one that seals. @throws SvcError that names the processes which lack a key */
async function choose(connection: PgConnection, from: string, to: string): Promise<void> {
  const lacking = sql`SELECT name FROM node
    WHERE lease_until > clock_timestamp() AND NOT keys @> ARRAY[${from}, ${to}]::text[]`
  const [, found, , [state]] = (await connection.script([
    // Who joins waits, and then reads which keys it must have.
    sql`LOCK TABLE node IN SHARE ROW EXCLUSIVE MODE`,
    sql`${lacking} ORDER BY name`,
    sql`UPDATE meta SET secret_key = ${to}, old_key = ${from} WHERE secret_key = ${from} AND NOT EXISTS (${lacking})`,
    sql`SELECT secret_key, old_key FROM meta`,
  ])) as [unknown, { name: string }[], unknown, [KeyState]]
  if (state.secret_key === to) return
  const names = found.map(({ name }) => name).join(', ')
  throw new SvcError('store_unavailable', `not every process on the store has both keys: ${names}`, {
    hint: 'Give all of them the new key with --new-key-file beside the old one, then run the same command again. A process that was killed counts for a few seconds more.',
  })
}

const isUnder = (columns: readonly string[], key: string): Sql =>
  constantSql(columns.map(column => `${column} LIKE '%svc-sealed:${key}:%'`).join(' OR '))

/** Seals the values of a table with the new key, except in rows that somebody changes meanwhile. @returns the number of values */
async function resealTable(
  connection: PgConnection,
  { columns, key, map, name, secrets, type }: SecretTable,
  from: string,
  change: SecretChange,
): Promise<number> {
  const [table, id, ids] = [constantSql(name), constantSql(key), constantSql(`${type}[]`)]
  const read = constantSql([key, ...columns, ...secrets].join(', '))
  let [count, isAfter] = [0, constantSql('true')]
  for (;;) {
    const rows = await connection.all<Texts>(sql`SELECT ${read} FROM ${table}
      WHERE ${isAfter} AND (${isUnder(secrets, from)}) ORDER BY ${id} LIMIT ${stepRows}`)
    const last = rows.at(-1)
    if (!last) return count
    isAfter = sql`${id} > ${last[key]}`
    const changed = rows.map(row => map(row, change) as Texts)
    for (const secret of secrets) {
      const cell = constantSql(secret)
      const [keys, before, after] = [
        rows.map(row => row[key]!),
        rows.map(row => row[secret]!),
        changed.map(row => row[secret]!),
      ]
      count += await connection.run(sql`UPDATE ${table} t SET ${cell} = v.after
        FROM unnest(${keys}::${ids}, ${before}::text[], ${after}::text[]) v (key, before, after)
        WHERE t.${id} = v.key AND t.${cell} = v.before AND v.before <> v.after`)
    }
  }
}

/** Forgets the old key if nothing is sealed with it: one statement sees all tables at one moment. */
async function finish(connection: PgConnection, from: string): Promise<boolean> {
  const left = joinSql(
    secretTables.map(
      ({ name, secrets }) => sql`EXISTS (SELECT FROM ${constantSql(name)} WHERE ${isUnder(secrets, from)})`,
    ),
    ' OR ',
  )
  await connection.run(sql`UPDATE meta SET old_key = NULL WHERE old_key = ${from} AND NOT (${left})`)
  return (await connection.one<{ left: boolean }>(sql`SELECT (${left}) AS left`)).left === false
}
