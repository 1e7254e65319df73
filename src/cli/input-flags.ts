/**
 * Arguments and flags for the input of an operation: declares them, reads what was typed, and names keys in
 * errors.
 */

import { Argument, Option } from 'commander'
import { findFault, formatFault } from '../model/bad-json.ts'
import { badArgument, invalidArguments, type SvcError, withFieldNames } from '../model/error.ts'
import { untilSaid } from '../model/topic.ts'
import type { CommandShape, Operation } from '../operations/operation.ts'
import { describeSchema } from '../operations/parse.ts'
import type { JsonSchema } from '../operations/schema.ts'
import { quoteForShell } from '../platform/format.ts'
import { type Command, ListOption } from './command.ts'
import { aheadForms, parseSpan, parseTypedEnd, parseTypedTime, timeForms } from './typed-time.ts'

/** The parts of an operation with a command that flags are made from. */
export type FlaggedOperation = Pick<Operation, 'examples' | 'inputSchema'> & { readonly cli: CommandShape }

/**
 * Reads the typed input of an operation, unchecked.
 *
 * @throws SvcError `invalid_arguments` for a value typed twice
 */
export async function readTypedInput(
  shape: FlaggedOperation,
  command: Command,
): Promise<Record<string, unknown>> {
  const { cli } = shape
  const input: Record<string, unknown> = { ...cli.defaults }
  const typed = listTyped(shape, command)
  const isPiped = cli.stdinUnless && !command.io.in.isTerminal
  if (isPiped && !typed.some(([key]) => key === cli.stdin || cli.stdinUnless!.includes(key)))
    typed.push([cli.stdin!, '-'])
  for (const [key, text] of typed)
    input[key] =
      key === cli.stdin && text === '-'
        ? await (await import('./ask.ts')).readStdin(command.io)
        : await parseTypedValue(shape, key, text)
  command.input = input
  const [only, ...further] = command.series
  if (!cli.series || !only) return input
  const { entries, into, value } = cli.series
  if (further.length === 0) input[only[0]] = only[1]
  else {
    const before = Array.isArray(input[into]) ? input[into] : []
    input[into] = [...command.series.map(([key, text]) => ({ ...entries[key], [value]: text })), ...before]
  }
  return input
}

/**
 * Reads the typed times as Unix ms.
 *
 * @param now Unix ms, from the sandbox's clock there, which may be ahead
 */
export const readTypedTimes = (
  shape: FlaggedOperation,
  command: Command,
  now: number,
): Record<string, number> =>
  Object.fromEntries(
    listTyped(shape, command).flatMap(([key, text]) =>
      isTime(key) ? [[key, requireTime(key, String(text), now)]] : [],
    ),
  )

/** Returns the error with fields named as the flags or arguments that were typed. */
export const withFlagNames = (shape: FlaggedOperation, command: Command, error: SvcError): SvcError =>
  withFieldNames(error, ({ field, problem }) => ({
    field: toTypedField(shape, field, command),
    problem:
      toShownProblem(shape, field, problem, command.input) + describeTyped(shape, field, command.input),
  }))

type TypedValues = Readonly<Record<string, unknown>>

const schemaOf = (shape: FlaggedOperation, key: string): JsonSchema =>
  shape.inputSchema.properties?.[key] ?? {}

const isRequired = (shape: FlaggedOperation, key: string): boolean =>
  shape.inputSchema.required?.includes(key) ?? false

const positionalsOf = ({ cli }: FlaggedOperation): readonly string[] => cli.positionals ?? []

/** Returns the name of a key on the command line. */
const nameOf = ({ cli }: FlaggedOperation, key: string): string =>
  cli.names?.[key] ?? key.replaceAll('_', '-')

const hasFlag = (shape: FlaggedOperation, key: string): boolean =>
  !(positionalsOf(shape).includes(key) && isRequired(shape, key)) && shape.cli.untyped?.includes(key) !== true

/** Adds arguments and options. Options of `cli.series` add their values to the command's `series`. */
export function declareFlags(shape: FlaggedOperation, command: Command): void {
  const { cli } = shape
  for (const key of positionalsOf(shape)) {
    const isNeeded = isRequired(shape, key) && !cli.optionalPositionals?.includes(key)
    const named = `${nameOf(shape, key)}${cli.many ? '...' : ''}`
    const name = isNeeded ? `<${named}>` : `[${named}]`
    command.addArgument(new Argument(name, helpOf(shape, key)))
  }
  for (const [key, schema] of Object.entries(shape.inputSchema.properties ?? {})) {
    if (!hasFlag(shape, key)) continue
    const short = cli.short?.[key] ? `-${cli.short[key]}, ` : ''
    const value = schema.type === 'boolean' ? '' : ` <${placeholderOf(key, schema)}>`
    const flags = `${short}--${nameOf(shape, key)}${value}`
    const list = schema.items?.enum
    const help = `${helpOf(shape, key)}${isRequired(shape, key) ? ' (required)' : ''}`
    const option = list ? new ListOption(flags, help, list.map(String)) : new Option(flags, help)
    // Only for help and shell completion: `parse` of the operation checks the value.
    if (schema.enum) option.argChoices = choicesOf(schema)
    if (cli.series?.entries[key]) option.argParser((text: string) => command.series.push([key, text]))
    else if (schema.type === 'array' || schema.type === 'object')
      option.argParser((text: string, before?: string[]) => [...(before ?? []), text])
    command.addOption(option)
  }
}

