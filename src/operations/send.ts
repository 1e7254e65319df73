import { type Static, Type } from '@sinclair/typebox'
import type { Gateway } from '../gateway/gateway-api.ts'
import type { Unanswered } from '../model/call.ts'
import { invalidArguments, type Problem, SvcError, withFieldNames } from '../model/error.ts'
import { MediaContent, type MediaKind, SendResult } from '../model/message.ts'
import { quotaPerInbound, windowMs } from '../model/session.ts'
import { bounded, closed, oneOf, optional } from '../model/shapes.ts'
import { isUserId, readUserId } from '../model/user-id.ts'
import type { SendRequest } from '../send/plan.ts'
import { textLimitBytes } from '../send/split.ts'
import { exampleUser } from './example-values.ts'
import { defineOperation, defineTool } from './operation.ts'
import { Time } from './schema.ts'

const splitNote = `Above ${textLimitBytes / 1024} KiB of UTF-8 it is split into the fewest messages.`

const pathField = (what: string) => optional.bounded(4096, `Path of ${what}.`)

export const SendInput = closed({
  to: bounded(
    512,
    '`from_user` of a message that recv returned, or the name that people gave to the user (`user_name`).',
    { examples: [exampleUser] },
  ),
  text: optional.text(`Text to send. ${splitNote}`),
  image_path: pathField('an image'),
  voice_path: pathField('an audio file (it arrives as a file)'),
  file_path: pathField('any file'),
  video_path: pathField('a video'),
  file_name: optional.bounded(255, 'File name to show, for file_path or the only other path.'),
  media: optional(
    Type.Array(MediaContent, {
      maxItems: 20,
      description: 'More media, sent in this order.',
    }),
  ),
  session: optional.bounded(
    200,
    'Session to send from. Without it: the one that this user last wrote to, else the first connected one.',
  ),
  idempotency_key: optional.bounded(
    200,
    'Any text that identifies this message, such as a UUID, so that you can repeat a call that got no answer: within 24 hours the same key sends nothing and returns the first result; with other content it fails.',
    { examples: ['order-4711-shipped'] },
  ),
  typing: optional.flag(
    'true: show "typing" until the message is sent; without text and media for some seconds, which uses no answer. false: never. Without it: only if sending takes long.',
  ),
  when_closed: optional.oneOf(
    ['fail', 'queue'],
    'If the message cannot be sent now (window closed, answers used up, too fast, WeChat refuses it). fail: return an error. queue: keep it for up to 7 days (`status` is `queued`) and send it as soon as possible, after earlier ones, texts joined into one message; history shows its status.',
    { default: 'fail' },
  ),
  send_at: optional(
    Time(
      'Send it at this time, at most 7 days from now: Unix milliseconds or ISO 8601, no zone = UTC. If it cannot be sent then, it waits on as with when_closed "queue". Until then it can be cancelled.',
      { examples: ['2026-01-31T14:00:00+08:00'] },
    ),
  ),
})

export type SendArguments = Static<typeof SendInput>

/** Says in headers how many answers are left, and for how long. */
async function reportReplies(
  { clock }: Pick<Gateway, 'clock'>,
  _input: SendArguments,
  { remaining, window_expires_at: until }: SendResult,
): Promise<Record<string, string>> {
  const closesIn = until === undefined ? '' : `;t=${Math.max(0, Math.ceil((until - clock.now()) / 1000))}`
  return {
    'ratelimit-policy': `"reply";q=${quotaPerInbound};w=${windowMs / 1000}`,
    ratelimit: `"reply";r=${remaining}${closesIn}`,
  }
}

const maxDataBytes = 16 * 1024 * 1024

/**
 * Returns the media of an input in the order of sending: the path arguments (as in WeiLink), then `media`.
 *
 * @throws SvcError `invalid_arguments` for a media entry without exactly one source, or a name without a
 *   file; `payload_too_large` for base64 of more than 16 MiB
 */
