/**
 * Answers by a model at an address with the API of OpenAI: Ollama, llama.cpp, vLLM and others. The model keeps nothing,
 * so svc sends the conversation with each turn.
 */
import { randomUUID } from 'node:crypto'
import { SvcError } from '../../index.ts'
import { badArgument } from '../../model/error.ts'
import { startAwakeTimer } from '../../platform/clock.ts'
import { apiFetch, failureTextOf } from '../../platform/fetch.ts'
import { parseFields } from '../../platform/fields.ts'
import { readText } from '../../platform/files.ts'
import { RoomPart } from '../../platform/runtime.ts'
import { linkSignals } from '../../platform/signals.ts'
import { withoutInlinePictures } from '../answer-files.ts'
import type { AgentOffers, Backend, Prompt, SessionContext, TurnContext, TurnResult } from '../backend.ts'
import type { OpenAiConfig } from '../config.ts'
import { agentError } from '../process.ts'
import { toPlainText } from '../terminal.ts'
import { type ChatMessage, isChatId, readChat, toWireMessages, writeChat } from './chat.ts'
import { withLostNote } from './lost.ts'
import { ModelAnswer, readStart, readUpTo } from './model-answer.ts'

/** A model that is loaded from the disk, or reads a long conversation, sends nothing for minutes. */
const longestSilenceMs = 240_000

/** Time for an address to list its models. */
const listMs = 5000

const defaultSystem =
  'You talk with a person on WeChat. Answer briefly, in the language of the person, in simple Markdown without tables and without LaTeX.'

export interface OpenAiOptions extends OpenAiConfig {
  /** Longest time in which the address sends nothing. */
  readonly silenceMs?: number
}

export const createOpenAiBackend = (options: OpenAiOptions): Backend => new OpenAiBackend(options)

class OpenAiBackend extends RoomPart<OpenAiOptions> implements Backend {
  readonly #closing = new AbortController()

  async run({ files, text }: Prompt, context: TurnContext): Promise<TurnResult> {
    const { agentSession, folder, signal } = context
    const id = isChatId(agentSession) ? agentSession : randomUUID()
    const images = files.flatMap(({ kind, path, type }) => (kind === 'image' ? [{ path, type }] : []))
    const earlier = await readChat(folder, id)
    const isLost = agentSession !== undefined && earlier.length === 0
    const messages: ChatMessage[] = [...earlier, { role: 'user', text, ...(images.length > 0 && { images }) }]
    using ended = linkSignals(signal, this.#closing.signal)
    const { early, text: answer } = await this.#answer(messages, { ...context, signal: ended.signal })
    await writeChat(folder, id, [...messages, { role: 'assistant', text: withoutInlinePictures(answer) }])
    return { text: isLost ? withLostNote(answer, text) : answer, early, agentSession: id }
  }

  /** Whether svc still has the conversation, and the models, if the address lists them. */
  async look({ agentSession, folder, model, signal }: SessionContext): Promise<AgentOffers> {
    const isSame = isChatId(agentSession) && (await readChat(folder, agentSession)).length > 0
    try {
      const choices = (await this.#listModels(signal)).map(id => ({ id, name: id, description: '' }))
      return { isSame, model: { choices, current: model ?? this.ports.model } }
    } catch (untold) {
      return { isSame, untold }
    }
  }

  /** @throws SvcError if the address cannot be asked, or refuses */
  async #listModels(signal: AbortSignal): Promise<string[]> {
    const { url } = this.ports
    const address = toAddress(url).replace(/chat\/completions$/, 'models')
    const asking = { headers: await this.#authorization(), signal, timeoutMs: listMs }
    const response = await apiFetch(address, asking).catch(error => {
      throw unreachable(url, error)
    })
    // Not every address lists them.
    if (!response.ok && response.status !== 404) throw refusal(response.status, await readStart(response))
    const listed = parseFields(await readUpTo(response))?.data
    return Array.isArray(listed) ? listed.map(one => String(Object(one).id)) : []
  }

  async close(): Promise<void> {
    this.#closing.abort(new SvcError('shutting_down', 'svc stops'))
  }

  async #answer(messages: readonly ChatMessage[], context: SessionContext): Promise<TurnResult> {
    const hasImages = messages.some(({ images }) => images !== undefined)
    const toWire = (withImages: boolean) => toWireMessages(messages, context.folder, withImages)
    const first = await this.#ask(await toWire(hasImages), context)
    // Models that cannot read pictures refuse them in many ways. The text names the files of the pictures.
    const { error, ...said } =
      first.error && hasImages ? await this.#ask(await toWire(false), context) : first
    if (error) throw error
    return said
  }

  async #ask(
    messages: readonly unknown[],
    { model = this.ports.model, signal }: SessionContext,
  ): Promise<TurnResult & { error?: SvcError }> {
    const { silenceMs = longestSilenceMs, system = defaultSystem, url } = this.ports
    const all = [{ role: 'system', content: system }, ...messages]
    const headers = { 'content-type': 'application/json', ...(await this.#authorization()) }
    const silence = new AbortController()
    const timer = startAwakeTimer(silenceMs, () =>
      silence.abort(new SvcError('upstream_timeout', `the model sent nothing for ${silenceMs / 1000} s`)),
    )
    using linked = linkSignals(signal, silence.signal)
    try {
      const body = JSON.stringify({ model, stream: true, messages: all })
      const response = await apiFetch(toAddress(url), {
        method: 'POST',
        headers,
        body,
        signal: linked.signal,
      })
      if (!response.ok) return { text: '', error: refusal(response.status, await readStart(response)) }
      const answer = new ModelAnswer(response.headers.get('content-type') ?? '')
      for await (const bytes of response.body ?? []) {
        timer.restart()
        if (answer.add(bytes)) break
      }
      return { text: toPlainText(answer.end()), early: answer.early }
    } catch (error) {
      linked.signal.throwIfAborted()
      if (error instanceof SvcError) throw error
      throw unreachable(url, error)
    } finally {
      timer.stop()
    }
  }

  async #authorization(): Promise<Record<string, string>> {
    const { keyFile } = this.ports
    if (keyFile === undefined) return {}
    // Read for each request, so that a new key needs no restart.
    const key = (await readText(keyFile))?.trim() ?? ''
    if (!/^[\x21-\x7e]{1,10000}$/.test(key)) throw badArgument('key_file', `${keyFile} holds no key`)
    return { authorization: `Bearer ${key}` }
  }
}

const toAddress = (url: string): string =>
  /\/chat\/completions$/.test(url) ? url : `${url.replace(/\/+$/, '')}/chat/completions`

function unreachable(url: string, error: unknown): SvcError {
  const { host } = new URL(url)
  return agentError(
    `${host} cannot be reached, or broke off (${failureTextOf(error)})`,
    'Start the server of the model, or check the address.',
    { how: 'unreachable', value: host },
  )
}

function refusal(status: number, problem: string): SvcError {
  const why = problem && `: ${problem}`
  const reason = { how: 'refused', value: status, said: problem } as const
  return status === 401 || status === 403
    ? agentError(
        `the address refused the key (status ${status})${why}`,
        'Check the file with the key.',
        reason,
      )
    : agentError(
        `the address answered with status ${status}${why}`,
        'Check the address and the model.',
        reason,
      )
}
