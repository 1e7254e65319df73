/**
 * One small database interface over bun:sqlite and node:sqlite (Deno, Node). Only this file knows which one
 * runs. Errors have SQLite's codes (`SQLITE_BUSY` …). Integers that may exceed 2^53 are kept as TEXT by the
 * rooms that own them, so the number limits of the engines do not matter.
 */

import { Buffer } from 'node:buffer'
import { closeSync, constants, openSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import process from 'node:process'
import { pathToFileURL } from 'node:url'
import { systemClock } from './clock.ts'
import { errorCodeOf, readOnlyFlags, rejectNonFile, removeQuietly, statOf } from './files.ts'
import { randomBytes } from './lazy-crypto.ts'
import { Sql } from './sql.ts'
import { noLocksError } from './system-error.ts'

/** NULL is undefined, in rows and in parameters: absent, as everywhere else in svc. */
export type SqlValue = string | number | Uint8Array | undefined
export type Row = Record<string, SqlValue>

/**
 * A statement: a template literal whose values become parameters, or a text with `?` for each; where the text varies, an
 * `Sql`, which has its values.
 */
export type SqlText = TemplateStringsArray | string | Sql

/** What a statement changed. */
export interface ChangeResult {
  changes: number
  lastInsertRowid: number
}

/**
 * A database. Statements are compiled at their first use and kept, by their text or by their place in the
 * code.
 */
export interface Database extends Disposable {
  exec(sql: string): void
  all<R extends object = Row>(sql: SqlText, ...params: SqlValue[]): R[]
  /** Returns the first row, or undefined. */
  get<R extends object = Row>(sql: SqlText, ...params: SqlValue[]): R | undefined
  /** Returns the row of a query that always has one, such as a count. */
  one<R extends object = Row>(sql: SqlText, ...params: SqlValue[]): R
  /** Visits rows one by one as they are found. When `visit` returns false, the search stops. */
  each<R extends object = Row>(sql: SqlText, params: readonly SqlValue[], visit: (row: R) => boolean): void
  run(sql: SqlText, ...params: SqlValue[]): ChangeResult
  /**
   * Runs `work` between BEGIN IMMEDIATE and COMMIT. When it or the commit fails, nothing is stored. Nested
   * calls join the outer one.
   */
  transaction<T>(work: () => T): T
  close(): void
}

interface Engine {
  exec(sql: string): void
  prepare(sql: string): Statement
  close(): void
}

/** A value as an engine returns it: null for NULL. */
type EngineValue = Exclude<SqlValue, undefined> | null

interface Statement {
  all(...params: SqlValue[]): Record<string, EngineValue>[]
  get(...params: SqlValue[]): Record<string, EngineValue> | undefined
  iterate(...params: SqlValue[]): Iterable<Record<string, EngineValue>>
  run(...params: SqlValue[]): ChangeResult
  /** Names of the columns, known after the first row. */
  columns?: string[]
  /**
   * Only in Bun: while a statement exists, its database stays open with its -wal file, even after `close`.
   */
  finalize?(): void
}

/** Limit of the compiled statements. There are few texts, but nothing should grow without end. */
const statementLimit = 300

interface OpenOptions {
  readonly?: boolean
  /** Read-only, for a file that no process has open: takes no lock and creates no -wal or -shm file. */
  immutable?: boolean
}

async function openDatabaseEngine(
  path: string,
  { readonly = false, immutable = false }: OpenOptions,
): Promise<Engine> {
  const immutableUrl = `${pathToFileURL(path).href}?immutable=1`
  if (process.versions.bun) {
    const { Database: BunDatabase, constants } = await import('bun:sqlite')
    const db = immutable
      ? new BunDatabase(immutableUrl, constants.SQLITE_OPEN_READONLY | constants.SQLITE_OPEN_URI)
      : new BunDatabase(path, readonly ? { readonly: true } : { create: true, readwrite: true })
    return {
      exec: sql => void db.run(sql),
      prepare(sql) {
        const statement = db.prepare<Record<string, EngineValue>, EngineValue[]>(hideParameters(sql))
        // Bun binds undefined as NULL. Replacing it would cost as much as a small statement.
        const toNative = (params: SqlValue[]) => params as EngineValue[]
        return {
          all: (...params) => statement.all(...toNative(params)),
          get: (...params) => statement.get(...toNative(params)) ?? undefined,
          iterate: (...params) => statement.iterate(...toNative(params)),
          run(...params) {
            const { changes, lastInsertRowid } = statement.run(...toNative(params))
            return { changes, lastInsertRowid: Number(lastInsertRowid) }
          },
          finalize: () => statement.finalize(),
        }
      },
      close: () => db.close(),
    }
  }
  const { DatabaseSync } = await import('node:sqlite')
  const db = runWithCodes(() =>
    immutable
      ? new DatabaseSync(immutableUrl, { readOnly: true })
      : new DatabaseSync(path, { readOnly: readonly }),
  )
  return {
    exec: sql => runWithCodes(() => db.exec(sql)),
    prepare(sql) {
      const statement = runWithCodes(() => db.prepare(sql))
      const toNative = (params: SqlValue[]) => params.map(value => value ?? null)
      return {
        all: (...params) =>
          runWithCodes(() => statement.all(...toNative(params)) as Record<string, EngineValue>[]),
        get: (...params) =>
          runWithCodes(() => statement.get(...toNative(params)) as Record<string, EngineValue> | undefined),
        iterate: (...params) =>
          statement.iterate(...toNative(params)) as Iterable<Record<string, EngineValue>>,
        run(...params) {
          const { changes, lastInsertRowid } = runWithCodes(() => statement.run(...toNative(params)))
          return { changes: Number(changes), lastInsertRowid: Number(lastInsertRowid) }
        },
      }
    },
    close: () => db.close(),
  }
}

/**
 * Puts a plus before each parameter. SQLite compiles a joined or ordered statement again whenever a parameter
 * is bound that its planner has read (30 to 80 µs each in Bun 1.4.5; a send has five of them). The plus hides
 * the parameter from the planner. A parameter after LIMIT stays visible, because a limit decides how a page
 * of many rows is found.
 */
const hideParameters = (sql: string): string =>
  sql.replace(/'(?:[^']|'')*'|\bLIMIT \?|\?/g, found => (found === '?' ? '+?' : found))

