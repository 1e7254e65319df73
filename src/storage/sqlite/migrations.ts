/**
 * The store's tables, as numbered steps that only go forward. `user_version` is the form of the tables: it grows by one
 * with each step.
 *
 * The form counts for the whole data directory: a version that finds a higher one than it knows does not open the
 * directory. So add a step also when the format of another file changes and older versions would misread that file. The
 * step is empty if the tables stay as they are.
 */
import { dirname } from 'node:path'
import { dataFiles } from '../../model/data-files.ts'
import { SvcError } from '../../model/error.ts'
import { quoteForShell } from '../../platform/format.ts'
import { type Database, readSchemaVersion } from '../../platform/sqlite.ts'
import { relayTables, steeringTables } from '../tables.ts'
import { rejectUnreleased, unreleasedForms, wayFromDirectory } from '../unreleased.ts'
import { tables } from './tables.ts'

/** A step that was released stays as it is. */
export const steps: readonly string[] = [
  tables,
  steeringTables({ numbered: 'INTEGER PRIMARY KEY AUTOINCREMENT' }),
  relayTables({ keyed: ' WITHOUT ROWID' }),
]

/** The form after some steps; 0 before the first one. */
const formAfter = (steps: number): number => (steps === 0 ? 0 : unreleasedForms + steps)

/** The form that this program writes. */
export const newestSchemaVersion: number = formAfter(steps.length)

/**
 * Call it before a store, or anything in its data directory, is opened: files that this version cannot use stay
 * unchanged.
 *
 * @throws SvcError `store_unavailable` for the messages.db of a newer version, or of one before the first release
 */
export async function rejectOtherForm(path: string): Promise<void> {
  const form = (await readSchemaVersion(path)) ?? 0
  const command = `svc store aside -d ${quoteForShell(dirname(path))}`
  rejectUnreleased(dataFiles.store, form, wayFromDirectory(command))
  rejectNewer(form, newestSchemaVersion)
}

function rejectNewer(form: number, newest: number): void {
  if (form <= newest) return
  throw new SvcError(
    'store_unavailable',
    `messages.db was written by a newer version of svc (form ${form})`,
    {
      hint: 'Use that version or a newer one, or another data directory.',
      details: { form },
    },
  )
}

/**
 * Brings the tables to a form.
 *
 * @param steps those that the program knows. Tests open a store as another version would
 * @param target default: the form after all steps
 * @throws SvcError `store_unavailable` for a store of a newer version, or of one before the first release
 */
export function migrate(
  db: Database,
  {
    steps: known = steps,
    target = formAfter(known.length),
  }: { steps?: readonly string[]; target?: number } = {},
): void {
  const readForm = () => Number(db.get`PRAGMA user_version`?.user_version ?? 0)
  rejectUnreleased(dataFiles.store, readForm(), wayFromDirectory('svc store aside'))
  rejectNewer(readForm(), formAfter(known.length))
  for (const [nth, step] of known.entries()) {
    const form = formAfter(nth + 1)
    if (form > target || readForm() >= form) continue
    db.transaction(() => {
      // Another process may have done this step while this one waited for the lock.
      if (readForm() >= form) return
      db.exec(step)
      db.exec(`PRAGMA user_version = ${form}`)
    })
  }
}
