/** JSON of any form as lines: what people wrote comes first, whatever holds it. */
import { longestNotice } from '../../model/topic.ts'
import { isObject } from '../../platform/fields.ts'
import { cutMiddle } from '../../platform/format.ts'
import { isWebAddress } from './sent-notice.ts'

const maxLines = 30
const [maxValueBytes, maxWordsBytes] = [240, 4000]
const maxDepth = 40
/** Further values are not read, nor further characters of a key. */
const [maxValues, maxKey] = [5000, 240]

/** How many more values are read. */
export interface ValueRoom {
  left: number
}
export const createRoom = (): ValueRoom => ({ left: maxValues })

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
    'exception',
    'cause',
  ],
  [
    'status',
    'state',
    'condition',
    'level',
    'severity',
    'priority',
    'action',
    'result',
    'conclusion',
    'event',
  ],
  ['name', 'project', 'host', 'hostname', 'service', 'instance', 'environment', 'device', 'culprit', 'rule'],
  ['url', 'link', 'href', 'permalink', 'shortlink', 'page'],
]
const ranks = new Map(wordsOf.flatMap((words, rank) => words.map(word => [word, rank] as const)))
const [ofStates, ofNames, lowest] = [2, 3, wordsOf.length]
/** An address for programs, not for people. */
const machineAddress = /avatar|icon|image|photo|logo|api|hook|git|ssh|clone|cert|self|diff/i
const apiAddress = /^https?:\/\/(api\.|[^/]+\/(rest\/api|_apis)\/)/i
const secretName =
  /(^|_)(token|secret|password|passwd|authorization|cookie|(api|app|send|device|push|routing|access|secret)_?key)$/

/** Keys whose value heads a body that says nothing by a name of a notice, the best first; and those about others. */
const heads =
  'title subject headline message msg summary name description text body content exception error cause reason'.split(
    ' ',
  )
const aboutOthers =
  /(^|\.)(account|user|agent|actor|author|owner|sender|player|server|page|repository|repo|organization|enterprise|manager|decoder|definition|webhook|integration)\./i
