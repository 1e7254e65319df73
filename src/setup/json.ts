/**
 * Settings in JSON, with comments and trailing commas where they have them.
 *
 * An entry goes in as the first of its object, so that it touches neither the comma nor the comment of another. Where it
 * stands tells `take` what was there before: an object that was empty gets it on the line of its own brace and stays
 * when it is empty again; one that `put` made has it on a line of its own and goes with it.
 */
import { type Node, type ParseError, parseTree, printParseErrorCode } from 'jsonc-parser'
import { type Edit, type Format, lineEndOf, type Step, Unreadable, unmarked } from './edit.ts'

/** The format. */
export const json: Format = {
  name: 'JSON',
  parse: text => plain(treeOf(unmarked(text)[1])),
  put(text, edit) {
    const [mark, bare] = unmarked(text ?? '')
    if (bare.trim() === '') {
      // What was a file, if an empty one, gets no line end: so it is known from one that was not there.
      const end = text === undefined ? '\n' : ''
      return `${mark}${bare}${pretty(nested(edit.path, edit.value), { indent: '', unit: '  ', eol: lineEndOf(bare) })}${end}`
    }
    return mark + put(bare, edit)
  },
  take(text, path) {
    const [mark, bare] = unmarked(text)
    const left = take(bare, path)
    return left === undefined ? undefined : mark + left
  },
  snippet: edits =>
    edits.reduce<string | undefined>((text, edit) => json.put(text, edit), undefined)?.trimEnd() ?? '',
}

function treeOf(text: string): Node {
  const errors: ParseError[] = []
  const tree = parseTree(text, errors, { allowTrailingComma: true, allowEmptyContent: true })
  const first = errors[0]
  if (first) {
    const line = text.slice(0, first.offset).split('\n').length
    throw new Unreadable(`is not valid JSON (line ${line}: ${printParseErrorCode(first.error)})`)
  }
  const root = tree ?? { type: 'object', offset: 0, length: 0, children: [] }
  if (root.type !== 'object') throw new Unreadable('is JSON, but not an object')
  return root
}

/** The value of a node. Own function: the library's leaves out a member named __proto__. */
function plain(node: Node): unknown {
  if (node.type === 'array') return (node.children ?? []).map(plain)
  if (node.type !== 'object') return node.value
  return Object.fromEntries(
    (node.children ?? []).flatMap(({ children: [key, value] = [] }) =>
      key && value ? [[key.value as string, plain(value)]] : [],
    ),
  )
}

/** The member of an object (name and value) or the element of a list. */
function memberOf(container: Node, step: Step): Node | undefined {
  const children = container.children ?? []
  if (typeof step !== 'string') {
    if (container.type !== 'array') throw new Unreadable('has something else where a list is expected')
    return children.find(child => step(plain(child)))
  }
  if (container.type !== 'object') throw new Unreadable(`has something else where "${step}" is expected`)
  const named = children.filter(({ children: [key] = [] }) => key?.value === step)
  // Which of them counts, every reader decides for itself.
  if (named.length > 1) throw new Unreadable(`has "${step}" twice in one object`)
  return named[0]
}

const contentOf = (member: Node): Node =>
  member.type === 'property' ? (member.children?.[1] ?? member) : member

function put(text: string, { path, value }: Edit): string {
  let container = treeOf(text)
  const unit = unitOf(text, container)
  for (const [index, step] of path.entries()) {
    const member = memberOf(container, step)
    if (!member) {
      const rest = nested(path.slice(index + 1), value)
      return insert(text, container, typeof step === 'string' ? step : undefined, rest, unit)
    }
    container = contentOf(member)
  }
  const eol = lineEndOf(text)
  return splice(
    text,
    container.offset,
    container.offset + container.length,
    pretty(value, { indent: indentAt(text, container.offset), unit, eol }),
  )
}

/** Puts a member in as the first of the container. */
function insert(
  text: string,
  container: Node,
  name: string | undefined,
  value: unknown,
  unit: string,
): string {
  const eol = lineEndOf(text)
  const open = container.offset + 1
  const first = container.children?.[0]
  const member = (indent: string) =>
    `${name === undefined ? '' : `${JSON.stringify(name)}: `}${pretty(value, { indent, unit, eol })}`
  const outer = indentAt(text, container.offset)
  if (!first) return splice(text, open, open, member(outer))
  const between = text.slice(open, first.offset)
  if (!between.includes('\n')) return splice(text, open, open, `${member(outer)},`)
  // Behind a comment on the line of the brace: it is about what the object holds.
  const comment = /^[ \t]*(?:\/\/[^\r\n]*|\/\*[^\r\n]*?\*\/[ \t]*)(?=\r?\n)/.exec(between)?.[0] ?? ''
  const indent = indentAt(text, first.offset)
  const at = open + comment.length
  return splice(text, at, at, `${eol}${indent}${member(indent)},`)
}

