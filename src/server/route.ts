/** What routes share: how they are declared to Elysia, what they may use, and how they fail. */
import { Kind, type Static, type TObject, type TSchema, Type } from '@sinclair/typebox'
import type { Elysia } from 'elysia'
import type { Gateway } from '../gateway/gateway-api.ts'
import { wordingAt } from '../inspect/advised-commands.ts'
import type { ErrorCode } from '../model/error.ts'
import type { Principal } from '../model/principal.ts'
import { toSvcError } from '../operations/gate.ts'
import { parse, spelled } from '../operations/parse.ts'
import { type JsonSchema, toJsonSchema } from '../operations/schema.ts'
import type { Clock } from '../platform/clock.ts'
import { decodedUri } from '../platform/header.ts'
import type { Log } from '../platform/log.ts'
import { type BodyLimit, doneWith, jsonLimit, readJson } from './body.ts'
import { takesCoding } from './docs.ts'
import { problemResponse } from './errors.ts'
import { HttpCall, type Waiting } from './http-call.ts'
import { queryOf } from './paths.ts'

export interface RouteContext {
  /** Who calls, once the guard of this door has let a request through. */
  readonly by: Principal
  readonly gateway: Gateway
  readonly log: Log
  readonly waiting: Waiting
  readonly clock: Clock
  /** The data directory, for commands that errors name. */
  readonly basePath?: string
}

/** What a route says about itself besides its schemas: for the OpenAPI document. */
export interface RouteNotes {
  readonly errors: readonly ErrorCode[]
  readonly examples?: readonly { summary: string; input?: unknown; output: unknown }[]
  /** The body, as OpenAPI writes it: the generator knows no content type where a route reads its body itself. */
  readonly requestBody?: Record<string, unknown>
  /** Answers besides the generated 200. */
  readonly responses?: Readonly<Record<string, Record<string, unknown>>>
  /** Anybody may read it. */
  readonly open?: boolean
}

/** The key of a route's `detail` that carries its notes as far as the tidy step of the document. */
export const notesKey = 'x-svc'

export const noted = (notes: RouteNotes): Record<typeof notesKey, RouteNotes> => ({ [notesKey]: notes })

/** Any call to a protected route may end so. */
export const doorErrors: readonly ErrorCode[] = ['unauthorized', 'forbidden', 'shutting_down']

/**
 * A schema as Elysia gets it: shown in the document, not checked. Our one `parse` checks, with one error text at every
 * door, and an answer that does not fit is a fault to find in tests, not a reason to withhold a message.
 */
export const declared = (schema: TSchema | JsonSchema) => {
  const plain = Kind in schema ? toJsonSchema(schema as TSchema) : schema
  // Elysia closes an object schema in place, at the route's first request, unless the schema says that it is open.
  const open = plain.type === 'object' && plain.additionalProperties === undefined
  return Type.Any(open ? { ...plain, additionalProperties: true } : plain)
}

/** Headers of every JSON answer. */
export const jsonAnswer = {
  headers: {
    'content-type': 'application/json',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
  },
} as const

/** The answer of a failure, whatever was thrown. */
export const failed = (
  error: unknown,
  { log, basePath }: RouteContext,
  tool?: string,
  signal?: AbortSignal,
): Response =>
  problemResponse(toSvcError(error, log, { tool, signal }), {}, { wording: wordingAt('http', basePath) })

/** What the work answers, or the answer of its failure. */
export const answered = (
  context: RouteContext,
  { signal }: Pick<Request, 'signal'>,
  work: () => Promise<Response>,
  tool?: string,
): Promise<Response> => work().catch(error => failed(error, context, tool, signal))

const usualLimit = jsonLimit(1024 * 1024)

/** One call of a route: its checked inputs. */
interface RouteCall<P, Q, B> {
  params: P
  query: Q
  body: B
  /** Aborts when the caller goes or the service stops. */
  signal: AbortSignal
  request: Request
}

interface JsonRoute<P extends TSchema, Q extends TObject, B extends TSchema, A extends TSchema> {
  summary: string
  description: string
  params?: P
  query?: Q
  body?: B
  /** Of the body; 1 MiB of JSON by default. */
  limit?: BodyLimit
  answer: A
  errors?: readonly ErrorCode[]
  examples?: RouteNotes['examples']
  /** Headers of the answer, besides the usual. */
  headers?(
    call: RouteCall<Static<P>, Static<Q>, Static<B>>,
  ): Record<string, string> | Promise<Record<string, string>>
  run(call: RouteCall<Static<P>, Static<Q>, Static<B>>): Promise<Static<A>>
}

