/** QR logins: the table `login_flow`. Any process can report on a login, and one at a time asks WeChat about it. */
import { isSvcError } from '../../model/error.ts'
import { normalizeSessionName, sessionKeyOf } from '../../model/session.ts'
import { waitForAbort } from '../../platform/signals.ts'
import { constantSql, type Sql, sql } from '../../platform/sql.ts'
import type { LoginKey, LoginStore, StoredLogin } from '../logins.ts'
import {
  type ClaimRow,
  changes,
  mayTake,
  type Noun,
  type NounContext,
  openNoun,
  type Routine,
  type Runner,
  readAll,
  readFirst,
  write,
} from '../routine.ts'
import { mapLoginCode } from '../sealed-places.ts'

/** Longer than a poll of upstream takes. */
const leaseMs = 60_000
/** Expired logins are removed later: the clock of another process may be behind. */
const removeAfterMs = 60 * 60_000

type Versions = ReadonlyMap<string, string>

interface LoginRows extends Omit<LoginStore, 'finish' | 'wait'> {
  /** Reads the versions of the logins with these keys. */
  readVersions(keys: readonly string[]): Promise<Versions>
}

/** Returns the key of the login of a session. */
export const loginKeyOf = (session: string): string => sessionKeyOf(normalizeSessionName(session))

/** The row for a program of the relay that logs in by itself: no session has such a name. */
export const relayLoginKey = '/relay'

const columns = constantSql('id, version, until, ended, qr, data')

/** Returns the statement that puts a login in place of the version that it has, and returns a row if it did. */
export function planPut(
  { sealer }: Pick<NounContext, 'sealer'>,
  given: StoredLogin,
  now: number,
): { stored: StoredLogin; statement: Sql } {
  const stored = { ...given, version: crypto.randomUUID() }
  const { ended, id, qr, until, version, ...data } = stored
  const key = loginKeyOf(given.session)
  const code = qr && mapLoginCode(JSON.stringify(qr), id, sealer.seal)
  const values = sql`${id}, ${version}, ${until}, ${Number(ended)}, ${code}, ${JSON.stringify(data)}`
  // The right to ask about a login belongs to that login alone.
  const set = sql`(${columns}) = (${values}), owner = CASE WHEN f.id = ${id} THEN f.owner END`
  const statement =
    given.version === ''
      ? sql`INSERT INTO login_flow AS f (name_key, ${columns}) VALUES (${key}, ${values})
          ON CONFLICT (name_key) DO UPDATE SET ${set} WHERE f.until <= ${now} RETURNING id`
      : sql`UPDATE login_flow AS f SET ${set}
          WHERE name_key = ${key} AND version = ${given.version} AND until > ${now} RETURNING id`
  return { stored, statement }
}

const createRows = (context: NounContext): Noun<LoginRows> => {
  const { claims, clock, dialect, sealer } = context

  function* select(condition: Sql): Routine<StoredLogin[]> {
    const rows = yield* readAll<
      Pick<StoredLogin, 'id' | 'version' | 'until'> & { ended: number; qr?: string; data: string }
    >(sql`SELECT ${columns} FROM login_flow WHERE ${condition}`)
    return rows.map(({ data, ended, qr, ...row }) => ({
      ...(JSON.parse(data) as StoredLogin),
      ...row,
      ended: ended === 1,
      ...(qr !== undefined && { qr: JSON.parse(mapLoginCode(qr, row.id, sealer.open)) }),
    }))
  }

  const isOf = ({ id, session }: LoginKey) => sql`name_key = ${loginKeyOf(session)} AND id = ${id}`

  return {
    verbs: {
      listRunning: now => select(sql`ended = 0 AND until > ${now}`),

      list: now => select(sql`until > ${now} AND name_key <> ${relayLoginKey}`),

      *get(session, now) {
        return (yield* select(sql`name_key = ${loginKeyOf(session)} AND until > ${now}`))[0]
      },

      *put(login, now) {
        const { statement, stored } = planPut(context, login, now)
        if (login.version === '')
          yield* write(sql`DELETE FROM login_flow WHERE ended IN (0, 1) AND until <= ${now - removeAfterMs}`)
        return (yield* changes(statement)) ? stored : undefined
      },

      *claim(login) {
        const row = yield* readFirst<ClaimRow>(sql`SELECT owner, lease_until, ${claims.dead('f')} AS dead
          FROM login_flow f WHERE ${isOf(login)}`)
        if (!row || !mayTake(context, row, leaseMs)) return false
        return yield* changes(sql`UPDATE login_flow
          SET owner = ${claims.owner}, lease_until = ${clock.now() + leaseMs} WHERE ${isOf(login)}
            AND owner IS NOT DISTINCT FROM ${row.owner} AND lease_until = ${row.lease_until} RETURNING id`)
      },

      *release(login) {
        yield* write(sql`UPDATE login_flow SET owner = NULL, lease_until = 0
          WHERE ${isOf(login)} AND owner = ${claims.owner}`)
      },

      *readVersions(keys) {
        const rows = yield* readAll<{ key: string; version: string }>(sql`SELECT name_key AS key, version
          FROM login_flow WHERE ${dialect.isOneOf(sql`name_key`, keys)}`)
        return new Map(rows.map(({ key, version }) => [key, version]))
      },
    },
    modes: {
      listRunning: 'plain',
      list: 'plain',
      get: 'plain',
      put: 'touch',
      claim: 'light',
      release: 'relaxed',
      readVersions: 'plain',
    },
  }
}

/** @param nextChange resolves when something was stored, in any process, or after some time */
export function openLogins(
  context: NounContext,
  run: Runner,
  nextChange: () => Promise<void>,
): Omit<LoginStore, 'finish'> {
  const { readVersions, ...rows } = openNoun(createRows(context), run)
  /** All waits share these: each message may end `nextChange`. */
  let change: Promise<void> | undefined
  let asked: { keys: string[]; versions: Promise<Versions> } | undefined

  const readAsked = async () => {
    await new Promise(resolve => setTimeout(resolve))
    const keys = asked?.keys ?? []
    asked = undefined
    return readVersions(keys)
  }
  /** Reads the versions that all waits ask for at the same time at once. */
  const readVersion = async (key: string): Promise<string | undefined> => {
    asked ??= { keys: [], versions: readAsked() }
    asked.keys.push(key)
    return (await asked.versions).get(key)
  }

  return {
    ...rows,
    async wait({ session, version }, signal) {
      const key = loginKeyOf(session)
      const aborted = waitForAbort(signal)
      while (!signal.aborted) {
        // Before the version is read: a write after that ends this wait.
        change ??= nextChange().finally(() => {
          change = undefined
        })
        // While the store fails, nothing has changed as far as this process knows.
        const kept = await readVersion(key).catch(error =>
          isSvcError(error, 'shutting_down') ? undefined : version,
        )
        if (kept !== version) return
        await Promise.race([change, aborted])
      }
    },
  }
}
