/** The engines there are: what every one of them must do is tested on each. */
import { describe } from 'bun:test'
import { given } from '../support/given.ts'
import { isPostgresThere } from '../support/postgres.ts'
import { databaseOfTest, openPostgres } from './postgres/support.ts'
import { directoryOfTest, openSqlite } from './sqlite/support.ts'
import type { Opened, Place } from './support.ts'

/** What retention keeps; 0, no limit, by default. */
interface Limits {
  maxAgeDays?: number
  maxCount?: number
}

/** A secret key for tests. */
export const secret = 'N3v1aJr0oQxK-4mZb8HtYw2LcPdGfSuE'

type Open = (limits?: Limits) => Promise<Opened>

/** `it` gives each test a storage of the engine, which `open` opens; `share` of the random cases are enough for it. */
type Tests = (it: ReturnType<typeof given<Opened>>, open: Open, share: number) => void

/**
 * Runs the tests that `body` declares on every engine.
 *
 * @param options.sealed also on the one of a directory with a secret key: for tests of what has secrets
 */
export function onEach(body: Tests, { sealed = false } = {}): void {
  describe('SQLite', () => body(given(openSqlite), openSqlite, 1))
  const openSealed: Open = limits => openSqlite(limits, secret)
  if (sealed) describe('SQLite with a secret key', () => body(given(openSealed), openSealed, 0.1))
  if (isPostgresThere()) describe('PostgreSQL', () => body(given(openPostgres), openPostgres, 0.05))
}

/** The same of every engine that several processes share; `newPlace` makes a place for one test. `share`: as above. */
export function onEachShared(body: (newPlace: () => Place, share: number) => void): void {
  describe('SQLite', () => body(directoryOfTest, 1))
  if (isPostgresThere()) describe('PostgreSQL', () => body(databaseOfTest, 0.2))
}
