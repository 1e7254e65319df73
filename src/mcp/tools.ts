/** Registers svc's tools with MCP: their schemas, annotations, calls, results and errors. */
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
import { errorKindOf, type SvcError } from '../model/error.ts'
import type { Message } from '../model/message.ts'
import { onlyDrafts } from '../model/principal.ts'
import { invoke, toSvcError } from '../operations/gate.ts'
import { getMedia } from '../operations/media.ts'
import { beginReading, describeInbox, type InboxState } from '../operations/reading.ts'
import { mayCall } from '../operations/rights.ts'
import type { JsonSchema } from '../operations/schema.ts'
import { describeFor, type Tool, verbs } from '../operations/tools.ts'
import { escapeControlsIn } from '../platform/escape-controls.ts'
import { problemOf } from '../server/errors.ts'
import { McpCall } from './call.ts'
import { confirmSend } from './confirm.ts'
import { contentBlocksOf, inlineMediaBytes, maxCounted, readAll, toolsWithOutsideContent } from './content.ts'
import { callOperation, type McpContext } from './context.ts'
import { inputSchemaOf, readGiven, shapeOf, splitArguments } from './reading.ts'

/** Key in `_meta` of an error result for its problem object. */
const problemKey = 'svc/problem'

/**
 * Words that people use when they want a tool. Claude Code (2.1.332) shows its model only the names of tools
 * and finds tools by single words. Words of this hint count twice as much as those of a description.
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

/** Part of the description of `send` for a caller whose messages a person must approve. */
const draftRule =
  'A person must approve each message of yours: this call returns at once, and the message goes out when they do. history shows what became of it, and so does the same call with the same idempotency_key.'

/** Registers the tools of the context. */
export function addTools(server: McpServer, context: McpContext): void {
  const { by, local } = context
  const where = !local ? 'remote' : local === true ? 'anyFile' : 'someFiles'
  for (const tool of context.tools) {
    const description = describeFor(tool, where)
    const schema = inputSchemaOf(tool, where, context.consumer)
    server.registerTool(
      tool.name,
      {
        title: tool.title,
        description: tool === verbs.send && onlyDrafts(by) ? `${description}\n\n${draftRule}` : description,
        inputSchema: toMcpSchema(schema),
        ...(hasStructuredContent(tool, context) && { outputSchema: toMcpSchema(structuredSchema(tool)) }),
        annotations: annotationsOf(tool),
        _meta: { 'anthropic/searchHint': `wechat weixin 微信 ${searchWords[tool.name] ?? ''}` },
      },
      (input, ctx) => callTool(server, tool, readGiven(schema, input ?? {}), ctx, context),
    )
  }
}

/** Returns the hints of a tool for clients that ask their user before some calls. */
const annotationsOf = (tool: Tool): ToolAnnotations => ({
  openWorldHint: !tool.machineOnly,
  // The other hints mean nothing for a tool that only reads.
  ...(tool.effect === 'read'
    ? { readOnlyHint: true }
    : {
        readOnlyHint: false,
        destructiveHint: tool.effect === 'destroy',
        // A tool that only changes settings of this machine has the same effect when it is called twice.
        idempotentHint: tool.effect !== 'write' || tool.machineOnly === true,
      }),
})

/**
 * Returns whether a tool gives structured content. Answers with text of WeChat users, or with a picture, have
 * none unless the client asks for it: some clients show their model only the structured content, without the
 * marks around untrusted text and without the picture.
 */
const hasStructuredContent = ({ name }: Tool, { structured }: McpContext) =>
  structured || !toolsWithOutsideContent.has(name)

/**
 * Returns the schema of the structured content. MCP requires an object, so an array becomes the field
 * `result`.
 */
const structuredSchema = ({ outputSchema }: Tool): JsonSchema =>
  shapeOf(
    outputSchema.type === 'array'
      ? { type: 'object', properties: { result: outputSchema }, required: ['result'] }
      : outputSchema,
  )

/**
 * Returns a result as structured content. Control characters are escaped, since models read it; a path stays
 * as it is.
 */
function toStructuredContent(value: unknown): Record<string, unknown> {
  if (Array.isArray(value)) return { result: escapeControlsIn(value) }
  const { path } = value as { path?: unknown }
  return { ...escapeControlsIn(value as Record<string, unknown>), ...(path !== undefined && { path }) }
}

/**
 * Validator that accepts everything. `parse` checks inputs, with the same errors at every door; tests check
 * outputs.
 */
export const acceptingValidator: jsonSchemaValidator = {
  getValidator: () => input => ({ valid: true, data: input as never, errorMessage: undefined }),
}

const toMcpSchema = (schema: JsonSchema) => fromJsonSchema(schema as JsonSchemaType, acceptingValidator)

