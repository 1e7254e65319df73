/**
 * The one check of tool inputs, for every door: fills defaults, converts ids and times, refuses unknown keys by name,
 * and tells all problems at once: which field, what was expected, never the value.
 *
 * It reads the schemas as plain JSON Schema, of which tools use a small part; `checkVocabulary` refuses a tool that
 * uses more, so that no keyword is ever silently ignored.
 */
import type { Static, TSchema } from '@sinclair/typebox'
import { invalid, type Problem } from '../model/error.ts'
import { isObject } from '../platform/fields.ts'
import { conversionOf, type JsonSchema } from './schema.ts'

/**
 * The input as the tool wants it.
 *
 * @throws SvcError `invalid_arguments` with `details.errors`, a list of {@link Problem}
 */
export function parse<S extends TSchema>(schema: S, input: unknown): Static<S> {
  const problems: Problem[] = []
  const value = checked(schema, input, '', problems)
  if (problems.length > 0) throw invalid(problems)
  return value as Static<S>
}

/** What does not fit the schema; empty when all does. For tests and for doors that only look. */
export function problemsOf(schema: TSchema, value: unknown): Problem[] {
  const problems: Problem[] = []
  checked(schema, value, '', problems)
  return problems
}

function checked(schema: JsonSchema, value: unknown, field: string, problems: Problem[]): unknown {
  const conversion = conversionOf(schema)
  if (!conversion && schema.type === 'object') return checkedObject(schema, value, field, problems)
  if (!conversion && schema.type === 'array') return checkedArray(schema, value, field, problems)
  if (typeof value === 'string' && isCompared(schema) && !value.isWellFormed()) {
    problems.push({ field, problem: 'expected whole characters, got half of a surrogate pair' })
    return undefined
  }
  if (fits(schema, value)) {
    if (!conversion) return value
    const converted = conversion.convert(value as string | number)
    if (converted !== undefined) return converted
  }
  problems.push({ field, problem: `expected ${conversion?.expected ?? words(schema)}` })
  return undefined
}

function checkedObject(schema: JsonSchema, value: unknown, field: string, problems: Problem[]): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    problems.push({ field, problem: 'expected a JSON object' })
    return undefined
  }
  const properties = schema.properties ?? {}
  const input = value as Record<string, unknown>
  const out: Record<string, unknown> = {}
  const at = (key: string) => (field ? `${field}.${key}` : key)
  for (const key in properties) {
    const property = properties[key] ?? {}
    const given = Object.hasOwn(input, key) ? input[key] : undefined
    if (given !== undefined) out[key] = checked(property, given, at(key), problems)
    else if (property.default !== undefined) out[key] = structuredClone(property.default)
    else if (schema.required?.includes(key))
      problems.push({
        field: at(key),
        problem: `missing; expected ${conversionOf(property)?.expected ?? words(property)}`,
      })
  }
  for (const key of Object.keys(input)) {
    if (Object.hasOwn(properties, key)) continue
    const others = schema.additionalProperties
    if (others === false)
      problems.push({ field: at(shownKey(key)), problem: `unknown; ${allowed(properties)}` })
    else if (typeof others === 'object') out[key] = checked(others, input[key], at(shownKey(key)), problems)
  }
  return out
}

function checkedArray(schema: JsonSchema, value: unknown, field: string, problems: Problem[]): unknown {
  if (
    !Array.isArray(value) ||
    value.length < (schema.minItems ?? 0) ||
    value.length > (schema.maxItems ?? Number.POSITIVE_INFINITY)
  ) {
    problems.push({ field, problem: `expected ${words(schema)}` })
    return undefined
  }
  return value.map((entry, index) => checked(schema.items ?? {}, entry, `${field}[${index}]`, problems))
}

const flags: Readonly<Record<string, boolean>> = { true: true, 1: true, false: false, 0: false }

/** What stands in a query, a path or a form, which know texts alone, as the schema of the object wants it. */
export const spelled = (
  { properties }: Pick<JsonSchema, 'properties'>,
  fields: Readonly<Record<string, unknown>>,
) =>
  Object.fromEntries(
    Object.entries(fields).map(([name, value]) => {
      const type = properties?.[name]?.type
      if (type === 'boolean') return [name, flags[String(value)] ?? value]
      if (type === 'string' && typeof value === 'number') return [name, String(value)]
      const isNumber = (type === 'integer' || type === 'number') && /^-?\d+(\.\d+)?$/.test(String(value))
      return [name, isNumber ? Number(value) : value]
    }),
  )

