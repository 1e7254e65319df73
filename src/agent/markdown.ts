/**
 * Reads Markdown with the lexer of marked, in time linear in its length.
 *
 * An agent may repeat what strangers wrote, so the text can be anything. Some of the lexer's rules look ahead to the end
 * of the text, or as deep as it nests: they see only a part of it here. What they then miss stays as it was written.
 */
import { Lexer, type MarkedToken, type Token, Tokenizer, type Tokens } from 'marked'

/** Lists and quotes inside each other, counted together. */
const deepest = 8
/** A longer quote becomes several. */
const longestQuote = 3000
/** Longest heading that is marked by a line under it. */
const longestHeading = 500
/** Longest text of an emphasis. */
const longestEmphasis = 400
/** Longest text whose links and emphasis are looked for together. */
const longestInline = 2000
/** A table with more cells would cost much memory: rows that lack cells get them. */
const mostColumns = 30

/** Returns the blocks of a text. */
export const readMarkdown = (markdown: string): Token[] =>
  new BoundedLexer({ gfm: true, tokenizer: new BoundedTokenizer() }).lex(markdown)

class BoundedLexer extends Lexer {
  override inlineTokens(text: string, tokens: Token[] = []): Token[] {
    for (let at = 0; at < text.length; ) {
      const end = at + longestInline < text.length ? findInlineEnd(text, at) : text.length
      super.inlineTokens(text.slice(at, end), tokens)
      at = end
    }
    return tokens
  }
}

/** Returns where to cut a text that is too long: after a line, a sentence or a word, or before a link. */
function findInlineEnd(text: string, from: number): number {
  const far = from + longestInline
  const ends = ['\n', '。', '. ', ' '].map(end => text.lastIndexOf(end, far - end.length) + end.length)
  const link = text.lastIndexOf('[', far)
  return ends.find(end => end > from + 1) ?? (link > from ? link : far)
}

class BoundedTokenizer extends Tokenizer {
  #depth = 0

  override list(text: string): Tokens.List | undefined {
    return this.#deeper(() => super.list(text))
  }

  override blockquote(text: string): Tokens.Blockquote | undefined {
    // The rule reads all lines that might belong to the quote, and may then take one of them.
    const end = text.indexOf('\n', longestQuote)
    return this.#deeper(() => super.blockquote(end < 0 ? text : text.slice(0, end + 1)))
  }

  override lheading(text: string): Tokens.Heading | undefined {
    return super.lheading(
      text.length > longestHeading ? text.slice(0, text.lastIndexOf('\n', longestHeading) + 1) : text,
    )
  }

  override table(text: string): Tokens.Table | undefined {
    const header = text.slice(0, text.indexOf('\n'))
    return header.split('|', mostColumns + 3).length > mostColumns + 2 ? undefined : super.table(text)
  }

  override emStrong(text: string, masked: string, before?: string): Tokens.Em | Tokens.Strong | undefined {
    const near = text.slice(0, longestEmphasis)
    const nearMasked = masked.slice(masked.length - text.length).slice(0, longestEmphasis)
    return this.#strongInChinese(near, nearMasked, before) ?? super.emStrong(near, nearMasked, before)
  }

  /**
   * Returns strong text that begins or ends with a mark next to a Chinese character: `**注意：**请`. CommonMark knows no
   * such strong text, and agents write it all the time.
   */
  #strongInChinese(text: string, masked: string, before = ''): Tokens.Strong | undefined {
    if (!text.startsWith('**') || text[2] === '*') return undefined
    const end = masked.indexOf('**', 2)
    const inner = text.slice(2, Math.max(end, 2))
    if (inner === '' || inner !== inner.trim()) return undefined
    const opens = mark.test(inner.charAt(0)) && ideograph.test(before)
    const closes = mark.test(inner.slice(-1)) && ideograph.test(text.charAt(end + 2))
    if (!opens && !closes) return undefined
    const raw = text.slice(0, end + 2)
    return { type: 'strong', raw, text: inner, tokens: this.lexer.inlineTokens(inner) }
  }

  #deeper<T>(read: () => T): T | undefined {
    if (this.#depth >= deepest) return undefined
    this.#depth++
    try {
      return read()
    } finally {
      this.#depth--
    }
  }
}

const mark = /[\p{P}\p{S}]/u
const ideograph = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}]/u

/** Visits every token, wherever it is. */
export function visitTokens(tokens: readonly Token[], visit: (token: MarkedToken) => void): void {
  for (const token of tokens as readonly MarkedToken[]) {
    visit(token)
    if (token.type === 'list') visitTokens(token.items, visit)
    else if (token.type === 'table') {
      for (const row of [token.header, ...token.rows]) for (const cell of row) visitTokens(cell.tokens, visit)
    } else if ('tokens' in token && token.tokens) visitTokens(token.tokens, visit)
  }
}
