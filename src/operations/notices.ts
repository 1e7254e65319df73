/** What programs say to a topic, at the doors: their files are stored, then the topic takes it. */
import { Type } from '@sinclair/typebox'
import type { Gateway } from '../gateway/gateway-api.ts'
import { extensionOf, sniffType } from '../media/content-type.ts'
import { fileNameOf } from '../media/file-name.ts'
import type { Call } from '../model/call.ts'
import { badArgument, isSvcError, SvcError } from '../model/error.ts'
import type { MediaContent } from '../model/message.ts'
import { closed } from '../model/shapes.ts'
import { AcceptedNotice, type Notice, type TopicForDoor } from '../model/topic.ts'
import { isReachableAddress } from '../platform/address.ts'
import { fetchPublic } from '../platform/fetch.ts'
import { maskAddress } from '../platform/log.ts'
import { mostNotices } from '../topics/topics.ts'
import { defineOperation } from './operation.ts'

/** A notice whose file is not stored yet. */
export interface SentNotice extends Omit<Notice, 'media'> {
  readonly file?: AttachedFile
}

/** A file of a notice: its bytes, or its address. */
export interface AttachedFile {
  readonly name?: string | undefined
  readonly url?: string | undefined
  readonly bytes?: Uint8Array<ArrayBuffer> | undefined
}

/** Reads what was sent, in the way of the topic. */
type ReadSent = (topic: TopicForDoor) => Promise<readonly SentNotice[]>

/** Maximum bytes of a file. */
export const maxFileBytes = 15 * 1024 * 1024
/** Maximum files in one call. One beyond it stays a line of the text. */
export const maxFiles = 10
const fetchTimeoutMs = 20_000

type Access = Pick<Gateway, 'media'> & { readonly topic: TopicForDoor; readonly call: Call }

/** Stores the file of a notice. A file that cannot be fetched or stored becomes a line: the text must arrive. */
async function storeFile(
  { file, ...notice }: SentNotice,
  isTooMany: boolean,
  access: Access,
): Promise<Notice> {
  if (!file) return notice
  // Two pictures are never the same notice.
  const fingerprint = notice.fingerprint ?? crypto.randomUUID()
  try {
    if (isTooMany) throw badArgument('attach', tooManyFiles)
    const media =
      file.url === undefined
        ? await store(file, new Blob([file.bytes ?? new Uint8Array()]).stream(), access)
        : await fetchFile(file.url, file, access)
    return { ...notice, fingerprint, media }
  } catch (error) {
    access.call.signal.throwIfAborted()
    const why = isSvcError(error) ? error : undefined
    if (file.url === undefined && !isTooMany && why?.code !== 'rate_limited') throw error
    const name = file.url === undefined ? (file.name ?? 'a file') : maskAddress(file.url)
    return withoutFile(notice, name, why?.problem ?? 'it cannot be stored')
  }
}

const tooManyFiles = `one call has at most ${maxFiles} files`

const withoutFile = (notice: Notice, name: string, why: string): Notice => ({
  ...notice,
  text: [notice.text, `${name} (${why})`].filter(Boolean).join('\n'),
})

async function fetchFile(url: string, file: AttachedFile, access: Access): Promise<MediaContent> {
  const fetched = await fetchPublic(url, {
    maxBytes: maxFileBytes,
    timeoutMs: fetchTimeoutMs,
    signal: access.call.signal,
    ...(access.topic.attach_private && { mayReach: isReachableAddress }),
  })
  return store({ name: file.name ?? fetched.fileName }, fetched.body, access)
}

const pictures = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp'])

async function store(
  { name, bytes }: AttachedFile,
  body: ReadableStream<Uint8Array>,
  { call, media }: Access,
): Promise<MediaContent> {
  if (bytes && bytes.length > maxFileBytes)
    throw new SvcError('payload_too_large', `The file is larger than ${maxFileBytes} bytes`, {
      hint: 'A file of a notice has at most 15 MiB. Send a smaller one, or its address as text.',
    })
  const { type, rest } = await sniffType(body)
  const { file_name } = fileNameOf(name ?? '', `attachment.${await extensionOf(type)}`)
  const { upload_id, size } = await media.accept({ body: rest, file_name, notice: true }, call.signal)
  // The door has counted the bytes that came with the request.
  if (!bytes) call.countBytes?.(size)
  return {
    kind: pictures.has(type) ? 'image' : type === 'video/mp4' ? 'video' : 'file',
    upload_id,
    file_name,
  }
}

export const acceptNotices = defineOperation({
  name: 'accept_notices',
  title: 'Notify a topic',
  effect: 'write',
  audited: 'counted',
  subject: ['topic'],
  right: 'notify',
  description:
    'Takes what a program sends to a topic. `read` is called once the caller may notify the topic, and returns the notices.',
  input: closed({ topic: Type.String({ maxLength: 64 }), read: Type.Unsafe<ReadSent>({}) }),
  output: Type.Array(AcceptedNotice),
  errors: ['not_found', 'payload_too_large', 'rate_limited'],
  async run({ media, topics }, { topic: name, read }, call) {
    const topic = await topics.find(call.by, name)
    const stored: Notice[] = []
    let files = 0
    for (const notice of await read(topic)) {
      if (notice.file) files++
      stored.push(await storeFile(notice, files > maxFiles, { call, media, topic }))
    }
    const accepted: AcceptedNotice[] = []
    for (let at = 0; at < stored.length; at += mostNotices)
      accepted.push(...(await topics.accept(call, topic.name, stored.slice(at, at + mostNotices))))
    return accepted
  },
})
