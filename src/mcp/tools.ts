/** Every Tool as an MCP tool: its schemas and annotations, its call, its result or its error. */
import {
  type CallToolResult,
  fromJsonSchema,
  type InputRequiredResult,
  type JsonSchemaType,
  type jsonSchemaValidator,
  type McpServer,
  type ServerContext,
  type ToolAnnotations,
} from '@modelcontextprotocol/server'
import { wordingAt } from '../inspect/advised-commands.ts'
import { errorKind, type SvcError } from '../model/error.ts'
import type { Message } from '../model/message.ts'
import { invoke, toSvcError } from '../operations/gate.ts'
import { getMedia } from '../operations/media.ts'
import { beginReading, describeInbox, type InboxState } from '../operations/reading.ts'
import type { JsonSchema } from '../operations/schema.ts'
import { describedFor, type Tool, verbs } from '../operations/tools.ts'
import { seenWithin } from '../platform/escape-controls.ts'
import { problemOf } from '../server/errors.ts'
import { McpCall } from './call.ts'
import { confirmSend } from './confirm.ts'
import { contentOf, fromOutside, inlineMediaBytes, mostCounted, wholeOf } from './content.ts'
import { ask, type McpContext } from './context.ts'
import { apart, inputSchemaOf } from './reading.ts'

/** Where a result carries the problem object of an error, besides its text. */
export const problemKey = 'svc/problem'

/**
 * What people say when they want a tool. Claude Code (2.1.332) shows its model the bare names of tools and finds them by
 * single words; those of this hint count twice as much as those of a description.
 */
const searchWords: Readonly<Record<string, string>> = {
  recv: 'read my new messages inbox unread check receive incoming wait for who wrote what did they say',
  send: 'send message reply answer respond text write tell notify friend wife husband mum mom dad boss photo picture image file video voice attachment',
  download:
    'download save get open view photo picture image file video voice audio attachment media document that they sent',
  history:
    'search chat history old earlier past messages conversation conversations find look up what was said last week with',
  sessions: 'list accounts account status connected logged in which session',
  login: 'log in login sign in connect link add account scan qr code',
  logout: 'log out logout sign out disconnect remove unlink account',
  rename_session: 'rename account session name label',
  set_default: 'default main account session choose switch',
}

/** Adds the tools of the context. */
export function addTools(server: McpServer, context: McpContext): void {
  const { local } = context
  const where = !local ? 'remote' : local === true ? 'anyFile' : 'someFiles'
  for (const tool of context.tools)
    server.registerTool(
      tool.name,
      {
        title: tool.title,
        description: describedFor(tool, where),
        inputSchema: declared(inputSchemaOf(tool, where, context.consumer)),
        ...(isStructured(tool, context) && { outputSchema: declared(structuredSchema(tool)) }),
        annotations: annotationsOf(tool),
        _meta: { 'anthropic/searchHint': `wechat weixin 微信 ${searchWords[tool.name] ?? ''}` },
      },
      (input, ctx) => callTool(server, tool, input, ctx, context),
    )
}

/** Hints for clients that ask before some calls: from the effect, and whether anything beyond this machine is met. */
export const annotationsOf = (tool: Tool): ToolAnnotations => ({
  title: tool.title,
  readOnlyHint: tool.effect === 'read',
  destructiveHint: tool.effect === 'destroy',
  // What only writes down here how things should be is the same after the second time.
  idempotentHint: tool.effect !== 'write' || tool.machineOnly === true,
  openWorldHint: !tool.machineOnly,
})

/**
 * What holds something from outside, or a picture, is text and pictures alone unless a program asks for more: where there
 * is structured content, some clients put nothing else before their model, neither the marks nor the picture.
 */
const isStructured = ({ name }: Tool, { structured }: McpContext) => structured || !fromOutside.has(name)

/** MCP wants an object: an array goes into one. */
const structuredSchema = ({ outputSchema }: Tool): JsonSchema =>
  outputSchema.type === 'array'
    ? { type: 'object', properties: { result: outputSchema }, required: ['result'] }
    : outputSchema

/** What many clients put before their model, so it hides nothing either; but a path stays one. */
function structured(value: unknown): Record<string, unknown> {
  if (Array.isArray(value)) return { result: seenWithin(value) }
  const { path } = value as { path?: unknown }
  return { ...seenWithin(value as Record<string, unknown>), ...(path !== undefined && { path }) }
}

// Our one `parse` checks what comes in, with one error text at every door; what goes out is checked in tests.
export const unchecked: jsonSchemaValidator = {
  getValidator: () => input => ({ valid: true, data: input as never, errorMessage: undefined }),
}

