/** Stores and backups that a version of svc made before the first release: they are refused, and stay as they are. */
import { SvcError } from '../model/error.ts'

/** Forms of stores up to this one, in both engines, are of such versions. The first step makes the next form. */
export const unreleasedForms = 102

/** @param form 0: a store without tables */
export const isUnreleased = (form: number): boolean => form > 0 && form <= unreleasedForms

export const describeUnreleased = (what: string, form: number): string =>
  `${what} was written by a version of svc before the first release (form ${form})`

/** @param command sets the store of a data directory aside */
export const wayFromDirectory = (command: string): string =>
  `Export what is needed with the version that wrote it, then start with an empty store: ${command} sets messages.db aside and keeps the logins.`

export const wayFromDatabase =
  'Export what is needed with the version that wrote it, and move the store into a folder with that version: svc store copy postgres FOLDER. Then start with an empty store: svc store aside -d FOLDER keeps the logins, and svc store copy FOLDER postgres moves them into an empty database.'

/** @throws SvcError `store_unavailable` for the form of a version before the first release */
export function rejectUnreleased(what: string, form: number, way: string): void {
  if (isUnreleased(form))
    throw new SvcError('store_unavailable', describeUnreleased(what, form), { hint: way })
}
