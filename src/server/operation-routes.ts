/**
 * Adds a route for each operation that has one, with its part of the OpenAPI document. The operation's
 * definition says how to compose the input and the response.
 */
import type { Elysia } from 'elysia'
import { type ErrorCode, invalid, isSvcError, renamed } from '../model/error.ts'
import { open } from '../model/principal.ts'
import { invoke } from '../operations/gate.ts'
import { describedFor, type Operation, type RestShape } from '../operations/operation.ts'
import { spelled } from '../operations/parse.ts'
import type { JsonSchema } from '../operations/schema.ts'
import { isObject } from '../platform/fields.ts'
import { answerOf, otherResponses } from './answers.ts'
import { doneWith, filesLimit, jsonLimit, readJson } from './body.ts'
import { sentFile } from './file-body.ts'
import { HttpCall } from './http-call.ts'
import { isHead, queryOf } from './paths.ts'
import { bodyOf, declared, doorErrors, failed, noted, type RouteContext } from './route.ts'

/** Adds the routes of operations that have one, below `prefix`. */
export function addOperations(
  app: Elysia,
  context: RouteContext,
  operations: readonly Operation[],
  prefix = '',
): void {
  for (const operation of operations.filter(isPlaced)) addOperation(app, context, operation, prefix)
}

type Placed = Operation & { readonly rest: RestShape }
const isPlaced = (operation: Operation): operation is Placed => operation.rest !== undefined

/** The input of an operation, split into its places in HTTP: path and headers, and the query or the body. */
interface Parts {
  readonly params?: JsonSchema
  readonly query?: JsonSchema
  readonly body?: JsonSchema
  /** Keys that are in neither query nor body, with the text for their place. */
  readonly elsewhere: ReadonlyMap<string, string>
}

function partsOf({ inputSchema, rest }: Placed): Parts {
  const { file, ...properties } = inputSchema.properties ?? {}
  const places = new Map<string, string>(file ? [['file', 'the body']] : [])
  const inPath = [...rest.place.matchAll(/\{(\w+)\}/g)].flatMap(([, key]) => key ?? [])
  for (const key of inPath) places.set(key, 'the path')
  for (const [key, header] of Object.entries(rest.headers ?? {})) places.set(key, `the header ${header}`)
  const pick = (keys: readonly string[]): JsonSchema => {
    const required = inputSchema.required?.filter(key => keys.includes(key)) ?? []
    return {
      type: 'object',
      ...(required.length > 0 && { required }),
      properties: Object.fromEntries(keys.map(key => [key, properties[key] ?? {}])),
      additionalProperties: false,
    }
  }
  const params = inPath.length > 0 ? { params: pick(inPath) } : {}
  const others = Object.keys(properties).filter(key => !places.has(key))
  if (others.length === 0 && !rest.body) return { elsewhere: places, ...params }
  const hasBody = /^(POST|PUT) /.test(rest.place) && !rest.takesFile
  return { elsewhere: places, ...params, [hasBody ? 'body' : 'query']: pick(others) }
}

/** Reads a request's input in the form of the operation, without checking it. */
type InputOf = (request: Request, params: Record<string, string>) => unknown

function inputReader(
  { inputSchema, maxBodyBytes, rest }: Placed,
  parts: Parts,
  context: RouteContext,
): InputOf {
  const { elsewhere, params, query, body } = parts
  // Only an input with files may be larger than usual.
  const limit = inputSchema.properties?.media ? filesLimit(maxBodyBytes) : jsonLimit(maxBodyBytes)
  const readBody = rest.body === 'must' ? readJson : bodyOf
  if (body && elsewhere.size === 0) return request => readBody(request, limit)
  const headers = Object.entries(rest.headers ?? {})
  return async (request, pathValues) => {
    const inQuery = query ? spelled(query, queryOf(request)) : {}
    const sent = body ? await readBody(request, limit) : inQuery
    if (!isObject(sent)) return sent
    const misplaced = [...elsewhere].filter(([key]) => Object.hasOwn(sent, key))
    if (misplaced.length > 0)
      throw invalid(misplaced.map(([field, place]) => ({ field, problem: `belongs in ${place}` })))
    // Elysia returns null for an invalid percent-encoding.
    const broken = Object.keys(params?.properties ?? {}).filter(key => typeof pathValues[key] !== 'string')
    if (broken.length > 0)
      throw invalid(broken.map(field => ({ field, problem: 'expected percent-encoded UTF-8' })))
    const input: Record<string, unknown> = { ...sent, ...(params && spelled(params, pathValues)) }
    for (const [key, header] of headers) input[key] = request.headers.get(header) || undefined
    if (isHead(request)) for (const key of rest.notByHead ?? []) delete input[key]
    return rest.takesFile ? await sentFile(request, input, context.maxUploadBytes ?? 0) : input
  }
}

