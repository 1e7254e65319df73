/**
 * One small interface over `pg`, the driver for PostgreSQL. Every wait has a limit, since a database that is gone without
 * a word answers nothing.
 */
import pg from 'pg'
import { SvcError } from '../model/error.ts'
import { errorCodeOf } from './files.ts'
import { type Encryption, type PgAddress, PgUrlError, parsePgUrl } from './postgres-url.ts'
import { type Sql, type SqlParameter, sql } from './sql.ts'

/**
 * PostgreSQL stores no U+0000, and UTF-8 no lone surrogate. Both are stored as this private-use character and the
 * number of the code unit, as is the character itself.
 */
const escapeMark = '\ue0fe'
const unstorable = /[\0\ue0fe]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g
const escaped = /\ue0fe([0-9a-f]{4})/g

/** Returns a text as the database can store it. `fromStorable` reverses it. */
export const toStorable = (text: string): string =>
  text.isWellFormed() && !text.includes('\0') && !text.includes(escapeMark)
    ? text
    : text.replace(unstorable, char => escapeMark + char.charCodeAt(0).toString(16).padStart(4, '0'))

export const fromStorable = (text: string): string =>
  text.includes(escapeMark)
    ? text.replace(escaped, (_all, code: string) => String.fromCharCode(Number.parseInt(code, 16)))
    : text

/**
 * Returns a value as the text of a `jsonb` parameter. Its texts are stored as `toStorable` returns them; the mark is
 * written as an escape of JSON, so that the parameter is not escaped once more.
 */
export function toJsonb(value: unknown): string {
  const text = JSON.stringify(value)
  // JSON escapes what cannot be stored, and so does JSON in JSON. Most texts have none of it.
  if (!text.includes(escapeMark) && !/\\u(0000|d[89a-f])/.test(text)) return text
  return JSON.stringify(value, (_key, inner: unknown) =>
    typeof inner === 'string' ? toStorable(inner) : inner,
  ).replaceAll(escapeMark, '\\ue0fe')
}

const toParameter = (value: SqlParameter): unknown =>
  Array.isArray(value) ? value.map(toScalar) : toScalar(value)

/** Integers of the database have no infinity: a bound that is infinite becomes the highest or lowest number. */
function toScalar<T>(value: T): T | string | number {
  if (typeof value === 'string') return toStorable(value)
  if (value === Number.POSITIVE_INFINITY) return Number.MAX_SAFE_INTEGER
  return value === Number.NEGATIVE_INFINITY ? Number.MIN_SAFE_INTEGER : value
}

/** Returns the statement with `$1` for each value. */
const toQuery = ({ texts, values, isPrepared }: Sql, names?: StatementNames) => {
  const text = texts.map((part, nth) => (nth === 0 ? part : `$${nth}${part}`)).join('')
  const name = isPrepared ? names?.of(text) : undefined
  return { text, values: values.map(toParameter), ...(name !== undefined && { name }) }
}

/** Names of prepared statements, by text. */
class StatementNames {
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

/** Returns the statement with its values written in it. */
const toText = ({ texts, values }: Sql): string =>
  texts.map((text, nth) => (nth === 0 ? text : toLiteral(values[nth - 1]) + text)).join('')

/** Same form as the driver gives a parameter. */
function toLiteral(value: SqlParameter): string {
  if (value === undefined || value === null) return 'NULL'
  if (value instanceof Uint8Array) return `'\\x${Buffer.from(value).toString('hex')}'`
  // With standard_conforming_strings no other character is special.
  return `'${String(toArrayText(toParameter(value))).replaceAll("'", "''")}'`
}

/** An array as the driver writes it: `{"a","b"}`. */
const toArrayText = (value: unknown): unknown =>
  Array.isArray(value)
    ? `{${value.map(one => `"${String(one).replace(/[\\"]/g, '\\$&')}"`).join(',')}}`
    : value

