/**
 * The address of a database. A setting of libpq means here what it means there. One that svc does not follow is refused by
 * its name, since it may be what protects the connection.
 */
import { readFileSync } from 'node:fs'
import type { ConnectionOptions } from 'node:tls'

/** What is wrong with an address, without what is secret in it. */
export class PgUrlError extends Error {
  readonly hint: string

  constructor(problem: string, hint: string) {
    super(problem)
    this.hint = hint
  }
}

export interface PgAddress {
  /** A folder with a socket begins with `/`. */
  host: string
  port: number
  /** Without them the driver looks where libpq does: `PGUSER`, `PGPASSWORD`, `~/.pgpass`. */
  user?: string
  password?: string
  database: string
  /**
   * Returns the ways to encrypt the connection, in the order in which they are tried. Reads the files of certificates.
   *
   * @throws PgUrlError
   */
  encryptions(): Encryption[]
}

/** False: none. */
export type Encryption = false | ConnectionOptions

/** The settings that are followed, and their values. */
const settings: Readonly<Record<string, RegExp>> = {
  host: /^\//,
  port: /^\d+$/,
  sslmode: /^(disable|allow|prefer|require|verify-ca|verify-full)$/,
  sslrootcert: /./,
  sslcert: /./,
  sslkey: /./,
  sslnegotiation: /^postgres$/,
  // The driver cannot require them, and svc always needs a server that writes.
  channel_binding: /^(disable|prefer)$/,
  gssencmode: /^(disable|prefer)$/,
  target_session_attrs: /^(any|read-write|primary)$/,
}

const formHint =
  'It is postgres://USER:PASSWORD@HOST:5432/DATABASE. In user and password, characters with a meaning of their own are percent-encoded: @ is %40, # is %23, / is %2F, ? is %3F, : is %3A, % is %25.'

/** @throws PgUrlError */
export function parsePgUrl(text: string): PgAddress {
  const [authority = ''] = text.replace(/^\w+:\/\//, '').split(/[/?#]/)
  if (/,/.test(authority.slice(authority.lastIndexOf('@') + 1)) && !/[/?#].*@/.test(text.slice(11)))
    throw new PgUrlError(
      'the address of the database names several hosts',
      'svc takes one host, which leads to the primary: a name that moves with it, or a proxy.',
    )
  const url = readPgUrl(text)
  if (
    !/^postgres(ql)?:$/.test(url?.protocol ?? '') ||
    !url ||
    url.hash ||
    /@/.test(url.pathname + url.search)
  )
    throw new PgUrlError('the address of the database cannot be read', formHint)
  const [user, password, hostname, database] = [
    url.username,
    url.password,
    url.hostname.replace(/^\[(.*)\]$/, '$1'),
    url.pathname.slice(1),
  ].map(decode) as [string, string, string, string]
  const given = readSettings(url.searchParams)
  const host = given.host ?? hostname.trim()
  if (host === '' || database === '')
    throw new PgUrlError(
      `the address of the database names no ${host === '' ? 'host' : 'database'}`,
      host === '' ? `${formHint} A socket: postgres:///DATABASE?host=/run/postgresql.` : formHint,
    )
  return {
    host,
    port: Number(given.port ?? (url.port || 5432)),
    ...(user && { user }),
    ...(password && { password }),
    database,
    encryptions: () => (host.startsWith('/') ? [false] : encryptionsOf(given)),
  }
}

/** Returns null for a text that is no address. That of a socket may have a user and no host. */
const readPgUrl = (text: string): URL | null => URL.parse(text.replace(/^(\w+:\/\/[^/?#]*@)(?=\/)/, '$1%20'))

function decode(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    throw new PgUrlError('the address of the database cannot be read', formHint)
  }
}

/** Adds what the variables of libpq say, such as `PGSSLMODE`, where the address says nothing. */
export function completePgUrl(text: string, env: Readonly<Record<string, string | undefined>>): string {
  const url = readPgUrl(text)
  if (!url) return text
  for (const name of Object.keys(settings)) {
    // PGHOST and PGPORT are for addresses without a host, which are refused.
    const value = /^(host|port)$/.test(name) ? undefined : env[`PG${name.replaceAll('_', '').toUpperCase()}`]
    if (value && !url.searchParams.has(name)) url.searchParams.set(name, value)
  }
  return url.href
}

function readSettings(params: URLSearchParams) {
  const given: Partial<Record<string, string>> = {}
  for (const [name, value] of params)
    if (settings[name]?.test(value)) given[name] = value
    else
      throw new PgUrlError(
        `svc does not follow ${name}${name in settings ? `=${value}` : ''} in the address of the database`,
        `It takes ${Object.keys(settings).join(', ')}, with values of libpq: sslmode is disable, allow, prefer, require, verify-ca or verify-full.`,
      )
  return given
}

/** What libpq does for each `sslmode`. svc reads no files but those that are named. */
function encryptionsOf(given: Partial<Record<string, string>>): Encryption[] {
  const { sslcert, sslkey, sslmode = 'prefer', sslrootcert } = given
  if ((sslcert === undefined) !== (sslkey === undefined))
    throw new PgUrlError('sslcert and sslkey belong together', 'Name both files in the address, or none.')
  const isSystem = sslrootcert === undefined || sslrootcert === 'system'
  if (isSystem && (sslmode === 'verify-ca' || (sslrootcert === 'system' && sslmode !== 'verify-full')))
    throw new PgUrlError(
      `sslmode=${sslmode} needs a file in sslrootcert`,
      'Name the certificate of the authority there, or use sslmode=verify-full.',
    )
  const own = {
    ...(!isSystem && { ca: read('sslrootcert', sslrootcert) }),
    ...(sslcert && { cert: read('sslcert', sslcert) }),
    ...(sslkey && { key: read('sslkey', sslkey) }),
  }
  const encrypted = isSystem
    ? { ...own, rejectUnauthorized: false }
    : { ...own, checkServerIdentity: () => undefined }
  if (sslmode === 'disable') return [false]
  if (sslmode === 'allow') return [false, encrypted]
  if (sslmode === 'prefer') return [encrypted, false]
  return [sslmode === 'verify-full' ? own : encrypted]
}

function read(name: string, path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    const { code } = error as { code?: string }
    throw new PgUrlError(
      `the file of ${name} cannot be read: ${path} (${code})`,
      'Correct its path or its mode.',
    )
  }
}