const nameOfNews =
  /^([^[]*\.)?(name|(alarm|alert|check|event|incident|monitor|problem|rule|search|trigger)_?((friendly|display)_?)?name)$/i
/** Keys of the text itself, in an object that is named for what it is, such as `message.text`; and of the same text in other forms. */
const [plainForms, otherForms] = [
  new Set(['text', 'content', 'body', 'plain']),
  new Set(['html', 'markdown']),
]
/** What programs need: it is left out of a body that has more than some lines, if people wrote something in it. */
const ofMachines = new Set(
  'id ids uuid guid arn self signature hash sha checksum etag at ts timestamp created updated'.split(' '),
)
const machineValue =
  /^(arn:.*|\d{10,19}|[0-9a-f]{20,}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\w+_reference)$/i
const fewLines = 12

interface Leaf {
  readonly path: string
  readonly text: string
  readonly rank: number
  /** Its place among `heads`; the less the better. */
  readonly head: number
  readonly isOfMachines: boolean
}

/**
 * Returns at most 30 lines, such as `disk[0].free: 12`. If there are more, those that people wrote come alone, else the first;
 * a last line counts the others, as far as they were read.
 *
 * @param said what is shown already: it is not said twice
 */
export function formatFields(json: unknown, said = '', room = createRoom()): string {
  const leaves: Leaf[] = []
  addLeaves({ value: json, path: '', key: '', depth: 0 }, leaves, room)
  const seen = new Set<string>()
  const shownAlready = said.slice(0, longestNotice)
  const fresh = leaves.filter(({ rank, text }) => {
    const isName = rank < lowest && rank !== ofStates
    const isKnown = isName && text.length > 3 && (shownAlready.includes(text) || seen.has(text))
    seen.add(text)
    return !isKnown
  })
  const sorted = fresh.toSorted((a, b) => a.rank - b.rank)
  const people = sorted.filter(({ rank }) => rank < lowest)
  const isLong = people.length > 0 && sorted.length > fewLines
  const meant = isLong ? sorted.filter(one => one.rank < lowest || !one.isOfMachines) : sorted
  const shown = meant.length > maxLines && people.length > 0 ? people : meant
  const [head] = said.trim()
    ? []
    : fresh.filter(one => one.head < heads.length).sort((a, b) => a.head - b.head)
  const lines = [...(head ? [head] : []), ...shown.filter(one => one !== head)].slice(0, maxLines)
  const left = fresh.length - lines.length
  const count = room.left > 0 ? left : `more than ${left}`
  return [
    ...lines.map(one => (one.path && one !== head ? `${one.path}: ${one.text}` : one.text)),
    ...(left > 0 ? [`… and ${count} other ${count === 1 ? 'field' : 'fields'}`] : []),
  ].join('\n')
}

/** A value, and where it stands. */
interface Place {
  readonly value: unknown
  readonly path: string
  readonly key: string
  readonly depth: number
}

function addLeaves({ depth, key, path, value }: Place, leaves: Leaf[], room: ValueRoom): void {
  if (room.left <= 0 || value === null) return
  room.left--
  const isNested = typeof value === 'object'
  if (isNested && depth < maxDepth) {
    const isList = Array.isArray(value)
    const names = Object.keys(isList ? value.slice(0, room.left) : value).slice(0, room.left)
    // What changed comes before what it was.
    if (Object.hasOwn(value, 'before')) names.sort((a, b) => Number(a === 'before') - Number(b === 'before'))
    const hasText = names.some(name => plainForms.has(name) && typeof Reflect.get(value, name) === 'string')
    for (const name of names) {
      if (hasText && otherForms.has(name)) continue
      const short = name.slice(0, maxKey)
      const inner = {
        value: (value as Record<string, unknown>)[name],
        path: isList ? `${path}[${name}]` : path ? `${path}.${short}` : short,
        key: isList ? key : short,
        depth: depth + 1,
      }
      addLeaves(inner, leaves, room)
    }
    return
  }
  const text = isNested ? '…' : `${value}`.trim()
  if (text === '') return
  const words = wordsIn(key)
  // A path may be long.
  const near = path.slice(-maxValueBytes)
  const rank = rankOf(near, words, text)
  leaves.push({
    path: cutMiddle(path, maxValueBytes),
    text: secretName.test(words.join('_'))
      ? '***'
      : cutMiddle(text, rank < 2 ? maxWordsBytes : maxValueBytes),
    rank,
    head: headOf(near, words, text),
    isOfMachines: ofMachines.has(words.at(-1) ?? '') || machineValue.test(text) || machineAddress.test(key),
  })
}

/** Where JSON says how urgent it is, and words by which it says that something is over. */
const urgencyPath = /(severity|priority|urgency|importance)(_?level|label)?(\.(name|value|summary|label))?$/i
const pastPath = /previous|old|before/i
const overState = /^(resolved?|closed?|ok|up|recovered|operational|succe\w+|inactive|normal)$/i

/** Returns what JSON says at any depth about how urgent it is; nothing if it says that something is over. */
export function urgenciesIn(json: unknown): string[] {
  const leaves: Leaf[] = []
  addLeaves({ value: json, path: '', key: '', depth: 0 }, leaves, createRoom())
  const isOver = leaves.some(
    ({ path, rank, text }) => rank === ofStates && overState.test(text) && !pastPath.test(path),
  )
  const said = leaves.filter(({ path, text }) => urgencyPath.test(path) && /\p{L}/u.test(text))
  return isOver ? [] : said.map(({ text }) => text)
}

const wordsIn = (key: string): string[] =>
  key
    .replace(/([\p{Ll}\d])(\p{Lu})/gu, '$1 $2')
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u)

function headOf(path: string, words: readonly string[], text: string): number {
  const [last = ''] = words.slice(-1)
  const [holder = ''] = wordsIn(path.split('.').at(-2) ?? '').slice(-1)
  const isHeld = plainForms.has(last) && heads.includes(holder)
  const place = heads.indexOf(isHeld ? holder : last)
  // The name of something else than the news heads nothing.
  const isName = heads[place] === 'name' && !nameOfNews.test(path)
  if (place < 0 || isName || isWebAddress(text) || aboutOthers.test(path)) return heads.length
  return place + (words.length > 1 ? 0.5 : 0)
}

function rankOf(path: string, words: readonly string[], text: string): number {
  const [last = ''] = words.slice(-1)
  const isEvent = last === 'type' && (words.includes('event') || (path === 'type' && /\w[._:-]\w/.test(text)))
  const rank = isEvent ? ofStates : (ranks.get(last) ?? lowest)
  if (rank < ofStates && aboutOthers.test(path)) return ofNames
  const isLink = isWebAddress(text) && !apiAddress.test(text)
  const isForPeople = isLink && !machineAddress.test(path.split('.').slice(-2).join('.'))
  return rank === lowest - 1 && !isForPeople ? lowest : rank
}

/** Returns an object without some keys. */
export const withoutKeys = (json: unknown, isLeftOut: (key: string) => boolean): unknown =>
  isObject(json) ? Object.fromEntries(Object.entries(json).filter(([key]) => !isLeftOut(key))) : json
