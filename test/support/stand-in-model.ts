/**
 * A model on loopback that an agent's program talks to in place of its maker's: it calls tools by script, and keeps what
 * the program would have put before a model. It speaks Anthropic's messages, OpenAI's responses and chat completions, and
 * Gemini's content API, each as streamed.
 */

// biome-ignore lint/suspicious/noExplicitAny: what programs send is looked into freely
type Json = any

/** What the model does next. */
export type Step = { tool: string; input: Record<string, unknown> } | { say: string }

/** What one tool call gave the model. */
export interface Shown {
  readonly tool: string
  /** All text of it. */
  readonly text: string
  /** Pictures in it, or handed over beside it. */
  readonly pictures: number
}

export interface StandIn {
  readonly url: string
  /** Results of the tools called so far, as the program showed them. */
  readonly shown: readonly Shown[]
  /** Names of the tools that were offered to the model. */
  readonly offered: ReadonlySet<string>
  /** Where tools are found by a search: the words, and the tools of svc that it found, best first. */
  readonly found: ReadonlyMap<string, readonly string[]>
  /** What else was asked, to tell why nothing came. */
  readonly log: readonly string[]
  stop(): void
}

/**
 * @param script the next step, from what the tools have shown so far
 * @param words what it searches for first where the program hides tools behind a search
 */
export function standInModel(
  script: (shown: readonly Shown[]) => Step,
  words: readonly string[] = [],
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
      const searches = all.filter(one => searcher.test(one.tool))
      for (const [at, { text }] of searches.entries())
        found.set(words[at] ?? '', [...new Set(text.match(/(?<=\bmcp__svc__)\w+/g) ?? [])])
      const finder = names.find(name => searcher.test(name))
      const next = words[searches.length]
      if (finder && next !== undefined && (searches.length > 0 || !own('recv')))
        return dialect.answer({ tool: finder, input: { query: next } }, body, pathname)
      const results = all.filter(one => one.tool !== waiting && !searcher.test(one.tool))
      // Claude Code goes ahead while a server starts, and lets its model wait for it.
      if (!own('recv') && names.includes(waiting) && all.length < 3)
        return dialect.answer({ tool: waiting, input: {} }, body, pathname)
      // Titles and the like are asked for without tools.
      if (!own('recv') && searches.length === 0) return dialect.answer({ say: 'ok' }, body, pathname)
      if (results.length >= shown.length) shown = results
      const step = script(results)
      if (!('tool' in step)) return dialect.answer(step, body, pathname)
      const name = own(step.tool) ?? `mcp__svc__${step.tool}`
      // Qwen Code calls what it found through another tool.
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
    ...{ offered, found, log },
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

/** The text of a result that is handed over as JSON text (Cline); nothing when that was cut. */
function resultIn(text: string): string | undefined {
  if (!text.startsWith('{"content":[')) return undefined
  try {
    return textIn(JSON.parse(text).content)
  } catch {
    return ''
  }
}

/** The texts in it, whatever shape they have. */
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
/** As a type of media, or at the head of a data URL. */
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
        ...{ tool: calls.get(one.tool_use_id) ?? '', text: textIn(one.content) },
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
      ...{ id: newId('msg'), type: 'message', role: 'assistant', model: body.model, content: [] as Json[] },
      ...{ stop_reason: null as string | null, stop_sequence: null, usage },
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
        ...{ tool: calls.get(one.call_id) ?? '', text: textIn(one.output), pictures: picturesIn(one.output) },
      }))
  },
  answer(step) {
    const id = newId('resp')
    const [namespace, name] = 'tool' in step && step.tool.includes('/') ? step.tool.split('/') : []
    const item =
      'tool' in step
        ? {
            ...{ type: 'function_call', id: newId('fc'), call_id: newId('call') },
            ...{
              name: name ?? step.tool,
              ...(namespace && { namespace }),
              arguments: JSON.stringify(step.input),
            },
          }
        : {
            ...{ type: 'message', role: 'assistant', id: newId('msg') },
            content: [{ type: 'output_text', text: step.say, annotations: [] }],
          }
    const usage = {
      ...{ input_tokens: 1, input_tokens_details: null, output_tokens: 1 },
      ...{ output_tokens_details: null, total_tokens: 2 },
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
          ...{ text: textIn(one.content), pictures: picturesIn(one.content) },
        })
      // Where a result of a tool has no room for pictures they come in the message after it.
      else if (found.length > 0) found.at(-1)!.pictures += picturesIn(one.content)
    }
    return found
  },
  answer(step, body) {
    const head = { id: newId('chat'), object: 'chat.completion.chunk', created: 1, model: body.model }
    const call = 'tool' in step && {
      ...{ index: 0, id: newId('call'), type: 'function' },
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
        ...{ ...head, object: 'chat.completion', usage },
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
          ...{ tool: functionResponse.name, text: textIn(functionResponse.response) },
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
