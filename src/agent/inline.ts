/**
 * Reads emphasis, links and code inside a line, where the text can mean nothing else. Everything else is read by the
 * lexer of marked.
 */
import { Lexer, type Token, Tokenizer, type Tokens } from 'marked'

/** Longest text of an emphasis. */
const longestEmphasis = 400
/** Longest piece in which links and emphasis are read together. */
const longestInline = 2000

export class InlineReader extends Lexer {
  readonly #sure: SureTokenizer

  constructor() {
    const sure = new SureTokenizer()
    super({ gfm: true, tokenizer: sure })
    this.#sure = sure
  }

  /** Whether it found something that can only be Markdown. */
  get hasFound(): boolean {
    return this.#sure.hasFound
  }

  /** Returns the tokens of a line, or of an item of a list. Their sources joined are the line. */
  read(line: string, isItem = false): Token[] {
    this.#sure.isItem = isItem
    if (!/[*_`[<]|~~|:\/\//.test(line)) return line === '' ? [] : [{ type: 'text', raw: line, text: line }]
    this.state.inLink = false
    this.state.inRawBlock = false
    return this.inlineTokens(line)
  }

  override inlineTokens(text: string, tokens: Token[] = []): Token[] {
    const { source } = this.#sure
    for (let at = 0; at < text.length; ) {
      const end = at + longestInline < text.length ? findInlineEnd(text, at) : text.length
      this.#sure.source = text.slice(at, end)
      super.inlineTokens(this.#sure.source, tokens)
      at = end
    }
    this.#sure.source = source
    return tokens
  }
}

/** Returns where to cut a text that is too long: after a sentence or a word, or before a link. */
function findInlineEnd(text: string, from: number): number {
  const far = from + longestInline
  const ends = ['。', '. ', ' '].map(end => text.lastIndexOf(end, far - end.length) + end.length)
  const link = text.lastIndexOf('[', far)
  return ends.find(end => end > from + 1) ?? (link > from ? link : far)
}

const strikePattern = /^~~(?![~\s])([^\n]{1,400}?)(?<![~\s])~~(?!~)/

/** What ends an emphasis: as many marks as begin it, after a character. */
const endOf: Readonly<Record<string, RegExp>> = {
  '*': /(?<![\s*])\*(?!\*)/,
  '**': /(?<![\s*])\*\*(?!\*)/,
  '***': /(?<![\s*])\*\*\*(?!\*)/,
  _: /(?<![\s_])_(?!_)/,
  __: /(?<![\s_])__(?!_)/,
}

class SureTokenizer extends Tokenizer {
  hasFound = false
  /** The line is an item of a list. */
  isItem = false
  /** The text that is read. */
  source = ''

  override emStrong(text: string, masked: string): Tokens.Em | Tokens.Strong | undefined {
    const [marks] = /^(?:\*{1,3}|_{1,2})(?![*_\s])/.exec(text) ?? []
    if (marks === undefined) return undefined
    const start = masked.length - text.length + marks.length
    const length = masked.slice(start, start + longestEmphasis).search(endOf[marks]!)
    const inner = text.slice(marks.length, marks.length + length)
    const raw = marks + inner + marks
    if (length <= 0 || !isSure(marks, inner, this.#around(text, raw))) return undefined
    if (marks.length > 1) this.hasFound = true
    const type = marks.length > 1 ? 'strong' : 'em'
    return { type, raw, text: inner, tokens: this.lexer.inlineTokens(inner) }
  }

  /** Two tildes strike text out, unless they may be a friendly tone: 好的~~明天见~~. A single one is a range. */
  override del(text: string): Tokens.Del | undefined {
    const [raw, inner = ''] = strikePattern.exec(text) ?? []
    if (raw === undefined) return undefined
    const { after, before } = this.#around(text, raw)
    const isPrice = /^[¥￥$€£]?\d/.test(inner) && /^\p{L}?$/u.test(before) && !spaced.test(before)
    const isWord = spaced.test(inner) && /^[^\p{L}\p{N}~/\\]?$/u.test(before)
    const isApart = /^\s$/.test(before) || (before === '' && (this.isItem || after !== ''))
    const isCut = /^[~/]/.test(after) || (spaced.test(after) && spaced.test(inner.slice(-1)))
    if (isCut || !(isPrice || isWord || isApart)) return undefined
    this.hasFound = true
    return { type: 'del', raw, text: inner, tokens: [] }
  }

  override link(text: string): Tokens.Link | Tokens.Image | undefined {
    const found = super.link(text)
    if (!found) return undefined
    if (webAddress.test(found.href)) this.hasFound = true
    // f[x](y) is a call.
    else if (/[\w)\]]/.test(this.#around(text, found.raw).before)) return undefined
    return found
  }

  /** Returns what stands around a token that begins where `text` does. */
  #around(text: string, raw: string): Surroundings {
    const start = this.source.length - text.length
    const before = [...this.source.slice(Math.max(0, start - 2), start)].at(-1) ?? ''
    return { before, after: text.slice(raw.length, raw.length + 2) }
  }
}

interface Surroundings {
  /** A character; '' at the beginning. */
  readonly before: string
  /** Two code units; '' at the end. */
  readonly after: string
}

/** Letters of scripts with spaces between words, and digits. */
const spaced =
  /^(?![\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Hangul}\p{sc=Thai}\p{sc=Lao}\p{sc=Khmer}\p{sc=Myanmar}])[\p{L}\p{N}\p{M}_]/u
/** Characters with which no emphasis begins. */
const closing = /^[*_~,.;:!?)\]}|/\\=，。；：！？、）】」』]/
/** What ends a sentence, or a part of it. */
const sentenceEnd = /^(?:$|[)\]"'”’）」』》】，。、；：！？…—–|<]|[.,;:!?](?!\w))/

/**
 * Whether an emphasis can be nothing else: it is not in a word, a number, a path, a pattern of file names or a sum,
 * and is no name that has such marks.
 */
function isSure(marks: string, text: string, { after, before }: Surroundings): boolean {
  const last = [...text.slice(-2)].at(-1) ?? ''
  if (!/[\p{L}\p{N}]/u.test(text) || closing.test(text)) return false
  if (/[*_~\\/^$@]/.test(before) || /^[*_~\\/^$@]/.test(after)) return false
  if (marks.startsWith('_'))
    return /\s/.test(text) && /^[("'“‘「（]?$/.test(before) && sentenceEnd.test(after)
  if (marks.length > 1)
    return (
      !(spaced.test(before) && (spaced.test(text) || /^[!-~]/.test(text))) &&
      !(spaced.test(after) && (spaced.test(last) || /[!-9;-~]/.test(last))) &&
      !(/[)\]}]/.test(before) && /^[\w(]/.test(text)) &&
      !/[([{（【「『《]/.test(last)
    )
  return (
    /^[\s("'“‘「『（《【，。、；：！？:—–|>]?$/.test(before) &&
    (/^\s/.test(after) || sentenceEnd.test(after)) &&
    /^[\p{L}\p{N}\p{Ps}\p{Pi}\p{Extended_Pictographic}"'`]/u.test(text) &&
    !/[([{<,;/\\=+\-|&^~@#$]/.test(last) &&
    /\p{L}.|.\p{L}/u.test(text)
  )
}

/** An address of the web, or of a person. */
export const webAddress = /^(?:https?:\/\/|mailto:|data:image\/)./i
/** A path to a file, or a place in a page. */
export const pathAddress =
  /^(?:(?:tel|sms|file):|[a-z][a-z\d+.-]*:\/\/|#\p{L}|~?\.{0,2}\/\S)|\.[a-z][a-z\d]{0,9}(?:[#:].*)?$/iu
