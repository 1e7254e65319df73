/**
 * A model server on loopback that replaces the maker's. It calls tools by a script, and records what an
 * agent program passes to the model. It supports Anthropic's messages, OpenAI's responses and chat
 * completions, and Gemini's content API, each with streaming.
 */

// biome-ignore lint/suspicious/noExplicitAny: tests read any field of the requests
type Json = any

/** Next step of the model. */
export type Step = { tool: string; input: Record<string, unknown> } | { say: string }

/** Result of one tool call, as the model gets it. */
export interface Shown {
  readonly tool: string
  /** All its text. */
  readonly text: string
  /** Number of images in the result, or passed beside it. */
  readonly pictures: number
}

export interface StandIn {
  readonly url: string
  /** Results of the tool calls so far, as the program passed them. */
  readonly shown: readonly Shown[]
  /** Names of the tools that the program offered. */
  readonly offered: ReadonlySet<string>
  /** Results of tool searches: the query, and the tools of svc that it found, best first. */
  readonly found: ReadonlyMap<string, readonly string[]>
  /** All requests, to find out why nothing came. */
  readonly log: readonly string[]
  stop(): void
}

/**
 * Starts the model.
 *
 * @param script returns the next step for the results so far
 * @param words queries for the tool search, if the program hides tools behind one
 * @param answer what the model says or does without a tool of svc, by the whole request as JSON text and the names of
 *   the tools
 */
export function standInModel(
  script: (shown: readonly Shown[]) => Step,
  words: readonly string[] = [],
  answer: (request: string, tools: readonly string[]) => string | Step | Promise<string | Step> = () => 'ok',
): StandIn {
  const offered = new Set<string>()
  const found = new Map<string, string[]>()
  const log: string[] = []
  let shown: Shown[] = []
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 0,
    async fetch(request) {
      const { pathname, search } = new URL(request.url)
      const body: Json = await request.json().catch(() => undefined)
      log.push(`${request.method} ${pathname}${search}`)
      const dialect = dialects.find(({ path }) => path.test(pathname))
      if (!dialect || !body) return Response.json({ data: [], models: [], input_tokens: 1 })
      const names = dialect.tools(body)
      for (const name of names) offered.add(name)
      const own = (tool: string) =>
        names.find(name => name === tool || new RegExp(`svc\\W*_*${tool}$`).test(name))
      const all = dialect.results(body)
      const searches = all.filter(({ tool }) => searcher.test(tool))
      for (const [at, { text }] of searches.entries())
        found.set(words[at] ?? '', [...new Set(text.match(/(?<=\bmcp__svc__)\w+/g) ?? [])])
      const finder = names.find(name => searcher.test(name))
      const next = words[searches.length]
      if (finder && next !== undefined && (searches.length > 0 || !own('recv')))
        return dialect.answer({ tool: finder, input: { query: next } }, body, pathname)
      const results = all.filter(({ tool }) => tool !== waiting && !searcher.test(tool))
      // Claude Code continues while a server starts, and lets the model wait for it.
      if (!own('recv') && names.includes(waiting) && all.length < 3)
        return dialect.answer({ tool: waiting, input: {} }, body, pathname)
      // Requests for titles and the like offer no tools.
      if (!own('recv') && searches.length === 0) {
        const step = await answer(JSON.stringify(body), names)
        return dialect.answer(typeof step === 'string' ? { say: step } : step, body, pathname)
      }
      if (results.length >= shown.length) shown = results
      const step = script(results)
      if (!('tool' in step)) return dialect.answer(step, body, pathname)
      const name = own(step.tool) ?? `mcp__svc__${step.tool}`
      // Qwen Code calls a found tool through another tool.
      const call =
        !names.includes(name) && names.includes('tool_call')
          ? { tool: 'tool_call', input: { name, arguments: step.input } }
          : { ...step, tool: name }
      return dialect.answer(call, body, pathname)
    },
  })
  return {
    url: `http://127.0.0.1:${server.port}`,
    get shown() {
      return shown
    },
    offered,
    found,
    log,
    stop: () => void server.stop(true),
  }
}

const waiting = 'WaitForMcpServers'
const searcher = /^tool_?search$/i

