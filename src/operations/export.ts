/** The operation that hands out stored messages as one file: JSON lines, or a page for people. */
import { Buffer } from 'node:buffer'
import { type Static, Type } from '@sinclair/typebox'
import { topOf } from '../access/usage.ts'
import { localZone } from '../config/time-zone.ts'
import type { Gateway } from '../gateway/gateway-api.ts'
import type { WalkFilter } from '../gateway/history.ts'
import type { Grant } from '../model/access.ts'
import type { Call } from '../model/call.ts'
import { badArgument, SvcError } from '../model/error.ts'
import type { Message } from '../model/message.ts'
import { closed, optional } from '../model/shapes.ts'
import { shares } from '../model/shares.ts'
import { type AwakeTimer, startAwakeTimer } from '../platform/clock.ts'
import { toJsonLine } from '../platform/escape-controls.ts'
import { followSignal } from '../platform/signals.ts'
import { streamOnDemand } from '../platform/streams.ts'
import { erasedMeanwhileError } from '../storage/people.ts'
import { exampleUser } from './example-values.ts'
import { readerOf } from './export-texts.ts'
import { defineOperation } from './operation.ts'
import { Time } from './schema.ts'

/** Texts are collected until they are this long. */
const blockCharacters = 32 * 1024

/** A reader that reads nothing for this time ends the export. */
const readerMs = 5 * 60_000

/** Exports of this process that are being read, with the keys of their callers. */
const open = new Map<AbortController, Grant | undefined>()

/** A file that is made while it is read. Read the stream to its end, or cancel it. */
export interface OpenedExport {
  readonly file_name: string
  readonly content_type: string
  readonly session?: string
  /** Id of the user, if it is limited to one. */
  readonly user?: string
  readonly stream: ReadableStream<Uint8Array>
}

const ExportInput = closed({
  format: optional.oneOf(
    ['jsonl', 'html'],
    'jsonl: one message per line, as history returns it. html: one page for people, with pictures.',
    { default: 'jsonl' },
  ),
  user: optional.bounded(
    512,
    'Only messages from or to this user: the id, or the name that people gave to the user.',
    {
      examples: [exampleUser],
    },
  ),
  session: optional.bounded(200, 'Only messages of this session.'),
  since: optional(
    Time('Only messages since this time (inclusive): Unix milliseconds or ISO 8601, no zone = UTC.'),
  ),
  until: optional(
    Time('Only messages before this time (exclusive): Unix milliseconds or ISO 8601, no zone = UTC.'),
  ),
  language: optional.bounded(35, 'Language of the page, en or zh, with a region for its dates: en-GB.', {
    default: 'en',
  }),
  time_zone: optional.bounded(64, 'Time zone of the page: Asia/Shanghai. Default: that of the service.'),
})

export const exportMessages = defineOperation({
  name: 'export',
  title: 'Write messages into a file, for programs or for people',
  effect: 'read',
  audited: true,
  subject: ['user', 'session'],
  right: 'export',
  description:
    'Streams stored messages as one file, oldest first, up to the newest one at the time of the call. jsonl has one message per line, as history returns it. html is one page that opens without a network and runs no script: conversations by day, with pictures and files of up to 8 MiB each, 256 MiB in all. svc fetches them from WeChat, and the page names those that WeChat no longer has, that are too large, or that cannot be fetched. A key gets the messages that it may see. Up to 4 exports run at a time; more are rate_limited.',
  input: ExportInput,
  output: Type.Unsafe<OpenedExport>({ type: 'string', format: 'binary' }),
  errors: ['session_not_found', 'rate_limited'],
  rest: { route: 'GET /export', tag: 'messages', answerKind: 'file' },
  cli: {
    path: ['export'],
    short: { user: 'u', session: 's' },
    about:
      'A name that ends with .html makes the page. One that ends with .jsonl, or with nothing, makes JSON lines.',
    help: {
      format: 'jsonl or html. Default: by the ending of the file; jsonl for stdout.',
    },
    examples: [
      ['svc export -u Mum -o mum.html', 'Everything with one user, as a page'],
      ['svc export --since 7d -o week.jsonl', 'The last week, for a program'],
    ],
  },
  check({ since, until }) {
    if (since !== undefined && until !== undefined && since > until)
      throw badArgument('until', 'expected a time after since')
  },
  run: openExport,
})

