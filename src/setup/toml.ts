/**
 * TOML settings. An entry is one table: `put` appends it, `remove` removes its lines, and parsing both texts
 * proves that nothing else changed. Entries in another form (inline table, dotted keys, subtables) are not
 * edited.
 */
import { parse, stringify, TomlError } from 'smol-toml'
import { attempt } from '../platform/fields.ts'
import {
  lineEndOf,
  listLeaves,
  type SettingsFormat,
  type Step,
  UnreadableSettingsError,
  valueAt,
} from './edit.ts'

/** Editor of TOML files. */
export const toml: SettingsFormat = {
  name: 'TOML',
  emptyText: '',
  parse: parseToml,
  put(text, { path, value }) {
    const rest = valueAt(parseToml(text), path) === undefined ? text : toml.remove(text, path)
    const eol = lineEndOf(text)
    const nested = path.reduceRight<unknown>((inner, name) => ({ [String(name)]: inner }), value)
    const lines = [...(rest === '' || rest.endsWith('\n') ? [] : ['']), ...(rest.trim() === '' ? [] : [''])]
    const after = rest + [...lines, ...stringify(nested).split('\n')].join(eol)
    if (!keepsOthers(text, after, path)) throw new UnreadableSettingsError(unsafeReason)
    return after
  },
  remove(text, path) {
    // Matches a table: its header, then lines up to an empty line, a comment or another header.
    const tables = /^[ \t]*\[[^[\r\n].*(?:\r?\n(?![ \t]*(?:[[#\r\n]|$)).*)*(?:\r?\n)?/gm
    for (const { 0: table, index } of text.matchAll(tables)) {
      const before = text.slice(0, index).replace(/(?<=\n)\r?\n$/, '')
      const after = before + text.slice(index + table.length)
      // A line inside a multi-line string may look like a header.
      if (keepsOthers(text, after, path) && valueAt(parseToml(after), path) === undefined) return after
    }
    throw new UnreadableSettingsError(unsafeReason)
  },
}

const unsafeReason = 'has this entry in a form that svc cannot edit safely'

function parseToml(text: string): unknown {
  try {
    return parse(text)
  } catch (error) {
    if (!(error instanceof TomlError)) throw error
    // The library gives the reason only in its message.
    const reason = error.message.split('\n')[0]?.replace('Invalid TOML document: ', '') ?? ''
    throw new UnreadableSettingsError(`is not valid TOML (line ${error.line}: ${reason})`)
  }
}

/** Returns true if all values outside the path are equal in both texts. */
function keepsOthers(before: string, after: string, path: readonly Step[]): boolean {
  const own = path.map(name => `/${JSON.stringify(name)}`).join('')
  const othersOf = (text: string) =>
    listLeaves(parseToml(text))
      .filter(leaf => !leaf.startsWith(`${own}/`))
      .join('\n')
  return attempt(() => othersOf(before) === othersOf(after)) ?? false
}
