/** Turns the Markdown of an agent into messages for WeChat: plain texts that read well there, and files. */
import type { MarkedToken, Token, Tokens } from 'marked'
import stringWidth from 'string-width'
import type { AnswerPart, StoredAnswer } from '../index.ts'
import { type AnswerFile, extensionOf, findFile, writeText } from './answer-files.ts'
import { cutPage, ranks } from './cuts.ts'
import { readMarkdown, visitTokens } from './markdown.ts'
import { PageWriter } from './page.ts'
import { toPlainText } from './terminal.ts'

/** Nobody reads a longer answer in a chat: it becomes a file. */
const longestAnswer = 100_000
/** Longer code becomes a file. */
const longestCode = { lines: 60, characters: 3000 }
/** Widest table whose columns are aligned: about what a phone shows in a line. */
const widestTable = 36
/** Maximum number of paths in an answer that are looked up on the disk. */
const mostPaths = 100

/**
 * Turns Markdown into messages. Pictures come where they stand in the text; other files come after it.
 *
 * @param files absolute paths of files that the agent made; those outside the folder are left out
 * @param folder folder of the agent. Long code is written to its folder `outbox`
 */
export async function toAnswer(
  markdown: string,
  { files = [], folder }: { files?: readonly string[]; folder: string },
): Promise<StoredAnswer> {
  const text = clean(markdown)
  const made = (await Promise.all(files.map(path => findFile(path, folder)))).filter(
    file => file !== undefined,
  )
  if (text.length > longestAnswer) {
    const file = await writeText(folder, 'answer.md', `${text}\n`)
    return { parts: [{ text: nameFile(file) }, file, ...made] }
  }
  const tokens = readMarkdown(text)
  const writer = new AnswerWriter(await findFiles(tokens, folder))
  writer.writeBlocks(tokens, 2)
  return { parts: writer.end(made) }
}

/** Removes what a chat cannot show, or would obey: what terminals obey, and changes of direction. */
const clean = (text: string): string =>
  toPlainText(text.toWellFormed()).replace(/[\u202a-\u202e\u2066-\u2069]/g, '')

const nameFile = ({ name }: AnswerFile) => `📎 ${name}`

/** The files that an answer names, and the code that became a file. */
interface NamedFiles {
  readonly linked: ReadonlyMap<string, AnswerFile>
  readonly code: ReadonlyMap<Token, AnswerFile>
  /** Addresses of links. */
  readonly addresses: ReadonlySet<string>
}

async function findFiles(tokens: readonly Token[], folder: string): Promise<NamedFiles> {
  const addresses = new Set<string>()
  const codes: Tokens.Code[] = []
  visitTokens(tokens, token => {
    if (token.type === 'link' || token.type === 'image') addresses.add(token.href)
    if (token.type === 'code' && isLong(token.text)) codes.push(token)
  })
  const linked = new Map<string, AnswerFile>()
  for (const address of [...addresses].slice(0, mostPaths)) {
    const file = await findFile(address, folder)
    if (file) linked.set(address, file)
  }
  const code = new Map<Token, AnswerFile>()
  for (const token of codes) {
    // Without the file, the code is sent as text.
    const name = `code.${extensionOf(token.lang ?? '')}`
    const file = await writeText(folder, name, `${token.text}\n`).catch(() => undefined)
    if (file) code.set(token, file)
  }
  return { linked, code, addresses }
}

const isLong = (code: string): boolean =>
  code.length > longestCode.characters || code.split('\n', longestCode.lines + 1).length > longestCode.lines

class AnswerWriter {
  readonly #named: NamedFiles
  readonly #page = new PageWriter()
  readonly #parts: AnswerPart[] = []
  /** Files that come after the text. */
  readonly #after: AnswerFile[] = []
  /** Paths of files that are sent already: each is sent once. */
  readonly #sent = new Set<string>()

  constructor(named: NamedFiles) {
    this.#named = named
  }

