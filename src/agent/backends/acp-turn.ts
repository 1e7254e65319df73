/** One turn of an agent that speaks the Agent Client Protocol: what it says, and what it asks. */
import { join, relative } from 'node:path'
import { pathToFileURL } from 'node:url'
import type {
  ContentBlock,
  PromptCapabilities,
  RequestPermissionRequest,
  RequestPermissionResponse,
  ToolCallUpdate,
} from '@agentclientprotocol/sdk'
import { readBelow } from '../../platform/below.ts'
import { isInside } from '../../platform/files.ts'
import { findHomeFolder } from '../../platform/process.ts'
import type { Prompt, PromptFile, TurnContext } from '../backend.ts'
import { agentError } from '../process.ts'
import { cutMiddle, questionLength, toOneLine } from '../question-text.ts'
import { AnswerFiles, addressOf } from './acp-files.ts'

/** Longest answer, in characters. */
const longestAnswer = 1_000_000
/** Largest picture or voice that is handed over inside the prompt, in bytes; a larger one by its path. */
const largestInline = 5_000_000
/** All of them together. */
const largestInlineTotal = 15_000_000
/** Longest parts of a question, in characters. */
const [titleLength, pathsLength, inputLength] = [100, 150, 300]

export class AcpTurn {
  readonly #context: TurnContext
  readonly #stop = new AbortController()
  readonly #texts: string[] = []
  #length = 0
  /** The next text begins a paragraph. */
  #isApart = false
  #message: unknown
  /** The prompt, if the agent may first replay what was said in the session before it. */
  readonly #replayedBefore: string | undefined
  /** What people said since the agent last said something. */
  #heard = ''
  #isPromptHeard = false
  readonly #files: AnswerFiles

  /** @param replayedBefore the prompt, if the agent may first replay what was said in the session before it */
  constructor(context: TurnContext, replayedBefore?: string) {
    this.#context = context
    this.#files = new AnswerFiles(context.folder)
    this.#replayedBefore = replayedBefore?.trim()
  }

  /** Aborts when the turn cannot go on, with the reason. */
  get stopped(): AbortSignal {
    return this.#stop.signal
  }

  /** Takes an update of the session. Its form is not checked yet. */
  take(update: Record<string, unknown>): void {
    const { content, messageId, sessionUpdate } = update
    if (sessionUpdate === 'tool_call') this.#isApart = true
    if (sessionUpdate === 'tool_call' || sessionUpdate === 'tool_call_update') this.#files.takeOfTool(update)
    if (sessionUpdate === 'user_message_chunk') this.#hear(String(Object(content).text ?? ''))
    if (sessionUpdate !== 'agent_message_chunk' || typeof content !== 'object' || content === null) return
    this.#heard = ''
    if (messageId !== this.#message) this.#isApart = true
    this.#message = messageId
    const block = content as Partial<ContentBlock>
    const address = addressOf(block)
    if (block.type === 'text' && typeof block.text === 'string') this.#add(block.text)
    else if (address === undefined) this.#files.take(block)
    else {
      this.#isApart = true
      this.#add(`[${('name' in block && block.name?.replace(/[[\]\n]/g, '')) || address}](${address})`)
      this.#isApart = true
    }
  }

  /** Asks whether the agent may call a tool. */
  async ask(
    { options, toolCall }: RequestPermissionRequest,
    signal: AbortSignal,
  ): Promise<RequestPermissionResponse> {
    try {
      const optionId = await this.#context.ask({
        text: describeCall(toolCall, this.#context.folder),
        options: options.map(({ kind, name, optionId }) => ({ id: optionId, name, kind })),
        signal,
      })
      return { outcome: { outcome: 'selected', optionId } }
    } catch (error) {
      // The agent withdrew its question; its turn goes on.
      if (!signal.aborted) this.#stop.abort(error)
      return { outcome: { outcome: 'cancelled' } }
    }
  }