/**
 * Lists the typed values by key, without `cli.series`.
 *
 * @throws SvcError `invalid_arguments` for a value typed twice
 */
function listTyped(shape: FlaggedOperation, parsed: Command): [key: string, value: unknown][] {
  const flags = parsed.opts<Record<string, unknown>>()
  const values: [string, unknown][] = []
  for (const key of Object.keys(shape.inputSchema.properties ?? {})) {
    const flagged = hasFlag(shape, key) ? flags[toCamelCase(nameOf(shape, key))] : undefined
    const nth = positionalsOf(shape).indexOf(key)
    const placed = nth < 0 ? undefined : parsed.args[nth]
    if (flagged !== undefined && placed !== undefined)
      throw invalidArguments([
        { field: `--${nameOf(shape, key)}`, problem: 'given twice, once without the flag' },
      ])
    const value = flagged ?? placed
    if (value !== undefined && !shape.cli.series?.entries[key]) values.push([key, value])
  }
  return values
}

/**
 * Returns the field of an error as it was typed. For entries of `series.into`: the flags that they came
 * from.
 */
function toTypedField(shape: FlaggedOperation, field: string, command: Command): string {
  const { cli, inputSchema } = shape
  const [, key = '', at, rest = ''] = /^(\w+)(?:\[(\d+)\])?(.*)$/.exec(field) ?? []
  if (!Object.hasOwn(inputSchema.properties ?? {}, key)) return field
  if (key === cli.series?.into) {
    const from = at === undefined ? command.series : command.series.slice(Number(at), Number(at) + 1)
    const flags = new Set(from.map(([origin]) => `--${nameOf(shape, origin)}`))
    if (flags.size > 0) return [...flags].join(', ')
  }
  const isFlagged = command.opts()[toCamelCase(nameOf(shape, key))] !== undefined
  if (positionalsOf(shape).includes(key) && !isFlagged)
    return `<${nameOf(shape, key)}>${at === undefined ? '' : rest}`
  return `--${nameOf(shape, key)}${at === undefined ? '' : rest}`
}

/**
 * Returns the problem with choices spelled as in the help. A missing value is only `missing`: the help
 * describes it.
 */
function toShownProblem(shape: FlaggedOperation, field: string, problem: string, typed: TypedValues): string {
  if (isRequired(shape, field) && typed[field] === undefined) return 'missing'
  const choices = choicesOf(schemaOf(shape, field))
  return choices ? `expected ${describeSchema({ enum: choices })}` : problem
}

const choicesOf = (schema: JsonSchema) => schema.enum?.map(one => String(one).toLowerCase())

/** Returns what an error adds for a person: the typed value, or an example of a JSON object. */
function describeTyped(shape: FlaggedOperation, field: string, typed: TypedValues): string {
  const [, key = '', at] = /^(\w+)(?:\[(\d+)\])?$/.exec(field) ?? []
  const { enum: choices, type } = schemaOf(shape, key)
  const value = typed[key]
  const entered: unknown = at !== undefined && Array.isArray(value) ? value[Number(at)] : value
  if (typeof entered !== 'string' && typeof entered !== 'number') return ''
  if (type === 'array') {
    const exampleValues = shape.examples.map(
      ({ input = {} }) => Object.entries(input).find(([name]) => name === key)?.[1],
    )
    const list = exampleValues.find(Array.isArray)
    return list ? ` as in ${JSON.stringify(list[0])}` : ''
  }
  if (!choices && type !== 'integer' && type !== 'number') return ''
  const text = String(entered)
  return `, got ${JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text)}`
}

/** Returns the help text of a key: the schema's description, its range and its default. */
function helpOf(shape: FlaggedOperation, key: string): string {
  const { cli } = shape
  const schema = schemaOf(shape, key)
  if (cli.help?.[key] !== undefined) return cli.help[key]
  const described = toHelpText(shape, schema.description ?? '')
  const text = isTime(key)
    ? described.replace(/ \(\w+\):.*/, key === 'since' ? timeExamples : '.')
    : described
  const { minimum, maximum } = schema
  const range =
    maximum !== undefined ? `${minimum ?? 0} to ${maximum}` : minimum ? `at least ${minimum}` : undefined
  const preset = cli.defaults?.[key] ?? schema.default
  const presetText =
    preset === undefined || preset === '' || preset === false ? undefined : `default ${preset}`
  const details = [range, presetText].filter(Boolean).join('; ')
  return details ? `${text} (${details})` : text
}

/** Returns a text about an operation for people at a terminal: its keys in backticks as they are typed. */
export const toHelpText = (shape: FlaggedOperation, text: string): string =>
  text
    .replace(/`(\w+)`/g, (_all, key: string) => {
      if (!Object.hasOwn(shape.inputSchema.properties ?? {}, key)) return key
      return hasFlag(shape, key) ? `--${nameOf(shape, key)}` : `<${nameOf(shape, key)}>`
    })
    .replaceAll('`', '')

