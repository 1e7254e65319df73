/** The conversation with a model that remembers nothing itself: a file in the agent's folder, of bounded size. */
import { join } from 'node:path'
import { readBelow } from '../../platform/below.ts'
import { parseFields } from '../../platform/fields.ts'
import { sweep, writeDurably } from '../../platform/files.ts'

/** Messages that are kept, the newest, and their text in characters. */
const maxMessages = 40
const maxText = 100_000
/** Longest text that is kept of one message, in characters. */
const maxMessageText = 40_000
/** Longest file of a conversation: text may be escaped, and paths of pictures are added. */
const maxFileBytes = 8 * maxText
/** Pictures that are sent again with each turn, the newest, and their size in bytes. */
const maxImages = 4
const maxImageBytes = 5 * 1024 * 1024
/** A conversation without a turn for this time is removed. */
const keptMs = 90 * 24 * 60 * 60_000

interface Image {
  readonly path: string
  readonly type: string
}

export interface ChatMessage {
  readonly role: 'user' | 'assistant'
  readonly text: string
  readonly images?: readonly Image[]
}

const idPattern = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
const fileName = /^\.chat-[0-9a-f-]{36}\.json(\.[0-9a-f]+\.tmp)?$/

/** Whether a text is the id of a conversation, which names its file. */
export const isChatId = (id: string | undefined): id is string => id !== undefined && idPattern.test(id)

const fileOf = (folder: string, id: string) => join(folder, `.chat-${id}.json`)

/** Returns the messages of a conversation; none if its file is absent or damaged. */
export async function readChat(folder: string, id: string): Promise<ChatMessage[]> {
  const file = await readBelow(folder, fileOf(folder, id), maxFileBytes)
  const content = parseFields(String(file?.bytes ?? ''))
  const { messages } = content ?? {}
  return Array.isArray(messages) && messages.every(isMessage) ? messages : []
}

/** Stores the newest messages of a conversation, and removes conversations that nobody continues. */
export async function writeChat(folder: string, id: string, messages: readonly ChatMessage[]): Promise<void> {
  let kept = messages.map(message => ({ ...message, text: message.text.slice(0, maxMessageText) }))
  const isTooMuch = () =>
    kept.length > maxMessages || kept.reduce((size, { text }) => size + text.length, 0) > maxText
  // A question is dropped together with its answer.
  while (kept.length > 2 && isTooMuch()) kept = kept.slice(2)
  await writeDurably(fileOf(folder, id), JSON.stringify({ messages: kept }))
  await sweep(folder, fileName, Date.now() - keptMs)
}

/**
 * Returns the messages in the form of the API.
 *
 * @param folder in which the pictures must lie
 * @param withImages whether the model gets pictures
 */
export async function toWireMessages(
  messages: readonly ChatMessage[],
  folder: string,
  withImages: boolean,
): Promise<unknown[]> {
  const shown = new Set(withImages ? messages.flatMap(({ images }) => images ?? []).slice(-maxImages) : [])
  return Promise.all(
    messages.map(async ({ images = [], role, text }) => {
      const urls = await Promise.all(
        images.filter(image => shown.has(image)).map(image => toDataUrl(image, folder)),
      )
      const parts = urls.flatMap(url =>
        url === undefined ? [] : [{ type: 'image_url', image_url: { url } }],
      )
      return { role, content: parts.length > 0 ? [{ type: 'text', text }, ...parts] : text }
    }),
  )
}

/** Returns a picture as a `data:` address; undefined if it is gone, too large, or of another type. */
async function toDataUrl({ path, type }: Image, folder: string): Promise<string | undefined> {
  if (!/^image\/(png|jpeg|gif|webp)$/.test(type)) return undefined
  const { bytes } = (await readBelow(folder, path, maxImageBytes)) ?? {}
  return bytes && `data:${type};base64,${bytes.toString('base64')}`
}

const isMessage = (value: unknown): value is ChatMessage => {
  const { images = [], role, text } = (value ?? {}) as Record<string, unknown>
  return (
    (role === 'user' || role === 'assistant') &&
    typeof text === 'string' &&
    Array.isArray(images) &&
    images.every(image => typeof image?.path === 'string' && typeof image?.type === 'string')
  )
}