function take(text: string, path: readonly Step[]): string | undefined {
  const way: { container: Node; member: Node }[] = []
  let container = treeOf(text)
  for (const step of path) {
    const member = memberOf(container, step)
    if (!member) return text
    way.push({ container, member })
    container = contentOf(member)
  }
  for (let last = way.pop(); last; last = way.pop()) {
    const { member } = last
    const wasMade =
      last.container.children?.length === 1 &&
      ownLine(text, member.offset) !== undefined &&
      isBlank(text, last.container, member)
    if (!wasMade) return cut(text, last.container, member)
    if (way.length === 0) {
      const { offset, length } = last.container
      const after = text.slice(offset + length)
      return offset === 0 && /^\r?\n$/.test(after) ? undefined : text.slice(0, offset) + after
    }
  }
  return text
}

/** Whether the container holds nothing but this member: no comment either. */
function isBlank(text: string, container: Node, member: Node): boolean {
  const inner =
    text.slice(container.offset + 1, member.offset) +
    text.slice(member.offset + member.length, container.offset + container.length - 1)
  return /^[\s,]*$/.test(inner)
}

/** Without the member, the one comma that it needed, and its line if it began one. */
function cut(text: string, container: Node, member: Node): string {
  const siblings = container.children ?? []
  const index = siblings.indexOf(member)
  const end = member.offset + member.length
  const start = ownLine(text, member.offset) ?? member.offset
  const next = siblings[index + 1]?.offset ?? container.offset + container.length - 1
  const previous = siblings[index - 1]
  let comma = commaIn(text, end, next)
  if (comma === undefined && previous) comma = commaIn(text, previous.offset + previous.length, member.offset)
  if (comma === undefined) return splice(text, start, end, '')
  return comma < start
    ? splice(splice(text, start, end, ''), comma, comma + 1, '')
    : splice(splice(text, comma, comma + 1, ''), start, end, '')
}

/** Where the comma between two places is, past comments. */
function commaIn(text: string, from: number, to: number): number | undefined {
  const trivia = /\/\/[^\r\n]*|\/\*[\s\S]*?\*\/|,/g
  trivia.lastIndex = from
  for (let match = trivia.exec(text); match && match.index < to; match = trivia.exec(text))
    if (match[0] === ',') return match.index
  return undefined
}

/** Where the line end before `offset` begins, when only blanks lie between. */
function ownLine(text: string, offset: number): number | undefined {
  const blank = /\r?\n[ \t]*$/.exec(text.slice(0, offset))
  return blank?.index
}

/** The blanks at the beginning of the line of a place. */
const indentAt = (text: string, offset: number): string =>
  /^[ \t]*/.exec(text.slice(text.lastIndexOf('\n', offset - 1) + 1))?.[0] ?? ''

/** One step of indentation, as the first member of the file has it. */
function unitOf(text: string, root: Node): string {
  const first = root.children?.[0]
  return (first && ownLine(text, first.offset) !== undefined && indentAt(text, first.offset)) || '  '
}

const splice = (text: string, from: number, to: number, by: string) =>
  text.slice(0, from) + by + text.slice(to)

/** The value inside what the path still lacks. */
const nested = (path: readonly Step[], value: unknown): unknown =>
  path.reduceRight<unknown>((inner, step) => (typeof step === 'string' ? { [step]: inner } : [inner]), value)

interface Layout {
  indent: string
  unit: string
  eol: string
}

/** As a person would write it: objects over several lines, lists of plain values on one. */
function pretty(value: unknown, { indent, unit, eol }: Layout): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const inner = { indent: indent + unit, unit, eol }
  const isList = Array.isArray(value)
  if (isList && value.every(one => typeof one !== 'object'))
    return `[${value.map(one => JSON.stringify(one)).join(', ')}]`
  const members = isList
    ? value.map(one => pretty(one, inner))
    : Object.entries(value).map(([name, one]) => `${JSON.stringify(name)}: ${pretty(one, inner)}`)
  if (members.length === 0) return isList ? '[]' : '{}'
  const [open, close] = isList ? '[]' : '{}'
  return `${open}${eol}${members.map(member => inner.indent + member).join(`,${eol}`)}${eol}${indent}${close}`
}
