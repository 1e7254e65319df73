/** Shared by all routes: how they are declared to Elysia, what they may use, and how errors are answered. */
import { Kind, type Static, type TSchema, Type } from '@sinclair/typebox'
import type { Elysia } from 'elysia'
import type { Gateway } from '../gateway/gateway-api.ts'
import { wordingAt } from '../inspect/advised-commands.ts'
import { type ErrorCode, isSvcError } from '../model/error.ts'
import { toSvcError } from '../operations/gate.ts'
import { parse } from '../operations/parse.ts'
import { type JsonSchema, toJsonSchema } from '../operations/schema.ts'
import type { Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import { type BodyLimit, createJsonLimit, readJson, releaseBody } from './body.ts'
import { requestIdOf } from './caller.ts'
import { acceptsEncoding } from './docs.ts'
import { toProblemResponse } from './errors.ts'
import type { HttpInterface } from './http-call.ts'

/** Everything that routes may use. `by` is the caller of requests that passed the check. */
export interface RouteContext extends HttpInterface {
  readonly gateway: Gateway
  readonly log: Log
  readonly clock: Clock
  /** The data directory, for commands in errors. */
  readonly basePath?: string
  /** Maximum bytes of an upload. */
  readonly maxUploadBytes?: number
  /** True for the panel, which words its advice with its own paths. */
  readonly isPanel?: boolean
}

/** Facts about a route for the OpenAPI document, in addition to its schemas. */
export interface RouteNotes {
  readonly errors: readonly ErrorCode[]
  readonly examples?: readonly { summary: string; input?: unknown; output: unknown }[]
  /**
   * The body, in OpenAPI's form. The generator does not know its content type, as routes read it
   * themselves.
   */
  readonly requestBody?: Record<string, unknown>
  /** Responses in addition to the generated 200. */
  readonly responses?: Readonly<Record<string, Record<string, unknown>>>
  /** True if the route needs no token. */
  readonly open?: boolean
}

/** The key in a route's `detail` that holds its notes until the document is completed. */
export const notesKey = 'x-svc'

/** Wraps notes for Elysia's `detail` of a route. */
export const toRouteDetail = (notes: RouteNotes): Record<typeof notesKey, RouteNotes> => ({
  [notesKey]: notes,
})

/** Errors that every protected route may return. */
export const guardErrors: readonly ErrorCode[] = [
  'unauthorized',
  'forbidden',
  'rate_limited',
  'shutting_down',
]

/**
 * Converts a schema for Elysia so that it is in the document, but is not checked. `parse` checks inputs,
 * with the same error text in every interface. Outputs are checked only in tests: a wrong output is no
 * reason to withhold a message.
 */
export const toElysiaSchema = (schema: TSchema | JsonSchema) => {
  const plain = Kind in schema ? toJsonSchema(schema as TSchema) : schema
  // Without `additionalProperties`, Elysia changes an object schema in place at the first request and forbids
  // other keys.
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

/** Returns the response for an error of any type. */
export const toErrorAnswer = (
  error: unknown,
  { isPanel, log, basePath }: Pick<RouteContext, 'isPanel' | 'log' | 'basePath'>,
  tool?: string,
  call?: { readonly signal?: AbortSignal; readonly requestId: string },
  status?: number,
): Response => {
  const svcError = isSvcError(error)
    ? error
    : toSvcError(error, log, { tool, signal: call?.signal, requestId: call?.requestId })
  return toProblemResponse(
    svcError,
    {},
    { ...(status !== undefined && { status }), wording: wordingAt(isPanel ? 'panel' : 'http', basePath) },
  )
}

const defaultLimit = createJsonLimit(1024 * 1024)

/** A route that is not an operation. */
interface OwnRoute<B extends TSchema> {
  summary: string
  description: string
  body: B
  errors: readonly ErrorCode[]
  /** Returns headers of the answer, in addition to those of all JSON answers. */
  headers(body: Static<B>, request: Request): Promise<Record<string, string>>
}

const Success = Type.Object({ success: Type.Boolean() })

/** Adds a POST route that is not an operation, such as signing in. What it gives is in headers of the answer. */
export function addOwnRoute<B extends TSchema>(
  app: Elysia,
  context: RouteContext,
  [path, operationId]: readonly [path: string, operationId: string],
  { summary, description, body, errors, headers }: OwnRoute<B>,
): void {
  const handle = async (request: Request) => {
    try {
      const input = parse(body, await readJsonBody(request))
      const init = { headers: { ...jsonAnswer.headers, ...(await headers(input, request)) } }
      return new Response(JSON.stringify({ success: true }), init)
    } catch (error) {
      return toErrorAnswer(error, context, operationId, { requestId: requestIdOf(request) })
    } finally {
      releaseBody(request)
    }
  }
  const schema = toJsonSchema(body)
  app.post(path, ({ request }) => handle(request), {
    parse: 'none',
    body: toElysiaSchema(schema),
    response: { 200: toElysiaSchema(Success) },
    detail: {
      operationId,
      summary,
      description,
      tags: ['panel'],
      ...toRouteDetail({
        errors: ['invalid_arguments', ...errors, 'internal', ...guardErrors],
        requestBody: { content: { 'application/json': { schema } } },
      }),
    },
  })
}

/** Minimum characters for compression. Shorter answers fit into one or two packets. */
const minCompressedLength = 2000

/** Whether to compress an answer: it is long, and the client accepts gzip. */
export const isWorthCompressing = (text: string, request: Request): boolean =>
  text.length >= minCompressedLength && acceptsEncoding(request, 'gzip')

/** Returns a text as a gzip response. A list of many conversations shrinks from 500 kB to a tenth. */
export async function toGzipAnswer(
  text: string,
  headers: Readonly<Record<string, string>>,
): Promise<Response> {
  // Loaded on first use: it costs 3 ms at start.
  const [zlib, { promisify }] = await Promise.all([import('node:zlib'), import('node:util')])
  const bytes = await promisify(zlib.gzip)(text, { level: 4 })
  return new Response(bytes, {
    headers: { ...headers, 'content-encoding': 'gzip', vary: 'accept-encoding' },
  })
}

/** Reads the JSON body of a request. No body means an object without fields. @throws same as `readJson` */
export async function readJsonBody(request: Request, limit: BodyLimit = defaultLimit): Promise<unknown> {
  if (request.headers.get('content-type') === null && !request.body) return {}
  return await readJson(request, limit)
}
