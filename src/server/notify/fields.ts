/** JSON of any form as lines: what people wrote comes first, whatever holds it. */
import { isObject } from '../../platform/fields.ts'
import { cutMiddle } from '../../platform/format.ts'
import { isWebAddress } from './sent-notice.ts'

const maxLines = 30
const [maxValueBytes, maxWordsBytes] = [240, 4000]
const maxDepth = 40
/** Further values are counted as one. */
const maxLeaves = 20_000

/** The last words of keys, by how much their values say to a person. */
const wordsOf: readonly (readonly string[])[] = [
  ['title', 'subject', 'headline', 'summary'],
  [
    'message',
    'msg',
    'text',
    'body',
    'content',
    'desp',
    'description',
    'reason',
    'detail',
    'details',
    'error',
  ],
  ['status', 'state', 'level', 'severity', 'priority', 'action', 'result', 'conclusion', 'event'],
  ['name', 'project', 'host', 'hostname', 'service', 'instance', 'environment', 'device', 'culprit'],
  ['url', 'link', 'href', 'permalink', 'shortlink', 'page'],
]
const ranks = new Map(wordsOf.flatMap((words, rank) => words.map(word => [word, rank] as const)))
const lowest = wordsOf.length
/** An address for programs, not for people. */
const machineAddress = /avatar|icon|image|photo|logo|api|hook|git|ssh|clone|cert/i
const secretName =
  /^(.*_)?(token|secret|password|passwd|authorization|cookie|(api|app|send|device|routing|access|secret)_?key)$/i

interface Leaf {
  readonly path: string
  readonly text: string
  readonly rank: number
}

/**
 * Returns at most 30 lines, such as `disk[0].free: 12`. If there are more, those that people wrote come alone, else the first;
 * a last line counts the others.
 *
 * @param said what is shown already: it is not said twice
 */
export function formatFields(json: unknown, said = ''): string {
  const leaves: Leaf[] = []
  addLeaves(json, '', '', 0, leaves)
  const seen = new Set<string>()
  const fresh = leaves.filter(({ rank, text }) => {
    const isKnown = rank < lowest && text.length > 3 && (said.includes(text) || seen.has(text))
    seen.add(text)
    return !isKnown
  })
  const sorted = fresh.toSorted((a, b) => a.rank - b.rank)
  const people = sorted.filter(({ rank }) => rank < lowest)
  const shown =
    sorted.length > maxLines && people.length > 0 ? people.slice(0, maxLines) : sorted.slice(0, maxLines)
  const left = fresh.length - shown.length
  return [
    ...shown.map(({ path, text }) => (path ? `${path}: ${text}` : text)),
    ...(left > 0 ? [`… and ${left} other ${left === 1 ? 'field' : 'fields'}`] : []),
  ].join('\n')
}

function addLeaves(value: unknown, path: string, key: string, depth: number, leaves: Leaf[]): void {
  if (leaves.length >= maxLeaves || value === null) return
  const isNested = typeof value === 'object'
  if (isNested && depth < maxDepth) {
    const isList = Array.isArray(value)
    for (const name in value) {
      const inner = isList ? `${path}[${name}]` : path ? `${path}.${name}` : name
      addLeaves((value as Record<string, unknown>)[name], inner, isList ? key : name, depth + 1, leaves)
    }
    return
  }
  const text = isNested ? '…' : `${value}`.trim()
  if (text === '') return
  const rank = rankOf(key, text)
  leaves.push({
    path: cutMiddle(path, maxValueBytes),
    text: secretName.test(key) ? '***' : cutMiddle(text, rank < 2 ? maxWordsBytes : maxValueBytes),
    rank,
  })
}

function rankOf(key: string, text: string): number {
  const words = key
    .replace(/([\p{Ll}\d])(\p{Lu})/gu, '$1 $2')
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u)
  const rank = ranks.get(words.at(-1) ?? '') ?? lowest
  return rank === lowest - 1 && (!isWebAddress(text) || machineAddress.test(key)) ? lowest : rank
}

/** Returns an object without some keys. */
export const withoutKeys = (json: unknown, isLeftOut: (key: string) => boolean): unknown =>
  isObject(json) ? Object.fromEntries(Object.entries(json).filter(([key]) => !isLeftOut(key))) : json