  /** Ends the answer. @returns its parts; `files` are the last */
  end(files: readonly AnswerFile[] = []): AnswerPart[] {
    this.#endPage()
    for (const file of [...this.#after, ...files]) this.#send(file)
    return this.#parts
  }

  /** @param lines line ends between two blocks */
  writeBlocks(tokens: readonly Token[], lines: 1 | 2): void {
    for (const token of tokens as readonly MarkedToken[]) this.#writeBlock(token, lines)
  }

  #writeBlock(token: MarkedToken, lines: 1 | 2): void {
    const page = this.#page
    // The mark of an item shows its check box.
    if (token.type === 'space' || token.type === 'hr' || token.type === 'checkbox') return
    if (token.type === 'heading') {
      page.end(2, ranks.heading)
      this.#writeInline(token.tokens)
      page.endHeading()
      return
    }
    page.end(lines, lines > 1 ? ranks.paragraph : ranks.line)
    if (token.type === 'code') this.#writeCode(token)
    else if (token.type === 'list') this.#writeList(token)
    else if (token.type === 'table') this.#writeTable(token)
    else if (token.type === 'blockquote') page.indent('> ', () => this.writeBlocks(token.tokens, lines))
    else if (token.type === 'html') page.write(token.raw.trim())
    else if (token.type === 'def') page.write(this.#named.addresses.has(token.href) ? '' : token.raw.trim())
    else if (token.type === 'paragraph' || token.type === 'text') this.#writeInline(token.tokens ?? [token])
    else this.#writeInline([token])
    page.end(lines, lines > 1 ? ranks.paragraph : ranks.line)
  }

  #writeList({ items, loose, ordered, start }: Tokens.List): void {
    const page = this.#page
    for (const [nth, item] of items.entries()) {
      page.end(loose ? 2 : 1, ranks.item)
      const box = item.task ? (item.checked ? '☑ ' : '☐ ') : ''
      const mark = (ordered ? `${Number(start) + nth}. ` : '') + box || '• '
      page.mark(mark)
      page.indent(' '.repeat(mark.length), () => this.writeBlocks(item.tokens, loose ? 2 : 1))
    }
  }

  #writeCode(token: Tokens.Code): void {
    const file = this.#named.code.get(token)
    if (file) {
      this.#page.write(nameFile(file))
      this.#after.push(file)
    } else this.#writeFenced(token.text, token.lang)
  }

