/**
 * Schemas of inputs that callers may write in two forms: ids, row ids and times.
 *
 * OpenAPI and MCP get each as an ordinary `anyOf`. The schema has the conversion that `parse` applies under a
 * symbol, which JSON does not contain.
 */

import {
  type Static,
  type TObject,
  type TOptional,
  type TSchema,
  type TUnsafe,
  Type,
} from '@sinclair/typebox'
import { type EventStart, parseEventStart } from '../model/webhook.ts'

/** Plain JSON Schema, without symbols and functions. OpenAPI and MCP get this. */
export type JsonSchema = {
  type?: string
  description?: string
  default?: unknown
  enum?: readonly unknown[]
  const?: unknown
  minimum?: number
  maximum?: number
  minLength?: number
  maxLength?: number
  pattern?: string
  items?: JsonSchema
  minItems?: number
  maxItems?: number
  properties?: Record<string, JsonSchema>
  required?: readonly string[]
  additionalProperties?: boolean | JsonSchema
  anyOf?: readonly JsonSchema[]
  examples?: readonly unknown[]
  [other: string]: unknown
}

/** Converts a TypeBox schema to plain JSON Schema. */
export const toJsonSchema = (schema: TSchema): JsonSchema => JSON.parse(JSON.stringify(schema))

/** Conversion of a value that fits its schema to the value that the operation gets. */
export interface Conversion {
  /** Description of the expected value, for the error. */
  readonly expected: string
  /** Returns the converted value; undefined if the value is not valid. */
  convert(value: string | number): unknown
}

const conversion = Symbol('svc.conversion')

/** Returns the conversion of a schema, if it has one. */
export const conversionOf = (schema: object): Conversion | undefined =>
  (schema as { [conversion]?: Conversion })[conversion]

declare const given: unique symbol

/**
 * A schema whose callers may write a value as `Given`, and whose operation gets it as `Seen`. Only for types.
 */
export type LenientSchema<Seen, Given> = TUnsafe<Seen> & { readonly [given]?: Given }

/** Type of the values that a caller may pass for a schema. `Static` is the type that the operation gets. */
type CallerValue<S extends TSchema> =
  S extends LenientSchema<unknown, infer G> ? (unknown extends G ? Static<S> : G) : Static<S>

/** Type of the input that a caller may pass to an operation. */
export type CallerInput<S extends TSchema> =
  S extends TObject<infer P>
    ? { [K in keyof P as P[K] extends TOptional<TSchema> ? never : K]: CallerValue<P[K]> } & {
        [K in keyof P as P[K] extends TOptional<TSchema> ? K : never]?: CallerValue<P[K]>
      }
    : Static<S>

interface Options {
  maxLength?: number
  examples?: unknown[]
  default?: unknown
}

/** A string with a pattern. @param expected description of the pattern for errors, in words */
export const PatternString = (
  pattern: string,
  expected: string,
  description: string,
  options: Options = {},
) =>
  Type.Unsafe<string>({
    type: 'string',
    pattern,
    description,
    ...options,
    [conversion]: { expected, convert: value => value } satisfies Conversion,
  })

const idConversion: Conversion = {
  expected: 'an id: a string, or an integer of at most 2^53',
  // A larger number has already lost its last digits in JSON; only a string keeps them.
  convert: value =>
    typeof value === 'string' ? value || undefined : Number.isSafeInteger(value) ? String(value) : undefined,
}

/**
 * An id: a string. A caller may also write an integer of at most 2^53; larger ids of WeChat must be strings.
 */
export const Id = (description: string, options: Options = {}): LenientSchema<string, string | number> =>
  Type.Unsafe<string>({
    anyOf: [{ type: 'string', minLength: 1, maxLength: 512 }, { type: 'integer' }],
    description,
    ...options,
    [conversion]: idConversion,
  })

const rowIdConversion: Conversion = {
  expected: 'a row id: an integer of at least 0',
  convert: value => {
    const id = typeof value === 'string' && /^\d{1,16}$/.test(value) ? Number(value) : value
    return typeof id === 'number' && Number.isSafeInteger(id) && id >= 0 ? id : undefined
  },
}

/** A row id of the message log: an integer. A caller may also write it as a string. */
export const RowId = (description: string, options: Options = {}): LenientSchema<number, number | string> =>
  Type.Unsafe<number>({
    anyOf: [
      { type: 'integer', minimum: 0 },
      { type: 'string', pattern: '^[0-9]{1,16}$' },
    ],
    description,
    ...options,
    [conversion]: rowIdConversion,
  })

