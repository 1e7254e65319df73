/** The engines there are: what every one of them must do is tested on each. */
import { describe } from 'bun:test'
import { given } from '../support/given.ts'
import { isPostgresThere } from '../support/postgres.ts'
import { databaseOfTest, openPostgres } from './postgres/support.ts'
import { directoryOfTest, openSqlite } from './sqlite/support.ts'
import { lateId, type Opened, type Place } from './support.ts'

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

/** Ids of a store that is new, and of one that is years old. `SVC_TEST_IDS=swapped` runs the tests with the others. */
const isSwapped = process.env.SVC_TEST_IDS === 'swapped'
const [newIds, oldIds] = isSwapped ? [lateId, 0] : [0, lateId]

const openAfter =
  (after: number, open: (options: Limits & { after: number }) => Promise<Opened>): Open =>
  limits =>
    open({ ...limits, after })

/**
 * Runs the tests that `body` declares on every engine, on one with the ids of a new store, on the others with those of an old one.
 *
 * @param options.sealed also on the one of a directory with a secret key: for tests of what has secrets
 */
export function onEach(body: Tests, { sealed = false } = {}): void {
  const run = (name: string, share: number, open: Open) =>
    describe(name, () => body(given(open), open, share))
  run('SQLite', 1, openAfter(newIds, openSqlite))
  if (sealed)
    run(
      'SQLite with a secret key',
      0.1,
      openAfter(oldIds, options => openSqlite(options, secret)),
    )
  if (isPostgresThere()) run('PostgreSQL', 0.05, openAfter(oldIds, openPostgres))
}

/** The same of every engine that several processes share; `newPlace` makes a place for one test. `share`: as above. */
export function onEachShared(body: (newPlace: () => Place, share: number) => void): void {
  describe('SQLite', () => body(directoryOfTest, 1))
  if (isPostgresThere()) describe('PostgreSQL', () => body(databaseOfTest, 0.2))
}