function addOperation(app: Elysia, context: RouteContext, operation: Placed, prefix: string): void {
  const { name, rest } = operation
  const parts = partsOf(operation)
  const inputOf = inputReader(operation, parts, context)
  const answer = answerOf(rest, context)
  const door = { ...context, ...(rest.open && { by: open }), goesOn: rest.answers === 'bytes' }
  const handle = async (request: Request, params: Record<string, string>): Promise<Response> => {
    const call = new HttpCall(request, door)
    try {
      const input = await inputOf(request, params)
      const output = await invoke(operation, context.gateway, input, call, context.log)
      const made = answer(output, call, input)
      return made instanceof Promise ? await made : made
    } catch (error) {
      call.delivery.settle(false)
      return failed(withHeaders(error, rest, request), context, name, call)
    } finally {
      doneWith(request)
      call.end()
    }
  }
  const [method = '', path = ''] = rest.place.split(' ')
  const none = {}
  app.route(
    method,
    prefix + path.replace(/\{(\w+)\}/g, ':$1'),
    // Elysia parses the source text of a handler to find out what to prepare for it.
    parts.params
      ? ({ request, params }: { request: Request; params: Record<string, string> }) => handle(request, params)
      : ({ request }: { request: Request }) => handle(request, none),
    hooksOf(operation, parts),
  )
}

/** Returns an error in which a key that came in a header has the header's name. */
function withHeaders(error: unknown, { headers }: RestShape, request: Request): unknown {
  if (!headers || !isSvcError(error)) return error
  const placeOf = (key: string) => {
    const header = headers[key]
    return header !== undefined && request.headers.has(header) ? header : key
  }
  return renamed(error, ({ field, problem }) => ({ field: placeOf(field), problem }))
}

const bodyErrors: readonly ErrorCode[] = [
  'bad_json',
  'payload_too_large',
  'unsupported_media_type',
  'rate_limited',
]

/** Returns the description of a route, for Elysia and the OpenAPI document. */
function hooksOf(operation: Placed, { elsewhere, params, query, body }: Parts) {
  const { name, title, errors, examples, inputSchema, rest } = operation
  const { otherStatus: other } = rest
  const { properties = {} } = inputSchema
  const inHeaders = Object.entries(rest.headers ?? {}).map(([key, header]) => [header, properties[key]])
  const output = declared(operation.outputSchema)
  const parameters = query && { ...query, properties: { ...query.properties, ...rest.ownQuery } }
  const own: readonly ErrorCode[] = rest.open
    ? ['forbidden']
    : [...(body ? bodyErrors : []), ...errors, ...doorErrors]
  return {
    // Routes read bodies themselves, so the document's generator finds no content type: see `RouteNotes`.
    parse: 'none' as const,
    params: params && declared(params),
    query: parameters && declared(parameters),
    headers: rest.headers && declared({ type: 'object', properties: Object.fromEntries(inHeaders) }),
    body: body && declared(body),
    response: rest.answers ? undefined : { 200: output, ...(other && { [other.status]: output }) },
    detail: {
      operationId: rest.operationId ?? name,
      summary: title,
      description: describedFor(operation, 'remote'),
      tags: [rest.tag],
      ...(rest.hidden && { hide: true }),
      ...noted({
        errors: [...new Set(own)],
        requestBody: rest.takesFile ? fileBody(query) : body && jsonBody(body, rest),
        responses: rest.answers && otherResponses[rest.answers],
        open: rest.open,
        examples: examples.map(({ summary, input = {}, output }) => {
          const sent = Object.entries(input).filter(([key]) => !elsewhere.has(key))
          const isSent = body && (sent.length > 0 || rest.body === 'must')
          return { summary, output, ...(isSent && { input: Object.fromEntries(sent) }) }
        }),
      }),
    },
  }
}

const jsonBody = (schema: JsonSchema, { body }: RestShape) => ({
  ...(body === 'must' && { required: true }),
  content: { 'application/json': { schema } },
})

const bytes = { type: 'string', format: 'binary' }

const fileBody = (fields: JsonSchema | undefined) => ({
  required: true,
  content: {
    'application/octet-stream': { schema: bytes },
    'multipart/form-data': {
      schema: { type: 'object', required: ['file'], properties: { ...fields?.properties, file: bytes } },
    },
  },
})
