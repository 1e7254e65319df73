/**
 * Adds a route for each operation that has one, with its part of the OpenAPI document. The operation's
 * definition says how to compose the input and the response.
 */
import type { Elysia } from 'elysia'
import { type ErrorCode, invalidArguments, isSvcError, withFieldNames } from '../model/error.ts'
import { anyCaller } from '../model/principal.ts'
import { invoke } from '../operations/gate.ts'
import { describeFor, type Operation, type RestShape } from '../operations/operation.ts'
import { coerceStrings } from '../operations/parse.ts'
import type { JsonSchema } from '../operations/schema.ts'
import { isObject } from '../platform/fields.ts'
import { answerCreatorOf, nonJsonResponses } from './answers.ts'
import { createFilesLimit, createJsonLimit, readJson, releaseBody } from './body.ts'
import { readSentFile } from './file-body.ts'
import { HttpCall } from './http-call.ts'
import { isHead, queryOf } from './paths.ts'
import {
  guardErrors,
  type RouteContext,
  readJsonBody,
  toElysiaSchema,
  toErrorAnswer,
  toRouteDetail,
} from './route.ts'

/** Adds the routes of operations that have one, below `prefix`. */
export function addOperations(
  app: Elysia,
  context: RouteContext,
  operations: readonly Operation[],
  prefix = '',
): void {
  for (const operation of operations.filter(hasRest)) addOperation(app, context, operation, prefix)
}

type RestOperation = Operation & { readonly rest: RestShape }
const hasRest = (operation: Operation): operation is RestOperation => operation.rest !== undefined

/** The input of an operation, split into its places in HTTP: path and headers, and the query or the body. */
interface InputParts {
  readonly params?: JsonSchema
  readonly query?: JsonSchema
  readonly body?: JsonSchema
  /** Keys that are in neither query nor body, with the text for their place. */
  readonly otherPlaces: ReadonlyMap<string, string>
}

function inputPartsOf({ inputSchema, rest }: RestOperation): InputParts {
  const { file, ...properties } = inputSchema.properties ?? {}
  const places = new Map<string, string>(file ? [['file', 'the body']] : [])
  const inPath = [...rest.route.matchAll(/\{(\w+)\}/g)].flatMap(([, key]) => key ?? [])
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
  if (others.length === 0 && !rest.body) return { otherPlaces: places, ...params }
  const hasBody = /^(POST|PUT|PATCH) /.test(rest.route) && !rest.hasFileBody
  return { otherPlaces: places, ...params, [hasBody ? 'body' : 'query']: pick(others) }
}

/** Reads a request's input in the form of the operation, without checking it. */
type ReadInput = (request: Request, params: Record<string, string>) => unknown

function createInputReader(
  { inputSchema, maxBodyBytes, rest }: RestOperation,
  parts: InputParts,
  context: RouteContext,
): ReadInput {
  const { otherPlaces, params, query, body } = parts
  // Only an input with files may be larger than usual.
  const limit = inputSchema.properties?.media ? createFilesLimit(maxBodyBytes) : createJsonLimit(maxBodyBytes)
  const readBody = rest.body === 'must' ? readJson : readJsonBody
  const { bodyOrHeader } = rest
  if (body && otherPlaces.size === 0) {
    if (!bodyOrHeader) return request => readBody(request, limit)
    return async request => addHeaderKeys(await readBody(request, limit), bodyOrHeader, request.headers)
  }
  const headers = Object.entries(rest.headers ?? {})
  return async (request, pathValues) => {
    const inQuery = query ? coerceStrings(query, queryOf(request)) : {}
    const sent = body ? await readBody(request, limit) : inQuery
    if (!isObject(sent)) return sent
    const misplaced = [...otherPlaces].filter(([key]) => Object.hasOwn(sent, key))
    if (misplaced.length > 0)
      throw invalidArguments(misplaced.map(([field, place]) => ({ field, problem: `belongs in ${place}` })))
    // Elysia returns null for an invalid percent-encoding.
    const broken = Object.keys(params?.properties ?? {}).filter(key => typeof pathValues[key] !== 'string')
    if (broken.length > 0)
      throw invalidArguments(broken.map(field => ({ field, problem: 'expected percent-encoded UTF-8' })))
    const input: Record<string, unknown> = { ...sent, ...(params && coerceStrings(params, pathValues)) }
    for (const [key, header] of headers) input[key] = request.headers.get(header) || undefined
    if (isHead(request)) for (const key of rest.ignoredByHead ?? []) delete input[key]
    return rest.hasFileBody ? await readSentFile(request, input, context.maxUploadBytes ?? 0) : input
  }
}

/**
 * Adds the keys that a header contains in place of the body.
 *
 * @throws SvcError `invalid_arguments` if the header and the body differ
 */
