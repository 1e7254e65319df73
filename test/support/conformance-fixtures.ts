/**
 * Tools, resources and prompts that the protocol authors' conformance suite calls, with the names and
 * contents it expects, on top of svc's own server. Each does what the description of its scenario says.
 */
import {
  acceptedContent,
  type CallToolResult,
  CLIENT_CAPABILITIES_META_KEY,
  type ContentBlock,
  createRequestStateCodec,
  type ElicitRequestFormParams,
  fromJsonSchema,
  type InputRequests,
  type InputRequiredResult,
  inputRequired,
  inputResponse,
  type JsonSchemaType,
  type McpServer,
  ProtocolError,
  ProtocolErrorCode,
  ResourceTemplate,
  type ServerContext,
} from '@modelcontextprotocol/server'

/** A red pixel as PNG, and a WAV without samples. */
const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=='
const wav = 'UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA='

const text = (content: string): ContentBlock => ({ type: 'text', text: content })
const image: ContentBlock = { type: 'image', data: png, mimeType: 'image/png' }
const said = (content: string): CallToolResult => ({ content: [text(content)] })

const schemaOf = (schema: object) =>
  fromJsonSchema<Record<string, string>>(schema as JsonSchemaType, {
    getValidator: () => input => ({ valid: true, data: input as never, errorMessage: undefined }),
  })
const strings = (...names: string[]) =>
  schemaOf({
    type: 'object',
    properties: Object.fromEntries(names.map(name => [name, { type: 'string', description: name }])),
    required: names,
  })

type Run = (
  input: Record<string, string>,
  ctx: ServerContext,
) => Promise<CallToolResult | InputRequiredResult> | CallToolResult | InputRequiredResult

/** Adds all fixtures to a server. */
export function addConformanceFixtures(server: McpServer, era: 'legacy' | 'modern'): void {
  server.server.registerCapabilities({ logging: {} })
  const tool = (name: string, run: Run, inputSchema = schemaOf({ type: 'object' })) =>
    server.registerTool(name, { description: `For the scenario of ${name}`, inputSchema }, run)
  addContentTools(tool)
  addTalkingTools(tool)
  if (era === 'modern') addRoundTrips(tool)
  addResources(server)
  addPrompts(server, era)
  server.server.setRequestHandler('completion/complete', () => ({
    completion: { values: ['paris', 'park', 'party'], total: 3, hasMore: false },
  }))
  // svc's server rejects a subscription to a resource that never changes, and does not know
  // test://watched-resource.
  if (era === 'legacy')
    for (const method of ['resources/subscribe', 'resources/unsubscribe'] as const)
      server.server.setRequestHandler(method, () => ({}))
}

type AddTool = (name: string, run: Run, inputSchema?: ReturnType<typeof schemaOf>) => void

function addContentTools(tool: AddTool): void {
  tool('test_simple_text', () => said('This is a simple text response for testing.'))
  tool('test_image_content', () => ({ content: [image] }))
  tool('test_audio_content', () => ({ content: [{ type: 'audio', data: wav, mimeType: 'audio/wav' }] }))
  tool('test_embedded_resource', () => ({
    content: [
      {
        type: 'resource',
        resource: {
          uri: 'test://embedded-resource',
          mimeType: 'text/plain',
          text: 'This is an embedded resource content.',
        },
      },
    ],
  }))
  tool('test_multiple_content_types', () => ({
    content: [
      text('Multiple content types test:'),
      image,
      {
        type: 'resource',
        resource: {
          uri: 'test://mixed-content-resource',
          mimeType: 'application/json',
          text: '{"test":"data","value":123}',
        },
      },
    ],
  }))
  tool('test_error_handling', () => {
    throw new Error('This tool intentionally returns an error for testing')
  })
  tool(
    'json_schema_2020_12_tool',
    input => said(JSON.stringify(input)),
    schemaOf({
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      type: 'object',
      $defs: {
        address: {
          $anchor: 'addressDef',
          type: 'object',
          properties: { street: { type: 'string' }, city: { type: 'string' } },
        },
      },
      properties: {
        name: { type: 'string' },
        address: { $ref: '#/$defs/address' },
        contactMethod: { type: 'string', enum: ['phone', 'email'] },
        phone: { type: 'string' },
        email: { type: 'string' },
      },
      allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
      if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
      // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
      then: { required: ['phone'] },
      else: { required: ['email'] },
      additionalProperties: false,
    }),
  )
}

/** Ties a question to the call, as svc's own tools do; the client need not open the GET stream. */
const within = (ctx: ServerContext) => ({ relatedRequestId: ctx.mcpReq.id })

