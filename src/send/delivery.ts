/**
 * One request that hands a message over, and what its answer means. A refusal is never repeated here, and a request that
 * got no clear answer is unknown for good: repeating it blindly could send it twice.
 */

import { newClientId, outgoingMessage } from '../ilink/encode.ts'
import { textOf } from '../ilink/fields.ts'
import { type ILinkError, isILinkError } from '../ilink/http.ts'
import type { WireItem } from '../ilink/wire.ts'
import { afterRefusal, causeOfRefusal, type Hold, type SendRules, untilWritten } from '../model/admission.ts'
import { isSvcError, SvcError } from '../model/error.ts'
import type { SentMessage } from '../storage/messages.ts'
import type { Begun } from '../storage/outbox.ts'
import { neverWrote, refusal, throttled } from './problems.ts'

/** What became of one message. */
export interface DeliveryResult {
  status: 'accepted' | 'suspect' | 'refused' | 'unknown'
  message_id?: string
  error?: SvcError
  /** Whether it may have cost an answer. */
  spent: boolean
  /** WeChat saw nothing of it. */
  unseen?: boolean
  /** Refused for a reason that our counters do not explain. */
  hold?: Hold
  /** What waits is better not tried before. */
  pause?: Hold
  /** It was refused again right after the user wrote: it is not to be tried any more. */
  giveUp?: boolean
}

/** A message as the log keeps it: as it goes out, but for the context token. */
export const rowOf = (to: string, item: WireItem, now: number, clientId = newClientId(now)): SentMessage => ({
  client_id: clientId,
  to_user: to,
  timestamp: now,
  raw: JSON.stringify(outgoingMessage({ to, item, clientId })),
  ...described(item),
})

/** Hands a message over by `post`. Never throws for what upstream or the network does. */
export async function deliver(
  post: () => Promise<{ message_id?: string }>,
  to: string,
  begun: Begun,
  { rules, now }: { rules: SendRules; now(): number },
): Promise<DeliveryResult> {
  try {
    const { message_id } = await post()
    return message_id === undefined
      ? { status: 'suspect', spent: true }
      : { status: 'accepted', spent: true, message_id }
  } catch (error) {
    if (!isILinkError(error)) {
      // A -14 that stands.
      const stands = isSvcError(error, 'session_expired') || isSvcError(error, 'upstream_error')
      if (!stands) return unclear(error)
      const facts = { now: now(), receivedAt: begun.counter.received_at }
      return {
        ...{ status: 'refused', spent: false, error },
        // It often heals with the user's next message (protocol notes 5.4).
        ...(isRefusedAlone(error) && { pause: untilWritten(facts) }),
      }
    }
    if (error.kind === 'refused') return refused(error, to, begun, rules, now())
    if (!error.facts.neverSent) return unclear(error)
    return {
      ...{ status: 'refused', spent: false, unseen: true },
      error: new SvcError('upstream_error', 'WeChat cannot be reached', { cause: error }),
    }
  }
}

/** Whether WeChat refuses this with -14 although getupdates takes the token. */
export const isRefusedAlone = (error: unknown): boolean =>
  error instanceof SvcError && isILinkError(error.cause, 'expired')

/** What got no clear answer. */
const unclear = (cause: unknown): DeliveryResult => ({
  ...{ status: 'unknown', spent: true },
  error: new SvcError(
    isILinkError(cause, 'timeout') ? 'upstream_timeout' : 'upstream_error',
    'no clear answer came from WeChat; the message may have arrived',
    { cause, hint: 'Do not send it again before you know: ask the user, or look at the phone.' },
  ),
})

function refused(
  error: ILinkError,
  to: string,
  { counter, hold, tries }: Begun,
  rules: SendRules,
  now: number,
): DeliveryResult {
  const { ret, errcode } = error.facts
  if (ret === -3 || errcode === -3) {
    // That costs nothing; any other refusal may have counted.
    const hint = 'Copy the user id exactly as received; it is case-sensitive.'
    const unknown = new SvcError('invalid_arguments', `WeChat knows no user "${to}"`, { cause: error, hint })
    return { status: 'refused', spent: false, error: unknown, giveUp: true }
  }
  const facts = { now, receivedAt: counter.received_at, used: counter.used, hold }
  const after = afterRefusal(facts, tries)
  const because = (error: SvcError, more?: Partial<DeliveryResult>): DeliveryResult => ({
    ...{ status: 'refused', spent: true, error },
    ...more,
  })
  if (ret !== -2 && errcode !== -2) {
    const other = refusal('upstream_error', 'WeChat refused the message', error)
    return because(other, { giveUp: after.giveUp, pause: after.hold })
  }
  switch (causeOfRefusal(facts, rules)) {
    case 'window':
      return because(refusal('window_closed', 'the window is shut: WeChat refused the message', error))
    case 'quota':
      return because(refusal('quota_exhausted', 'the answers are used up: WeChat refused the message', error))
    case 'never_wrote':
      return because(neverWrote(error), after)
    case 'unexplained':
      return because(throttled(after.hold.until - now, error), after)
  }
}

/** The index columns of one item. */
function described(item: WireItem): Pick<SentMessage, 'msg_type' | 'text'> {
  if (item.text_item) return { msg_type: 'TEXT', text: item.text_item.text ?? '' }
  const msg_type = item.image_item ? 'IMAGE' : item.video_item ? 'VIDEO' : 'FILE'
  return { msg_type, text: textOf(item.file_item?.file_name) ?? '' }
}
