/** What routes share: how they are declared to Elysia, what they may use, and how they fail. */
import { Kind, type TSchema, Type } from '@sinclair/typebox'
import type { Gateway } from '../gateway/gateway-api.ts'
import type { ErrorCode, SvcError } from '../model/error.ts'
import type { Log } from '../platform/log.ts'
import { toSvcError } from '../tools/index.ts'
import { type JsonSchema, toJsonSchema } from '../tools/schema.ts'
import { problemResponse } from './errors.ts'
import type { Waiting } from './http-call.ts'

export interface RouteContext {
  readonly gateway: Gateway
  readonly log: Log
  readonly waiting: Waiting
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
  context: RouteContext,
  tool?: string,
  signal?: AbortSignal,
): Response => {
  const known: SvcError = toSvcError(error, context.log, { tool, signal })
  return problemResponse(known)
}

/** What the work answers, or the answer of its failure. */
export const answered = async (
  context: RouteContext,
  { signal }: Pick<Request, 'signal'>,
  work: () => Promise<Response>,
  tool?: string,
): Promise<Response> => {
  try {
    return await work()
  } catch (error) {
    return failed(error, context, tool, signal)
  }
}

/** Server-sent events. A reader that is `behindBytes` behind has no room left (`desiredSize`). */
export const eventStream = (behindBytes: number, source: UnderlyingDefaultSource<Uint8Array>): Response =>
  new Response(
    new ReadableStream(source, { highWaterMark: behindBytes, size: chunk => chunk?.byteLength ?? 0 }),
    // A proxy in front shall not gather them.
    { headers: { ...jsonAnswer.headers, 'content-type': 'text/event-stream', 'x-accel-buffering': 'no' } },
  )