  /** Writes lines in a code fence, which WeChat shows with their columns; several where one is too long. */
  #writeFenced(text: string, language = ''): void {
    let fence = '```'
    while (text.includes(fence)) fence += '`'
    const pieces: string[][] = [[]]
    let size = 0
    for (const line of text.split('\n').flatMap(cutLine)) {
      size += line.length + 1
      if (size > longestCode.characters + 1) {
        pieces.push([])
        size = line.length + 1
      }
      pieces.at(-1)!.push(line)
    }
    for (const lines of pieces) this.#page.writeLines([fence + language, ...lines, fence])
  }

  #writeTable({ header, rows }: Tokens.Table): void {
    const page = this.#page
    const lines = alignTable([header, ...rows].map(row => row.map(cell => this.#toText(cell.tokens))))
    if (lines) this.#writeFenced(lines.join('\n'))
    for (const row of lines ? [] : rows) {
      page.end(2, ranks.item)
      for (const [nth, cell] of row.entries()) {
        if (cell.text === '') continue
        page.end(1, ranks.line)
        if (header[nth]?.text) {
          this.#writeInline(header[nth].tokens)
          page.write(': ')
        }
        this.#writeInline(cell.tokens)
      }
    }
    // Nothing stands under a header that is too wide.
    if (!lines && rows.length === 0) this.#writeInline(header.flatMap(({ tokens }) => [...tokens, space]))
  }

  /** Returns the text of a cell; undefined if it has lines, or files. */
  #toText(tokens: readonly Token[]): string | undefined {
    const writer = new AnswerWriter(this.#named)
    writer.#writeInline(tokens)
    const { text = '' } = writer.#page.take() ?? {}
    const isLine = !text.includes('\n') && writer.#parts.length === 0 && writer.#after.length === 0
    return isLine ? text : undefined
  }

  #writeInline(tokens: readonly Token[]): void {
    const page = this.#page
    for (const token of tokens as readonly MarkedToken[]) {
      if (token.type === 'link') this.#writeLink(token)
      else if (token.type === 'image') this.#writePicture(token)
      else if (token.type === 'br') page.write('\n')
      else if (token.type === 'checkbox') continue
      else if (token.type === 'codespan') page.write(token.raw)
      else if (token.type === 'html') page.write(lineBreaks.has(token.raw.toLowerCase()) ? '\n' : token.raw)
      else if (token.type === 'del') {
        page.write('~~')
        this.#writeInline(token.tokens)
        page.write('~~')
      } else if ('tokens' in token && token.tokens) this.#writeInline(token.tokens)
      else if (token.type === 'text') page.write(decode(token.text))
      else page.write('text' in token ? token.text : token.raw)
    }
  }

  #writeLink({ autolink, href, raw, text, tokens }: Tokens.Link): void {
    const page = this.#page
    const file = this.#named.linked.get(href)
    if (file) this.#after.push(file)
    if (file || href === '' || href.startsWith('#')) this.#writeInline(tokens)
    else
      page.keepWhole(() => {
        const isBare = autolink || raw === text
        if (!isBare && shorten(text) !== shorten(href)) {
          this.#writeInline(tokens)
          page.write(text === '' ? '' : /[:：]$/.test(text) ? ' ' : ': ')
        }
        page.writeAddress(isBare ? text : toAddress(href))
      })
  }

  #writePicture({ href, text }: Tokens.Image): void {
    const page = this.#page
    const file = this.#named.linked.get(href)
    if (file) {
      this.#endPage()
      this.#send(file)
    } else
      page.keepWhole(() => {
        // The bytes themselves are no address.
        const address = href.startsWith('data:') ? '' : toAddress(href)
        page.write(text && address ? `${text}: ` : text)
        page.writeAddress(address)
      })
  }

  #endPage(): void {
    const page = this.#page.take()
    if (page) this.#parts.push(...cutPage(page).map(text => ({ text })))
  }

  #send(file: AnswerFile): void {
    if (!this.#sent.has(file.path)) this.#parts.push(file)
    this.#sent.add(file.path)
  }
}

/** Returns the lines of a table with aligned columns; undefined if a cell has none, or they are too wide. */
function alignTable(rows: readonly (string | undefined)[][]): string[] | undefined {
  const widths: number[] = []
  for (const row of rows)
    for (const [nth, cell] of row.entries()) {
      if (cell === undefined || cell.length > widestTable) return undefined
      widths[nth] = Math.max(widths[nth] ?? 0, stringWidth(cell))
    }
  if (widths.reduce((sum, width) => sum + width + 3, -3) > widestTable) return undefined
  const pad = (cell = '', nth: number) => cell + ' '.repeat(widths[nth]! - stringWidth(cell))
  return rows.map(row => row.map(pad).join(' | ').trimEnd())
}

/** Cuts a line of code that is too long for a message. */
function cutLine(line: string): string[] {
  const page = { text: line, breaks: new Map(), wholes: [] }
  return line.length > longestCode.characters ? cutPage(page) : [line]
}

const space: Tokens.Text = { type: 'text', raw: ' ', text: ' ' }
const lineBreaks = new Set(['<br>', '<br/>', '<br />'])

const entities = [
  ['&lt;', '<'],
  ['&gt;', '>'],
  ['&quot;', '"'],
  ['&#39;', "'"],
  ['&nbsp;', ' '],
  ['&amp;', '&'],
] as const
const decode = (text: string): string =>
  text.includes('&')
    ? entities.reduce((all, [entity, character]) => all.replaceAll(entity, character), text)
    : text

/** Removes what people leave out of an address. */
const shorten = (address: string): string => address.replace(/^(https?:\/\/|mailto:)/i, '').replace(/\/$/, '')

/** Writes an address with other letters than ASCII so that WeChat finds its end. */
const toAddress = (href: string): string =>
  /[^\x21-\x7e]/.test(href) && URL.canParse(href) ? new URL(href).href : href
