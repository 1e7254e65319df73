/** `POST /tools/default/<name>` for every tool, and `GET /tools`. */
import { Type } from '@sinclair/typebox'
import type { Elysia } from 'elysia'
import { type ErrorCode, errorCodes } from '../model/error.ts'
import { oneOf, text } from '../model/shapes.ts'
import { invoke } from '../operations/gate.ts'
import { describedFor, type Tool } from '../operations/tools.ts'
import { type BodyLimit, doneWith, filesLimit, jsonLimit, readJson } from './body.ts'
import { HttpCall, settlingBody } from './http-call.ts'
import { declared, doorErrors, failed, jsonAnswer, noted, type RouteContext } from './route.ts'

const sessionTools = new Set(['sessions', 'login', 'logout', 'rename_session', 'set_default'])
const bodyErrors: readonly ErrorCode[] = [
  'bad_json',
  'payload_too_large',
  'unsupported_media_type',
  'rate_limited',
]

/** `default=expired, work=lapsed`; names are percent-encoded. `*=disconnected`: nobody is logged in. */
const silentHeader = 'svc-silent-sessions'

/** Made once: copying them costs an answer less than reading the fields of an object. */
const jsonInit = { headers: new Headers(jsonAnswer.headers) }

/** Where a tool is called. */
export const toolPath = (tool: Tool): string => `/tools/default/${tool.name}`

/** Only files make an input larger than usual. */
const limitOf = ({ maxBodyBytes, inputSchema }: Tool): BodyLimit =>
  inputSchema.properties?.media ? filesLimit(maxBodyBytes) : jsonLimit(maxBodyBytes)

/** Reads, runs, answers. Never throws. */
async function callTool(tool: Tool, request: Request, context: RouteContext): Promise<Response> {
  const call = new HttpCall(request, context)
  try {
    const input = await readJson(request, limitOf(tool))
    const text = JSON.stringify(await invoke(tool, context.gateway, input, call, context.log))
    const told = tool.name === 'recv' && (await silence(context, input, text === '[]'))
    const init = told ? { headers: { ...jsonAnswer.headers, ...told } } : jsonInit
    return new Response(call.delivery.awaited ? await settlingBody(text, call) : text, init)
  } catch (error) {
    call.delivery.settle(false)
    return failed(error, context, tool.name)
  } finally {
    doneWith(request)
    call.end()
  }
}

/** Of recv: the sessions that bring no messages, so that an empty answer is not taken for quiet. */
async function silence(
  { gateway: { accounts } }: RouteContext,
  input: unknown,
  isEmpty: boolean,
): Promise<Record<string, string> | undefined> {
  const { session } = input as { session?: string }
  // What fails here is told elsewhere; messages are not held back for it.
  const silent = await accounts.silent(session).catch(() => [])
  if (silent.length === 0) {
    const nobody = isEmpty && (await accounts.list().catch(() => undefined))?.every(one => !one.connected)
    return nobody ? { [silentHeader]: '*=disconnected' } : undefined
  }
  return {
    [silentHeader]: silent
      .slice(0, 20)
      .map(one => `${encodeURIComponent(one.name)}=${one.status}`)
      .join(', '),
  }
}

/** Adds the routes of the tools. */
export function addToolRoutes(app: Elysia, tools: readonly Tool[], context: RouteContext): void {
  for (const tool of tools)
    app.post(toolPath(tool), ({ request }) => callTool(tool, request, context), {
      // The body is ours to read, so the document's generator finds no content type for it: see `RouteNotes`.
      parse: 'none',
      body: declared(tool.inputSchema),
      response: { 200: declared(tool.outputSchema) },
      detail: {
        operationId: tool.name,
        summary: tool.title,
        description: describedFor(tool, 'remote'),
        tags: [sessionTools.has(tool.name) ? 'sessions' : 'messages'],
        ...noted({
          errors: [...new Set([...bodyErrors, ...tool.errors, ...doorErrors])],
          requestBody: { required: true, content: { 'application/json': { schema: tool.inputSchema } } },
          examples: tool.examples,
        }),
      },
    })
  app.get('/tools', () => new Response(JSON.stringify(tools.map(listed)), jsonAnswer), {
    response: { 200: declared(toolList) },
    detail: {
      operationId: 'list_tools',
      summary: 'List the tools',
      description: 'All tools with their schemas and error codes: enough to build a client from.',
      tags: ['service'],
      ...noted({ errors: doorErrors }),
    },
  })
}

/** A tool as GET /tools shows it. */
const listed = (tool: Tool) => ({
  name: tool.name,
  description: describedFor(tool, 'remote'),
  effect: tool.effect,
  path: toolPath(tool),
  input_schema: tool.inputSchema,
  output_schema: tool.outputSchema,
  errors: tool.errors,
})

const toolList = Type.Array(
  Type.Object({
    name: Type.String(),
    description: Type.String(),
    effect: oneOf(['read', 'write', 'destroy'], 'read: changes nothing. destroy: takes something away.'),
    path: text('Where to POST the arguments.'),
    input_schema: Type.Unsafe<object>({ type: 'object', description: 'JSON Schema.' }),
    output_schema: Type.Unsafe<object>({ type: 'object', description: 'JSON Schema.' }),
    errors: Type.Array(oneOf(errorCodes)),
  }),
  { description: 'The tools, in the order of the docs.' },
)
