/** What routes share: how they are declared to Elysia, what they may use, and how they fail. */
import { Kind, type Static, type TObject, type TSchema, Type } from '@sinclair/typebox'
import type { Elysia } from 'elysia'
import type { Gateway } from '../gateway/gateway-api.ts'
import { wordingAt } from '../inspect/advised-commands.ts'
import { type ErrorCode, isSvcError } from '../model/error.ts'
import { toSvcError } from '../operations/gate.ts'
import { parse, spelled } from '../operations/parse.ts'
import { type JsonSchema, toJsonSchema } from '../operations/schema.ts'
import type { Clock } from '../platform/clock.ts'
import { decodedUri } from '../platform/header.ts'
import type { Log } from '../platform/log.ts'
import { type BodyLimit, doneWith, jsonLimit, readJson } from './body.ts'
import { takesCoding } from './docs.ts'
import { problemResponse } from './errors.ts'
import { HttpCall, type HttpDoor } from './http-call.ts'
import { queryOf } from './paths.ts'

/** `by` is who calls, once the guard of this door has let a request through. */
export interface RouteContext extends HttpDoor {
  readonly gateway: Gateway
  readonly log: Log
  readonly clock: Clock
  /** The data directory, for commands that errors name. */
  readonly basePath?: string
  /** Bytes of an upload at most. */
  readonly maxUploadBytes?: number
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
  call?: { readonly signal: AbortSignal },
): Response => {
  const shown = isSvcError(error) ? error : toSvcError(error, log, { tool, signal: call?.signal })
  return problemResponse(shown, {}, { wording: wordingAt('http', basePath) })
}

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

/**
 * Routes that answer with JSON, all of one tag. Bodies are optional where no field of theirs is required.
 *
 * @returns adds one: `add('GET /api/stats', 'stats', { … })`
 */
export const jsonRoutes =
  (app: Elysia, context: RouteContext, tag: 'accounts' | 'messages' | 'panel') =>
  <P extends TSchema, Q extends TObject, B extends TSchema, A extends TSchema>(
    place: `${'GET' | 'POST' | 'PUT' | 'DELETE'} /${string}`,
    operationId: string,
    shape: JsonRoute<P, Q, B, A>,
  ): void => {
    const { summary, description, params, query, body, answer, examples, errors = [] } = shape
    const handle = async (request: Request, given: Record<string, string>) => {
      const call = new HttpCall(request, context)
      try {
        const inputs = {
          params: (params && parse(params, decoded(given))) as Static<P>,
          query: (query && parse(query, spelled(query, queryOf(request)))) as Static<Q>,
          body: (body && parse(body, await bodyOf(request, shape.limit))) as Static<B>,
          // Most routes do not ask for it.
          get signal() {
            return call.signal
          },
          request,
        }
        const text = JSON.stringify(await shape.run(inputs))
        const headers = { ...jsonAnswer.headers, ...(await shape.headers?.(inputs)) }
        return isWorthCompressing(text, request)
          ? await compressed(text, headers)
          : new Response(text, { headers })
      } catch (error) {
        return failed(error, context, operationId, call)
      } finally {
        doneWith(request)
        call.end()
      }
    }
    const [method = '', path = ''] = place.split(' ')
    const plainBody = body && toJsonSchema(body)
    const handler = (found: { request: Request; params?: Record<string, string> }) =>
      handle(found.request, found.params ?? {})
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
          errors: [...new Set<ErrorCode>(['invalid_arguments', ...errors, 'internal', ...doorErrors])],
          examples,
          requestBody: plainBody && { content: { 'application/json': { schema: plainBody } } },
        }),
      },
    })
  }

/** Shorter ones fit in a packet or two. */
const compressedFrom = 2000

export const isWorthCompressing = (text: string, request: Request): boolean =>
  text.length >= compressedFrom && takesCoding(request, 'gzip')

/** Compressed where it pays: the conversations of a busy house are half a megabyte, and a tenth of that like this. */
export async function compressed(text: string, headers: Readonly<Record<string, string>>): Promise<Response> {
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
