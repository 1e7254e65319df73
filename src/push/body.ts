/**
 * The body of a delivery: an event as JSON of less than 20 kB, with links to media and to the whole message.
 */
import { Buffer } from 'node:buffer'
import type { Message, MessageItem } from '../model/message.ts'

/** An event in the public form, before it is written as JSON. */
export interface OutgoingEvent {
  /** Its cursor: letters, digits and `-`. */
  id: string
  type: string
  /** Unix ms. */
  at: number
  data: object
}

/** An event as a body holds it. */
export type WrittenEvent = Omit<OutgoingEvent, 'at'> & { timestamp: string }

/**
 * Creates the links of a delivery. Without a known public address of svc there is no such object, and
 * deliveries have no links.
 */
export interface DeliveryLinks {
  /** @param item index among the items with media */
  linkMedia(messageId: string, item: number): string
  /** Returns the URL of the whole message. */
  linkMessage(messageId: string): string
}

/** A body has fewer bytes than this, as Standard Webhooks recommends (20 kB). */
const maxBodyBytes = 20_000
/** Limits for each text, in characters. They are tried in this order until the body fits. */
const textLimits = [8000, 4000, 2000, 1000, 200, 20] as const
/** Maximum items of a truncated message. */
const maxItems = 20

/**
 * Returns the JSON of an event. A message that is too long is truncated: it gets `truncated: true` and a
 * `whole_url`.
 *
 * @param form the form of the body; by default that of webhooks
 */
export function bodyOf(
  { id, type, at, data }: OutgoingEvent,
  links: DeliveryLinks | undefined,
  form: (event: WrittenEvent) => object = event => event,
): string {
  const json = (content: object) =>
    JSON.stringify(form({ id, type, timestamp: new Date(at).toISOString(), data: content }))
  if (!type.startsWith('message.')) return json(data)
  const message = withLinks(data as Message, links)
  let body = json(message)
  for (const limit of textLimits) {
    if (Buffer.byteLength(body) < maxBodyBytes) break
    body = json(withShortTexts(message, limit, links))
  }
  return body
}

/** Returns a copy of a message with a `url` in each item that has media. */
function withLinks(message: Message, links: DeliveryLinks | undefined): Message {
  if (!links || !message.items.some(({ has_media }) => has_media)) return message
  let index = 0
  const items = message.items.map(item =>
    item.has_media ? { ...item, url: links.linkMedia(message.message_id, index++) } : item,
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

/**
 * Returns a truncated copy of a message: with at most `limit` characters in each text, and without the
 * fields that repeat an item.
 */
function withShortTexts(message: Message, limit: number, links: DeliveryLinks | undefined): object {
  const short = (value: unknown) =>
    typeof value === 'string' && value.length > limit ? `${value.slice(0, limit - 1).toWellFormed()}…` : value
  const shorter = <T extends object>(value: T) =>
    Object.fromEntries(
      Object.entries(value).map(([key, field]) => [key, textFields.has(key) ? short(field) : field]),
    ) as T
  const { image: _i, voice: _v, file: _f, video: _d, ...rest } = message
  return {
    ...shorter(rest),
    items: message.items.slice(0, maxItems).map(shorter),
    ...(message.ref_msg && { ref_msg: shorter(message.ref_msg) }),
    truncated: true,
    ...(links && { whole_url: links.linkMessage(message.message_id) }),
  }
}

/** Names of the fields that are truncated. */
const textFields: ReadonlySet<string> = new Set([
  'text',
  'transcript',
  'reason',
  'reason_quote',
  'file_name',
  'user_name',
])