/** Adds tools that send or ask something while they run, as the legacy protocol does. */
function addTalkingTools(tool: AddTool): void {
  const logging: Run = async (_input, ctx) => {
    for (const step of ['started', 'processing data', 'completed'])
      await ctx.mcpReq.log('info', `Tool execution ${step}`)
    return said('Tool with logging executed successfully')
  }
  tool('test_tool_with_logging', logging)
  tool('test_logging_tool', logging)
  tool('test_tool_with_progress', async (_input, ctx) => {
    const progressToken = ctx.mcpReq._meta?.progressToken
    if (progressToken !== undefined)
      for (const progress of [0, 50, 100])
        await ctx.mcpReq.notify({
          method: 'notifications/progress',
          params: { progressToken, progress, total: 100 },
        })
    return said('done')
  })
  tool('test_reconnection', async (_input, ctx) => {
    ctx.http?.closeSSE?.()
    await new Promise(resolve => setTimeout(resolve, 100))
    return said('Reconnection test completed')
  })
  tool(
    'test_sampling',
    async ({ prompt }, ctx) => {
      const { content } = await ctx.mcpReq.requestSampling(
        { messages: [{ role: 'user', content: { type: 'text', text: prompt! } }], maxTokens: 100 },
        within(ctx),
      )
      return said(`LLM response: ${JSON.stringify(content)}`)
    },
    strings('prompt'),
  )
  const ask = async (ctx: ServerContext, message: string, properties: object, required: string[] = []) => {
    const requestedSchema = { type: 'object', properties, required }
    const question = { mode: 'form', message, requestedSchema } as ElicitRequestFormParams
    const answer = await ctx.mcpReq.elicitInput(question, within(ctx))
    return said(`action=${answer.action}, content=${JSON.stringify(answer.content ?? {})}`)
  }
  tool(
    'test_elicitation',
    ({ message }, ctx) => ask(ctx, message!, { response: { type: 'string' } }, ['response']),
    strings('message'),
  )
  tool('test_elicitation_sep1034_defaults', (_input, ctx) =>
    ask(ctx, 'Please review', {
      name: { type: 'string', default: 'John Doe' },
      age: { type: 'integer', default: 30 },
      score: { type: 'number', default: 95.5 },
      status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
      verified: { type: 'boolean', default: true },
    }),
  )
  const titled = [
    { const: 'value1', title: 'First' },
    { const: 'value2', title: 'Second' },
    { const: 'value3', title: 'Third' },
  ]
  const plain = ['option1', 'option2', 'option3']
  tool('test_elicitation_sep1330_enums', (_input, ctx) =>
    ask(ctx, 'Please select', {
      untitledSingle: { type: 'string', enum: plain },
      titledSingle: { type: 'string', oneOf: titled },
      legacyEnum: { type: 'string', enum: ['opt1', 'opt2'], enumNames: ['Option One', 'Option Two'] },
      untitledMulti: { type: 'array', items: { type: 'string', enum: plain } },
      titledMulti: { type: 'array', items: { anyOf: titled } },
    }),
  )
}

const form = (message: string, name: string, type: 'string' | 'boolean' = 'string') =>
  inputRequired.elicit({
    message,
    requestedSchema: {
      type: 'object',
      properties: { [name]: type === 'string' ? { type } : { type } },
      required: [name],
    },
  })
const sampling = (question: string, maxTokens: number) =>
  inputRequired.createMessage({
    messages: [{ role: 'user', content: { type: 'text', text: question } }],
    maxTokens,
  })

/**
 * Adds tools that ask as revision 2026-07-28 does: the call ends with its questions, and is repeated with
 * the answers.
 */