  /** Returns what the agent said and made. */
  async finish(): Promise<{ text: string; files: string[]; leftOut: number }> {
    return { text: this.#texts.join(''), ...(await this.#files.finish()) }
  }

  /**
   * Takes words of a person, from the prompt or from an earlier one that is replayed. What the agent said before them
   * belongs to an earlier answer. Words of people after the prompt do not matter.
   */
  #hear(text: string): void {
    if (this.#replayedBefore === undefined) return
    this.#heard += text
    const isPrompt = [text, this.#heard].some(words => words.trim() === this.#replayedBefore)
    if (this.#isPromptHeard && !isPrompt) return
    this.#isPromptHeard ||= isPrompt
    this.#texts.length = 0
    this.#files.clear()
    this.#length = 0
  }

  #add(text: string): void {
    if (text === '') return
    const gap = this.#isApart && this.#length > 0 ? '\n\n' : ''
    this.#isApart = false
    this.#length += gap.length + text.length
    if (this.#length > longestAnswer) this.#stop.abort(agentError('the answer of the agent is too long'))
    else this.#texts.push(gap + text)
  }
}

/**
 * Describes what an agent wants to do, and in which folder. Leaves the title out only if the input says the same: the
 * title may be friendlier than the input.
 */
function describeCall({ content, kind, locations, rawInput, title }: ToolCallUpdate, folder: string): string {
  const { command, cwd, description: _, ...others } = Object(rawInput) as Record<string, unknown>
  const isCommand = typeof command === 'string'
  const rest = JSON.stringify(isCommand ? others : (rawInput ?? {}))
  const input = [isCommand ? command : '', rest === '{}' ? '' : rest].filter(Boolean).join(' ')
  const isNew = (text: string) => text !== '' && !input.includes(text)
  const paths = [
    ...(locations ?? []).map(({ path }) => path),
    ...(content ?? []).flatMap(one => (one.type === 'diff' ? [one.path] : [])),
  ].filter(path => isNew(path) && !title?.includes(path))
  const what = [
    ...(title && isNew(title) ? [`"${cutMiddle(title, titleLength)}"`] : []),
    ...(input ? [cutMiddle(input, inputLength)] : []),
    ...(paths.length > 0 ? [`files: ${cutMiddle([...new Set(paths)].join(', '), pathsLength)}`] : []),
    `in ${cutMiddle(isCommand && typeof cwd === 'string' ? cwd : shortPathOf(folder), pathsLength)}`,
  ]
  return toOneLine(`${kind ?? 'other'}: ${what.join('; ')}`, questionLength)
}

/** Returns a path as people write it. */
function shortPathOf(path: string): string {
  const home = findHomeFolder()
  return isInside(home, path) ? join('~', relative(home, path)) : path
}

/**
 * Turns a prompt into blocks: pictures and voices as such where the agent takes them, other files as links.
 *
 * @param folder of the agent, in which the files lie
 */
export async function toBlocks(
  { files, text }: Prompt,
  folder: string,
  capabilities: PromptCapabilities = {},
): Promise<ContentBlock[]> {
  const blocks: ContentBlock[] = [{ type: 'text', text }]
  let left = largestInlineTotal
  for (const file of files) {
    const kind = inlineKindOf(file, capabilities)
    const most = kind ? Math.min(largestInline, left) : -1
    const { size = 0, bytes } = (await readBelow(folder, file.path, most)) ?? {}
    if (kind && bytes) {
      left -= size
      blocks.push({ type: kind, data: bytes.toString('base64'), mimeType: file.type })
    } else {
      const uri = pathToFileURL(file.path).href
      blocks.push({ type: 'resource_link', uri, name: file.name, mimeType: file.type, size })
    }
  }
  return blocks
}

function inlineKindOf({ type }: PromptFile, can: PromptCapabilities): 'image' | 'audio' | undefined {
  if (can.image && /^image\/(png|jpeg|gif|webp)$/.test(type)) return 'image'
  return can.audio && type.startsWith('audio/') ? 'audio' : undefined
}
