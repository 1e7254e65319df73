/** Numbers in the rows of the message log and of the event log, in both engines. */

/** Difference between the places of two successive messages in the event log. */
export const placesPerMessage = 1_000_000

/** `message.sent` of a message that another program received: neither 0 nor 1, so that no reader gets it. */
export const receivedElsewhere = 2

/** `message.session` of a row whose content was erased. No session has this key, and no reader gets the row. */
export const erasedSession = 0
