/** The schema `svc` in steps: a node brings the database to the form that it knows. */
import { storeTables } from '../table-list.ts'
import { unreleasedForms } from '../unreleased.ts'
import { leaseFunctions, readerFunctions } from './reader-functions.ts'
import { tables } from './tables.ts'
import { writeFunctions } from './write-functions.ts'

/**
 * The planner keeps no samples of columns with something of a person: they would outlive an erasure, since ANALYZE removes
 * none of a table that has become empty. Queries find these rows by indexes, whatever the planner expects.
 */
const withoutSamples = storeTables
  .filter(({ only, people }) => only !== 'sqlite' && people)
  .flatMap(({ name, people = '' }) =>
    people.split(' ').map(column => `ALTER TABLE ${name} ALTER "${column}" SET STATISTICS 0;\n`),
  )
  .join('')

/** Steps that only go forward. One that was released stays as it is. */
export const steps: readonly string[] = [
  `${tables}${writeFunctions}${readerFunctions}${withoutSamples}`,
  leaseFunctions,
]

/** `meta.form` of the tables after some steps. */
export const formAfter = (count: number): number => unreleasedForms + count

/** The form that this program writes. */
export const newestForm: number = formAfter(steps.length)
