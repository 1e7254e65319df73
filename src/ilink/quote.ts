/**
 * Decodes the quote in a message: the message it replies to, from the little that upstream sends (protocol
 * notes 3.3).
 */
import type { Message, QuotedMessage } from '../model/message.ts'
import { withoutUndefined } from '../platform/fields.ts'
import { nodeCrypto } from '../platform/lazy-crypto.ts'
import { countOf, idOf, kindOfItem, objectOf, textOf, timeOf } from './fields.ts'
import type { WeixinMessage } from './wire.ts'

/** What the store knows about a message that a quote names by id. */
export type QuotableMessage = Pick<Message, 'message_id'> &
  Partial<Pick<Message, 'msg_type' | 'text' | 'from_user' | 'timestamp'>>

/**
 * Returns the quote of the first item that has one. The content comes from the quote where it has any,
 * otherwise from `quoted`, which looks up an upstream message id in the store. `from_user` is known only from
 * there.
 *
 * @param writtenAt time of the message, Unix ms
 */
export function quoteOf(
  message: WeixinMessage,
  writtenAt: number,
  quoted?: (messageId: string) => QuotableMessage | undefined,
): QuotedMessage | undefined {
  for (const item of Array.isArray(message.item_list) ? message.item_list : []) {
    const ref = objectOf(objectOf(item)?.ref_msg)
    if (!ref) continue
    const inner = objectOf(ref.message_item)
    const id = idOf(ref.svr_id) ?? idOf(inner?.msg_id)
    const known = id === undefined ? undefined : quoted?.(id)
    // A quote without content has type 0 or 8, or no type. Then only the store knows the kind.
    const kind = inner && kindOfItem(inner)
    const whole = textOf(objectOf(inner?.text_item)?.text) || known?.text || textOf(ref.title)
    const part = whole === undefined ? undefined : partialQuoteOf(whole, ref.partial_text)

    const quote: QuotedMessage = withoutUndefined({
      message_id: known?.message_id ?? id,
      msg_type: kind && kind !== 'UNKNOWN' ? kind : known?.msg_type,
      text: part ?? whole,
      partial: (part !== undefined && part !== whole) || undefined,
      from_user: known?.from_user,
      timestamp: timeOf(inner?.create_time_ms, writtenAt) ?? known?.timestamp,
    })
    // A quote with only a wrong time shows at least that something was quoted.
    if (Object.keys(quote).length > 0 || inner?.create_time_ms) return quote
  }
  return undefined
}

/**
 * Returns the part of `whole` that was quoted: from occurrence `startindex` of `start` to the end of
 * occurrence `endindex` of `end`. Upstream counts `endindex` over the whole text or from behind `start`: both
 * are tried, and the MD5 decides. Without an MD5 the count over the whole text is used. Undefined when
 * nothing matches.
 */
export function partialQuoteOf(whole: string, partialText: unknown): string | undefined {
  const partial = objectOf(partialText)
  const start = textOf(partial?.start)
  const end = textOf(partial?.end)
  if (!partial || !start || !end) return undefined
  const from = findOccurrence(whole, start, countOf(partial.startindex) ?? 0, 0)
  if (from < 0) return undefined
  const upTo = (searchFrom: number) => {
    const at = findOccurrence(whole, end, countOf(partial.endindex) ?? 0, searchFrom)
    return at < 0 || at + end.length <= from ? undefined : whole.slice(from, at + end.length)
  }
  const readings = [upTo(0), upTo(from + start.length)]
  const expectedMd5 = textOf(partial.quotemd5)?.trim().toLowerCase()
  if (!expectedMd5) return readings[0]
  return readings.find(text => text !== undefined && md5OfText(text) === expectedMd5)
}

const md5OfText = (text: string) => nodeCrypto().createHash('md5').update(text, 'utf8').digest('hex')

/** Returns the start of occurrence `n` (0-based, not overlapping) of `part`; -1 when there are fewer. */
function findOccurrence(text: string, part: string, n: number, from: number): number {
  let at = text.indexOf(part, from)
  for (let count = 0; count < n && at >= 0; count++) at = text.indexOf(part, at + part.length)
  return at
}
