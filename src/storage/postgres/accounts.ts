/** The rows of `account`: the credentials of sessions, and what tells readers of a session that is gone. */
import { SvcError } from '../../model/error.ts'
import type { BotInfo } from '../../model/session.ts'
import type { Sealer } from '../../platform/sealing.ts'
import { constantSql, type Sql, type SqlParameter, sql } from '../../platform/sql.ts'
import { mapToken } from '../sealed-places.ts'
import type { SessionRecord } from '../state.ts'

/** A row without `bot_id` is of a session that was removed, at `created_at`; `changed` is the revision of the removal. */
export interface AccountRow {
  name_key: string
  name: string
  bot_id?: string
  token?: string
  info?: string
  cursor?: string
  created_at?: number
  chosen: boolean
  changed: number
  /** Changes with each write of the row. */
  version: string
}

export const accountColumns: Sql = constantSql(
  'name_key, name, bot_id, token, info, cursor, created_at, chosen, changed, xmin::text AS version',
)

/** Columns of `account` that hold the credentials. */
type Credentials = Required<Pick<AccountRow, 'bot_id' | 'token' | 'info' | 'cursor' | 'created_at'>>

export function credentialsOf(bot: BotInfo, { seal }: Sealer): Credentials {
  const { bot_id, token, cursor, created_at, ...info } = bot
  const sealed = mapToken({ bot_id, token }, seal) as Pick<Credentials, 'bot_id' | 'token'>
  return { ...sealed, info: JSON.stringify(info), cursor, created_at }
}

/** SQL that sets the columns of the credentials; undefined: the row becomes one of a session that is gone. */
export const setCredentials = (given: Credentials | undefined): Sql => {
  const to = (column: keyof Credentials): SqlParameter => given?.[column]
  return sql`bot_id = ${to('bot_id')}, token = ${to('token')}, info = ${to('info')}, cursor = ${to('cursor')},
    created_at = ${given ? to('created_at') : sql`now_ms()`}`
}

/**
 * Returns the credentials of a row; undefined if it is no session.
 *
 * @throws SvcError `store_unavailable` for a token that cannot be opened
 */
export function botOf(row: AccountRow | undefined, { open }: Sealer): BotInfo | undefined {
  if (row?.bot_id === undefined) return undefined
  const { bot_id, token, cursor = '', created_at = 0 } = row
  const info = JSON.parse(row.info ?? '{}') as Omit<BotInfo, keyof Credentials>
  return { ...info, ...mapToken({ bot_id, token }, open), cursor, created_at } as BotInfo
}

/** Returns the session of a row; undefined if it is none. */
export function recordOf(row: AccountRow | undefined, sealer: Sealer): SessionRecord | undefined {
  try {
    const bot = botOf(row, sealer)
    return row && bot && { name: row.name, bot }
  } catch (error) {
    // It affects this session only.
    if (row && error instanceof SvcError) return { name: row.name, unreadable: error }
    throw error
  }
}
