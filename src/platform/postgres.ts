/**
 * One small interface over `pg`, the driver for PostgreSQL. Every wait has a limit, since a database that is gone without
 * a word answers nothing.
 */
import pg from 'pg'
import { SvcError } from '../model/error.ts'
import { errorCodeOf } from './files.ts'
import { type Encryption, type PgAddress, PgUrlError, parsePgUrl } from './postgres-url.ts'
import { replaceNulls, toQuery, toText, types } from './postgres-values.ts'
import type { Sql } from './sql.ts'

/** Names of prepared statements, by text. */
export class StatementNames {
  readonly #names = new Map<string, string>()
  #given = 0
  #isOff = false

  of(text: string): string | undefined {
    if (this.#isOff) return undefined
    let name = this.#names.get(text)
    if (name === undefined && this.#names.size < mostPrepared) {
      name = `svc${++this.#given}`
      this.#names.set(text, name)
    }
    return name
  }

  /** Whether a statement was not carried out because of its name. It is to be run without one. */
  isRefused(text: string, error: unknown): boolean {
    const state = sqlStateOf(error)
    // A proxy gave the connection to the server to another client.
    if (state === '26000' || state === '42P05') this.#isOff = true
    // A column has got another type since: the statement gets another name.
    else if (state === '0A000') this.#names.delete(text)
    else return false
    return true
  }
}
/** Maximum number of statements whose plans a connection keeps on the server. */
const mostPrepared = 100

/** Where a database is, and the limits of every wait for it. */
export interface PgOptions {
  /** `postgres://user:password@host:port/database`. Secret. A function is called for each connection. */
  url: string | (() => string)
  /** Shown in the list of connections of the server. */
  name: string
  /** Longest wait for an answer. */
  answerMs: number
  /** Settings of the server for these connections. */
  settings?: Readonly<Record<string, string>>
  /** Called first on each new connection. If it throws, nothing else is asked on it. */
  opened?(queries: PgQueries): Promise<void>
}

/** A connection that broke, or did not answer in time: what was asked may have been done. */
export class PgConnectionError extends Error {}

/**
 * Settings of every connection. The server notices within seconds that a client is gone, and undoes what that client
 * has not committed. Without them, a statement of a client that vanished was still carried out later.
 */
const serverSettings = {
  tcp_keepalives_idle: '5',
  tcp_keepalives_interval: '2',
  tcp_keepalives_count: '3',
  client_connection_check_interval: '1000',
  lock_timeout: '4000',
  idle_in_transaction_session_timeout: '4000',
  // Whatever the role, the database or the server have as defaults.
  idle_session_timeout: '0',
  default_transaction_isolation: 'read committed',
  // Compiling a statement took up to 600 ms, for statements that take 1 ms.
  jit: 'off',
  // The server keeps plans that it made while a table was small. A table whose rows come and go is small at times.
  enable_seqscan: 'off',
  search_path: 'svc,pg_catalog',
  // The barrier must see the warning of a commit that did not wait.
  client_min_messages: 'notice',
  standard_conforming_strings: 'on',
  timezone: 'UTC',
}
/** Longest wait for a connection, including TLS and the password. */
export const connectMs = 4000

/** Returns the parts of an address. @throws PgUrlError */
export const addressOf = (url: PgOptions['url']): PgAddress =>
  parsePgUrl(typeof url === 'string' ? url : url())

const clientConfigOf = (
  { name, answerMs, settings }: PgOptions,
  { encryptions: _, ...address }: PgAddress,
  ssl: Encryption,
): pg.ClientConfig => ({
  ...address,
  ssl,
  application_name: name,
  connectionTimeoutMillis: connectMs,
  query_timeout: answerMs,
  statement_timeout: answerMs + 1000,
  keepAlive: true,
  keepAliveInitialDelayMillis: 5000,
  types,
  options: Object.entries({ ...serverSettings, ...settings })
    .map(([key, value]) => `-c ${key}=${value.replaceAll(' ', '\\ ')}`)
    .join(' '),
})

type Row = Record<string, unknown>

/** Statements on one connection, or on any of several. */
export interface PgQueries {
  all<R extends object = Row>(statement: Sql): Promise<R[]>
  /** Returns the first row, or undefined. */
  get<R extends object = Row>(statement: Sql): Promise<R | undefined>
  /** Returns the row of a query that always has one. */
  one<R extends object = Row>(statement: Sql): Promise<R>
  /** @returns number of rows that the statement changed */
  run(statement: Sql): Promise<number>
  /**
   * Runs statements in one request and one transaction: the client cannot stop between them while they hold locks.
   *
   * @returns the rows of each statement
   */
  script(statements: readonly Sql[]): Promise<Row[][]>
}

/** One connection. */
export interface PgConnection extends PgQueries, Disposable {
  /** Aborts when the connection is gone. */
  readonly lost: AbortSignal
  /** Calls `notified` for each notification, with its payload. */
  listen(channel: string, notified: (payload: string) => void): Promise<void>
  /** Calls `warned` for each notice of the server, with its SQLSTATE. */
  onNotice(warned: (code: string) => void): void
  /** Ends it at once, without waiting for an answer. */
  destroy(): void
}

/** @param names of prepared statements; none in a transaction, which a refused one would end */
export function queriesOf(
  send: (query: string | pg.QueryConfig) => Promise<pg.QueryResult | pg.QueryResult[]>,
  names?: StatementNames,
): PgQueries {
  const single = async (statement: Sql) => {
    const query = toQuery(statement)
    const name = statement.isPrepared ? names?.of(query.text) : undefined
    try {
      return (await send(name === undefined ? query : { ...query, name })) as pg.QueryResult
    } catch (error) {
      if (name === undefined || !names?.isRefused(query.text, error)) throw error
      return (await send(query)) as pg.QueryResult
    }
  }
  const rowsOf = ({ rows }: pg.QueryResult) => rows.map(replaceNulls)
  return {
    all: async <R>(statement: Sql) => rowsOf(await single(statement)) as R[],
    get: async <R>(statement: Sql) => rowsOf(await single(statement))[0] as R | undefined,
    one: async <R>(statement: Sql) => rowsOf(await single(statement))[0] as R,
    run: async statement => (await single(statement)).rowCount ?? 0,
    async script(statements) {
      if (statements.length === 0) return []
      const results = await send(statements.map(toText).join(';\n'))
      return (Array.isArray(results) ? results : [results]).map(rowsOf)
    },
  }
}

/** Whether the server answered with an error. Anything else is a fault of the connection. */
export const isAnswer = (error: unknown): boolean =>
  error instanceof pg.DatabaseError && error.code !== undefined && !/^(57P|08)/.test(error.code)

export function connectionErrorOf(error: unknown): Error {
  const isExplained = [PgConnectionError, PgUrlError, SvcError].some(kind => error instanceof kind)
  if (isAnswer(error) || isExplained) return error as Error
  const made = new PgConnectionError(error instanceof Error ? error.message : String(error), { cause: error })
  return Object.assign(made, { code: errorCodeOf(error) })
}

export const socketOf = (client: pg.Client | pg.PoolClient) =>
  (client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream

/** The server, or the way to it, does not have this kind of encryption. */
const isEncryptionRefused = (error: unknown): boolean =>
  sqlStateOf(error) === '28000' || (!isAnswer(error) && isTlsFailure(error))

/** Whether TLS did not come about. */
export const isTlsFailure = (error: unknown): boolean =>
  /CERT|SSL|TLS|UNABLE_TO|SIGNATURE|ISSUER/.test(errorCodeOf(error) ?? '') ||
  (error instanceof Error && /\bSSL\b/.test(error.message))

/** Connects with each kind of encryption that the address allows, until the server takes one. */
export async function connectAny<T>(
  options: PgOptions,
  open: (config: pg.ClientConfig) => Promise<T>,
): Promise<T> {
  const address = addressOf(options.url)
  const encryptions = address.encryptions()
  for (let nth = 0; ; nth++)
    try {
      return await open(clientConfigOf(options, address, encryptions[nth]!))
    } catch (error) {
      if (nth + 1 === encryptions.length || !isEncryptionRefused(error)) throw error
    }
}

/** Opens one connection. @throws PgConnectionError; PgUrlError; the server's error */
export async function connectPg(options: PgOptions): Promise<PgConnection> {
  const connection = await connectAny(options, openConnection)
  try {
    await options.opened?.(connection)
    return connection
  } catch (error) {
    connection.destroy()
    throw error
  }
}

async function openConnection(config: pg.ClientConfig): Promise<PgConnection> {
  const client = new pg.Client(config)
  const lost = new AbortController()
  client.on('error', error => lost.abort(connectionErrorOf(error)))
  client.on('end', () => lost.abort(new PgConnectionError('the connection ended')))
  const destroy = () => {
    lost.abort(new PgConnectionError('the connection was ended'))
    socketOf(client).destroy()
  }
  const send = async (query: string | pg.QueryConfig) => {
    try {
      return await client.query(query)
    } catch (error) {
      const made = connectionErrorOf(error)
      // What was asked may still be under way. Nothing else can be asked on this connection.
      if (made instanceof PgConnectionError) destroy()
      throw made
    }
  }
  try {
    await client.connect()
  } catch (error) {
    destroy()
    throw connectionErrorOf(error)
  }
  return {
    ...queriesOf(send, new StatementNames()),
    lost: lost.signal,
    async listen(channel, notified) {
      client.on('notification', ({ payload = '' }) => notified(payload))
      await send(`LISTEN ${client.escapeIdentifier(channel)}`)
    },
    onNotice: warned => void client.on('notice', ({ code = '' }) => warned(code)),
    destroy,
    [Symbol.dispose]: destroy,
  }
}

/** Returns the SQLSTATE of the server's error. */
export const sqlStateOf = (error: unknown): string | undefined =>
  error instanceof pg.DatabaseError ? error.code : undefined