/** A row id, or `end`: the newest row. */
export const RowIdOrEnd = (description: string): LenientSchema<number | 'end', number | string> =>
  Type.Unsafe<number | 'end'>({
    anyOf: [
      { type: 'integer', minimum: 0 },
      { type: 'string', pattern: '^([0-9]{1,16}|end)$' },
    ],
    description,
    [conversion]: {
      expected: `${rowIdConversion.expected}, or "end"`,
      convert: value => (value === 'end' ? value : rowIdConversion.convert(value)),
    } satisfies Conversion,
  })

/** Maximum of `offset`: matches are counted up to this number. */
const maxOffset = 10_000

/** Number of matches to skip before a page. */
export const Offset = (description: string) =>
  Type.Unsafe<number>({
    type: 'integer',
    minimum: 0,
    maximum: maxOffset,
    default: 0,
    description,
    [conversion]: {
      expected: `an integer of 0 to ${maxOffset}; for more, use before with the next_before of the previous page`,
      convert: value => value,
    } satisfies Conversion,
  })

const timeConversion: Conversion = {
  expected:
    'a time: integer Unix milliseconds, or ISO 8601 such as 2026-01-31T08:00:00+08:00 (no zone = UTC); 1h and yesterday work only on the command line',
  convert: value =>
    typeof value === 'string'
      ? parseTime(value)
      : Number.isSafeInteger(value) && Math.abs(value) <= maxTime
        ? value
        : undefined,
}

/** A time: integer Unix milliseconds, or ISO 8601, in which no zone means UTC. */
export const Time = (description: string, options: Options = {}): LenientSchema<number, number | string> =>
  Type.Unsafe<number>({
    anyOf: [{ type: 'integer' }, { type: 'string', minLength: 4, maxLength: 40 }],
    description,
    ...options,
    [conversion]: timeConversion,
  })

/** A position in the event log: the id of an event, or a time in the forms of `Time`. */
export const EventPosition = (description: string): LenientSchema<EventStart, string | number> =>
  Type.Unsafe<EventStart>({
    anyOf: [{ type: 'string', minLength: 1, maxLength: 64 }, { type: 'integer' }],
    description,
    examples: ['2026-01-31T08:00:00Z'],
    [conversion]: {
      expected: `the id of an event, or ${timeConversion.expected}`,
      convert(value) {
        const time = timeConversion.convert(value)
        return parseEventStart(String(value), typeof time === 'number' ? time : undefined)
      },
    } satisfies Conversion,
  })

const maxTime = 8.64e15
const iso =
  /^(\d{4})-(\d{2})-(\d{2})(?:[Tt ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?\s?(Z|z|[+-]\d{2}(?::?\d{2})?)?)?$/

/**
 * Parses an ISO 8601 date, or date and time, to Unix milliseconds. A string of 11 to 16 digits counts as
 * milliseconds, since command lines have no integers. Returns undefined for other texts, and for a day that
 * does not exist.
 */
export function parseTime(text: string): number | undefined {
  if (/^\d{11,16}$/.test(text)) {
    const ms = Number(text)
    return ms <= maxTime ? ms : undefined
  }
  const match = iso.exec(text)
  if (!match) return undefined
  const [, year, month, day, hour = '0', minute = '0', second = '0', fraction = '', zone = 'Z'] = match
  const date = new Date(0)
  date.setUTCFullYear(Number(year), Number(month) - 1, Number(day))
  // A day that does not exist rolls over into the next month.
  if (date.getUTCMonth() !== Number(month) - 1 || date.getUTCDate() !== Number(day)) return undefined
  if (Number(hour) > 24 || Number(minute) > 59 || Number(second) > 60) return undefined
  if (Number(hour) === 24 && (Number(minute) > 0 || Number(second) > 0)) return undefined
  date.setUTCHours(Number(hour), Number(minute), Number(second), Number(fraction.padEnd(3, '0').slice(0, 3)))
  const offset = /^([+-])(\d{2}):?(\d{2})?$/.exec(zone)
  if (!offset) return date.getTime()
  const [, sign, hours, minutes = '0'] = offset
  if (Number(hours) > 23 || Number(minutes) > 59) return undefined
  const shift = (Number(hours) * 60 + Number(minutes)) * 60_000
  return date.getTime() - (sign === '-' ? -shift : shift)
}