interface Dialect {
  readonly path: RegExp
  tools(body: Json): string[]
  results(body: Json): Shown[]
  answer(step: Step, body: Json, pathname: string): Response
}

const events = (list: Json[], named = false) =>
  new Response(
    list
      .map(
        one =>
          `${named ? `event: ${one.type}\n` : ''}data: ${typeof one === 'string' ? one : JSON.stringify(one)}\n\n`,
      )
      .join(''),
    { headers: { 'content-type': 'text/event-stream' } },
  )
let made = 0
const newId = (kind: string) => `${kind}_${++made}`

/** Returns the text of a result in the form of JSON text (Cline); '' if it was truncated. */
function resultIn(text: string): string | undefined {
  if (!text.startsWith('{"content":[')) return undefined
  try {
    return textIn(JSON.parse(text).content)
  } catch {
    return ''
  }
}

/** Returns all texts of a value of any shape. */
const textIn = (value: Json): string =>
  typeof value === 'string'
    ? (resultIn(value) ?? value)
    : Array.isArray(value)
      ? value.map(textIn).join('\n')
      : typeof value === 'object' && value !== null
        ? typeof value.text === 'string'
          ? value.text
          : Object.entries(value)
              .filter(([key]) => !/^(data|image_url|source|inlineData|type|id)$/.test(key))
              .map(([, one]) => textIn(one))
              .join('\n')
        : ''
/** Counts images: media types in JSON, or data URLs. */
const picturesIn = (value: Json) =>
  JSON.stringify(value ?? '').match(/"(data:)?image\/[a-z]+[";]/g)?.length ?? 0

const anthropic: Dialect = {
  path: /\/v1\/messages$/,
  tools: body => (body.tools ?? []).map((tool: Json) => tool.name),
  results: body => {
    const parts: Json[] = body.messages.flatMap((one: Json) =>
      Array.isArray(one.content) ? one.content : [],
    )
    const calls = new Map(parts.filter(one => one.type === 'tool_use').map(one => [one.id, one.name]))
    return parts
      .filter(one => one.type === 'tool_result')
      .map(one => ({
        tool: calls.get(one.tool_use_id) ?? '',
        text: textIn(one.content),
        pictures: picturesIn(one.content),
      }))
  },
  answer(step, body) {
    const block =
      'tool' in step
        ? { type: 'tool_use', id: newId('toolu'), name: step.tool, input: {} }
        : { type: 'text', text: '' }
    const delta =
      'tool' in step
        ? { type: 'input_json_delta', partial_json: JSON.stringify(step.input) }
        : { type: 'text_delta', text: step.say }
    const usage = { input_tokens: 1, output_tokens: 1 }
    const message = {
      id: newId('msg'),
      type: 'message',
      role: 'assistant',
      model: body.model,
      content: [] as Json[],
      stop_reason: null as string | null,
      stop_sequence: null,
      usage,
    }
    const stop_reason = 'tool' in step ? 'tool_use' : 'end_turn'
    if (!body.stream) {
      const content = 'tool' in step ? { ...block, input: step.input } : { ...block, text: step.say }
      return Response.json({ ...message, content: [content], stop_reason })
    }
    return events(
      [
        { type: 'message_start', message },
        { type: 'content_block_start', index: 0, content_block: block },
        { type: 'content_block_delta', index: 0, delta },
        { type: 'content_block_stop', index: 0 },
        { type: 'message_delta', delta: { stop_reason, stop_sequence: null }, usage },
        { type: 'message_stop' },
      ],
      true,
    )
  },
}