function mediaOf(input: SendArguments): MediaContent[] {
  const problems: Problem[] = []
  const paths: MediaContent[] = []
  for (const kind of ['image', 'voice', 'file', 'video'] satisfies MediaKind[]) {
    const path = input[`${kind}_path`]
    if (path !== undefined) paths.push({ kind, path })
  }
  if (input.file_name !== undefined) {
    const target = paths.find(({ kind }) => kind === 'file') ?? (paths.length === 1 ? paths[0] : undefined)
    if (target) target.file_name = input.file_name
    else problems.push({ field: 'file_name', problem: 'expected together with the path of one file' })
  }
  const media = input.media ?? []
  for (const [index, { path, url, data, upload_id }] of media.entries()) {
    const sources = [path, url, data, upload_id].filter(source => source !== undefined)
    if (sources.length !== 1)
      problems.push({
        field: `media[${index}]`,
        problem: 'expected exactly one of path, url, data, upload_id',
      })
    if (data !== undefined && (data.length / 4) * 3 - 2 > maxDataBytes)
      throw new SvcError('payload_too_large', 'expected at most 16 MiB of base64', {
        field: `media[${index}].data`,
        next: { action: 'upload' },
      })
  }
  const all = [...paths, ...media]
  if (all.length === 0 && !input.text && !input.typing)
    problems.push({ field: 'text', problem: 'expected text, media, or both; there is nothing to send' })
  if (problems.length > 0) throw invalidArguments(problems)
  return all
}

export const send = defineTool({
  name: 'send',
  check(input) {
    if (isUserId(input.to)) readUserId(input.to, 'to')
    mediaOf(input)
  },
  title: 'Send a message',
  effect: 'write',
  // The store writes the audit line, together with the message.
  audited: false,
  right: ['send', 'draft'],
  description: `Replies to somebody on WeChat (Weixin, 微信), a friend or any user who wrote: sends text, media (a photo or picture, a file, a video), or both. The text goes first, then each media as its own message, after all are uploaded.

WeChat allows a bot only to answer: the user must have written first, and about 10 answers fit into the window of about 24 hours after the user's last message. Then the call fails with \`window_closed\` or \`quota_exhausted\`: stop and wait until the user writes; repeating does not help. \`remaining\` and \`window_expires_at\` in the result say what is left.

\`accepted\` means that WeChat took the message, not that it was delivered or read. \`unknown\` means that no answer came and it may have arrived: check before you repeat it, or use an \`idempotency_key\`. There are no groups, and voice arrives as a file.`,
  about: {
    remote:
      'A path must be in the media root of the service; from another machine upload with POST /media, or pass a URL or base64 data. GET /outbox lists the messages that wait.',
    anyFile:
      "A path may name any file of this machine except svc's own. svc outbox lists the messages that wait.",
    someFiles:
      "A path must be in the folder that svc was started in, or in the media folder of svc's data directory. svc outbox lists the messages that wait.",
  },
  input: SendInput,
  output: SendResult,
  errors: [
    'not_connected',
    'session_not_found',
    'session_expired',
    'window_closed',
    'quota_exhausted',
    'rate_limited',
    'idempotency_conflict',
    'text_too_long',
    'payload_too_large',
    'forbidden',
    'upstream_error',
    'upstream_timeout',
  ],
  cli: {
    path: ['send'],
    positionals: ['to', 'text'],
    short: { session: 's' },
    names: {
      to: 'user',
      send_at: 'at',
      image_path: 'image',
      voice_path: 'voice',
      file_path: 'file',
      video_path: 'video',
    },
    help: {
      to: 'User id, as recv, history and users show it, or the name that svc users name gave to the user.',
      text: `Text to send; - reads it from stdin. ${splitNote}`,
      image_path: 'Path of an image. This and the next three may be given several times; the order is kept.',
      voice_path: 'Path of an audio file, which arrives as a file.',
      file_path: 'Path of any file.',
      video_path: 'Path of a video.',
      file_name: 'File name to show in place of the real one. Only with one file.',
      send_at:
        'Send it later: 14:00 (the next time the clock shows that), 2026-01-31 08:00 (local time unless a zone is given), 30m, 2h, 3d. At most 7 days ahead; svc outbox lists it, svc outbox cancel cancels it.',
      media: 'Media from elsewhere, as JSON: {"kind":"image","url":"https://…"}. May be given several times.',
    },
    about:
      'The end of the output says how many answers are left; svc users says it for all users. svc outbox lists the messages that wait, which are sent while a service runs.',
    stdin: 'text',
    series: {
      into: 'media',
      value: 'path',
      entries: {
        image_path: { kind: 'image' },
        voice_path: { kind: 'voice' },
        file_path: { kind: 'file' },
        video_path: { kind: 'video' },
      },
    },
    addsExamples: true,
    examples: [
      [`svc send ${exampleUser} --text "Your chart" --image ./chart.png`, 'Text, then a picture'],
      [`uptime | svc send ${exampleUser} -`, 'The output of another program'],
      [`svc send ${exampleUser} "Time to go" --at 14:00`, 'At the next 14:00'],
    ],
  },
  examples: [
    {
      summary: 'Answer with text',
      input: { to: exampleUser, text: 'Hello!' },
      output: {
        success: true,
        status: 'accepted',
        message_id: '7412365478965412366',
        session: 'default',
        parts: [{ kind: 'text', sent_as: 'text', status: 'accepted', message_id: '7412365478965412366' }],
        remaining: 9,
        window_expires_at: 1767312000000,
      },
    },
    {
      summary: 'Send an uploaded picture with a caption',
      input: {
        to: exampleUser,
        text: 'Your chart',
        media: [{ kind: 'image', upload_id: 'up_3f1c9a', file_name: 'chart.png' }],
      },
      output: {
        success: true,
        status: 'accepted',
        message_id: '7412365478965412368',
        session: 'default',
        parts: [
          { kind: 'text', sent_as: 'text', status: 'accepted', message_id: '7412365478965412367' },
          { kind: 'image', sent_as: 'image', status: 'accepted', message_id: '7412365478965412368' },
        ],
        remaining: 7,
        window_expires_at: 1767312000000,
      },
    },
    {
      summary: 'Keep it until the user writes, and never send it twice',
      input: {
        to: exampleUser,
        text: 'Your order has been shipped.',
        when_closed: 'queue',
        idempotency_key: 'order-4711-shipped',
      },
      output: {
        success: false,
        status: 'queued',
        session: 'default',
        parts: [{ kind: 'text', sent_as: 'text', status: 'queued' }],
        remaining: 0,
        window_expires_at: 1767225600000,
        outbox_id: '12',
      },
    },
  ],
  rest: { answerHeaders: reportReplies, bodyOrHeader: { idempotency_key: 'Idempotency-Key' } },
  // 16 MiB as base64, and the other arguments.
  maxBodyBytes: 24 * 1024 * 1024,
  run: async ({ sender }, input, call) => {
    const result = await withInputFields(input, request => sender.send(request, call), call.unanswered)
    return result.waits_for === 'approval' && call.unanswered
      ? { ...result, answer: call.unanswered }
      : result
  },
})

