/** A tool's input as arguments and flags: how each key is called, and what was typed for it. */

import { Argument, type Command, Option } from 'commander'
import { invalid, renamed, type SvcError } from '../model/error.ts'
import { shellWord } from '../platform/shell.ts'
import type { Tool } from '../tools/index.ts'
import type { JsonSchema } from '../tools/schema.ts'

/** Flags that were given several times, in the order given: input key and value. */
type Series = (readonly [key: string, value: string])[]

/** A tool's command: its flags are declared, and what was typed becomes the tool's input. */
export interface ToolFlags {
  /** As a tool takes it, unchecked. @throws SvcError `invalid_arguments` for one thing said twice */
  input(command: Command, stdin: () => Promise<string>): Promise<Record<string, unknown>>
  /** The error in the words of the command line: fields as the flags they were given by. */
  told(error: SvcError): SvcError
}

/** Adds what the tool takes to its command. */
export function addToolFlags(command: Command, tool: Tool): ToolFlags {
  const { cli } = tool
  const properties = tool.inputSchema.properties ?? {}
  const required = tool.inputSchema.required ?? []
  const nameOf = (key: string) => cli.names?.[key] ?? key.replaceAll('_', '-')
  const hasFlag = (key: string) => !(cli.positionals.includes(key) && required.includes(key))
  const series: Series = []

  for (const key of cli.positionals) {
    const name = required.includes(key) ? `<${nameOf(key)}>` : `[${nameOf(key)}]`
    command.addArgument(new Argument(name, helpOf(tool, key)))
  }
  for (const [key, schema] of Object.entries(properties)) {
    if (!hasFlag(key)) continue
    const short = cli.short[key] ? `-${cli.short[key]}, ` : ''
    const value = schema.type === 'boolean' ? '' : ` <${placeholderOf(key, schema)}>`
    const option = new Option(`${short}--${nameOf(key)}${value}`, helpOf(tool, key))
    // Shown in help and offered by the shell; our own parse is what checks.
    if (schema.enum) option.argChoices = schema.enum.map(one => String(one).toLowerCase())
    if (cli.series?.entries[key]) option.argParser((text: string) => series.push([key, text]))
    else if (schema.type === 'array')
      option.argParser((text: string, before?: string[]) => [...(before ?? []), text])
    command.addOption(option)
  }

  /** Where the entries of `series.into` came from, by their place in it. */
  let origins: string[] = []
  const asTyped = (field: string): string => {
    const [, key = '', at, rest = ''] = /^(\w+)(?:\[(\d+)\])?(.*)$/.exec(field) ?? []
    if (!Object.hasOwn(properties, key)) return field
    if (key === cli.series?.into && origins.length > 0) {
      const flags = [...new Set(at === undefined ? origins : origins.slice(Number(at), Number(at) + 1))]
      if (flags.length > 0) return flags.map(origin => `--${nameOf(origin)}`).join(', ')
    }
    return (hasFlag(key) ? `--${nameOf(key)}` : `<${nameOf(key)}>`) + (at === undefined ? '' : rest)
  }

  let typed: Readonly<Record<string, unknown>> = {}
  /** What a person is told besides: what was typed in place of a choice, and how such an object looks. */
  const more = (field: string): string => {
    const [, key = '', at] = /^(\w+)(?:\[(\d+)\])?$/.exec(field) ?? []
    const { enum: choices, type } = properties[key] ?? {}
    const given = at === undefined ? typed[key] : (typed[key] as unknown[] | undefined)?.[Number(at)]
    if (typeof given !== 'string' && typeof given !== 'number') return ''
    if (type === 'array') {
      const shown = tool.examples
        .map(({ input }) => (input as Record<string, unknown>)[key])
        .find(Array.isArray)
      return shown ? ` as in ${JSON.stringify(shown[0])}` : ''
    }
    if (!choices && type !== 'integer' && type !== 'number') return ''
    const text = String(given)
    return `, got ${JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text)}`
  }

  return {
    async input(parsed, stdin) {
      const flags = parsed.opts() as Record<string, unknown>
      const input: Record<string, unknown> = { ...cli.defaults }
      for (const [key, schema] of Object.entries(properties)) {
        const given = hasFlag(key) ? flags[camelCase(nameOf(key))] : undefined
        const nth = cli.positionals.indexOf(key)
        const placed = nth < 0 ? undefined : parsed.args[nth]
        if (given !== undefined && placed !== undefined)
          throw invalid([{ field: `--${nameOf(key)}`, problem: 'given twice, once without the flag' }])
        const text = given ?? placed
        if (text === undefined || cli.series?.entries[key]) continue
        input[key] = typedValue(schema, key === cli.stdin && text === '-' ? await stdin() : text)
      }
      typed = input
      origins = series.map(([key]) => key)
      if (cli.series && series.length === 1) input[series[0]![0]] = series[0]![1]
      else if (cli.series && series.length > 1) {
        const { entries, into, value } = cli.series
        const before = (input[into] as unknown[] | undefined) ?? []
        input[into] = [...series.map(([key, text]) => ({ ...entries[key], [value]: text })), ...before]
      }
      return input
    },
    told: error =>
      renamed(error, ({ field, problem }) => ({ field: asTyped(field), problem: problem + more(field) })),
  }
}