function addHeaderKeys(sent: unknown, headerOf: Readonly<Record<string, string>>, headers: Headers): unknown {
  if (!isObject(sent)) return sent
  const input: Record<string, unknown> = { ...sent }
  for (const [key, header] of Object.entries(headerOf)) {
    const given = headers.get(header)
    if (given === null) continue
    const text = parseHeaderString(given)
    const isOther = input[key] !== undefined && input[key] !== text
    if (text === undefined || isOther) {
      const expected = isOther ? `the same as ${key} in the body` : 'one string in quotes'
      throw invalidArguments([{ field: header, problem: `expected ${expected}` }])
    }
    input[key] = text
  }
  return input
}

/** Returns the text of a header: a string in quotes (RFC 9651), or the bare text. Undefined if neither. */
function parseHeaderString(header: string): string | undefined {
  if (!header.startsWith('"')) return header
  return /^"((?:[^"\\]|\\["\\])*)"$/.exec(header)?.[1]?.replace(/\\(["\\])/g, '$1')
}

function addOperation(app: Elysia, context: RouteContext, operation: RestOperation, prefix: string): void {
  const { name, rest } = operation
  const parts = inputPartsOf(operation)
  const inputOf = createInputReader(operation, parts, context)
  const answer = answerCreatorOf(rest, context)
  const door = {
    ...context,
    ...(rest.isPublic && { by: anyCaller }),
    survivesStop: rest.answerKind === 'bytes' || rest.answerKind === 'file',
  }
  const handle = async (request: Request, params: Record<string, string>): Promise<Response> => {
    const call = new HttpCall(request, door)
    try {
      const input = await inputOf(request, params)
      const output = await invoke(operation, context.gateway, input, call, context.log)
      const made = answer(output, call, input)
      return made instanceof Promise ? await made : made
    } catch (error) {
      call.delivery.report(false)
      return toErrorAnswer(withHeaderNames(error, rest, request), context, name, call)
    } finally {
      releaseBody(request)
      call.end()
    }
  }
  const [method = '', path = ''] = rest.route.split(' ')
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
function withHeaderNames(error: unknown, { bodyOrHeader, headers }: RestShape, request: Request): unknown {
  const headerOf = headers ?? bodyOrHeader
  if (!headerOf || !isSvcError(error)) return error
  const placeOf = (key: string) => {
    const header = headerOf[key]
    return header !== undefined && request.headers.has(header) ? header : key
  }
  return withFieldNames(error, ({ field, problem }) => ({ field: placeOf(field), problem }))
}

const bodyErrors: readonly ErrorCode[] = [
  'bad_json',
  'payload_too_large',
  'unsupported_media_type',
  'rate_limited',
]

/** Returns the description of a route, for Elysia and the OpenAPI document. */
function hooksOf(operation: RestOperation, { otherPlaces, params, query, body }: InputParts) {
  const { name, title, errors, examples, inputSchema, rest } = operation
  const { otherStatus: other } = rest
  const { properties = {} } = inputSchema
  const headerOf = rest.headers ?? rest.bodyOrHeader
  const inHeaders = Object.entries(headerOf ?? {}).map(([key, header]) => [header, properties[key]])
  const output = toElysiaSchema(operation.outputSchema)
  const parameters = query && { ...query, properties: { ...query.properties, ...rest.ownQuery } }
  const own: readonly ErrorCode[] = rest.isPublic
    ? ['forbidden', 'rate_limited']
    : [...(body ? bodyErrors : []), ...errors, ...guardErrors]
  return {
    // Routes read bodies themselves, so the document's generator finds no content type: see `RouteNotes`.
    parse: 'none' as const,
    params: params && toElysiaSchema(params),
    query: parameters && toElysiaSchema(parameters),
    headers: headerOf && toElysiaSchema({ type: 'object', properties: Object.fromEntries(inHeaders) }),
    body: body && toElysiaSchema(body),
    response: rest.answerKind ? undefined : { 200: output, ...(other && { [other.status]: output }) },
    detail: {
      operationId: rest.operationId ?? name,
      summary: title,
      description: describeFor(operation, 'remote'),
      tags: [rest.tag],
      ...(rest.isHidden && { hide: true }),
      ...toRouteDetail({
        errors: [...new Set(own)],
        requestBody: rest.hasFileBody ? describeFileBody(query) : body && describeJsonBody(body, rest),
        responses: rest.answerKind && nonJsonResponses[rest.answerKind],
        open: rest.isPublic,
        examples: examples.map(({ summary, input = {}, output }) => {
          const sent = Object.entries(input).filter(([key]) => !otherPlaces.has(key))
          const isSent = body && (sent.length > 0 || rest.body === 'must')
          return { summary, output, ...(isSent && { input: Object.fromEntries(sent) }) }
        }),
      }),
    },
  }
}

const describeJsonBody = (schema: JsonSchema, { body }: RestShape) => ({
  ...(body === 'must' && { required: true }),
  content: { 'application/json': { schema } },
})

/** Raw bytes are read, too; generators know what to do with one kind of body. */
const describeFileBody = (fields: JsonSchema | undefined) => ({
  required: true,
  content: {
    'multipart/form-data': {
      schema: {
        type: 'object',
        required: ['file'],
        properties: { ...fields?.properties, file: { type: 'string', format: 'binary' } },
      },
    },
  },
})