export const foreseeSend = defineOperation({
  name: 'foresee_send',
  title: 'Check what would be sent',
  effect: 'read',
  right: ['send', 'draft'],
  partOf: send.name,
  description:
    'Fails with the errors of send if the message cannot be sent. Returns whether an earlier send had this idempotency_key. Sends nothing.',
  input: SendInput,
  output: oneOf(['new', 'known']),
  errors: send.errors,
  maxBodyBytes: send.maxBodyBytes,
  check(input) {
    if (isUserId(input.to)) readUserId(input.to, 'to')
    mediaOf(input)
  },
  run: ({ sender }, input, call) => withInputFields(input, request => sender.foresee(request, call)),
})

/**
 * Runs `work` with the request of an input. Its errors name the fields of the input, not those of the
 * request.
 */
async function withInputFields<T>(
  input: SendArguments,
  work: (request: SendRequest) => Promise<T>,
  approval?: Unanswered,
): Promise<T> {
  const media = mediaOf(input)
  const { to, text, session, when_closed, send_at, typing, idempotency_key } = input
  try {
    return await work({
      to,
      text: text || undefined,
      media,
      session,
      ...(when_closed === 'queue' && { when_closed }),
      ...(send_at !== undefined && { send_at }),
      ...(approval && { approval }),
      ...(typing !== undefined && { typing }),
      ...(idempotency_key !== undefined && { idempotency_key }),
    })
  } catch (error) {
    throw renameToInputFields(error, media, input.media?.length ?? 0)
  }
}

/**
 * Renames fields of `media` in an error to those of the input.
 *
 * @param listed number of entries in `media` of the input
 */
function renameToInputFields(error: unknown, media: readonly MediaContent[], listed: number): unknown {
  if (!(error instanceof SvcError)) return error
  const paths = media.length - listed
  return withFieldNames(error, ({ field, problem }) => ({
    field: field.replace(/^media\[(\d+)\](\.path)?/, (_all, index: string, path = '') =>
      Number(index) < paths ? `${media[Number(index)]?.kind}_path` : `media[${Number(index) - paths}]${path}`,
    ),
    problem,
  }))
}