async function openExport(
  gateway: Gateway,
  { format = 'jsonl', ...input }: Static<typeof ExportInput>,
  { by, signal }: Pick<Call, 'by' | 'signal'>,
): Promise<OpenedExport> {
  const key = by.grant && topOf(by.grant)
  const own = [...open.values()].filter(one => key !== undefined && one === key).length
  const most = shares.exports[own >= shares.exports.each ? 'each' : 'most']
  if (own >= most || open.size >= most)
    throw new SvcError('rate_limited', `${most} exports run already`, {
      retryAfter: 10,
      hint: 'Try again when one of them has ended.',
    })
  const { session, user } = await gateway.events.resolveFilter({ session: input.session, user: input.user })
  const { since, until } = input
  const reader = readerOf(input.language, input.time_zone ?? (format === 'html' ? localZone() : undefined))
  const upTo = await gateway.inbox.getHead()
  const filter: WalkFilter = {
    upTo,
    ...(session !== undefined && { session }),
    ...(user !== undefined && { user }),
    ...(since !== undefined && { since }),
    ...(until !== undefined && { until }),
  }
  const stop = new AbortController()
  const unfollow = followSignal(signal, stop)
  async function* texts(): AsyncGenerator<string, void> {
    if (format === 'jsonl') return yield* toLines(gateway.history.walk(filter, stop.signal))
    const { renderPage } = await import('./export-page.ts')
    yield* renderPage(gateway, filter, reader, stop.signal)
  }
  const erasures = await gateway.people.countErasures()
  async function* blocks(): AsyncGenerator<Uint8Array, void> {
    open.set(stop, key)
    try {
      for await (const text of joinTexts(texts())) {
        // The reader may have taken minutes for the last block, and a user may have been erased since.
        if ((await gateway.people.countErasures()) !== erasures) throw erasedMeanwhileError()
        yield Buffer.from(text)
      }
    } finally {
      open.delete(stop)
      unfollow()
    }
  }
  const day = new Date(gateway.clock.now()).toISOString().slice(0, 10)
  return {
    file_name: `svc-${day}.${format}`,
    content_type: format === 'jsonl' ? 'application/x-ndjson' : 'text/html; charset=utf-8',
    ...(session !== undefined && { session }),
    ...(user !== undefined && { user }),
    stream: toStream(blocks(), stop),
  }
}

async function* toLines(pages: AsyncIterable<Message[]>): AsyncGenerator<string, void> {
  for await (const messages of pages) yield messages.map(message => `${toJsonLine(message)}\n`).join('')
}

/** Joins short texts, since each block of a stream costs the same. */
async function* joinTexts(texts: AsyncIterable<string>): AsyncGenerator<string, void> {
  let joined = ''
  for await (const text of texts) {
    joined += text
    if (joined.length < blockCharacters) continue
    yield joined
    joined = ''
  }
  if (joined !== '') yield joined
}

/** Makes a stream that reads nothing ahead. The work ends when the reader leaves, or reads nothing for long. */
function toStream(
  blocks: AsyncGenerator<Uint8Array, void>,
  stop: AbortController,
): ReadableStream<Uint8Array> {
  let hasLeft = false
  let timer: AwakeTimer | undefined
  const end = async (reason: unknown) => {
    hasLeft = true
    timer?.stop()
    stop.abort(reason)
    await blocks.return()
  }
  return streamOnDemand({
    async pull(controller) {
      timer?.stop()
      const { done, value } = await blocks.next()
      if (hasLeft) return
      if (done) return controller.close()
      controller.enqueue(value)
      timer = startAwakeTimer(readerMs, () => {
        const error = new SvcError('upstream_timeout', 'nothing of the export was read for long')
        controller.error(error)
        void end(error)
      })
      timer.unref()
    },
    cancel: end,
  })
}