/** Numbers of the database stay below 2^53: row ids, times and sizes. */
const types = {
  getTypeParser(oid: number, format?: 'text' | 'binary') {
    if (oid === pg.types.builtins.INT8 || oid === pg.types.builtins.NUMERIC) return Number
    if (oid === pg.types.builtins.TEXT || oid === pg.types.builtins.VARCHAR) return fromStorable
    if (oid === pg.types.builtins.JSON) return parseJson
    const parse = pg.types.getTypeParser(oid, format as 'text')
    if (oid === bigintArray) return (text: string) => (parse(text) as string[]).map(Number)
    return oid === textArray ? (text: string) => (parse(text) as string[]).map(fromStorable) : parse
  },
} as pg.CustomTypesConfig
const [bigintArray, textArray] = [1016, 1009]

const parseJson = (text: string): unknown =>
  text.includes(escapeMark)
    ? JSON.parse(text, (_key, value: unknown) => (typeof value === 'string' ? fromStorable(value) : value))
    : JSON.parse(text)

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
const connectMs = 4000

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
export interface PgConnection extends PgQueries {
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
function queriesOf(
  send: (query: string | pg.QueryConfig) => Promise<pg.QueryResult | pg.QueryResult[]>,
  names?: StatementNames,
): PgQueries {
  const single = async (statement: Sql) => {
    const query = toQuery(statement, names)
    try {
      return (await send(query)) as pg.QueryResult
    } catch (error) {
      if (!('name' in query) || !names?.isRefused(query.text, error)) throw error
      return (await send(toQuery(statement))) as pg.QueryResult
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

function replaceNulls(row: Row): Row {
  for (const column in row) if (row[column] === null) row[column] = undefined
  return row
}

/** Rows of several statements as the columns of one: `rowsAsJson` makes a column, `rowsOfJson` reads it. */
export const rowsAsJson = (statement: Sql): Sql => sql`(SELECT json_agg(r) FROM (${statement}) r)`
export const rowsOfJson = <R extends object>(column: unknown): R[] =>
  ((column ?? []) as Row[]).map(replaceNulls) as R[]

/** Whether the server answered with an error. Anything else is a fault of the connection. */
const isAnswer = (error: unknown): boolean =>
  error instanceof pg.DatabaseError && error.code !== undefined && !/^(57P|08)/.test(error.code)

function connectionErrorOf(error: unknown): Error {
  const isExplained = [PgConnectionError, PgUrlError, SvcError].some(kind => error instanceof kind)
  if (isAnswer(error) || isExplained) return error as Error
  const made = new PgConnectionError(error instanceof Error ? error.message : String(error), { cause: error })
  return Object.assign(made, { code: errorCodeOf(error) })
}

const socketOf = (client: pg.Client | pg.PoolClient) =>
  (client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream

/** The server, or the way to it, does not have this kind of encryption. */
const isEncryptionRefused = (error: unknown): boolean =>
  sqlStateOf(error) === '28000' || (!isAnswer(error) && isTlsFailure(error))

/** Whether TLS did not come about. */
export const isTlsFailure = (error: unknown): boolean =>
  /CERT|SSL|TLS|UNABLE_TO|SIGNATURE|ISSUER/.test(errorCodeOf(error) ?? '') ||
  (error instanceof Error && /\bSSL\b/.test(error.message))

/** Connects with each kind of encryption that the address allows, until the server takes one. */
async function connectAny<T>(options: PgOptions, open: (config: pg.ClientConfig) => Promise<T>): Promise<T> {
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
  }
}

/** Several connections, of which each statement takes one. */
export interface PgPool extends PgQueries {
  /** Runs `work` in a transaction on one connection. Use it only where a script cannot do it. */
  transaction<T>(work: (queries: PgQueries) => Promise<T>): Promise<T>
  /** Statements that wait for a connection. They fail after some seconds in which none became free. */
  readonly waiting: number
  close(): Promise<void>
}

/**
 * Prepared statements have connections of their own, where the server makes one plan for all values: by itself it would
 * plan them again and again, which takes longer than to run them.
 *
 * @param most maximum number of connections
 */
export function createPgPool(options: PgOptions, most: { usual: number; prepared: number }): PgPool {
  const usual = openConnections(options, most.usual)
  const settings = { ...options.settings, plan_cache_mode: 'force_generic_plan' }
  const forPrepared = openConnections({ ...options, settings }, most.prepared)
  const send = (query: string | pg.QueryConfig) => {
    const { use } = typeof query === 'object' && query.name !== undefined ? forPrepared : usual
    return use(client => client.query(query as string))
  }
  return {
    ...queriesOf(send, new StatementNames()),
    transaction: work =>
      usual.use(async client => {
        const queries = queriesOf(query => client.query(query as string))
        await client.query('BEGIN')
        try {
          const result = await work(queries)
          await client.query('COMMIT')
          return result
        } catch (error) {
          if (isAnswer(error) || !(connectionErrorOf(error) instanceof PgConnectionError))
            await client.query('ROLLBACK')
          throw error
        }
      }),
    get waiting() {
      return usual.waiting + forPrepared.waiting
    },
    async close() {
      await Promise.all([usual.close(), forPrepared.close()])
    },
  }
}

/** Opens up to `most` connections as they are needed. `use` takes one for a piece of work. */
function openConnections(options: PgOptions, most: number) {
  let config: pg.ClientConfig = {}
  class Client extends pg.Client {
    constructor() {
      super(config)
    }
  }
  const pool = new pg.Pool({
    Client,
    connectionTimeoutMillis: connectMs,
    max: most,
    idleTimeoutMillis: 60_000,
    onConnect: async (client: pg.ClientBase) => {
      try {
        await options.opened?.(queriesOf(query => client.query(query as string)))
      } catch (error) {
        // Else the pool would wait for the goodbye of a server that does not answer.
        socketOf(client as pg.Client).destroy()
        throw error
      }
    },
  })
  // An idle connection that breaks is replaced when the next statement needs one.
  pool.on('error', () => {})
  let running = 0
  let endedAt = 0
  const queue: { resolve(): void; reject(error: Error): void; since: number }[] = []
  let isWatched = false
  // A long queue is no fault as long as it moves. If nothing ends any more, the database does not answer.
  const watch = () => {
    isWatched = queue.length > 0
    if (!isWatched) return
    const before = performance.now() - connectMs
    if (endedAt <= before)
      while (queue[0] && queue[0].since <= before)
        queue.shift()!.reject(new PgConnectionError('no connection to the database became free'))
    setTimeout(watch, connectMs / 4)
  }
  /** Resolves when fewer than `most` statements run. `end` lets the next one run. */
  const turn = () =>
    new Promise<void>((resolve, reject) => {
      if (running < most) {
        running++
        return resolve()
      }
      queue.push({ resolve, reject, since: performance.now() })
      if (!isWatched) watch()
    })
  const end = () => {
    endedAt = performance.now()
    const next = queue.shift()
    if (next) next.resolve()
    else running--
  }
  const use = async <T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> => {
    await turn()
    let client: pg.PoolClient
    try {
      client = await connectAny(options, next => {
        config = next
        return pool.connect()
      })
    } catch (error) {
      end()
      throw connectionErrorOf(error)
    }
    const ignore = () => {}
    client.on('error', ignore)
    try {
      const result = await work(client)
      client.release()
      return result
    } catch (error) {
      const made = connectionErrorOf(error)
      if (made instanceof PgConnectionError) socketOf(client).destroy()
      client.release(made instanceof PgConnectionError)
      throw made
    } finally {
      client.off('error', ignore)
      end()
    }
  }
  return {
    use,
    get waiting() {
      return queue.length
    },
    async close() {
      // A connection that does not answer would never end.
      await Promise.race([pool.end(), new Promise(resolve => setTimeout(resolve, 1000).unref?.())])
    },
  }
}

/** Returns the SQLSTATE of the server's error. */
export const sqlStateOf = (error: unknown): string | undefined =>
  error instanceof pg.DatabaseError ? error.code : undefined
