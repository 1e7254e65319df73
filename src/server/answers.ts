/**
 * HTTP responses made from the outputs of operations: JSON, bytes, a stream of events or text. Also their
 * descriptions for the OpenAPI document.
 */
import type { Principal } from '../model/principal.ts'
import type { OpenedEvents } from '../operations/events.ts'
import type { OpenedExport } from '../operations/export.ts'
import { answerHeadersOf } from '../operations/gate.ts'
import type { RequestedMedia } from '../operations/media.ts'
import type { RestShape } from '../operations/operation.ts'
import { metricsType } from '../platform/metrics.ts'
import { EventStreams } from './event-readers.ts'
import { createUnopenedStream } from './event-stream.ts'
import type { HttpCall } from './http-call.ts'
import { bindToCaller } from './limits.ts'
import { createFileAnswer, createMediaAnswer } from './media-answer.ts'
import { isHead } from './paths.ts'
import { isWorthCompressing, jsonAnswer, type RouteContext, type RouteNotes, toGzipAnswer } from './route.ts'
import { createReportingBody } from './written.ts'

/** Creates the response for an output. `input` is what the caller sent. */
export type CreateAnswer = (output: unknown, call: HttpCall, input: unknown) => Response | Promise<Response>

/** Returns the function that creates an operation's responses. */
export function answerCreatorOf(rest: RestShape, context: RouteContext): CreateAnswer {
  switch (rest.answerKind) {
    case 'bytes':
      // A signed link may lead to a message.
      return async (output, call) =>
        'media' in Object(output)
          ? await bindToCaller(await createMediaAnswer(output as RequestedMedia), call.by, () => call.address)
          : new Response(JSON.stringify(output), jsonAnswer)
    case 'file':
      return async (output, { by }) => await bindToCaller(createFileAnswer(output as OpenedExport), by)
    case 'events': {
      const byCaller = new WeakMap<Principal, EventStreams>()
      return (output, { by, request }) => {
        if (isHead(request)) return createUnopenedStream()
        const streams = byCaller.get(by) ?? new EventStreams(context)
        byCaller.set(by, streams)
        return streams.open(output as OpenedEvents, by)
      }
    }
    case 'prometheus':
      return output => new Response(String(output), prometheusInit)
    default:
      return jsonAnswerCreatorOf(rest, context)
  }
}

/**
 * A `Headers` object is created once: copying it is faster than reading the fields of an object each time.
 */
const jsonInit = { headers: new Headers(jsonAnswer.headers) }
const prometheusInit = { headers: { 'content-type': metricsType, 'cache-control': 'no-store' } }

const jsonAnswerCreatorOf = (rest: RestShape, { gateway }: RouteContext): CreateAnswer => {
  const { body, otherStatus } = rest
  return (output, call, input) => {
    const text = JSON.stringify(output)
    const own = answerHeadersOf(rest, gateway, call, input, output)
    if (own)
      return own.then(headers =>
        toJsonAnswer(text, call, headers ? { headers: { ...jsonAnswer.headers, ...headers } } : jsonInit),
      )
    if (otherStatus?.when(output)) return new Response(text, { ...jsonInit, status: otherStatus.status })
    if (body !== 'must' && !call.delivery.isAwaited && isWorthCompressing(text, call.request))
      return toGzipAnswer(text, jsonAnswer.headers)
    return toJsonAnswer(text, call, jsonInit)
  }
}

/** Creates a JSON response. If something waits for its delivery, the body reports when it was written. */
const toJsonAnswer = (text: string, call: HttpCall, init: ResponseInit): Response | Promise<Response> =>
  call.delivery.isAwaited
    ? createReportingBody(text, call).then(body => new Response(body, init))
    : new Response(text, init)

const toHeader = (description: string) => ({ description, schema: { type: 'string' } })
const bytesHeaders = {
  'Content-Disposition': toHeader('The file name. inline only for images, audio and video.'),
  'Accept-Ranges': toHeader('bytes: you can request a range.'),
  ETag: toHeader('Identifies the bytes of a message, for If-Range. A waiting file has none.'),
}
const bytesContent = { '*/*': { schema: { type: 'string', format: 'binary' } } }
const byteResponses = {
  200: {
    description:
      'All bytes: without Range, and if their number is not known, as for an image or video of more than 256 MiB.',
    headers: bytesHeaders,
    content: bytesContent,
  },
  206: {
    description: 'The range requested by Range.',
    headers: {
      ...bytesHeaders,
      'Content-Range': toHeader('The range of these bytes, and the total number.'),
    },
    content: bytesContent,
  },
  304: { description: 'If-None-Match contains the ETag of these bytes.' },
  416: {
    description: '`invalid_arguments`: the range requested by Range has no bytes.',
    headers: { 'Content-Range': toHeader('`bytes */` and the total number.') },
    content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
  },
}

/** Descriptions of responses that are not JSON, for the OpenAPI document. */
export const nonJsonResponses: Readonly<
  Record<NonNullable<RestShape['answerKind']>, RouteNotes['responses']>
> = {
  bytes: byteResponses,
  events: {
    200: { description: 'The stream.', content: { 'text/event-stream': { schema: { type: 'string' } } } },
  },
  file: {
    200: {
      description: 'The file, streamed. A connection that ends early leaves it incomplete.',
      headers: { 'Content-Disposition': toHeader('attachment, with the file name.') },
      content: { 'application/x-ndjson': {}, 'text/html': {} },
    },
  },
  prometheus: {},
}
