/** Explains errors of the database to callers. */
import { SvcError } from '../../model/error.ts'
import type { Outage } from '../../platform/log.ts'
import {
  addressOf,
  isTlsFailure,
  PgConnectionError,
  type PgOptions,
  sqlStateOf,
} from '../../platform/postgres.ts'
import { PgUrlError } from '../../platform/postgres-url.ts'
import { noPlaceError } from '../events.ts'
import { endedKeyError } from '../keys.ts'
import { logEndErrorOf } from '../log-rows.ts'
import { erasedUserError } from '../people.ts'
import { endedKeyState, erasedState, noPlaceState } from './tables.ts'

export const connectionHint =
  'Check that PostgreSQL runs and can be reached; a running svc recovers by itself.'

/** What is wrong and what to do, by the SQLSTATE or the code of the system. The first that fits counts. */
const remedies: readonly (readonly [RegExp, string, string])[] = [
  [
    /^28P/,
    'the database rejects the user or the password',
    'Check the address of the store, its user and its password.',
  ],
  [
    /^28/,
    'the database does not let this user in from here',
    'Its log says why: pg_hba.conf has no line for it, wants TLS (sslmode=require) or a certificate (sslcert, sslkey), or the role may not log in.',
  ],
  [/^3D/, 'there is no such database', 'Create it, or correct the address of the store.'],
  [
    /^08P01/,
    'the database does not take the settings of svc',
    'A pooler such as PgBouncer is in between: give svc the address of PostgreSQL itself.',
  ],
  [/^53100/, 'the disk of the database is full', 'Free some space there; a running svc recovers by itself.'],
  [
    /^53300/,
    'the database has no connection left',
    'Raise max_connections, or the CONNECTION LIMIT of the role or the database, or stop other programs.',
  ],
  [/^53/, 'the database lacks memory or other resources', 'See its log.'],
  [/^25006/, 'the database is read-only', 'It may be a standby: give svc the address of the primary.'],
  [
    /^42704/,
    'the database does not know a setting of svc',
    'It is older than PostgreSQL 14, or no PostgreSQL: update it.',
  ],
  [/^42501/, 'the user has too few rights in the database', 'Let it own the database, or the schema svc.'],
  [
    /^55P03/,
    'a lock in the database was not free in time',
    'Try again. If it lasts, look for a session that hangs.',
  ],
  [/^55006/, 'the store is being copied, or was moved', 'Start svc again: it says where the store is.'],
  [/^55000/, 'the database accepts no connections', 'ALTER DATABASE … ALLOW_CONNECTIONS true lets svc in.'],
  [/^57014/, 'the database took too long', 'See what it is busy with; a running svc recovers by itself.'],
  [/^57/, 'the database is stopping or starting', connectionHint],
  [/^58/, 'the database reports an error of its disk', 'See its log.'],
  [/^XX/, 'the database reports damage', 'See its log, and restore a backup if needed.'],
  [
    /^(ENOTFOUND|EAI_)/,
    'the host of the database is not known',
    'Correct the host in the address of the store, or look at the DNS of this machine.',
  ],
  [
    /ALTNAME/,
    'the certificate of the database is not for this host',
    'Use the name that is in the certificate as the host, or sslmode=verify-ca with sslrootcert.',
  ],
  [/CERT_(HAS_EXPIRED|NOT_YET)/, 'the certificate of the database is not valid now', 'Renew it, or see NTP.'],
  [
    /CERT|SIGNATURE|ISSUER/,
    'the certificate of the database is not trusted',
    'Name the certificate of its authority in the address: sslrootcert=/path/ca.pem.',
  ],
]
const noTlsHint =
  'Turn on ssl in PostgreSQL, or say in the address that TLS is not needed: sslmode=prefer or sslmode=disable.'

/** Returns where a database is, without the user and the password. */
export function placeOf(url: PgOptions['url']): string {
  const { database, host, port } = addressOf(url)
  return `${host.includes(':') ? `[${host}]` : host}:${port}/${database}`
}

/**
 * Returns `store_unavailable` for an error of the connection or of the server's state. Any other error is a bug, or lost
 * against another writer, and is returned as it is.
 *
 * @param address names the database in the error. Omit it for callers of a service: they need not know where it is
 */
export function storeErrorOf(error: unknown, address?: string): unknown {
  const known = error instanceof SvcError ? error : logEndErrorOf(error)
  if (known) return known
  if (sqlStateOf(error) === erasedState) return erasedUserError(error)
  if (sqlStateOf(error) === endedKeyState) return endedKeyError()
  if (sqlStateOf(error) === noPlaceState) return noPlaceError(Number((error as { detail?: string }).detail))
  const named = (what: string) =>
    address === undefined ? what : what.replace('database', word => `${word} ${address}`)
  const state =
    sqlStateOf(error) ?? (error instanceof PgConnectionError ? (error as { code?: string }).code : undefined)
  if (error instanceof PgUrlError) return outage(error.message, error.hint, error)
  const remedy = state === undefined ? undefined : remedies.find(([states]) => states.test(state))
  if (remedy) return outage(`${named(remedy[1])} (${state})`, remedy[2], error, state)
  if (!(error instanceof PgConnectionError)) return error
  if (isTlsFailure(error)) return outage(`${named('the database')} offers no TLS`, noTlsHint, error)
  const why = state ?? (/time/i.test(error.message) ? 'it does not answer' : 'the connection ended')
  return outage(`${named('the database')} cannot be reached: ${why}`, connectionHint, error, state)
}

const outage = (what: string, hint: string, cause: unknown, state?: string): SvcError & Outage =>
  Object.assign(
    new SvcError('store_unavailable', what, { hint, cause, ...(state && { details: { state } }) }),
    { isOutage: true } as const,
  )
