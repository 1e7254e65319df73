/**
 * Operations over HTTP: a route of each that has a place there, with its part of the document. How the input is put together
 * and what the answer is made of come from the definition.
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

/** The input of an operation as HTTP carries it: some keys in path and headers, the others in the query or the body. */
interface Parts {
  readonly params?: JsonSchema
  readonly query?: JsonSchema
  readonly body?: JsonSchema
  /** Where the keys are that are in neither query nor body. */
  readonly elsewhere: ReadonlyMap<string, string>
}

function partsOf({ inputSchema, rest }: Placed): Parts {
  const { file, ...properties } = inputSchema.properties ?? {}
  const elsewhere = new Map<string, string>(file ? [['file', 'the body']] : [])
  const inPath = [...rest.place.matchAll(/\{(\w+)\}/g)].flatMap(([, key]) => key ?? [])
  for (const key of inPath) elsewhere.set(key, 'the path')
  for (const [key, header] of Object.entries(rest.headers ?? {})) elsewhere.set(key, `the header ${header}`)
  const some = (keys: readonly string[]): JsonSchema => {
    const required = inputSchema.required?.filter(key => keys.includes(key)) ?? []
    return {
      type: 'object',
      ...(required.length > 0 && { required }),
      properties: Object.fromEntries(keys.map(key => [key, properties[key] ?? {}])),
      additionalProperties: false,
    }
  }
  const params = inPath.length > 0 ? { params: some(inPath) } : {}
  const others = Object.keys(properties).filter(key => !elsewhere.has(key))
  if (others.length === 0 && !rest.body) return { elsewhere, ...params }
  const hasBody = /^(POST|PUT) /.test(rest.place) && !rest.takesFile
  return { elsewhere, ...params, [hasBody ? 'body' : 'query']: some(others) }
}

/** What the caller sent, as the operation wants it; not checked yet. */
type InputOf = (request: Request, params: Record<string, string>) => unknown

function inputReader(
  { inputSchema, maxBodyBytes, rest }: Placed,
  parts: Parts,
  context: RouteContext,
): InputOf {
  const { elsewhere, params, query, body } = parts
  // Only files make an input larger than usual.
  const limit = inputSchema.properties?.media ? filesLimit(maxBodyBytes) : jsonLimit(maxBodyBytes)
  const readBody = rest.body === 'must' ? readJson : bodyOf
  if (body && elsewhere.size === 0) return request => readBody(request, limit)
  const headers = Object.entries(rest.headers ?? {})
  return async (request, given) => {
    const inQuery = query ? spelled(query, queryOf(request)) : {}
    const sent = body ? await readBody(request, limit) : inQuery
    if (!isObject(sent)) return sent
    const twice = [...elsewhere].filter(([key]) => Object.hasOwn(sent, key))
    if (twice.length > 0)
      throw invalid(twice.map(([field, place]) => ({ field, problem: `stands in ${place}` })))
    // Elysia gives null for what is no percent-encoding.
    const broken = Object.keys(params?.properties ?? {}).filter(key => typeof given[key] !== 'string')
    if (broken.length > 0)
      throw invalid(broken.map(field => ({ field, problem: 'expected percent-encoded UTF-8' })))
    const input: Record<string, unknown> = { ...sent, ...(params && spelled(params, given)) }
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
    // Elysia reads from the text of a handler what it has to prepare for it.
    parts.params
      ? ({ request, params }: { request: Request; params: Record<string, string> }) => handle(request, params)
      : ({ request }: { request: Request }) => handle(request, none),
    hooksOf(operation, parts),
  )
}

/** An error about a key that came in a header names the header. */
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

/** What Elysia and the document are told of the route. */
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
    // Bodies are ours to read, so the document's generator finds no content type for them: see `RouteNotes`.
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
