/** Rows as a table has them, for tests that store them by SQL. */
import { constantSql, joinSql, type Sql, sql } from '../../src/platform/sql.ts'

export type Values = Readonly<Record<string, string | number | boolean>>

export const insertRow = (table: string, values: Values): Sql =>
  sql`INSERT INTO ${constantSql(table)} (${joinSql(Object.keys(values).map(name => constantSql(`"${name}"`)))})
    VALUES (${joinSql(Object.values(values).map(value => sql`${value}`))})`

/** A session that nothing refers to. @param isPostgres it has one column more there */
export const session = (key: number, name: string, unused_since: number, isPostgres: boolean): Values => ({
  ...{ key, name, unused_since },
  ...(isPostgres && { name_key: name }),
})
export const turn = (id: number, status: string, ended_at: number) => ({
  ...{ id, conversation: 1, status, source: 'message', messages: '[]', created_at: ended_at, ended_at },
})
export const question = (id: number, expires_at: number) => ({
  ...{ id, text: '', options: '[]', code: 'K', asked_at: expires_at, expires_at },
})
export const entry = (id: number, ended_at: number) => ({
  ...{ id, lane: 1, created_at: ended_at, expires_at: ended_at, mode: 'queue', ended_at },
})
export const part = (id: number, of: number) => ({
  ...{ id, entry: of, lane: 1, kind: 'text', msg_type: 'TEXT', status: 'accepted', text: '', raw: '' },
})
export const notice = (id: number, state: string, expires_at: number) => ({
  ...{
    id,
    member: 1,
    peer: 'u',
    mark: `t${id}`,
    sender: '',
    name: '',
    text: '',
    priority: 3,
    size: 0,
    count: 1,
  },
  ...{ reported: 1, received_at: 1, last_at: 1, expires_at, state, resolved: 0, said: '', raised: 0 },
})
export const bulletin = (id: string, created_at: number) => ({
  ...{ id, session: 1, peer: 'u', text: '', media: '[]', answers: 1, priority: 3, missed: '{}', names: '{}' },
  ...{ state: 'sent', created_at },
})
export const key = (id: string, revoked_at: number, revision: number) => ({
  ...{
    id,
    name: id,
    hash: id,
    grant: '{}',
    can: '[]',
    made_by: 'owner',
    created_at: 1,
    revoked_at,
    revision,
  },
})
export const invitation = (id: string, expires_at: number) => ({
  ...{ id, name: id, hash: id, trusted: 0, turns_per_day: 1, max_uses: 1, made_by: 'owner', created_at: 1 },
  expires_at,
})
