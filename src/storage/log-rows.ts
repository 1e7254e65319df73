/** Numbers in the rows of the message log and of the event log, in both engines. */
import { SvcError } from '../model/error.ts'

/** Difference between the places of two successive messages in the event log. */
export const placesPerMessage = 1_000_000

/** The highest row id: all places up to the next one are below 2^53, where the exact numbers of JavaScript end. */
export const lastRowId = Math.floor(Number.MAX_SAFE_INTEGER / placesPerMessage) - 1

/** A condition of the column `id` of `message`. Its name is in the error of a row that does not fit. */
export const logEnd = `CONSTRAINT log_end CHECK (id <= ${lastRowId})`

/** Returns `store_unavailable` if the error of an engine says that the log has no row id left. */
export const logEndErrorOf = (error: unknown): SvcError | undefined =>
  error instanceof Error && error.message.includes('log_end')
    ? new SvcError('store_unavailable', `the log is full: its row ids end at ${lastRowId}`, {
        hint: 'Export what you need, and start with an empty store: svc store aside keeps the logins of a folder, and svc store copy moves those of a database into a folder and back.',
        cause: error,
      })
    : undefined

/** `message.sent` of a message that another program received: neither 0 nor 1, so that no reader gets it. */
export const receivedElsewhere = 2

/** `message.session` of a row whose content was erased. No session has this key, and no reader gets the row. */
export const erasedSession = 0
