/** Turns the Markdown of an agent into messages for WeChat: plain texts that read well there, and files. */
import { decodeHTMLStrict } from 'entities/decode'
import type { MarkedToken, Token, Tokens } from 'marked'
import stringWidth from 'string-width'
import type { AnswerPart, StoredAnswer } from '../index.ts'
import { isVisible } from '../platform/escape-controls.ts'
import { type AnswerFile, extensionOf, findFile, writeToOutbox } from './answer-files.ts'
import type { AgentConfig } from './config.ts'
import { cutPage, ranks } from './cuts.ts'
import { pathAddress, webAddress } from './inline.ts'
import { type AnswerBlock, type Cell, readMarkdown } from './markdown.ts'
import { PageWriter } from './page.ts'
import { toPlainText } from './terminal.ts'

/** Nobody reads a longer answer in a chat: it always becomes a file. */
const longestAnswer = 100_000
/** Unless `long` says so, only a longer answer becomes a file. */
const longAnswer = 12_000
/** An answer of as many messages never becomes a file. */
const mostMessages = 3
/** Most characters of an answer that come as text before its file. */
const longestOpening = 600
/** Where that text ends: after a line, else after a sentence, else after a word. */
const openingEnds = [
  /^[\s\S]{300,600}(?<=\n)/u,
  /^[\s\S]{300,600}(?<=[。！？…]|[.!?]\s)/u,
  /^[\s\S]{300,600}(?<=[\s，；：、])/u,
  /^[\s\S]{1,600}/u,
]
/** Longer code becomes a file. */
const longestCode = { lines: 60, characters: 3000 }
/** Widest table whose columns are aligned: about what a phone shows in a line. */
const widestTable = 36
/** Maximum number of paths in an answer that are looked up on the disk. */
const mostPaths = 100

interface AnswerPlace {
  /** Absolute paths of files that the agent made; those outside the folder are left out. */
  readonly files?: readonly string[]
  /** Folder of the agent. Long code and long answers are written to its folder `outbox`. */
  readonly folder: string
  readonly long?: AgentConfig['long']
  /** What svc says at the end of the answer. */
  readonly notes?: readonly string[]
}

/**
 * Turns Markdown into messages. Pictures come where they stand in the text; other files come after it. A long answer
 * becomes its first lines and a file, if that is fewer messages.
 */
export async function toAnswer(
  said: string,
  { files = [], folder, long, notes = [] }: AnswerPlace,
): Promise<StoredAnswer> {
  const text = clean([said, ...notes].join('\n\n'))
  const made = (await Promise.all(files.map(path => findFile(path, folder)))).filter(
    file => file !== undefined,
  )
  const isHuge = text.length > longestAnswer
  const markdown = readMarkdown(isHuge ? text.slice(0, longestOpening) : text)
  const named = isHuge ? noFiles : await findFiles(markdown.blocks, folder)
  const writer = new AnswerWriter(named, markdown.isSure)
  writer.writeBlocks(markdown.blocks)
  const parts = writer.end(made)
  const others = parts.filter(part => 'path' in part)
  const mayBeFile = long === undefined ? text.length > longAnswer : long === 'file'
  if (!isHuge && !(mayBeFile && parts.length > Math.max(mostMessages, others.length + 2))) return { parts }
  const opening = openingOf(parts.find(part => 'text' in part)?.text ?? '')
  const file = await writeToOutbox(folder, `${nameOf(opening)}.md`, `${text}\n`).catch((error): undefined => {
    if (isHuge) throw error
  })
  // Without the file, the answer is sent as text.
  if (!file) return { parts }
  const lines = [opening, `… ${nameFile(file)}`, ...notes].filter(Boolean)
  return { parts: [{ text: lines.join('\n\n') }, file, ...others] }
}

/** Returns the first lines of a message, with their code fences closed. */
function openingOf(text: string): string {
  if (text.length <= longestOpening) return text
  const [start = ''] = openingEnds.flatMap(end => end.exec(text)?.[0].trimEnd() ?? [])
  const open = /^`{3,}/m.exec(start.replace(/^(`{3,}).*\n[\s\S]*?^\1$/gm, ''))
  return open ? `${start}\n${open[0]}` : start
}

