/** The schema `svc` in steps: a node brings the database to the form that it knows. */
import { readFunctions } from './read-functions.ts'
import { tables } from './tables.ts'
import { writeFunctions } from './write-functions.ts'

/** Steps that only go forward; `meta.form` is the number of steps done. */
export const steps: readonly string[] = [`${tables}${writeFunctions}${readFunctions}`]

/** The form that this program writes. */
export const newestForm: number = steps.length
