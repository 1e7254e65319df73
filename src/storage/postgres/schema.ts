/** The schema `svc` in steps: a node brings the database to the form that it knows. */
import { unreleasedForms } from '../unreleased.ts'
import { readerFunctions } from './reader-functions.ts'
import { tables } from './tables.ts'
import { writeFunctions } from './write-functions.ts'

/** Steps that only go forward. One that was released stays as it is. */
export const steps: readonly string[] = [`${tables}${writeFunctions}${readerFunctions}`]

/** `meta.form` of the tables after some steps. */
export const formAfter = (count: number): number => unreleasedForms + count

/** The form that this program writes. */
export const newestForm: number = formAfter(steps.length)
