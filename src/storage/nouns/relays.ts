/** Programs that speak WeChat's protocol to svc. */
import { toRelayAnswers } from '../../model/relay.ts'
import { type Sql, sql } from '../../platform/sql.ts'
import type { RelayClient, RelayLogin, RelayStore } from '../relays.ts'
import { changes, type Noun, type NounContext, type Routine, readAll, readFirst, write } from '../routine.ts'
import type { LogSql } from './events.ts'
import { refuseRevoked } from './keys.ts'
import { relayLoginKey } from './logins.ts'

/** `KeyStore.revoke` removes the consumers whose names begin so. */
const consumerOf = (key: string): string => `${key}/relay`

/** SQL for the number of messages that a client `r` has sent to a user since that user last wrote. */
const answersTo = (
  user: Sql,
) => sql`(SELECT count(*) FROM message m WHERE m.session = r.session AND m.peer = ${user}
  AND m.id > coalesce((SELECT max(n.id) FROM message n WHERE n.session = r.session AND n.peer = ${user} AND n.sent = 0), 0)
  AND m.sent = 1 AND m.status <> 'refused' AND m.sent_by || ' ' LIKE 'key:' || r.key || ' %')`

type Row = Omit<RelayClient, 'answers' | 'consumer'> & { answers: string; answered?: number }

export const createRelays = (
  { clock, dialect, ensureSession }: NounContext,
  { lastRow }: Pick<LogSql, 'lastRow'>,
): Noun<RelayStore> => {
  function* read(more: Sql, where: Sql): Routine<(RelayClient & Pick<Row, 'answered'>)[]> {
    const rows =
      yield* readAll<Row>(sql`SELECT r.key, k.name, s.name AS session, r.answers, r.created_at, r.polled_at,
      r.source, r.doubled_at, r.refused, r.refused_at, r.refusal${more}
      FROM relay_client r JOIN access_key k ON k.id = r.key JOIN session s ON s.key = r.session
      WHERE k.revoked_at IS NULL AND ${where} ORDER BY k.nth`)
    return rows.map(({ answers, ...row }) => ({
      ...row,
      consumer: consumerOf(row.key),
      answers: toRelayAnswers(answers),
    }))
  }
  return {
    verbs: {
      *add({ answers, created_at, key, session }) {
        const held = yield* refuseRevoked(dialect, `key:${key}`)
        yield* write(
          ...held,
          sql`INSERT INTO relay_client (key, session, answers, created_at)
            VALUES (${key}, ${yield* ensureSession(session)}, ${String(answers)}, ${created_at})`,
          sql`INSERT INTO consumer (name, position, seen_at) VALUES (${consumerOf(key)}, ${lastRow}, ${clock.now()})`,
        )
      },

      *list() {
        const wroteLast = sql`(SELECT peer FROM message WHERE session = r.session AND sent = 0 ORDER BY id DESC LIMIT 1)`
        const clients = yield* read(sql`, ${answersTo(wroteLast)} AS answered`, sql`true`)
        return clients.map(({ answered = 0, ...client }) => ({ ...client, answered }))
      },

      *get(key) {
        return (yield* read(sql``, sql`r.key = ${key}`))[0]
      },

      *countAnswers(key, user) {
        const count = sql`SELECT ${answersTo(sql`${user}`)} AS n FROM relay_client r WHERE r.key = ${key}`
        return Number((yield* readFirst<{ n: number }>(count))?.n ?? 0)
      },

      *note(key, { doubled_at, polled_at, refusal, source }) {
        yield* write(sql`UPDATE relay_client SET polled_at = coalesce(${polled_at}, polled_at),
          source = coalesce(${source}, source), doubled_at = coalesce(${doubled_at}, doubled_at),
          refused = refused + ${refusal === undefined ? 0 : 1},
          refused_at = coalesce(${refusal && clock.now()}, refused_at), refusal = coalesce(${refusal}, refusal)
          WHERE key = ${key}`)
      },

      *readLogin() {
        const stored = sql`SELECT version, data FROM login_flow WHERE name_key = ${relayLoginKey}`
        const row = yield* readFirst<{ version: string; data: string }>(stored)
        return row && { ...(JSON.parse(row.data) as RelayLogin), version: row.version }
      },

      *writeLogin({ version, ...login }) {
        const set = sql`${login.key}, ${crypto.randomUUID()}, ${login.until}, ${JSON.stringify(login)}`
        return yield* changes(
          version === ''
            ? sql`INSERT INTO login_flow (name_key, ended, id, version, until, data)
                VALUES (${relayLoginKey}, 1, ${set}) ON CONFLICT (name_key) DO NOTHING RETURNING id`
            : sql`UPDATE login_flow SET (id, version, until, data) = (${set})
                WHERE name_key = ${relayLoginKey} AND version = ${version} RETURNING id`,
        )
      },
    },
    modes: {
      add: 'write',
      list: 'plain',
      get: 'plain',
      countAnswers: 'plain',
      note: 'relaxed',
      readLogin: 'plain',
      writeLogin: 'light',
    },
  }
}
