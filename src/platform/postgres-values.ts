/** Values and statements in the forms in which PostgreSQL and its driver take them, and rows as they come back. */
import { Buffer } from 'node:buffer'
import pg from 'pg'
import { type Sql, type SqlParameter, sql } from './sql.ts'

/**
 * PostgreSQL stores no U+0000, and UTF-8 no lone surrogate. Both are stored as this private-use character and the
 * number of the code unit, as is the character itself.
 */
const escapeMark = '\ue0fe'
const unstorable = /[\0\ue0fe]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g
const escaped = /\ue0fe([0-9a-f]{4})/g

/** Returns a text as the database can store it. `fromStorable` reverses it. */
const toStorable = (text: string): string =>
  text.isWellFormed() && !text.includes('\0') && !text.includes(escapeMark)
    ? text
    : text.replace(unstorable, char => escapeMark + char.charCodeAt(0).toString(16).padStart(4, '0'))

const fromStorable = (text: string): string =>
  text.includes(escapeMark)
    ? text.replace(escaped, (_all, code: string) => String.fromCharCode(Number.parseInt(code, 16)))
    : text

/**
 * Returns a value as the text of a `jsonb` parameter. Its texts are stored as `toStorable` returns them; the mark is
 * written as an escape of JSON, so that the parameter is not escaped once more.
 */
export function toJsonb(value: unknown): string {
  const text = JSON.stringify(value)
  // JSON escapes what cannot be stored, and so does JSON in JSON. Most texts have none of it.
  if (!text.includes(escapeMark) && !/\\u(0000|d[89a-f])/.test(text)) return text
  return JSON.stringify(value, (_key, inner: unknown) =>
    typeof inner === 'string' ? toStorable(inner) : inner,
  ).replaceAll(escapeMark, '\\ue0fe')
}

const toParameter = (value: SqlParameter): unknown =>
  Array.isArray(value) ? value.map(toScalar) : toScalar(value)

/** Integers of the database have no infinity: a bound that is infinite becomes the highest or lowest number. */
function toScalar<T>(value: T): T | string | number {
  if (typeof value === 'string') return toStorable(value)
  if (value === Number.POSITIVE_INFINITY) return Number.MAX_SAFE_INTEGER
  return value === Number.NEGATIVE_INFINITY ? Number.MIN_SAFE_INTEGER : value
}

/**
 * Returns the type to write after a value. Without one, the server takes the type from what is next to the value: of
 * 32 bits, beside a constant such as the 1000000 of `$1 * 1000000`.
 */
const typeOf = (value: SqlParameter): string =>
  typeof value === 'number' && (Number.isInteger(value) || Math.abs(value) === Number.POSITIVE_INFINITY)
    ? '::bigint'
    : ''

/** Returns the statement with `$1` for each value. */
export const toQuery = ({ texts, values }: Sql): { text: string; values: unknown[] } => ({
  text: texts.map((part, nth) => (nth === 0 ? part : `$${nth}${typeOf(values[nth - 1])}${part}`)).join(''),
  values: values.map(toParameter),
})

/** Returns the statement with its values written in it. */
export const toText = ({ texts, values }: Sql): string =>
  texts.map((text, nth) => (nth === 0 ? text : toLiteral(values[nth - 1]) + text)).join('')

/** Same form as the driver gives a parameter. */
function toLiteral(value: SqlParameter): string {
  if (value === undefined || value === null) return 'NULL'
  if (value instanceof Uint8Array) return `'\\x${Buffer.from(value).toString('hex')}'`
  // With standard_conforming_strings no other character is special.
  return `'${String(toArrayText(toParameter(value))).replaceAll("'", "''")}'${typeOf(value)}`
}

/** An array as the driver writes it: `{"a","b"}`. */
const toArrayText = (value: unknown): unknown =>
  Array.isArray(value)
    ? `{${value.map(one => `"${String(one).replace(/[\\"]/g, '\\$&')}"`).join(',')}}`
    : value

/** Numbers of the database stay below 2^53: row ids, times and sizes. */
export const types = {
  getTypeParser(oid: number, format?: 'text' | 'binary') {
    if (oid === pg.types.builtins.INT8 || oid === pg.types.builtins.NUMERIC) return Number
    if (oid === pg.types.builtins.TEXT || oid === pg.types.builtins.VARCHAR) return fromStorable
    if (oid === pg.types.builtins.JSON) return parseJson
    const parse = pg.types.getTypeParser(oid, format as 'text')
    if (oid === bigintArray) return (text: string) => (parse(text) as string[]).map(Number)
    return oid === textArray ? (text: string) => (parse(text) as string[]).map(fromStorable) : parse
  },
} as pg.CustomTypesConfig
const [bigintArray, textArray] = [1016, 1009]

const parseJson = (text: string): unknown =>
  text.includes(escapeMark)
    ? JSON.parse(text, (_key, value: unknown) => (typeof value === 'string' ? fromStorable(value) : value))
    : JSON.parse(text)

export function replaceNulls(row: Record<string, unknown>): Record<string, unknown> {
  for (const column in row) if (row[column] === null) row[column] = undefined
  return row
}

/** Rows of several statements as the columns of one: `rowsAsJson` makes a column, `rowsOfJson` reads it. */
export const rowsAsJson = (statement: Sql): Sql => sql`(SELECT json_agg(r) FROM (${statement}) r)`
export const rowsOfJson = <R extends object>(column: unknown): R[] =>
  ((column ?? []) as Record<string, unknown>[]).map(replaceNulls) as R[]