/** Returns the placeholder of a value in help. Shell completion chooses its offers by it. */
function placeholderOf(key: string, schema: JsonSchema): string {
  if (schema.items?.enum) return key
  if (isTime(key)) return 'time'
  if (isSpan(key)) return 'span'
  if (schema.type === 'array' && schema.items?.type !== 'string') return 'json'
  if (schema.type === 'object') return 'name: value'
  if (schema.type === 'integer' || schema.type === 'number') return key === 'timeout' ? 'seconds' : 'number'
  if (schema.enum) return 'kind'
  if (/^session/.test(key)) return 'session'
  if (/^user/.test(key)) return 'user'
  if (/_path$/.test(key)) return 'file'
  if (/_dir$/.test(key)) return 'folder'
  if (key === 'from') return 'place'
  if (['ack', 'after', 'before'].includes(key)) return 'id'
  if (/text/.test(key)) return 'text'
  return 'value'
}

const timeExamples = ': 1h, 3d, yesterday, 2026-01-31 08:00 (local time unless a zone is given).'

const isSpan = (key: string): boolean => key.endsWith('_seconds')
const isAheadTime = (key: string): boolean => /_(at|until)$/.test(key)
const isTime = (key: string): boolean => key === 'since' || key === 'until' || isAheadTime(key)

function requireTime(key: string, text: string, now: number): number {
  const isAhead = isAheadTime(key)
  if (key.endsWith('_until') && /^(on|off)$/i.test(text)) return text.length === 2 ? untilSaid : 0
  const time = isAhead ? parseTypedEnd(text, now) : parseTypedTime(text, now)
  if (time === undefined) throw badArgument(key, `expected ${isAhead ? aheadForms : timeForms}`)
  return time
}

/**
 * Converts a typed value to the schema's JSON type. A value of another form stays a string, which `parse`
 * rejects.
 */
async function parseTypedValue(shape: FlaggedOperation, key: string, typed: unknown): Promise<unknown> {
  const schema = schemaOf(shape, key)
  if (Array.isArray(typed)) {
    if (schema.type === 'object') return Object.fromEntries(typed.map(text => parsePair(key, text)))
    if (schema.items?.type === 'string') return typed.flatMap(splitList)
    return await Promise.all(typed.map((text, nth) => parseJsonValue(text, `${key}[${nth}]`)))
  }
  if (typeof typed !== 'string') return typed
  if (isSpan(key) && !/^\d+$/.test(typed)) {
    const ms = parseSpan(typed)
    if (ms === undefined) throw badArgument(key, 'expected a span such as 12h or 1d, or seconds')
    return ms / 1000
  }
  if (schema.type === 'integer' || schema.type === 'number')
    return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(typed) ? Number(typed) : typed
  if (schema.enum) return schema.enum.find(one => String(one).toLowerCase() === typed.toLowerCase()) ?? typed
  return typed
}

const splitList = (text: string) => text.split(',').map(part => part.trim())

function parsePair(key: string, text: string): [name: string, value: string] {
  const at = text.indexOf(':')
  if (at > 0) return [text.slice(0, at).trim(), text.slice(at + 1).trim()]
  throw badArgument(key, 'expected a name and a value, as in "Authorization: Bearer abc"')
}

/**
 * Parses JSON. Other text is returned unchanged.
 *
 * @throws SvcError `invalid_arguments` for broken JSON (begins with [ or {)
 */
async function parseJsonValue(text: string, field: string): Promise<unknown> {
  try {
    return JSON.parse(text)
  } catch {
    const fault = /^\s*[[{]/.test(text) ? await findFault(text) : undefined
    if (fault) throw badArgument(field, `expected JSON: ${formatFault(fault)}`)
    return text
  }
}

/** Returns the key under which commander stores an option's value. */
const toCamelCase = (name: string) => name.replace(/-(.)/g, (_all, letter: string) => letter.toUpperCase())

/**
 * Returns the command's own examples, or makes command lines from those of the operation, without those that have
 * objects.
 */
export function formatExamples(shape: FlaggedOperation): (readonly [line: string, does: string])[] {
  const { cli } = shape
  const isOwn = cli.examples !== undefined && !cli.addsExamples
  const lines = (isOwn ? [] : shape.examples).flatMap(({ summary, input = {} }): [string, string][] => {
    const values = new Map(Object.entries(input).filter(([, value]) => value !== ''))
    if ([...values.values()].some(value => typeof value === 'object')) return []
    const words = ['svc', ...cli.path]
    const bare = positionalsOf(shape).filter(key => values.has(key))
    for (const key of bare) words.push(quoteForShell(String(values.get(key))))
    for (const [key, value] of values) {
      if (bare.includes(key) || !hasFlag(shape, key)) continue
      words.push(`--${nameOf(shape, key)}`, ...(value === true ? [] : [quoteForShell(String(value))]))
    }
    return [[words.join(' '), summary]]
  })
  return [...lines, ...(cli.examples ?? [])]
}
