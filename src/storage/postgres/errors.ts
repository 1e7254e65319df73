/** Explains errors of the database to callers. */
import { SvcError } from '../../model/error.ts'
import type { Outage } from '../../platform/log.ts'
import { PgConnectionError, type PgOptions, sqlStateOf } from '../../platform/postgres.ts'
import { erasedUserError } from '../people.ts'
import { erasedState } from './tables.ts'

export const connectionHint = 'Check that PostgreSQL runs and can be reached; svc recovers by itself.'

/** What to do, by the beginning of the SQLSTATE. The first that fits counts. */
const remedies: readonly (readonly [string, string, string])[] = [
  [
    '28',
    'the database rejects the user or the password',
    'Check the address of the store, its user and its password.',
  ],
  ['3D', 'there is no such database', 'Create it, or correct the address of the store.'],
  ['53100', 'the disk of the database is full', 'Free some space there; svc recovers by itself.'],
  ['53300', 'the database has no connection left', 'Raise max_connections, or stop other programs.'],
  ['53', 'the database lacks memory or other resources', 'See its log.'],
  ['25006', 'the database is read-only', 'It may be a standby: give svc the address of the primary.'],
  ['42501', 'the user has too few rights in the database', 'Let it own the database, or the schema svc.'],
  [
    '55P03',
    'a lock in the database was not free in time',
    'Try again. If it lasts, look for a session that hangs.',
  ],
  ['55006', 'the store is being copied, or was moved', 'Start svc again: it says where the store is.'],
  ['57014', 'the database took too long', 'See what it is busy with; svc recovers by itself.'],
  ['57', 'the database is stopping or starting', connectionHint],
  ['58', 'the database reports an error of its disk', 'See its log.'],
  ['XX', 'the database reports damage', 'See its log, and restore a backup if needed.'],
]

/** Returns where a database is, without the user and the password. */
export function addressOf(url: PgOptions['url']): string {
  const { host, pathname } = new URL(typeof url === 'string' ? url : url())
  return `${host}${pathname}`
}

/**
 * Returns `store_unavailable` for an error of the connection or of the server's state. Any other error is a bug, or lost
 * against another writer, and is returned as it is.
 *
 * @param address names the database in the error. Omit it for callers of a service: they need not know where it is
 */
export function storeErrorOf(error: unknown, address?: string): unknown {
  if (error instanceof SvcError) return error
  if (sqlStateOf(error) === erasedState) return erasedUserError(error)
  const named = (what: string) =>
    address === undefined ? what : what.replace('database', word => `${word} ${address}`)
  const state =
    sqlStateOf(error) ?? (error instanceof PgConnectionError ? (error as { code?: string }).code : undefined)
  const remedy = state === undefined ? undefined : remedies.find(([start]) => state.startsWith(start))
  if (remedy) return outage(`${named(remedy[1])} (${state})`, remedy[2], error)
  if (!(error instanceof PgConnectionError)) return error
  const why = state ?? (/time/i.test(error.message) ? 'it does not answer' : 'the connection ended')
  return outage(`${named('the database')} cannot be reached: ${why}`, connectionHint, error)
}

const outage = (what: string, hint: string, cause: unknown): SvcError & Outage =>
  Object.assign(new SvcError('store_unavailable', what, { hint, cause }), { isOutage: true } as const)