/**
 * Messages of SQLite about itself, its disk and other processes (sqlite3_errstr), with the codes that Bun
 * gives them.
 */
const errorMessages: readonly (readonly [string, string])[] = [
  ['database is locked', 'BUSY'],
  ['database table is locked', 'LOCKED'],
  ['locking protocol', 'PROTOCOL'],
  ['attempt to write a readonly database', 'READONLY'],
  ['unable to open database file', 'CANTOPEN'],
  ['access permission denied', 'PERM'],
  ['authorization denied', 'AUTH'],
  ['database or disk is full', 'FULL'],
  ['disk I/O error', 'IOERR'],
  ['out of memory', 'NOMEM'],
  ['large file support is disabled', 'NOLFS'],
  ['database schema has changed', 'SCHEMA'],
  ['database disk image is malformed', 'CORRUPT'],
  ['file is not a database', 'NOTADB'],
]

/**
 * node:sqlite has one code for all errors, and in Deno 2.9.6 not even SQLite's number, so the message gives
 * the code.
 */
function runWithCodes<T>(work: () => T): T {
  try {
    return work()
  } catch (error) {
    if (!(error instanceof Error) || errorCodeOf(error) !== 'ERR_SQLITE_ERROR') throw error
    const name = errorMessages.find(([sentence]) => error.message.startsWith(sentence))?.[1]
    throw name === undefined ? error : Object.assign(error, { code: `SQLITE_${name}` })
  }
}

/**
 * Replaces null by undefined in place, by the column names that all rows of a statement share: ten times
 * cheaper than a copy.
 */
function replaceNulls(statement: Statement, row: Record<string, EngineValue | undefined>): void {
  statement.columns ??= Object.keys(row)
  for (const column of statement.columns) if (row[column] === null) row[column] = undefined
}

/**
 * Returns the system's error for the database's files where there is one: the engine has one code for all of
 * them. If a new file cannot be locked either, the file system is the cause.
 */
export async function findDatabaseError(path: string, error: unknown): Promise<unknown> {
  const code = errorCodeOf(error) ?? ''
  if (/^SQLITE_(CANTOPEN|READONLY|PERM)/.test(code)) {
    for (const suffix of ['', '-wal', '-shm']) {
      try {
        closeSync(openSync(path + suffix, constants.O_RDWR | readOnlyFlags))
      } catch (openError) {
        if (errorCodeOf(openError) !== 'ENOENT') return openError
      }
    }
  }
  const isLock =
    /^SQLITE_(BUSY|PROTOCOL|IOERR_(RDLOCK|LOCK|UNLOCK|SHMLOCK|SHMMAP|SHMOPEN|CHECKRESERVEDLOCK))/.test(code)
  return isLock && !(await canBeLocked(dirname(path))) ? noLocksError(dirname(path), error) : error
}

/** Returns whether databases can be locked in a folder. */
async function canBeLocked(folder: string): Promise<boolean> {
  const probe = join(folder, `.probe.${randomBytes(6).toString('hex')}.tmp`)
  try {
    const engine = await openDatabaseEngine(probe, {})
    try {
      engine.exec('PRAGMA journal_mode = WAL')
      engine.exec('BEGIN IMMEDIATE; ROLLBACK')
    } finally {
      engine.close()
    }
    return true
  } catch {
    return false
  } finally {
    for (const ending of ['', '-wal', '-shm', '-journal']) await removeQuietly(probe + ending)
  }
}

/**
 * Opens the file, and creates it unless readonly.
 *
 * @throws the engine's error for a file that is not a database; the system's
 */