/** Calls a tool and returns its result, its error or its question. Never throws. */
async function callTool(
  server: McpServer,
  tool: Tool,
  input: unknown,
  ctx: ServerContext,
  context: McpContext,
): Promise<CallToolResult | InputRequiredResult> {
  const gateway = await context.gateway
  const call = new McpCall(ctx, context, gateway.clock, server.server.getClientCapabilities())
  try {
    const { stopError } = context.calls.waiting
    if (stopError) throw stopError
    const seconds = (input as { timeout?: unknown }).timeout
    call.startTicking(tool.title, typeof seconds === 'number' && seconds > 0 ? seconds : undefined)
    // The send of a key that may only draft waits for the approval of another person.
    if (context.confirmSend && tool.name === 'send' && !onlyDrafts(context.by))
      call.unanswered = await confirmSend(input, call, context)
    const { input: toolInput, reading } = splitArguments(tool.name, input)
    const named = tool.name === 'recv' ? await withConsumer(context, toolInput) : toolInput
    call.startFitCheck = reading?.startFitCheck
    const value = await invoke(tool, gateway, named, call, context.log)
    const result: CallToolResult = {
      content: await contentBlocksOf(tool, value, {
        input: named,
        reading,
        local: context.local,
        tools: context.tools.map(({ name }) => name),
        // Other calls report this error. Here it must not hold back the messages.
        inbox: last => readInboxState(context, named, last).catch(() => undefined),
        picture: request => readPicture(context, request, call.signal),
      }),
      ...(hasStructuredContent(tool, context) && { structuredContent: toStructuredContent(value) }),
    }
    if (call.isCancelled) {
      call.delivery.report(false)
      context.log.debug('mcp call cancelled', { tool: tool.name })
    } else if (call.delivery.isAwaited) context.calls.deliver(call.delivery, ctx)
    return result
  } catch (error) {
    call.delivery.report(false)
    if (call.question) return call.question
    const known = toSvcError(error, context.log, {
      tool: tool.name,
      signal: call.signal,
      requestId: call.requestId,
    })
    if (errorKindOf(known.code).status >= 500) logToClient(known, tool, ctx)
    return toErrorResult(known, context)
  } finally {
    call.end()
  }
}

/**
 * Adds the consumer of this connection to the input of `recv`, if the input has no `consumer`, `after` or
 * `ack`.
 */
async function withConsumer(context: McpContext, input: unknown): Promise<unknown> {
  const { consumer } = context
  const fields = input as { consumer?: unknown; after?: unknown; ack?: unknown }
  if (
    consumer === undefined ||
    [fields.consumer, fields.after, fields.ack].some(value => value !== undefined)
  )
    return input
  await callOperation(context, beginReading, { consumer })
  return { ...fields, consumer }
}

/** How long an answer waits for a picture, in milliseconds. */
const pictureTimeoutMs = 5000

/**
 * Reads a picture, or returns undefined: then the answer comes without it, and `download` can get it later.
 */
async function readPicture(
  context: McpContext,
  request: { message_id: string; item: number },
  signal: AbortSignal,
): Promise<Buffer | undefined> {
  if (!mayCall(context.by, getMedia)) return undefined
  try {
    const ended = AbortSignal.any([signal, AbortSignal.timeout(pictureTimeoutMs)])
    const { media } = await callOperation(context, getMedia, request, ended)
    return await readAll(media, inlineMediaBytes, context.by)
  } catch {
    return undefined
  }
}

/**
 * Returns the state of the inbox. Counts the messages that wait after `last`, the last message of the answer.
 */
async function readInboxState(context: McpContext, input: unknown, last?: Message): Promise<InboxState> {
  const { after, ack, consumer = 'default', session } = verbs.recv.parse(input)
  const isMoved = after === undefined && ack === undefined
  return callOperation(context, describeInbox, {
    consumer,
    after: isMoved ? undefined : last?.id,
    session,
    count: last && maxCounted,
  })
}

/**
 * Returns an error as a result: plain text, and the problem object in `_meta`. Gemini CLI would take a JSON
 * text for the structured result. Clients of the 1.x SDK check `structuredContent` against the output schema
 * (1.32.2 does so even if `isError` is true).
 */
function toErrorResult(error: SvcError, { local, basePath }: McpContext): CallToolResult {
  const problem = problemOf(error, wordingAt(local ? 'local' : 'mcp', basePath))
  const { code, detail, hint } = problem
  const text = [`${code}: ${detail.replace(/\.$/, '')}.`, hint].filter(Boolean).join(' ')
  return { isError: true, content: [{ type: 'text', text }], _meta: { [problemKey]: problem } }
}

/** Sends an error that the caller did not cause to the log of the client, if it has one. */
function logToClient({ code, message }: SvcError, tool: Tool, ctx: ServerContext): void {
  const level = code === 'shutting_down' ? 'info' : 'error'
  ctx.mcpReq.log(level, { tool: tool.name, code, detail: message }, 'svc').catch(() => {})
}
