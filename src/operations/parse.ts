/**
 * Checks the inputs of operations, for every door. It fills in defaults, converts ids and times, and rejects
 * unknown keys. It reports all problems together: the field and what was expected, never the value.
 *
 * `parse` supports the part of JSON Schema that operations use. `checkVocabulary` rejects an operation with
 * other keywords, so that no keyword is silently ignored.
 */
import type { Static, TSchema } from '@sinclair/typebox'
import { invalidArguments, type Problem } from '../model/error.ts'
import { isObject } from '../platform/fields.ts'
import { conversionOf, type JsonSchema } from './schema.ts'

/**
 * Checks an input and returns it with defaults and converted values.
 *
 * @throws SvcError `invalid_arguments` with `details.errors`, a list of {@link Problem}
 */
export function parse<S extends TSchema>(schema: S, input: unknown): Static<S> {
  const problems: Problem[] = []
  const value = checkValue(schema, input, '', problems)
  if (problems.length > 0) throw invalidArguments(problems)
  return value as Static<S>
}

/** Returns the problems of a value; empty if it fits the schema. For callers that need no converted value. */
export function problemsOf(schema: TSchema, value: unknown): Problem[] {
  const problems: Problem[] = []
  checkValue(schema, value, '', problems)
  return problems
}

function checkValue(schema: JsonSchema, value: unknown, field: string, problems: Problem[]): unknown {
  const conversion = conversionOf(schema)
  if (!conversion && schema.type === 'object') return checkObject(schema, value, field, problems)
  if (!conversion && schema.type === 'array') return checkArray(schema, value, field, problems)
  if (typeof value === 'string' && mustBeWellFormed(schema) && !value.isWellFormed()) {
    problems.push({ field, problem: 'expected whole characters, got half of a surrogate pair' })
    return undefined
  }
  if (matchesSchema(schema, value)) {
    if (!conversion) return value
    const converted = conversion.convert(value as string | number)
    if (converted !== undefined) return converted
  }
  problems.push({ field, problem: `expected ${conversion?.expected ?? describeSchema(schema)}` })
  return undefined
}

function checkObject(schema: JsonSchema, value: unknown, field: string, problems: Problem[]): unknown {
  if (typeof value !== 'object' || value === null || !isPlain(value)) {
    problems.push({ field, problem: 'expected a JSON object' })
    return undefined
  }
  const properties = schema.properties ?? {}
  const input = value as Record<string, unknown>
  const out: Record<string, unknown> = {}
  const at = (key: string) => (field ? `${field}.${key}` : key)
  for (const key in properties) {
    const property = properties[key] ?? {}
    const own = Object.hasOwn(input, key) ? input[key] : undefined
    if (own !== undefined) out[key] = checkValue(property, own, at(key), problems)
    else if (property.default !== undefined) out[key] = structuredClone(property.default)
    else if (schema.required?.includes(key))
      problems.push({
        field: at(key),
        problem: `missing; expected ${conversionOf(property)?.expected ?? describeSchema(property)}`,
      })
  }
  for (const key of Object.keys(input)) {
    if (Object.hasOwn(properties, key)) continue
    const additional = schema.additionalProperties
    if (additional === false)
      problems.push({ field: at(formatKey(key)), problem: `unknown; ${describeKeys(properties)}` })
    else if (typeof additional === 'object')
      out[key] = checkValue(additional, input[key], at(formatKey(key)), problems)
  }
  return out
}

/**
 * Whether it is a plain object: the content of a list, a promise, a map or an object with inherited fields would be
 * ignored silently.
 */
function isPlain(value: object): boolean {
  const parent = Object.getPrototypeOf(value)
  return parent === null || Object.getPrototypeOf(parent) === null
}

function checkArray(schema: JsonSchema, value: unknown, field: string, problems: Problem[]): unknown {
  if (
    !Array.isArray(value) ||
    value.length < (schema.minItems ?? 0) ||
    value.length > (schema.maxItems ?? Number.POSITIVE_INFINITY)
  ) {
    problems.push({ field, problem: `expected ${describeSchema(schema)}` })
    return undefined
  }
  return value.map((entry, index) => checkValue(schema.items ?? {}, entry, `${field}[${index}]`, problems))
}

const flags: Readonly<Record<string, boolean>> = { true: true, 1: true, false: false, 0: false }

/** Converts the string values of a query, a path or a form to the types in the schema of the object. */
export const coerceStrings = (
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

/** Formats an unknown key for an error: at most 40 characters, on one line. */
const formatKey = (key: string): string =>
  JSON.stringify(key.length > 40 ? `${key.slice(0, 40)}…` : key)
    .slice(1, -1)
    .replaceAll('\\"', '"')

function describeKeys(properties: Record<string, JsonSchema>): string {
  const names = Object.keys(properties)
  return names.length === 0 ? 'expected no arguments' : `expected one of ${names.join(', ')}`
}

/**
 * Returns whether a string must be well-formed. Ids, names, keys and paths have a bound or a pattern. They
 * are compared and stored as UTF-8, where all lone surrogates become equal. A text without a bound is only
 * sent.
 */
const mustBeWellFormed = ({ maxLength, pattern }: JsonSchema): boolean =>
  maxLength !== undefined || pattern !== undefined

function matchesSchema(schema: JsonSchema, value: unknown): boolean {
  if (schema.anyOf) return schema.anyOf.some(option => matchesSchema(option, value))
  if (schema.enum && !schema.enum.includes(value)) return false
  if ('const' in schema && schema.const !== value) return false
  switch (schema.type) {
    case 'string': {
      if (typeof value !== 'string') return false
      // JSON Schema counts characters. There are never more characters than code units, which are faster to
      // count.
      if (schema.maxLength !== undefined && value.length > schema.maxLength) {
        if (value.length > schema.maxLength * 2 || [...value].length > schema.maxLength) return false
      }
      // For `minLength` 1, its usual value, characters and code units give the same result.
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

/** Describes what a schema expects, such as `an integer from 1 to 1000`. */
export function describeSchema(schema: JsonSchema): string {
  if (schema.anyOf) return schema.anyOf.map(describeSchema).join(' or ')
  if (schema.enum) return `one of ${schema.enum.join(', ')}`
  if ('const' in schema) return JSON.stringify(schema.const)
  switch (schema.type) {
    case 'string': {
      // A schema made by `PatternString` has its own description; a regular expression is not readable.
      if (schema.pattern !== undefined)
        return schema.examples?.[0] === undefined
          ? 'a string of a certain form'
          : `a string such as ${schema.examples[0]}`
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

const knownKeywords = new Set(
  'type description default enum const minimum maximum minLength maxLength pattern items minItems maxItems properties required additionalProperties anyOf examples title'.split(
    ' ',
  ),
)

/**
 * Rejects a schema with a keyword that `parse` would ignore. Runs at the start of the program.
 *
 * @throws Error with the path of the schema and the keyword
 */
export function checkVocabulary(schema: JsonSchema, where: string): void {
  for (const key of Object.keys(schema)) {
    if (!knownKeywords.has(key)) throw new Error(`${where}: the keyword ${key} is not understood by parse`)
  }
  for (const [name, property] of Object.entries(schema.properties ?? {}))
    checkVocabulary(property, `${where}.${name}`)
  if (schema.items) checkVocabulary(schema.items, `${where}[]`)
  for (const option of schema.anyOf ?? []) checkVocabulary(option, where)
}
