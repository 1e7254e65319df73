/** What operations give, as answers of HTTP: JSON, bytes, a stream of events or text; and what the document says of each. */

import type { OpenedEvents } from '../operations/events.ts'
import type { WantedMedia } from '../operations/media.ts'
import type { RestShape } from '../operations/operation.ts'
import { metricsType } from '../platform/metrics.ts'
import { EventStreams } from './event-readers.ts'
import { unopenedStream } from './event-stream.ts'
import type { HttpCall } from './http-call.ts'
import { mediaAnswer } from './media-answer.ts'
import { isHead } from './paths.ts'
import { compressed, isWorthCompressing, jsonAnswer, type RouteContext, type RouteNotes } from './route.ts'
import { settlingBody } from './written.ts'

/** Makes the answer of an output; `input` is what the caller sent. */
export type AnswerOf = (output: unknown, call: HttpCall, input: unknown) => Response | Promise<Response>

export function answerOf(rest: RestShape, context: RouteContext): AnswerOf {
  switch (rest.answers) {
    case 'bytes':
      // A signed link may lead to a message.
      return output =>
        'media' in Object(output)
          ? mediaAnswer(output as WantedMedia)
          : new Response(JSON.stringify(output), jsonAnswer)
    case 'events': {
      const streams = new EventStreams(context)
      return (output, { request }) =>
        isHead(request) ? unopenedStream() : streams.open(output as OpenedEvents)
    }
    case 'prometheus':
      return output => new Response(String(output), prometheusInit)
    default:
      return jsonAnswerOf(rest, context)
  }
}

/** Made once: copying them costs an answer less than reading the fields of an object. */
const jsonInit = { headers: new Headers(jsonAnswer.headers) }
const prometheusInit = { headers: { 'content-type': metricsType, 'cache-control': 'no-store' } }

const jsonAnswerOf = (
  { body, otherStatus, answerHeaders }: RestShape,
  { gateway }: RouteContext,
): AnswerOf => {
  return (output, call, input) => {
    const text = JSON.stringify(output)
    if (answerHeaders)
      return answerHeaders(gateway, input, output).then(headers =>
        written(text, call, headers ? { headers: { ...jsonAnswer.headers, ...headers } } : jsonInit),
      )
    if (otherStatus?.when(output)) return new Response(text, { ...jsonInit, status: otherStatus.status })
    if (body !== 'must' && !call.delivery.awaited && isWorthCompressing(text, call.request))
      return compressed(text, jsonAnswer.headers)
    return written(text, call, jsonInit)
  }
}

/** If somebody waits to hear whether it arrived, the answer tells. */
const written = (text: string, call: HttpCall, init: ResponseInit): Response | Promise<Response> =>
  call.delivery.awaited
    ? settlingBody(text, call).then(body => new Response(body, init))
    : new Response(text, init)

const header = (description: string) => ({ description, schema: { type: 'string' } })
const bytesHeaders = {
  'Content-Disposition': header('The file name. inline only for images, audio and video.'),
  'Accept-Ranges': header('bytes: a part can be asked for.'),
  ETag: header('Names the bytes of a message, for If-Range; a file that waits has none.'),
}
const bytesContent = { '*/*': { schema: { type: 'string', format: 'binary' } } }
const byteResponses = {
  200: {
    description:
      'All bytes: without Range, and where their number cannot be told, which is so for more than 256 MiB of an image or video.',
    headers: bytesHeaders,
    content: bytesContent,
  },
  206: {
    description: 'The part that Range asks for.',
    headers: { ...bytesHeaders, 'Content-Range': header('Which bytes these are, and of how many.') },
    content: bytesContent,
  },
  304: { description: 'If-None-Match names these bytes.' },
  416: {
    description: '`invalid_arguments`: none of the bytes that Range asks for is there.',
    headers: { 'Content-Range': header('`bytes */` and how many there are.') },
    content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
  },
}

/** What the document says of answers that are not JSON. */
export const otherResponses: Readonly<Record<NonNullable<RestShape['answers']>, RouteNotes['responses']>> = {
  bytes: byteResponses,
  events: {
    200: { description: 'The stream.', content: { 'text/event-stream': { schema: { type: 'string' } } } },
  },
  prometheus: {},
}
