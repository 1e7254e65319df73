/**
 * Cuts a text into the fewest messages. Among the cuts that keep their number smallest, the best for a reader is taken.
 * Takes time linear in the length of the text.
 */

/** Longest text of one message, in code units. They are at most 12,000 bytes; WeChat takes 16,384. */
const longestText = 4000

/** Quality of a cut for the reader; the lowest is the best. */
export const ranks = {
  heading: 1,
  paragraph: 2,
  item: 3,
  line: 4,
  sentence: 5,
  space: 6,
  anywhere: 7,
} as const
export type Rank = (typeof ranks)[keyof typeof ranks]

export interface Stretch {
  readonly start: number
  readonly end: number
}

/** A text, and what is known about it. */
export interface Page {
  readonly text: string
  /** Ranks of positions after a line end. Elsewhere a line end has the rank `line`. */
  readonly breaks: ReadonlyMap<number, Rank>
  /** Stretches, such as links, that are not cut if they fit into a message. Ascending by their ends. */
  readonly wholes: readonly Stretch[]
}

/** Cuts a page into messages. None is empty. White space at a cut is dropped. */
export function cutPage({ breaks, text, wholes }: Page): string[] {
  const cuts = findCuts(text, breaks, join(wholes))
  const ends = cuts.map(({ at }) => at)
  let solid = 0
  for (let nth = 1, at = 0; nth < cuts.length; nth++) {
    const end = cuts[nth]!.at
    for (; at < end; at++) if (!isSpace(text.charCodeAt(at))) solid = at + 1
    ends[nth] = solid
  }
  const fits = (from: number, to: number) => ends[to]! - cuts[from]!.at <= longestText
  const last = cuts.length - 1
  /** How many messages the text after each cut needs, and how bad their cuts are. */
  const needed = new Uint32Array(cuts.length)
  const badness = new Float64Array(cuts.length)
  /**
   * `best`: for each cut, the best one up to it among those that need as many messages. `next`: the cut that follows
   * each.
   */
  const best = new Uint32Array(cuts.length).fill(last)
  const next = new Uint32Array(cuts.length)
  const badnessFrom = (at: number) => badness[at]! + cuts[at]!.rank ** 2
  for (let from = last - 1, to = last; from >= 0; from--) {
    while (to > from + 1 && !fits(from, to)) to--
    needed[from] = needed[to]! + 1
    // All cuts after this one that need one message less are known.
    for (let at = from + 1; needed[from]! > needed[from + 1]! && needed[at] === needed[from + 1]; at++) {
      const before = at > from + 1 ? best[at - 1]! : at
      best[at] = badnessFrom(at) <= badnessFrom(before) ? at : before
      if (at === last) break
    }
    next[from] = best[to]!
    badness[from] = badnessFrom(next[from]!)
  }
  const messages: string[] = []
  for (let from = 0; from < last; from = next[from]!) {
    const message = text.slice(cuts[from]!.at, ends[next[from]!])
    if (message.trim() !== '') messages.push(trimLines(message))
  }
  return messages
}

/** Removes empty lines at the beginning. The first line keeps its indentation. */
function trimLines(text: string): string {
  const first = text.length - text.trimStart().length
  return text.slice(text.lastIndexOf('\n', first) + 1)
}

interface Cut {
  /** Position where the message after it begins. */
  readonly at: number
  readonly rank: number
}

/** Returns every cut that may be used, with the two ends of the text. */
function findCuts(text: string, breaks: Page['breaks'], wholes: readonly Stretch[]): Cut[] {
  const cuts: Cut[] = [{ at: 0, rank: 0 }]
  const add = (at: number, rank: number) => {
    const { at: before } = cuts.at(-1)!
    if (at - before > longestText) cuts.push(...findHardCuts(text, { start: before, end: at }, wholes))
    cuts.push({ at, rank })
  }
  let nth = 0
  for (let at = 1; at < text.length; at++) {
    while (nth < wholes.length && wholes[nth]!.end <= at) nth++
    if (nth < wholes.length && wholes[nth]!.start < at) {
      at = wholes[nth]!.end - 1
      continue
    }
    const rank = breaks.get(at) ?? rankAfter(text.charAt(at - 1), text.charAt(at))
    if (rank !== undefined && !joining.test(String.fromCodePoint(text.codePointAt(at)!))) add(at, rank)
  }
  add(text.length, 0)
  return cuts
}

function rankAfter(before: string, after: string): Rank | undefined {
  if (before === '\n') return after === '\n' ? undefined : ranks.line
  if (isSpace(after.charCodeAt(0)) || closers.has(after)) return undefined
  if (isSpace(before.charCodeAt(0))) return ranks.space
  return sentenceEnds.has(before) ? ranks.sentence : pauses.has(before) ? ranks.space : undefined
}

const isSpace = (code: number): boolean => code === 0x20 || (code >= 9 && code <= 13) || code === 0x3000
const sentenceEnds = new Set('。！？…')
const pauses = new Set('，；：、')
/** Characters that belong to the sentence before them. */
const closers = new Set('。！？…，；：、”’』」）》】')
/** Characters that form one character with the one before, even with a space. */
const joining = /[\p{Gr_Ext}\p{Mc}\p{EMod}\u200d]/u

/** Returns the cuts between the characters of a text that has no other cut and is too long for a message. */
function* findHardCuts(text: string, { end, start }: Stretch, wholes: readonly Stretch[]): Generator<Cut> {
  const characters = new Intl.Segmenter(undefined, { granularity: 'grapheme' })
  let nth = 0
  for (const { index, segment } of characters.segment(text.slice(start, end))) {
    const at = start + index
    while (nth < wholes.length && wholes[nth]!.end <= at) nth++
    const isInside = nth < wholes.length && wholes[nth]!.start < at
    if (at > start && !isInside) yield { at, rank: ranks.anywhere }
    // One character that is too long for a message.
    for (let cut = longestText - 1; cut < segment.length; cut += longestText - 1)
      yield { at: at + cut - (isLow(segment.charCodeAt(cut)) ? 1 : 0), rank: ranks.anywhere }
  }
}

const isLow = (code: number): boolean => code >= 0xdc00 && code < 0xe000

/** Joins spans that overlap. Leaves out what is too long for a message. */
function join(spans: readonly Stretch[]): Stretch[] {
  const joined: Stretch[] = []
  for (const span of spans.toSorted((a, b) => a.start - b.start)) {
    if (span.end - span.start > longestText) continue
    const before = joined.at(-1)
    const both =
      before && before.end > span.start ? { start: before.start, end: Math.max(before.end, span.end) } : span
    if (both.end - both.start > longestText) continue
    if (both !== span) joined.pop()
    joined.push(both)
  }
  return joined
}