// An unknown key comes from outside: short, on one line.
const shownKey = (key: string): string =>
  JSON.stringify(key.length > 40 ? `${key.slice(0, 40)}…` : key)
    .slice(1, -1)
    .replaceAll('\\"', '"')

function allowed(properties: Record<string, JsonSchema>): string {
  const names = Object.keys(properties)
  return names.length === 0 ? 'expected no arguments' : `expected one of ${names.join(', ')}`
}

/**
 * Ids, names, keys and paths are bounded, compared and stored as UTF-8, where lone surrogates are all the same. A text without a
 * bound is only sent.
 */
const isCompared = ({ maxLength, pattern }: JsonSchema): boolean =>
  maxLength !== undefined || pattern !== undefined

function fits(schema: JsonSchema, value: unknown): boolean {
  if (schema.anyOf) return schema.anyOf.some(one => fits(one, value))
  if (schema.enum && !schema.enum.includes(value)) return false
  if ('const' in schema && schema.const !== value) return false
  switch (schema.type) {
    case 'string': {
      if (typeof value !== 'string') return false
      // Code units first: never fewer than the characters that JSON Schema counts.
      if (schema.maxLength !== undefined && value.length > schema.maxLength) {
        if (value.length > schema.maxLength * 2 || [...value].length > schema.maxLength) return false
      }
      if (schema.minLength !== undefined && value.length < schema.minLength) return false
      return schema.pattern === undefined || new RegExp(schema.pattern, 'u').test(value)
    }
    case 'integer':
    case 'number':
      return (
        typeof value === 'number' &&
        (schema.type === 'integer' ? Number.isSafeInteger(value) : Number.isFinite(value)) &&
        value >= (schema.minimum ?? Number.NEGATIVE_INFINITY) &&
        value <= (schema.maximum ?? Number.POSITIVE_INFINITY)
      )
    case 'boolean':
      return typeof value === 'boolean'
    case 'object':
      return isObject(value)
    case 'array':
      return Array.isArray(value)
    case 'null':
      return value === null
    default:
      return true
  }
}

/** What a schema wants, in words: `an integer from 1 to 1000`. */
export function words(schema: JsonSchema): string {
  if (schema.anyOf) return schema.anyOf.map(words).join(' or ')
  if (schema.enum) return `one of ${schema.enum.join(', ')}`
  if ('const' in schema) return JSON.stringify(schema.const)
  switch (schema.type) {
    case 'string': {
      // `Shaped` says the shape of one; an expression is no word.
      if (schema.pattern !== undefined) return 'a string of a certain form'
      if (schema.maxLength !== undefined)
        return `a string of ${schema.minLength ?? 0} to ${schema.maxLength} characters`
      return schema.minLength ? 'a string that is not empty' : 'a string'
    }
    case 'integer':
    case 'number': {
      const kind = schema.type === 'integer' ? 'an integer' : 'a number'
      if (schema.minimum !== undefined && schema.maximum !== undefined)
        return `${kind} from ${schema.minimum} to ${schema.maximum}`
      return schema.minimum !== undefined ? `${kind} of at least ${schema.minimum}` : kind
    }
    case 'boolean':
      return 'true or false'
    case 'array': {
      if (schema.minItems !== undefined || schema.maxItems !== undefined)
        return `an array of ${schema.minItems ?? 0} to ${schema.maxItems ?? 'any number of'} entries`
      return 'an array'
    }
    case 'object':
      return 'a JSON object'
    default:
      return 'another value'
  }
}

const known = new Set(
  'type description default enum const minimum maximum minLength maxLength pattern items minItems maxItems properties required additionalProperties anyOf examples title'.split(
    ' ',
  ),
)

/**
 * Refuses a schema with a keyword that `parse` would ignore.
 *
 * @throws Error a fault of the program, found at its start
 */
export function checkVocabulary(schema: JsonSchema, where: string): void {
  for (const key of Object.keys(schema)) {
    if (!known.has(key)) throw new Error(`${where}: the keyword ${key} is not understood by parse`)
  }
  for (const [name, property] of Object.entries(schema.properties ?? {}))
    checkVocabulary(property, `${where}.${name}`)
  if (schema.items) checkVocabulary(schema.items, `${where}[]`)
  for (const one of schema.anyOf ?? []) checkVocabulary(one, where)
}