const declared = (schema: JsonSchema) => fromJsonSchema(schema as JsonSchemaType, unchecked)

/** Runs, answers. Never throws. */
async function callTool(
  server: McpServer,
  tool: Tool,
  input: unknown,
  ctx: ServerContext,
  context: McpContext,
): Promise<CallToolResult | InputRequiredResult> {
  const call = new McpCall(ctx, context, server.server.getClientCapabilities())
  try {
    const { stopped } = context.calls.waiting
    if (stopped) throw stopped
    const seconds = (input as { timeout?: unknown } | undefined)?.timeout
    call.tick(tool.title, typeof seconds === 'number' && seconds > 0 ? seconds : undefined)
    if (context.confirmSend && tool.name === 'send') call.unanswered = await confirmSend(input, call, context)
    const { input: given, reading } = apart(tool.name, input ?? {})
    const own = tool.name === 'recv' ? await readBy(context, given) : given
    call.room = reading?.room
    const value = await invoke(tool, context.gateway, own, call, context.log)
    const result: CallToolResult = {
      content: await contentOf(tool, value, {
        ...{ input: own, reading, local: context.local },
        tools: context.tools.map(({ name }) => name),
        // What fails here is told elsewhere; messages are not held back for it.
        inbox: last => inboxAfter(context, own, last).catch(() => undefined),
        picture: request => pictureOf(context, request, call.signal),
      }),
      ...(isStructured(tool, context) && { structuredContent: structured(value) }),
    }
    if (call.cancelled) {
      call.delivery.settle(false)
      context.log.debug('mcp call cancelled', { tool: tool.name })
    } else if (call.delivery.awaited) context.calls.deliver(call.delivery, ctx)
    return result
  } catch (error) {
    call.delivery.settle(false)
    if (call.question) return call.question
    const known = toSvcError(error, context.log, { tool: tool.name, signal: call.signal })
    if (errorKind(known.code).status >= 500) tellOf(known, tool, ctx)
    return failure(known, context)
  } finally {
    call.end()
  }
}

/** What recv was given, with the reader of this connection where it names none and asks for a reader's place. */
async function readBy(context: McpContext, given: unknown): Promise<unknown> {
  const { consumer } = context
  const named = given as { consumer?: unknown; after?: unknown; ack?: unknown }
  if (consumer === undefined || [named.consumer, named.after, named.ack].some(one => one !== undefined))
    return given
  await ask(context, beginReading, { consumer })
  return { ...named, consumer }
}

/** Messages are not held back for longer than this by a picture. */
const pictureMs = 5000

/** What cannot be had now is there for download, and its messages are shown all the same. */
async function pictureOf(
  context: McpContext,
  request: { message_id: string; item: number },
  signal: AbortSignal,
): Promise<Buffer | undefined> {
  try {
    const within = AbortSignal.any([signal, AbortSignal.timeout(pictureMs)])
    return await wholeOf((await ask(context, getMedia, request, within)).media, inlineMediaBytes)
  } catch {
    return undefined
  }
}

/** How receiving stands after the last message that recv gave, if it gave one. */
async function inboxAfter(context: McpContext, input: unknown, last?: Message): Promise<InboxState> {
  const { after, ack, consumer = 'default', session } = verbs.recv.parse(input)
  const isMoved = after === undefined && ack === undefined
  const place = { consumer, after: isMoved ? undefined : last?.id, session }
  return ask(context, describeInbox, { ...place, count: last && mostCounted })
}

/**
 * An error as a result: plain words, and the problem object in `_meta`. A text of JSON would be taken for the structured
 * result by Gemini CLI, and `structuredContent` is checked against the output schema by clients of the 1.x SDK (1.32.2
 * does so even when `isError` is true).
 */
export function failure(error: SvcError, { local, basePath }: McpContext): CallToolResult {
  const problem = problemOf(error, wordingAt(local ? 'local' : 'mcp', basePath))
  const { code, detail, hint } = problem
  const text = [`${code}: ${detail.replace(/\.$/, '')}.`, hint].filter(Boolean).join(' ')
  return { isError: true, content: [{ type: 'text', text }], _meta: { [problemKey]: problem } }
}

/** What is nobody's fault among callers goes to the client's log too, where it keeps one. */
function tellOf({ code, message }: SvcError, tool: Tool, ctx: ServerContext): void {
  const level = code === 'shutting_down' ? 'info' : 'error'
  ctx.mcpReq.log(level, { tool: tool.name, code, detail: message }, 'svc').catch(() => {})
}
