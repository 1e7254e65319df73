/** Times that retention and readers agree on. */

export const dayMs = 24 * 60 * 60_000
/** A consumer that has not read for this long no longer counts as a reader. */
export const liveMs = 30 * dayMs
