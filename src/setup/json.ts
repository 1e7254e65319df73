/** JSON settings; comments and trailing commas are allowed and kept. */
import {
  applyEdits,
  findNodeAtLocation,
  type JSONPath,
  modify,
  type Node,
  type ParseError,
  parse,
  parseTree,
  printParseErrorCode,
} from 'jsonc-parser'
import { createFault, formatFault } from '../model/bad-json.ts'
import { lineEndOf, type SettingsFormat, type Step, UnreadableSettingsError } from './edit.ts'

/** Editor of JSON files. */
export const json: SettingsFormat = {
  name: 'JSON',
  emptyText: '{}\n',
  parse: parseJson,
  put(text, { path, value }) {
    const bare = text.trim() === '' ? '{}' : text
    const eol = lineEndOf(text)
    const indent = /^[ \t]+/m.exec(bare)?.[0] ?? '  '
    const { way, isThere } = resolvePath(parseJson(bare), path)
    const edits = runEdit(() =>
      modify(bare, way, value, {
        formattingOptions: { insertSpaces: !indent.startsWith('\t'), tabSize: indent.length, eol },
        isArrayInsertion: !isThere,
        // Inserted as the first element, so that the comma and the comments of other elements stay.
        getInsertionIndex: () => 0,
      }),
    )
    return applyEdits(bare, edits) + (bare === text ? '' : eol)
  },
  remove(text, path) {
    const { way, isThere } = resolvePath(parseJson(text), path)
    const value = isThere ? findNodeAtLocation(parseTree(text)!, way) : undefined
    if (!value) return text
    const after = removeMember(text, value.parent?.type === 'property' ? value.parent : value)
    const left = path.length > 1 && findNodeAtLocation(parseTree(after)!, way.slice(0, -1))
    // A container that had no other content was probably made for the entry. One with a comment belongs to
    // the user.
    const isBare = left && /^.\s*.$/.test(after.slice(left.offset, left.offset + left.length))
    return isBare ? json.remove(after, path.slice(0, -1)) : after
  },
}

function parseJson(text: string): unknown {
  const errors: ParseError[] = []
  const settings = parse(text, errors, { allowTrailingComma: true, allowEmptyContent: true })
  const first = errors[0]
  if (first) {
    const fault = createFault(text, printParseErrorCode(first.error), first.offset, first.length)
    throw new UnreadableSettingsError(`is not valid JSON (${formatFault(fault)})`)
  }
  if (settings === undefined) return {}
  if (typeof settings !== 'object' || Array.isArray(settings))
    throw new UnreadableSettingsError('is JSON, but not an object')
  return settings
}

/** Converts the path to keys and indexes. A list element that does not exist yet gets index 0. */
function resolvePath(settings: unknown, path: readonly Step[]): { way: JSONPath; isThere: boolean } {
  const way: JSONPath = []
  let at = settings as Record<string | number, unknown> | undefined
  for (const step of path) {
    const found = typeof step === 'string' ? step : Array.isArray(at) ? at.findIndex(step) : -1
    way.push(found === -1 ? 0 : found)
    at = (found === -1 ? undefined : at?.[found]) as typeof at
  }
  return { way, isThere: at !== undefined }
}

/** Runs an edit. The library throws for a key in a list, and for a member of a plain value. */
function runEdit<T>(work: () => T): T {
  try {
    return work()
  } catch (error) {
    throw new UnreadableSettingsError('has something else where the entry is expected', { cause: error })
  }
}

/** Removes the member, its comma, and its line if it began one. The library would remove comments too. */
function removeMember(text: string, member: Node): string {
  const { children = [], offset, length } = member.parent!
  const index = children.indexOf(member)
  const [next, previous] = [children[index + 1], children[index - 1]]
  const after = text.slice(member.offset + member.length)
  // An object that becomes empty gets its braces side by side.
  const blank = children.length === 1 ? (/^\s*(?=[}\]])/.exec(after)?.[0].length ?? 0) : 0
  const end = member.offset + member.length + blank
  const start = /(?:\r?\n)?[ \t]*$/.exec(text.slice(0, member.offset))!.index
  const comma =
    findComma(text, end, next?.offset ?? offset + length - 1) ??
    (previous && findComma(text, previous.offset + previous.length, member.offset))
  const gone = [{ offset: start, length: end - start, content: '' }]
  return applyEdits(text, comma === undefined ? gone : [...gone, { offset: comma, length: 1, content: '' }])
}

/** Returns the offset of the comma between two offsets, ignoring comments. */
function findComma(text: string, from: number, to: number): number | undefined {
  const trivia = /\/\/[^\r\n]*|\/\*[\s\S]*?\*\/|,/g
  trivia.lastIndex = from
  for (let match = trivia.exec(text); match && match.index < to; match = trivia.exec(text))
    if (match[0] === ',') return match.index
  return undefined
}