function addRoundTrips(tool: AddTool): void {
  const codec = createRequestStateCodec<string>({ key: 'conformance-fixtures-conformance-fixtures' })
  const stateOf = async (ctx: ServerContext): Promise<string | undefined> => {
    const state = ctx.mcpReq.requestState<string>()
    if (state === undefined) return undefined
    try {
      return await codec.verify(state, ctx)
    } catch {
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'requestState is not ours')
    }
  }
  const nameForm = form('What is your name?', 'name')
  const name = (ctx: ServerContext, key = 'user_name') =>
    acceptedContent<{ name: string }>(ctx.mcpReq.inputResponses, key)?.name
  const needed = (inputRequests: InputRequests, requestState?: string) =>
    inputRequired({ inputRequests, ...(requestState !== undefined && { requestState }) })

  tool('test_input_required_result_elicitation', (_input, ctx) => {
    const given = name(ctx)
    return typeof given === 'string' ? said(`Hello, ${given}!`) : needed({ user_name: nameForm })
  })
  tool('test_streaming_elicitation', () => needed({ user_name: nameForm }))
  tool('test_input_required_result_sampling', (_input, ctx) => {
    const answer = inputResponse(ctx.mcpReq.inputResponses, 'capital_question')
    return answer.kind === 'sampling'
      ? said(JSON.stringify(answer.result.content))
      : needed({ capital_question: sampling('What is the capital of France?', 100) })
  })
  tool('test_input_required_result_list_roots', (_input, ctx) => {
    const answer = inputResponse(ctx.mcpReq.inputResponses, 'client_roots')
    return answer.kind === 'roots'
      ? said(answer.roots.map(({ uri }) => uri).join(' '))
      : needed({ client_roots: inputRequired.listRoots() })
  })
  const confirming: Run = async (_input, ctx) => {
    if ((await stateOf(ctx)) === 'confirm') return said('state-ok')
    return needed({ confirm: form('Please confirm', 'ok', 'boolean') }, await codec.mint('confirm', ctx))
  }
  tool('test_input_required_result_request_state', confirming)
  tool('test_input_required_result_tampered_state', confirming)
  tool('test_input_required_result_multiple_inputs', async (_input, ctx) => {
    const responses = ctx.mcpReq.inputResponses ?? {}
    if ((await stateOf(ctx)) !== undefined) return said(Object.keys(responses).join(' '))
    return needed(
      {
        user_name: nameForm,
        greeting: sampling('Generate a greeting', 50),
        client_roots: inputRequired.listRoots(),
      },
      await codec.mint('all', ctx),
    )
  })
  tool('test_input_required_result_multi_round', async (_input, ctx) => {
    const state = await stateOf(ctx)
    if (state === undefined)
      return needed({ step1: form('Step 1: What is your name?', 'name') }, await codec.mint('1', ctx))
    if (state === '1')
      return needed(
        { step2: form('Step 2: What is your favorite color?', 'color') },
        await codec.mint(`2 ${name(ctx, 'step1')}`, ctx),
      )
    return said(state)
  })
  tool('test_input_required_result_capabilities', (_input, ctx) => {
    const declared = capabilitiesOf(ctx)
    return needed({
      ...(declared.elicitation !== undefined && { user_name: nameForm }),
      ...(declared.sampling !== undefined && { greeting: sampling('Generate a greeting', 50) }),
      ...(declared.roots !== undefined && { client_roots: inputRequired.listRoots() }),
    })
  })
  // The library throws if a tool asks for what the client does not support.
  tool('test_missing_capability', () => needed({ greeting: sampling('Generate a greeting', 50) }))
}

const capabilitiesOf = ({ mcpReq }: ServerContext) => {
  const envelope = (mcpReq.envelope ?? {}) as Record<string, unknown>
  return (envelope[CLIENT_CAPABILITIES_META_KEY] ?? {}) as Record<string, unknown>
}

function addResources(server: McpServer): void {
  const mimeType = 'text/plain'
  for (const [name, content] of [
    ['static-text', 'This is the content of the static text resource.'],
    ['watched-resource', 'Watched resource content'],
  ] as const) {
    const uri = `test://${name}`
    server.registerResource(name, uri, { description: name, mimeType }, () => ({
      contents: [{ uri, mimeType, text: content }],
    }))
  }
  const binary = 'test://static-binary'
  server.registerResource('static-binary', binary, { description: 'A pixel', mimeType: 'image/png' }, () => ({
    contents: [{ uri: binary, mimeType: 'image/png', blob: png }],
  }))
  server.registerResource(
    'template',
    new ResourceTemplate('test://template/{id}/data', { list: undefined }),
    { description: 'A template', mimeType: 'application/json' },
    (uri, { id }) => ({
      contents: [
        {
          uri: uri.href,
          mimeType: 'application/json',
          text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` }),
        },
      ],
    }),
  )
}

function addPrompts(server: McpServer, era: 'legacy' | 'modern'): void {
  server.registerPrompt('test_simple_prompt', { description: 'Simple' }, () => ({
    messages: [{ role: 'user', content: { type: 'text', text: 'This is a simple prompt for testing.' } }],
  }))
  server.registerPrompt(
    'test_prompt_with_arguments',
    { description: 'With arguments', argsSchema: strings('arg1', 'arg2') },
    ({ arg1, arg2 }) => ({
      messages: [
        {
          role: 'user',
          content: { type: 'text', text: `Prompt with arguments: arg1='${arg1}', arg2='${arg2}'` },
        },
      ],
    }),
  )
  server.registerPrompt(
    'test_prompt_with_embedded_resource',
    { description: 'With a resource', argsSchema: strings('resourceUri') },
    ({ resourceUri }) => ({
      messages: [
        {
          role: 'user',
          content: {
            type: 'resource',
            resource: { uri: resourceUri!, mimeType: 'text/plain', text: 'Embedded resource content.' },
          },
        },
        { role: 'user', content: { type: 'text', text: 'Please process the embedded resource above.' } },
      ],
    }),
  )
  server.registerPrompt('test_prompt_with_image', { description: 'With a picture' }, () => ({
    messages: [
      { role: 'user', content: { type: 'image', data: png, mimeType: 'image/png' } },
      { role: 'user', content: { type: 'text', text: 'Please analyze the image above.' } },
    ],
  }))
  if (era === 'legacy') return
  server.registerPrompt('test_input_required_result_prompt', { description: 'Asks first' }, ctx => {
    const given = acceptedContent<{ context: string }>(ctx.mcpReq.inputResponses, 'user_context')
    return given
      ? { messages: [{ role: 'user', content: { type: 'text', text: `Context: ${given.context}` } }] }
      : inputRequired({
          inputRequests: { user_context: form('What context should the prompt use?', 'context') },
        })
  })
}
