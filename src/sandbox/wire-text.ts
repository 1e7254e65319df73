/** Bare uint64 ids on the wire, strings inside: a JavaScript number would bend everything above 2^53. */

const idKey = '"(message_id|msg_id|svr_id)"'
const bareId = new RegExp(`${idKey}\\s*:\\s*(\\d{16,})`, 'g')
// Inside a JSON string every quote is escaped, so a text that mentions "message_id":"1" never matches.
const quotedId = new RegExp(`${idKey}:"(\\d{1,20})"`, 'g')

/** JSON text → value, long ids as strings. @throws SyntaxError */
export const fromWire = (text: string): unknown => JSON.parse(text.replace(bareId, '"$1":"$2"'))

/** Value → JSON text, ids that are digits as bare integers. */
export const toWire = (value: unknown): string => JSON.stringify(value).replace(quotedId, '"$1":$2')

/** A JSON object of which nothing is known yet. */
export type Fields = Record<string, unknown>
/** Whether it is a JSON object. */
export const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
/** The object, or an empty one. */
export const fieldsOf = (value: unknown): Fields => (isFields(value) ? value : {})
/** The text, or an empty one. */
export const textOf = (value: unknown): string => (typeof value === 'string' ? value : '')
