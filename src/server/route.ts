/** What routes share: how they are declared to Elysia, what they may use, and how they fail. */
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
import { type BodyLimit, doneWith, jsonLimit, readJson } from './body.ts'
import { takesCoding } from './docs.ts'
import { problemResponse } from './errors.ts'
import type { HttpDoor } from './http-call.ts'

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
  { by, log, basePath }: Pick<RouteContext, 'by' | 'log' | 'basePath'>,
  tool?: string,
  call?: { readonly signal: AbortSignal },
): Response => {
  const shown = isSvcError(error) ? error : toSvcError(error, log, { tool, signal: call?.signal })
  return problemResponse(shown, {}, { wording: wordingAt(by.kind === 'panel' ? 'panel' : 'http', basePath) })
}

const usualLimit = jsonLimit(1024 * 1024)

interface OwnRoute<B extends TSchema, A extends TSchema> {
  summary: string
  description: string
  body: B
  answer: A
  errors: readonly ErrorCode[]
  /** Headers of the answer, besides the usual. */
  headers(body: Static<B>, request: Request): Promise<Record<string, string>>
  run(): Static<A>
}

/** Adds a POST that is the door's own, such as signing in: it answers with JSON. */
export function addOwnRoute<B extends TSchema, A extends TSchema>(
  app: Elysia,
  context: RouteContext,
  [path, operationId]: readonly [path: string, operationId: string],
  { summary, description, body, answer, errors, headers, run }: OwnRoute<B, A>,
): void {
  const handle = async (request: Request) => {
    try {
      const given = parse(body, await bodyOf(request))
      const init = { headers: { ...jsonAnswer.headers, ...(await headers(given, request)) } }
      return new Response(JSON.stringify(run()), init)
    } catch (error) {
      return failed(error, context, operationId)
    } finally {
      doneWith(request)
    }
  }
  const schema = toJsonSchema(body)
  app.post(path, ({ request }) => handle(request), {
    parse: 'none',
    body: declared(schema),
    response: { 200: declared(answer) },
    detail: {
      operationId,
      summary,
      description,
      tags: ['panel'],
      ...noted({
        errors: ['invalid_arguments', ...errors, 'internal', ...doorErrors],
        requestBody: { content: { 'application/json': { schema } } },
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
