/** What stands still in a copy of a store: the original may have gone on. */
import { SvcError } from '../../model/error.ts'
import { constantSql, type Sql, sql } from '../../platform/sql.ts'
import { askLifeMs } from '../outbox-limits.ts'
import { type NounContext, type Routine, readAll, readFirst, write } from '../routine.ts'
import { noneMissed } from '../rules/notices.ts'
import { askAgain } from '../rules/outbox-ends.ts'
import {
  cursorColumns,
  rejectForeignNames,
  type StoreRow,
  type StoreTable,
  storeTables,
} from '../table-list.ts'
import { createKeys } from './keys.ts'

export interface StandingStill {
  /** Sends that wait for a person's approval. */
  sends: number
  /** Webhooks that are paused. */
  webhooks: number
  /** Keys that were revoked. */
  keys: number
  /** Topics that have no secret any more, and fetch nothing from private networks. */
  topics: number
}

/** What a line of the audit log says of it, in the words of `--json`. */
export const describeStill = ({ keys, sends, topics, webhooks }: StandingStill): string =>
  `waiting_sends=${sends} paused_webhooks=${webhooks} revoked_keys=${keys} closed_topics=${topics}`

/** @throws SvcError `invalid_arguments` for a row that names a file as svc does not */
export function* rejectForeignRows(engine: StoreTable['only']): Routine<void> {
  for (const table of storeTables) {
    const { files, key, name, only = engine } = table
    if (files === undefined || only !== engine) continue
    const columns = [...new Set([...key.slice(0, 1), ...Object.keys(files)])].map(column => `"${column}"`)
    const rows = yield* readAll<StoreRow>(
      sql`SELECT ${constantSql(columns.join())} FROM ${constantSql(name)}`,
    )
    for (const row of rows) rejectForeignNames(table, row)
  }
}

/**
 * Lets queued sends wait for a person's approval, pauses webhooks, revokes keys and removes topics' secrets. What was under way in processes of the
 * original has ended before.
 *
 * @param storeId the table and the column with the id of the store
 * @param keepKeys whether keys and topics' secrets stay valid
 */
export function* standStill(
  context: NounContext,
  storeId: readonly [table: string, column: string],
  keepKeys: boolean,
): Routine<Omit<StandingStill, 'sends'>> {
  const { changeEntries, clock } = context
  const [table, column] = storeId.map(constantSql) as [Sql, Sql]
  const { was } = (yield* readFirst<{ was: string }>(sql`SELECT ${column} AS was FROM ${table}`))!
  const id = crypto.randomUUID().slice(-10)
  const asks = yield* changeEntries(
    sql`e.mode = 'queue' AND e.ended_at IS NULL AND e.asked IS NULL`,
    (found, plan) => askAgain(found, clock.now() + askLifeMs, plan),
  )
  const paused = yield* write(
    ...asks,
    sql`UPDATE agent_turn SET status = 'interrupted', error = 'restored from a backup'
      WHERE status IN ('waiting', 'running', 'answering')`,
    sql`UPDATE agent_time SET due_at = NULL`,
    sql`UPDATE invitation SET revoked_at = ${clock.now()} WHERE revoked_at IS NULL`,
    // The original has sent it since, or will.
    sql`DELETE FROM login_flow`,
    sql`DELETE FROM sign_in_link`,
    sql`DELETE FROM notice`,
    sql`DELETE FROM bulletin`,
    sql`UPDATE topic_member SET missed = ${JSON.stringify(noneMissed)}, revision = revision + 1`,
    sql`DELETE FROM backup`,
    sql`DELETE FROM backup_failure`,
    // A cursor of later events of the original must not be taken for a position here.
    sql`UPDATE ${table} SET ${column} = ${id}`,
    ...cursorColumns.map(([name, cursorName]) => {
      const cursor = constantSql(cursorName)
      return sql`UPDATE ${constantSql(name)} SET ${cursor} = ${id} || substr(${cursor}, CAST(${was.length + 1} AS integer))
        WHERE ${cursor} LIKE ${`${was}-%`}`
    }),
    sql`UPDATE webhook SET paused = 1, deliverer = NULL WHERE disabled IS NULL RETURNING id`,
  )
  // A sender that knows the secret needs no key.
  const isOpen = sql`(secret IS NOT NULL OR attach_private <> 0)`
  const closed = keepKeys
    ? []
    : yield* write(
        sql`UPDATE topic SET secret = NULL, attach_private = 0, revision = revision + 1 WHERE ${isOpen} RETURNING id`,
      )
  const { list, revoke } = createKeys(context).verbs
  const valid = keepKeys ? [] : (yield* list()).filter(({ revoked_at }) => revoked_at === undefined)
  let keys = 0
  for (const key of valid) keys += (yield* revoke(key.id, clock.now())).length
  const left = (yield* readFirst<StandingStill>(sql`SELECT
    (SELECT count(*) FROM outbox WHERE mode = 'queue' AND ended_at IS NULL AND asked IS NULL) AS sends,
    (SELECT count(*) FROM webhook WHERE paused = 0 AND disabled IS NULL) AS webhooks,
    (SELECT count(*) FROM access_key WHERE revoked_at IS NULL) AS keys,
    (SELECT count(*) FROM topic WHERE ${isOpen}) AS topics`))!
  if (left.sends + left.webhooks + (keepKeys ? 0 : left.keys + left.topics) > 0) throw notStillError(left)
  return { webhooks: paused.length, keys, topics: closed.length }
}

const notStillError = (details: StandingStill) =>
  new SvcError('store_unavailable', 'something in the store undoes changes: it does not stand still', {
    details: { ...details },
    hint: 'Use a copy from before.',
  })
