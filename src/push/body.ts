/** What a delivery says: an event as JSON of less than 20 kB, with links to what does not go along. */
import { Buffer } from 'node:buffer'
import type { Message, MessageItem } from '../model/message.ts'

/** An event as everybody outside is told of it. */
export interface OutsideEvent {
  /** Its cursor: letters, digits and `-`. */
  id: string
  type: string
  /** Unix ms. */
  at: number
  data: object
}

/** Makes the addresses under which a receiver finds more; none where svc does not know its own. */
export interface Links {
  media(messageId: string, item: number): string
  whole(messageId: string): string
}

/** Below the 20 kB that Standard Webhooks recommends. */
const mostBytes = 20_000
/** Characters that each text is cut to, one after the other until all fits. */
const cuts = [8000, 4000, 2000, 1000, 200, 20] as const
/** Items of a cut message. */
const mostItems = 20

export function bodyOf({ id, type, at, data }: OutsideEvent, links: Links | undefined): string {
  const json = (given: object) =>
    JSON.stringify({ id, type, timestamp: new Date(at).toISOString(), data: given })
  if (!type.startsWith('message.')) return json(data)
  const message = linked(data as Message, links)
  let body = json(message)
  for (const most of cuts) {
    if (Buffer.byteLength(body) < mostBytes) break
    body = json(cutTo(message, most, links))
  }
  return body
}

/** With a link at each item that can be fetched. */
function linked(message: Message, links: Links | undefined): Message {
  if (!links || !message.items.some(({ has_media }) => has_media)) return message
  let nth = 0
  const items = message.items.map(item =>
    item.has_media ? { ...item, url: links.media(message.message_id, nth++) } : item,
  )
  const first = (kind: MessageItem['kind']) => items.find(item => item.kind === kind)
  return {
    ...message,
    items,
    ...(message.image && { image: first('IMAGE') }),
    ...(message.voice && { voice: first('VOICE') }),
    ...(message.file && { file: first('FILE') }),
    ...(message.video && { video: first('VIDEO') }),
  }
}

/** With its long texts cut, which it says. */
function cutTo(message: Message, most: number, links: Links | undefined): object {
  const short = (value: unknown) =>
    typeof value === 'string' && value.length > most ? `${value.slice(0, most - 1).toWellFormed()}…` : value
  const shorter = <T extends object>(one: T) =>
    Object.fromEntries(
      Object.entries(one).map(([key, value]) => [key, texts.has(key) ? short(value) : value]),
    ) as T
  const { image: _i, voice: _v, file: _f, video: _d, ...rest } = message
  return {
    ...shorter(rest),
    items: message.items.slice(0, mostItems).map(shorter),
    ...(message.ref_msg && { ref_msg: shorter(message.ref_msg) }),
    truncated: true,
    ...(links && { whole_url: links.whole(message.message_id) }),
  }
}

const texts: ReadonlySet<string> = new Set([
  'text',
  'transcript',
  'reason',
  'reason_quote',
  'file_name',
  'user_name',
])
