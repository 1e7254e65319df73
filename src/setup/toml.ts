/**
 * Settings in TOML. An entry is one table of its own, which goes in at the end and is taken out by whole lines; parsing
 * tells whether nothing else changed. What is written in another way (an inline table, dotted names, tables below it) is
 * left to a person.
 */
import { parse, stringify, TomlError } from 'smol-toml'
import { type Format, leaves, lineEndOf, type Step, Unreadable, valueAt } from './edit.ts'

/** The format. */
export const toml: Format = {
  name: 'TOML',
  emptied: '',
  parse: parsed,
  put(text, { path, value }) {
    const rest = valueAt(parsed(text), path) === undefined ? text : toml.take(text, path)
    const eol = lineEndOf(text)
    const nested = path.reduceRight<unknown>((inner, name) => ({ [String(name)]: inner }), value)
    const lines = [...(rest === '' || rest.endsWith('\n') ? [] : ['']), ...(rest.trim() === '' ? [] : [''])]
    const after = rest + [...lines, ...stringify(nested).split('\n')].join(eol)
    if (!isKept(text, after, path)) throw new Unreadable(unsafe)
    return after
  },
  take(text, path) {
    // A table: its head, and the lines up to an empty one, a comment or another head.
    const tables = /^[ \t]*\[[^[\r\n].*(?:\r?\n(?![ \t]*(?:[[#\r\n]|$)).*)*(?:\r?\n)?/gm
    for (const { 0: table, index } of text.matchAll(tables)) {
      const before = text.slice(0, index).replace(/(?<=\n)\r?\n$/, '')
      const after = before + text.slice(index + table.length)
      // A line of a long text may look like a head.
      if (isKept(text, after, path) && valueAt(parsed(after), path) === undefined) return after
    }
    throw new Unreadable(unsafe)
  },
}

const unsafe = 'has this written in a way that cannot be edited safely'

function parsed(text: string): unknown {
  try {
    return parse(text)
  } catch (error) {
    if (!(error instanceof TomlError)) throw error
    // The library gives the reason in its message alone.
    const reason = error.message.split('\n')[0]?.replace('Invalid TOML document: ', '') ?? ''
    throw new Unreadable(`is not valid TOML (line ${error.line}: ${reason})`)
  }
}

/** Whether both say the same about all that is not at the path. */
function isKept(before: string, after: string, path: readonly Step[]): boolean {
  const own = path.map(name => `/${JSON.stringify(name)}`).join('')
  const othersOf = (text: string) =>
    leaves(parsed(text))
      .filter(leaf => !leaf.startsWith(`${own}/`))
      .join('\n')
  try {
    return othersOf(before) === othersOf(after)
  } catch {
    return false
  }
}
