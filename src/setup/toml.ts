/**
 * Settings in TOML. An entry is one table of its own at the end of the file, so it is put in and taken out by whole
 * lines; whether the file says afterwards what it should is checked by parsing it. What is written in another way (an
 * inline table, dotted names, tables below it) is left to a person.
 */
import { parse, TomlError } from 'smol-toml'
import {
  type Edit,
  type Format,
  lineEndOf,
  type Step,
  sameSettings,
  Unreadable,
  unmarked,
  valueAt,
} from './edit.ts'

/** The format. */
export const toml: Format = {
  name: 'TOML',
  parse: parsed,
  put(text, edit) {
    const [mark, bare] = unmarked(text ?? '')
    const eol = lineEndOf(bare)
    const block = tableOf(edit, eol)
    const expected = withValue(parsed(bare), edit)
    const after = text === undefined ? block + eol : placed(bare, edit, block, eol)
    if (!says(after, expected)) throw new Unreadable(unsafe)
    return mark + after
  },
  take(text, path) {
    const [mark, bare] = unmarked(text)
    const settings = parsed(bare)
    if (valueAt(settings, path) === undefined) return text
    const found = blockOf(bare, namesOf(path))
    const after = found && without(bare, found)
    if (!found || !says(after ?? '', withValue(settings, { path, value: undefined })))
      throw new Unreadable(unsafe)
    return after === undefined ? undefined : mark + after
  },
  snippet: edits => edits.map(edit => tableOf(edit, '\n')).join('\n\n'),
}

const unsafe = 'has this written in a way that cannot be edited safely'

const says = (text: string, settings: unknown) => isWhole(text) && sameSettings(parsed(text), settings)

function parsed(text: string): unknown {
  try {
    return parse(unmarked(text)[1])
  } catch (error) {
    if (!(error instanceof TomlError)) throw error
    const reason = error.message.split('\n')[0]?.replace('Invalid TOML document: ', '') ?? ''
    throw new Unreadable(`is not valid TOML (line ${error.line}: ${reason})`)
  }
}

/** Without a line end: whether the last line has one, the file decides. */
function tableOf({ path, value }: Edit, eol: string): string {
  const lines = Object.entries(value as object).map(([name, one]) => `${keyOf(name)} = ${literal(one)}`)
  return [`[${namesOf(path).map(keyOf).join('.')}]`, ...lines].join(eol)
}

function placed(text: string, { path }: Edit, block: string, eol: string): string {
  const found = blockOf(text, namesOf(path))
  if (found) return text.slice(0, found.start) + block + text.slice(found.end)
  if (text === '') return block
  // A file whose last line does not end gets none after the table either: so `take` knows.
  return text.endsWith('\n') ? text + eol + block + eol : text + eol + eol + block
}

/** The lines of a table: from its head to its last value. */
interface Block {
  start: number
  end: number
}

function blockOf(text: string, names: readonly string[]): Block | undefined {
  const heads = /^[ \t]*\[([^[\]\r\n]+)\][ \t]*(?:#[^\r\n]*)?$/gm
  for (let match = heads.exec(text); match; match = heads.exec(text)) {
    // A line of a long text may look like a head.
    if (!isHead(match[1]!, names) || !isWhole(text.slice(0, match.index))) continue
    // The values follow until something is neither a value nor within one. Every shorter piece that parses is a table.
    let end = match.index + match[0].length
    const rest = text.slice(end)
    for (const line of rest.matchAll(/\r?\n[^\r\n]*/g)) {
      if (/^\s*\[/.test(line[0]) && isWhole(text.slice(match.index, end))) break
      if (/^\s*(?:#.*)?$/.test(line[0]) && isWhole(text.slice(match.index, end))) break
      end += line[0].length
    }
    return { start: match.index, end }
  }
  return undefined
}

function isHead(text: string, names: readonly string[]): boolean {
  try {
    return sameSettings(parse(`[${text}]`), withValue({}, { path: names, value: {} }))
  } catch {
    return false
  }
}

function isWhole(text: string): boolean {
  try {
    parsed(text)
    return true
  } catch {
    return false
  }
}

/** Without the block, its line end, and the empty line before it; undefined when the file was begun by `put`. */
function without(text: string, { start, end }: Block): string | undefined {
  const eol = /^\r?\n/.exec(text.slice(end))?.[0]
  if (start === 0 && eol !== undefined && end + eol.length === text.length) return undefined
  const before = text.slice(0, start).replace(eol === undefined ? /\r?\n\r?\n$/ : /(?<=\n)\r?\n$/, '')
  return before + text.slice(end + (eol?.length ?? 0))
}

/** The settings with the value at the path; undefined takes it away, and what is empty then. */
function withValue(settings: unknown, { path, value }: Edit): unknown {
  const [name, ...rest] = namesOf(path)
  if (name === undefined) return value
  const copy: Record<string, unknown> = { ...(settings as object) }
  const inner = withValue(copy[name] ?? {}, { path: rest, value })
  const isGone =
    inner === undefined ||
    (value === undefined && typeof inner === 'object' && inner !== null && Object.keys(inner).length === 0)
  if (isGone) delete copy[name]
  else copy[name] = inner
  return copy
}

const namesOf = (path: readonly Step[]): string[] => path.map(String)

const keyOf = (name: string) => (/^[\w-]+$/.test(name) ? name : literal(name))

function literal(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(literal).join(', ')}]`
  // A text of JSON is one of TOML, but for this character.
  return JSON.stringify(value).replaceAll('\u007f', '\\u007f')
}