/** What help says of a key: the schema's words, its range and its default. */
function helpOf(tool: Tool, key: string): string {
  const { cli } = tool
  const schema = tool.inputSchema.properties?.[key] ?? {}
  if (cli.help?.[key] !== undefined) return cli.help[key]
  const text = (schema.description ?? '').replaceAll('`', '')
  const { minimum, maximum } = schema
  const range =
    maximum !== undefined ? `${minimum ?? 0} to ${maximum}` : minimum ? `at least ${minimum}` : undefined
  const usual = cli.defaults?.[key] ?? schema.default
  const shown = usual === undefined || usual === '' || usual === false ? undefined : `default ${usual}`
  const more = [range, shown].filter(Boolean).join('; ')
  return more ? `${text} (${more})` : text
}

/** What stands for a value in help; by it the shell knows what to offer. */
function placeholderOf(key: string, schema: JsonSchema): string {
  if (schema.type === 'array') return 'json'
  if (schema.type === 'integer' || schema.type === 'number') return key === 'timeout' ? 'seconds' : 'number'
  if (schema.enum) return 'kind'
  if (/^session/.test(key)) return 'session'
  if (/^user/.test(key)) return 'user'
  if (/_path$/.test(key)) return 'file'
  if (/_dir$/.test(key)) return 'folder'
  if (key === 'since' || key === 'until') return 'time'
  if (key === 'after' || key === 'before') return 'id'
  if (/text/.test(key)) return 'text'
  return 'value'
}

/** What was typed as the JSON that the schema wants; what does not look like it stays a text, and is refused. */
function typedValue(schema: JsonSchema, given: unknown): unknown {
  if (schema.type === 'array') return (given as string[]).map(parsedJson)
  if (typeof given !== 'string') return given
  if (schema.type === 'integer' || schema.type === 'number')
    return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(given) ? Number(given) : given
  if (schema.enum) return schema.enum.find(one => String(one).toLowerCase() === given.toLowerCase()) ?? given
  return given
}

function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** As commander keeps the values of options. */
const camelCase = (name: string) => name.replace(/-(.)/g, (_all, letter: string) => letter.toUpperCase())

/** The tool's examples as command lines, those that fit on one, and the command line's own. */
export function exampleLines(tool: Tool): (readonly [line: string, does: string])[] {
  const { cli } = tool
  const required = tool.inputSchema.required ?? []
  const lines = (cli.ownExamples ? [] : tool.examples).flatMap(({ summary, input }): [string, string][] => {
    const given = input as Record<string, unknown>
    if (Object.values(given).some(value => typeof value === 'object')) return []
    const words = ['svc', ...cli.path]
    const bare = cli.positionals.filter(key => given[key] !== undefined && given[key] !== '')
    for (const key of bare) words.push(shellWord(String(given[key])))
    for (const [key, value] of Object.entries(given)) {
      if (bare.includes(key) || value === '' || (cli.positionals.includes(key) && required.includes(key)))
        continue
      const flag = `--${cli.names?.[key] ?? key.replaceAll('_', '-')}`
      words.push(...(value === true ? [flag] : [flag, shellWord(String(value))]))
    }
    return [[words.join(' '), summary]]
  })
  return [...lines, ...(cli.examples ?? [])]
}