/** Makes the name of a file from the first line of a text, of at most 40 characters. */
function nameOf(text: string): string {
  const [line = ''] = text.replace(/^`{3,}.*\n/, '').split('\n', 1)
  const words = line.match(/[\p{L}\p{M}\p{N}]+/gu) ?? []
  return /^(?:.{1,40}(?= |$)|.{1,40})/u.exec(words.join(' '))?.[0] ?? 'answer'
}

/** Removes control sequences of terminals and marks of direction: a chat cannot show them, or would obey them. */
const clean = (text: string): string =>
  toPlainText(text.toWellFormed()).replace(/[\u202a-\u202e\u2066-\u2069]/g, '')

const nameFile = ({ name }: AnswerFile) => `📎 ${name}`

/** The files that an answer names, and the code that became a file. */
interface NamedFiles {
  readonly linked: ReadonlyMap<string, AnswerFile>
  readonly code: ReadonlyMap<AnswerBlock, AnswerFile>
}

const noFiles: NamedFiles = { linked: new Map(), code: new Map() }

async function findFiles(blocks: readonly AnswerBlock[], folder: string): Promise<NamedFiles> {
  const linked = new Map<string, AnswerFile>()
  for (const address of new Set(findAddresses(blocks.flatMap(tokensOf)).slice(0, mostPaths))) {
    const file = await findFile(address, folder)
    if (file) linked.set(address, file)
  }
  const code = new Map<AnswerBlock, AnswerFile>()
  for (const block of blocks) {
    if (block.kind !== 'code' || !isLong(block.text)) continue
    // Without the file, the code is sent as text.
    const name = `code.${extensionOf(block.language)}`
    const file = await writeToOutbox(folder, name, `${block.text}\n`).catch(() => undefined)
    if (file) code.set(block, file)
  }
  return { linked, code }
}

function tokensOf(block: AnswerBlock): Token[] {
  if (block.kind !== 'table') return block.kind === 'code' ? [] : block.tokens
  return [block.header, ...block.rows].flat().flatMap(({ tokens }) => tokens)
}

/** Returns the addresses of links and pictures. */
const findAddresses = (tokens: readonly Token[]): string[] =>
  (tokens as readonly MarkedToken[]).flatMap(token => [
    ...(token.type === 'link' || token.type === 'image' ? [token.href] : []),
    ...('tokens' in token && token.tokens ? findAddresses(token.tokens) : []),
  ])

const isLong = (code: string): boolean =>
  code.length > longestCode.characters || code.split('\n', longestCode.lines + 1).length > longestCode.lines

class AnswerWriter {
  readonly #named: NamedFiles
  readonly #isMarkdown: boolean
  readonly #page = new PageWriter()
  readonly #parts: AnswerPart[] = []
  /** Files that come after the text. */
  readonly #after: AnswerFile[] = []
  /** Paths of files that are sent already: each is sent once. */
  readonly #sent = new Set<string>()

  constructor(named: NamedFiles, isMarkdown: boolean) {
    this.#named = named
    this.#isMarkdown = isMarkdown
  }

  /** Ends the answer. @returns its parts; `files` are the last */
  end(files: readonly AnswerFile[] = []): AnswerPart[] {
    this.#endPage()
    for (const file of [...this.#after, ...files]) this.#send(file)
    return this.#parts
  }

  writeBlocks(blocks: readonly AnswerBlock[]): void {
    for (const block of blocks) this.#writeBlock(block)
  }

  #writeBlock(block: AnswerBlock): void {
    const page = this.#page
    const rank = block.gap > 0 ? ranks.paragraph : ranks.line
    if (block.kind === 'heading') page.end(Math.max(2, block.gap + 1), ranks.heading)
    else page.end(block.gap + 1, block.kind === 'line' && block.isItem ? ranks.item : rank)
    if (block.kind === 'code') this.#writeCode(block)
    else if (block.kind === 'table') this.#writeTable([block.header, ...block.rows])
    else {
      page.begin(block.lead)
      this.#writeInline(block.tokens)
    }
    if (block.kind === 'heading') page.endHeading()
  }

  #writeCode(block: AnswerBlock & { kind: 'code' }): void {
    const file = this.#named.code.get(block)
    if (file) {
      this.#page.write(nameFile(file))
      this.#after.push(file)
    } else this.#writeFenced(block.text, block.language)
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

  #writeTable([header = [], ...rows]: readonly (readonly Cell[])[]): void {
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
    // A header that is too wide for a table is written even if no row follows.
    if (!lines && rows.length === 0) this.#writeInline(header.flatMap(({ tokens }) => [...tokens, space]))
  }

  /** Returns the text of a cell; undefined if it has several lines, or files. */
  #toText(tokens: readonly Token[]): string | undefined {
    const writer = new AnswerWriter(this.#named, this.#isMarkdown)
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
      else if (token.type === 'strong' || token.type === 'em') this.#writeEmphasis(token)
      else if (token.type === 'del') page.write(strike(decode(token.text)))
      else if (token.type === 'html' && this.#isMarkdown && /^<br ?\/?>$/i.test(token.raw)) page.write('\n')
      else page.write(token.type === 'text' && this.#isMarkdown ? decode(token.raw) : token.raw)
    }
  }

  /**
   * A single mark is emphasis only in a text that certainly is Markdown. Elsewhere it may be part of a pattern of
   * file names.
   */
  #writeEmphasis({ raw, tokens, type }: Tokens.Em | Tokens.Strong): void {
    const mark = type === 'em' && !this.#isMarkdown ? raw.charAt(0) : ''
    this.#page.write(mark)
    this.#writeInline(tokens)
    this.#page.write(mark)
  }

  #writeLink({ autolink, href, raw, text, tokens }: Tokens.Link): void {
    const page = this.#page
    const file = this.#named.linked.get(href)
    const isAddress = webAddress.test(href)
    if (file) this.#after.push(file)
    if (file || (this.#isMarkdown && href.startsWith('#') && pathAddress.test(href)))
      this.#writeInline(tokens)
    else if (autolink)
      page.keepWhole(() => (isAddress && raw === `<${href}>` ? page.writeAddress(href) : page.write(raw)))
    else if (!isAddress && (href.startsWith('#') || !pathAddress.test(href))) page.write(raw)
    else
      page.keepWhole(() => {
        if (raw !== text && shorten(text) !== shorten(href)) {
          this.#writeInline(tokens)
          page.write(text === '' ? '' : /[:：]$/.test(text) ? ' ' : ': ')
        }
        page.writeAddress(toAddress(href))
      })
  }

  #writePicture({ href, raw, text }: Tokens.Image): void {
    const page = this.#page
    const file = this.#named.linked.get(href)
    if (file) {
      this.#endPage()
      this.#send(file)
    } else if (!webAddress.test(href) && !pathAddress.test(href)) page.write(raw)
    else
      page.keepWhole(() => {
        // An address that holds the bytes of the file itself is not written.
        const address = href.startsWith('data:') ? '' : toAddress(href)
        page.write(text && address ? `${text}: ` : text)
        page.writeAddress(address)
      })
  }

  #endPage(): void {
    const page = this.#page.take()
    if (page) this.#parts.push(...cutPage(page).flatMap(text => (isVisible(text) ? { text } : [])))
  }

  #send(file: AnswerFile): void {
    if (!this.#sent.has(file.path)) this.#parts.push(file)
    this.#sent.add(file.path)
  }
}

/** Returns the lines of a table with aligned columns; undefined if a cell has no text, or the lines are too wide. */
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

/** Decodes what HTML writes with names or numbers. What it stands for is cleaned as all else is. */
const decode = (text: string): string =>
  text.replace(/&[#\w]+;/g, entity => {
    const decoded = decodeHTMLStrict(entity)
    return decoded.trim() === '' ? ' ' : clean(decoded)
  })

/** Strikes a text out: each character has a stroke. */
const strike = (text: string): string => text.replace(/\S\p{M}*/gu, '$&\u0336')

/** Shortens an address as people write it: without `https://` and a slash at the end. */
const shorten = (address: string): string => address.replace(/^(https?:\/\/|mailto:)/i, '').replace(/\/$/, '')

/** Encodes an address with characters other than ASCII: otherwise WeChat does not find its end. */
const toAddress = (href: string): string =>
  /[^\x21-\x7e]/.test(href) && URL.canParse(href) ? new URL(href).href : href