const responses: Dialect = {
  path: /\/responses$/,
  tools: body =>
    (body.tools ?? []).flatMap((tool: Json) =>
      tool.type === 'namespace'
        ? tool.tools.map((one: Json) => `${tool.name}/${one.name}`)
        : [tool.name ?? tool.type],
    ),
  results: body => {
    const calls = new Map(
      body.input
        .filter((one: Json) => one.type === 'function_call')
        .map((one: Json) => [one.call_id, one.name]),
    )
    return body.input
      .filter((one: Json) => one.type === 'function_call_output')
      .map((one: Json) => ({
        tool: calls.get(one.call_id) ?? '',
        text: textIn(one.output),
        pictures: picturesIn(one.output),
      }))
  },
  answer(step) {
    const id = newId('resp')
    const [namespace, name] = 'tool' in step && step.tool.includes('/') ? step.tool.split('/') : []
    const item =
      'tool' in step
        ? {
            type: 'function_call',
            id: newId('fc'),
            call_id: newId('call'),
            name: name ?? step.tool,
            ...(namespace && { namespace }),
            arguments: JSON.stringify(step.input),
          }
        : {
            type: 'message',
            role: 'assistant',
            id: newId('msg'),
            content: [{ type: 'output_text', text: step.say, annotations: [] }],
          }
    const usage = {
      input_tokens: 1,
      input_tokens_details: null,
      output_tokens: 1,
      output_tokens_details: null,
      total_tokens: 2,
    }
    return events(
      [
        { type: 'response.created', response: { id } },
        { type: 'response.output_item.done', output_index: 0, item },
        { type: 'response.completed', response: { id, status: 'completed', output: [item], usage } },
      ],
      true,
    )
  },
}

const chat: Dialect = {
  path: /\/chat\/completions$/,
  tools: body => (body.tools ?? []).map((tool: Json) => tool.function?.name ?? tool.name ?? tool.type),
  results: body => {
    const calls = new Map(
      body.messages.flatMap((one: Json) =>
        (one.tool_calls ?? []).map((call: Json) => [call.id, call.function.name]),
      ),
    )
    const found: { tool: string; text: string; pictures: number }[] = []
    for (const one of body.messages) {
      if (one.role === 'tool')
        found.push({
          tool: String(calls.get(one.tool_call_id) ?? ''),
          text: textIn(one.content),
          pictures: picturesIn(one.content),
        })
      // A tool result that cannot contain images has them in the message after it.
      else if (found.length > 0) found.at(-1)!.pictures += picturesIn(one.content)
    }
    return found
  },
  answer(step, body) {
    const head = { id: newId('chat'), object: 'chat.completion.chunk', created: 1, model: body.model }
    const call = 'tool' in step && {
      index: 0,
      id: newId('call'),
      type: 'function',
      function: { name: step.tool, arguments: JSON.stringify(step.input) },
    }
    const delta = {
      role: 'assistant',
      ...(call ? { tool_calls: [call] } : { content: (step as { say: string }).say }),
    }
    const finish_reason = call ? 'tool_calls' : 'stop'
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
    if (!body.stream)
      return Response.json({
        ...head,
        object: 'chat.completion',
        usage,
        choices: [{ index: 0, message: delta, finish_reason }],
      })
    return events([
      { ...head, choices: [{ index: 0, delta, finish_reason: null }] },
      { ...head, choices: [{ index: 0, delta: {}, finish_reason }], usage },
      '[DONE]',
    ])
  },
}

const gemini: Dialect = {
  path: /:(streamG|g)enerateContent$/,
  tools: body =>
    (body.tools ?? []).flatMap((tool: Json) =>
      (tool.functionDeclarations ?? []).map((one: Json) => one.name),
    ),
  results: body => {
    const found: { tool: string; text: string; pictures: number }[] = []
    for (const part of body.contents.flatMap((one: Json) => one.parts ?? [])) {
      const { functionResponse } = part
      if (functionResponse)
        found.push({
          tool: functionResponse.name,
          text: textIn(functionResponse.response),
          pictures: picturesIn(functionResponse),
        })
      else if (found.length > 0) {
        const last = found.at(-1)!
        last.pictures += picturesIn(part)
        last.text += part.text ?? ''
      }
    }
    return found
  },
  answer(step, _body, pathname) {
    const part = 'tool' in step ? { functionCall: { name: step.tool, args: step.input } } : { text: step.say }
    const chunk = {
      candidates: [{ content: { role: 'model', parts: [part] }, finishReason: 'STOP', index: 0 }],
      usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 },
    }
    return pathname.includes('stream') ? events([chunk]) : Response.json(chunk)
  },
}

const dialects: readonly Dialect[] = [anthropic, responses, chat, gemini]
