/** Reads the answer of a model: a stream of events, or one JSON object. Every size is bounded. */
import { Buffer } from 'node:buffer'
import { SvcError } from '../../index.ts'
import { Lines } from '../../platform/byte-lines.ts'
import { parseFields } from '../../platform/fields.ts'
import { type EarlyEnd, earlyEndOf } from '../backend.ts'
import { agentError } from '../process.ts'
import { toPlainText } from '../terminal.ts'

/** Longest answer, in characters: pictures may be in it. */
const maxText = 16 * 1024 * 1024
/** Most bytes of an answer, including the JSON around each word, and what a model thinks before it answers. */
const maxBytes = 256 * 1024 * 1024
/** Longest answer that is one object, or piece of one, in bytes: pictures may be in it. */
const maxObject = 24 * 1024 * 1024
/** Bytes that are read of an answer that is an error, and characters of it that are shown. */
const maxProblem = 16_384
const shownProblem = 300

export class ModelAnswer {
  readonly #isObject: boolean
  readonly #object: Uint8Array[] = []
  readonly #lines = new Lines(line => this.#takeLine(line), maxObject)
  #bytes = 0
  #text = ''
  #reason = ''
  #isDone = false
  #hasThought = false

  constructor(contentType: string) {
    this.#isObject = /^application\/json\b/i.test(contentType)
  }

  /** Takes a piece of the answer. @returns whether it was the last. @throws SvcError if it is too long, or an error */
  add(bytes: Uint8Array): boolean {
    this.#bytes += bytes.length
    if (this.#bytes > (this.#isObject ? maxObject : maxBytes)) throw tooLong()
    if (this.#isObject) this.#object.push(bytes)
    else this.#lines.add(bytes)
    if (this.#lines.hasDropped) throw tooLong()
    return this.#isDone
  }

  get early(): EarlyEnd | undefined {
    return earlyEndOf(this.#reason)
  }

  /** Returns the text. @throws SvcError if there is none, or the answer broke off */
  end(): string {
    if (this.#isObject) this.#take(Buffer.concat(this.#object).toString('utf8'))
    else this.#lines.end()
    if (!this.#isDone && this.#reason === '') throw agentError('the answer of the model broke off')
    const text = withoutThoughts(this.#text)
    if (text.trim() !== '') return text
    const reason = this.#reason || 'no reason'
    if (this.#text.trim() === '' && !this.#hasThought)
      throw agentError(`the model answered nothing (${reason})`)
    throw agentError(
      `the model thought, and then answered nothing (${reason})`,
      'Let it answer longer, give it a larger context, or turn its thinking off.',
    )
  }

  #takeLine(line: string): void {
    if (!line.startsWith('data:')) return
    const data = line.slice('data:'.length).trim()
    if (data === '[DONE]') this.#isDone = true
    else if (!this.#isDone) this.#take(data)
  }

  #take(json: string): void {
    const { choices, error } = parseFields(json) ?? {}
    if (error) throw failed(problemIn(error))
    const choice: Choice | undefined = Array.isArray(choices) ? choices[0] : undefined
    const { content, images, reasoning, reasoning_content, refusal } = choice?.delta ?? choice?.message ?? {}
    this.#text += textIn(content) || textIn(refusal)
    if (Array.isArray(images)) this.#text += images.map(pictureIn).join('')
    this.#hasThought ||= Boolean(reasoning || reasoning_content) || Array.isArray(content)
    if (this.#text.length > maxText) throw tooLong()
    if (typeof choice?.finish_reason === 'string') this.#reason = choice.finish_reason
  }
}

/** A choice of the model, whose fields may be anything. */
interface Choice {
  readonly delta?: Said
  readonly message?: Said
  readonly finish_reason?: unknown
}
interface Said {
  readonly content?: unknown
  readonly images?: unknown
  readonly refusal?: unknown
  readonly reasoning?: unknown
  readonly reasoning_content?: unknown
}

/** Returns the text of a content, which may be a list of chunks: texts, pictures, thoughts, sources. */
function textIn(content: unknown): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content
    .map(chunk => {
      if (/^(?:output_)?text$/.test(chunk?.type)) return textIn(chunk.text)
      return /image/.test(chunk?.type) ? pictureIn(chunk) : textIn(chunk?.refusal)
    })
    .join('')
}

/** Returns a picture as Markdown: its address, or its bytes as an address. What has neither is one that is left out. */
function pictureIn(chunk: Record<string, unknown> | null): string {
  const { b64_json, data, image_url, source, url = Object(image_url).url ?? image_url } = Object(chunk ?? {})
  const bytes = b64_json ?? data ?? Object(source).data
  const address = typeof bytes === 'string' ? `data:image/png;base64,${bytes}` : (url ?? Object(source).url)
  return `\n\n![](${typeof address === 'string' && /^(?:https?|data):\S+$/i.test(address) ? address : 'data:,'})\n\n`
}

const beginning = String.raw`<(?:seed:)?(?:think|thinking|thought)>|\[THINK\]|◁think▷`
const ending = String.raw`(?<end></(?:seed:)?(?:think|thinking|thought)>|\[/THINK\]|◁/think▷|<\|channel\|>final<\|message\|>)`
/** A code block, or the mark of a thought in a code span: such an answer is about these marks. */
const quoted = '(?<code>^```[^]*?^```|`</?think(?:ing)?>`)'

/**
 * Removes what a model thinks aloud. A thought may lack its beginning, which is then in the template of the model.
 * After a thought without an end there is no answer.
 */
function withoutThoughts(text: string): string {
  const marks = new RegExp(`${beginning}|${ending}`, 'gi')
  const marksOutside = new RegExp(`${quoted}|${beginning}|${ending}`, 'gim')
  let answer = ''
  let from = 0
  let isThought = false
  for (let at = 0; ; ) {
    const pattern: RegExp = isThought ? marks : marksOutside
    pattern.lastIndex = at
    const found = pattern.exec(text)
    if (!found) return isThought ? answer : answer + text.slice(from)
    at = pattern.lastIndex
    const { code, end } = found.groups ?? {}
    if (code) continue
    if (!isThought) answer = end ? '' : answer + text.slice(from, found.index)
    isThought = !end
    from = at
  }
}

/** Reads an answer, or the beginning of one that is too long. */
export async function readUpTo(response: Response, most = maxObject): Promise<string> {
  const pieces: Uint8Array[] = []
  let size = 0
  for await (const piece of response.body ?? []) {
    pieces.push(piece)
    size += piece.length
    if (size > most) break
  }
  return Buffer.concat(pieces).toString('utf8')
}

/** Returns the problem that an answer with an error names, as far as people may read it. */
export async function readStart(response: Response): Promise<string> {
  const text = await readUpTo(response, maxProblem)
  return problemIn(parseFields(text)?.error ?? text)
}

function problemIn(error: unknown): string {
  const { message } = (typeof error === 'object' && error !== null ? error : {}) as { message?: unknown }
  const text = typeof message === 'string' ? message : typeof error === 'string' ? error : ''
  return toPlainText(text).replace(/\s+/g, ' ').trim().slice(0, shownProblem)
}

const failed = (said: string) => agentError(`the model failed: ${said}`, undefined, { how: 'error', said })

const tooLong = () => new SvcError('payload_too_large', 'the answer of the model is too long')