export async function openDatabase(path: string, options: OpenOptions = {}): Promise<Database> {
  const found = await statOf(path)
  if (found) rejectNonFile(path, found)
  const engine = await openDatabaseEngine(path, options).catch(async error => {
    throw await findDatabaseError(path, error)
  })
  const compiled = new Map<Exclude<SqlText, Sql>, Statement>()
  const statementOf = (given: SqlText): Statement => {
    const sql = given instanceof Sql ? given.texts.join('?') : given
    const known = compiled.get(sql)
    if (known) return known
    const statement = engine.prepare(typeof sql === 'string' ? sql : sql.join('?'))
    compiled.set(sql, statement)
    const [oldest] = compiled.keys()
    if (oldest !== undefined && compiled.size > statementLimit) compiled.delete(oldest)
    return statement
  }
  const first = (sql: SqlText, params: SqlValue[]) => {
    const statement = statementOf(sql)
    const row = statement.get(...(sql instanceof Sql ? (sql.values as SqlValue[]) : params))
    if (row) replaceNulls(statement, row)
    return row
  }
  const close = () => {
    for (const { finalize } of compiled.values()) finalize?.()
    compiled.clear()
    engine.close()
  }
  let depth = 0
  /** Whether a rollback failed too. Then the engine may still be inside the transaction. */
  let isStuck = false
  const rollback = () => {
    try {
      engine.exec('ROLLBACK')
      isStuck = false
    } catch (error) {
      // On a full disk SQLite has already rolled back. The first error is the one to report.
      isStuck = !/no transaction is active/.test(String(error))
    }
  }
  return {
    exec: sql => engine.exec(sql),
    all<R>(sql: SqlText, ...params: SqlValue[]) {
      const statement = statementOf(sql)
      const rows = statement.all(...(sql instanceof Sql ? (sql.values as SqlValue[]) : params))
      for (const row of rows) replaceNulls(statement, row)
      return rows as R[]
    },
    get: <R>(sql: SqlText, ...params: SqlValue[]) => first(sql, params) as R | undefined,
    one: <R>(sql: SqlText, ...params: SqlValue[]) => first(sql, params) as R,
    each<R>(sql: SqlText, params: readonly SqlValue[], visit: (row: R) => boolean) {
      const statement = statementOf(sql)
      runWithCodes(() => {
        for (const row of statement.iterate(...(sql instanceof Sql ? (sql.values as SqlValue[]) : params))) {
          replaceNulls(statement, row)
          if (!visit(row as R)) break
        }
      })
    },
    run: (sql, ...params) =>
      statementOf(sql).run(...(sql instanceof Sql ? (sql.values as SqlValue[]) : params)),
    transaction(work) {
      if (depth > 0) return work()
      if (isStuck) rollback()
      // IMMEDIATE: a deferred transaction that read first would fail at once if another process has written
      // since.
      statementOf('BEGIN IMMEDIATE').run()
      depth = 1
      try {
        const result = work()
        statementOf('COMMIT').run()
        return result
      } catch (error) {
        rollback()
        throw error
      } finally {
        depth = 0
      }
    },
    close,
    [Symbol.dispose]: close,
  }
}

/**
 * Switches a database to WAL. If several processes switch one file at the same time, SQLite fails in some of
 * them with SQLITE_BUSY at once, whatever the busy timeout is: each has read the file and wants to write it,
 * so they would wait for each other forever. The failed statement frees the file, and this function tries
 * again.
 *
 * @param waitMs no new try begins after this time
 */
export async function switchToWal(db: Database, waitMs: number): Promise<void> {
  const deadline = performance.now() + waitMs
  for (;;) {
    try {
      return db.exec('PRAGMA journal_mode = WAL')
    } catch (error) {
      if (!errorCodeOf(error)?.startsWith('SQLITE_BUSY') || performance.now() > deadline) throw error
    }
    await systemClock.sleep(1 + Math.random() * 4)
  }
}

const magic = 'SQLite format 3\0'
/** Offset of `user_version` in the file's first page, and the length of the file header. */
const versionOffset = 60
const headerBytes = 100

/**
 * Returns `PRAGMA user_version` of a file that may belong to another version of svc. It opens the file
 * read-only: opening it for writing would merge its -wal file, even if svc then rejects the file.
 *
 * @returns undefined when the file is absent or cannot be read as a database; opening it gives the reason
 */
export async function readSchemaVersion(path: string): Promise<number | undefined> {
  try {
    // The last commits are in the -wal file as long as there is one.
    if ((await statOf(`${path}-wal`))?.size) {
      using db = await openDatabase(path, { readonly: true })
      return Number(db.get`PRAGMA user_version`?.user_version)
    }
    await using file = await open(path, readOnlyFlags)
    const { buffer, bytesRead } = await file.read(Buffer.alloc(headerBytes), 0, headerBytes, 0)
    return schemaVersionOf(buffer.subarray(0, bytesRead))
  } catch {
    return undefined
  }
}

/** Returns `PRAGMA user_version` from the beginning of a database file; undefined for another file. */
export const schemaVersionOf = (head: Buffer): number | undefined =>
  head.length >= headerBytes && head.toString('latin1', 0, magic.length) === magic
    ? head.readUInt32BE(versionOffset)
    : undefined