type Method = 'GET' | 'POST' | 'PUT' | 'DELETE'

/** What a JSON route says of itself in the document. */
export interface JsonShape {
  readonly operationId: string
  readonly tag: string
  readonly summary: string
  readonly description: string
  readonly params?: TSchema
  readonly query?: TSchema
  readonly body?: TSchema
  readonly answer: TSchema
  readonly errors?: readonly ErrorCode[]
  readonly examples?: RouteNotes['examples']
}

/** Adds a route that answers with JSON. `path` has `:name` for its parameters, which `work` gets decoded. */
export function addJson(
  app: Elysia,
  context: RouteContext,
  [method, path]: readonly [method: string, path: string],
  shape: JsonShape,
  work: (
    call: HttpCall,
    params: Record<string, string>,
  ) => Promise<{ value: unknown; headers?: Record<string, string> }>,
): void {
  const { operationId, tag, summary, description, params, query, body, answer, errors, examples } = shape
  const plainBody = body && toJsonSchema(body)
  const handle = async (request: Request, given: Record<string, string> = {}) => {
    const call = new HttpCall(request, context)
    try {
      const { value, headers } = await work(call, decoded(given))
      return await jsonResponse(request, JSON.stringify(value), { ...jsonAnswer.headers, ...headers })
    } catch (error) {
      return failed(error, context, operationId, call.signal)
    } finally {
      doneWith(request)
      call.end()
    }
  }
  const handler = (found: { request: Request; params?: Record<string, string> }) =>
    handle(found.request, found.params)
  app.route(method, path, handler, {
    parse: 'none',
    params: params && declared(params),
    query: query && declared(query),
    body: plainBody && declared(plainBody),
    response: { 200: declared(answer) },
    detail: {
      operationId,
      summary,
      description,
      tags: [tag],
      ...noted({
        errors: [...new Set<ErrorCode>(['invalid_arguments', ...(errors ?? []), 'internal', ...doorErrors])],
        examples,
        requestBody: plainBody && { content: { 'application/json': { schema: plainBody } } },
      }),
    },
  })
}

/**
 * Routes that answer with JSON, all of one tag. Bodies are optional where no field of theirs is required.
 *
 * @returns adds one: `add('GET /api/stats', 'stats', { … })`
 */
export const jsonRoutes =
  (app: Elysia, context: RouteContext, tag: 'accounts' | 'messages' | 'panel') =>
  <P extends TSchema, Q extends TObject, B extends TSchema, A extends TSchema>(
    place: `${Method} /${string}`,
    operationId: string,
    { run, headers, limit, ...shape }: JsonRoute<P, Q, B, A>,
  ): void => {
    const { params, query, body } = shape
    const [method = '', path = ''] = place.split(' ')
    addJson(app, context, [method, path], { ...shape, operationId, tag }, async (call, given) => {
      const { request } = call
      const inputs = {
        params: (params && parse(params, given)) as Static<P>,
        query: (query && parse(query, spelled(query, queryOf(request)))) as Static<Q>,
        body: (body && parse(body, await bodyOf(request, limit))) as Static<B>,
        // Most routes do not ask for it.
        get signal() {
          return call.signal
        },
        request,
      }
      const value = await run(inputs)
      return { value, headers: await headers?.(inputs) }
    })
  }

/** Shorter ones fit in a packet or two. */
const compressedFrom = 2000

/** Compressed where it pays: the conversations of a busy house are half a megabyte, and a tenth of that like this. */
async function jsonResponse(
  request: Request,
  text: string,
  headers: Record<string, string>,
): Promise<Response> {
  if (text.length < compressedFrom || !takesCoding(request, 'gzip')) return new Response(text, { headers })
  // Loaded on use: 3 ms of a start.
  const [zlib, { promisify }] = await Promise.all([import('node:zlib'), import('node:util')])
  const bytes = await promisify(zlib.gzip)(text, { level: 4 })
  return new Response(bytes, {
    headers: { ...headers, 'content-encoding': 'gzip', vary: 'accept-encoding' },
  })
}

/** A POST without a body means one without fields. */
export async function bodyOf(request: Request, limit: BodyLimit = usualLimit): Promise<unknown> {
  if (request.headers.get('content-type') === null && !request.body) return {}
  return await readJson(request, limit)
}

/** What stands in a path in place of its parameters, as it is meant. */
export const decoded = (params: Record<string, string>): Record<string, string> =>
  Object.fromEntries(Object.entries(params).map(([key, text]) => [key, decodedUri(text) ?? text]))
