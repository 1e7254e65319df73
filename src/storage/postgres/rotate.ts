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
import { constantSql, sql } from '../../platform/sql.ts'
import type { NewAuditLine } from '../audit.ts'
import type { SecretChange } from '../sealed-places.ts'
import { changeSecrets, type StoreTable, storeTables } from '../table-list.ts'
import { answerMs, PgDatabase } from './database.ts'
import { storeErrorOf } from './errors.ts'
import { type KeyState, migrate } from './migrate.ts'
import { addAuditLine } from './routines.ts'

export interface RotateOptions {
  url: PgOptions['url']
  oldSecret: string
  newSecret: string
  clock: Clock
  /** Line of the audit log, without a subject. */
  line?: NewAuditLine
}

const tables = storeTables.filter(({ only, secrets }) => secrets && only !== 'sqlite')
/** Tables that are not numbered, with the column that is their key. */
const textKeys: Readonly<Record<string, string>> = {
  access_key: 'id',
  account: 'name_key',
  login_flow: 'name_key',
  webhook: 'id',
}

/** Rows that are read and written at once. */
const stepRows = 200
/** Longest wait for an answer: a table is read whole. */
const patienceMs = 10 * 60_000
const askEveryMs = 250

/**
 * @returns the ids of the keys, and the number of values that were changed
 * @throws SvcError `store_unavailable`, also if a process lacks a key: it is named, and nothing was changed
 */
export async function rotateKey({
  clock,
  line,
  newSecret,
  oldSecret,
  url,
}: RotateOptions): Promise<{ old_key_id: string; key_id: string; values: number }> {
  const [from, to] = [createKeyRing(oldSecret).keyId, createKeyRing(newSecret).keyId]
  const keys = createKeyRing(oldSecret, newSecret)
  const db = new PgDatabase({ url, clock, log: silentLog, node: crypto.randomUUID() })
  let connection: PgConnection | undefined
  try {
    await migrate(db, { log: silentLog, keys })
    connection = await db.connect(patienceMs)
    await choose(connection, from, to)
    const late = sql`SELECT FROM node WHERE lease_until > clock_timestamp() AND keys[1] <> ${to} LIMIT 1`
    while (await connection.get(late)) await clock.sleep(askEveryMs)
    // A write that was begun before has ended by then.
    await clock.sleep(answerMs)
    keys.sealWith(to)
    const change: SecretChange = (value, place) =>
      sealedWith(value) === from ? keys.seal(keys.open(value, place), place) : value
    let values = 0
    for (let found = -1; found !== 0; values += found) {
      found = 0
      for (const table of tables) found += await resealTable(connection, table, from, change)
    }
    const changed = await connection.run(sql`UPDATE meta SET old_key = NULL WHERE old_key = ${from}`)
    if (line && changed > 0) await addAuditLine(db, { ...line, subject: to })
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
  const nodes = found.map(({ name }) => name)
  throw new SvcError(
    'store_unavailable',
    `not every process on the store has both keys: ${nodes.join(', ')}`,
    {
      details: { nodes },
      hint: 'Give all of them the new key with --new-secret-key-file beside the old one, then run the same command again. A process that was killed counts for a few seconds more.',
    },
  )
}

/**
 * Seals the values of a table with the new key, except in rows that somebody changes meanwhile.
 *
 * @returns the number of values that it found under the old key
 */
async function resealTable(
  connection: PgConnection,
  secretTable: StoreTable,
  from: string,
  change: SecretChange,
): Promise<number> {
  const { name, secrets } = secretTable
  const key = textKeys[name] ?? 'id'
  const [table, id, ids] = [
    constantSql(name),
    constantSql(key),
    constantSql(name in textKeys ? 'text[]' : 'bigint[]'),
  ]
  // Contexts are columns of their own here.
  const columns = Object.keys(secrets!.columns).filter(column => column !== 'context')
  const read = constantSql([...new Set([key, secrets!.by, ...columns])].join(', '))
  // A text that only looks like a value may be among them.
  const isOld = columns.map(column => `${column} LIKE '%svc-sealed:${from}:%'`).join(' OR ')
  let [count, isAfter] = [0, constantSql('true')]
  for (;;) {
    const rows = await connection.all<Record<string, string | undefined>>(sql`SELECT ${read} FROM ${table}
      WHERE ${isAfter} AND (${constantSql(isOld)}) ORDER BY ${id} LIMIT ${stepRows}`)
    const last = rows.at(-1)
    if (!last) return count
    isAfter = sql`${id} > ${last[key]}`
    for (const column of columns) {
      const changes = rows.flatMap(row => {
        const [before, after] = [row[column], changeSecrets(secretTable, row, change)[column]]
        return before === undefined || after === undefined || after === before
          ? []
          : [{ at: row[key]!, before, after }]
      })
      const of = (name: keyof (typeof changes)[number]) => changes.map(one => one[name])
      count += changes.length
      await connection.run(sql`UPDATE ${table} t SET ${constantSql(column)} = v.after
        FROM unnest(${of('at')}::${ids}, ${of('before')}::text[], ${of('after')}::text[]) v (at, before, after)
        WHERE t.${id} = v.at AND t.${constantSql(column)} = v.before`)
    }
  }
}
