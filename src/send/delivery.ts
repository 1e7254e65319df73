/**
 * Hands one message to WeChat and interprets the answer. Never repeats a refused message. A request without
 * a clear answer stays unknown: repeating it could send the message twice.
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

/** The result of one message. */
export interface DeliveryResult {
  status: 'accepted' | 'suspect' | 'refused' | 'unknown'
  message_id?: string
  error?: SvcError
  /** Whether it may count as one of the answers. */
  spent: boolean
  /** Whether WeChat certainly got no part of it. */
  unseen?: boolean
  /** Set if it was refused for a reason that our counters do not explain. */
  hold?: Hold
  /** Waiting messages should not be tried before this hold ends. */
  pause?: Hold
  /** Refused again right after the user wrote. Do not try it again. */
  giveUp?: boolean
}

/** Returns the log row of a message: the message as sent, without the context token. */
export const rowOf = (to: string, item: WireItem, now: number, clientId = newClientId(now)): SentMessage => ({
  client_id: clientId,
  to_user: to,
  timestamp: now,
  raw: JSON.stringify(outgoingMessage({ to, item, clientId })),
  ...described(item),
})

/** Hands a message over by calling `post`. Never throws for errors of WeChat or the network. */
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
      // The token check turns a -14 into one of these errors.
      const isTokenRefused = isSvcError(error, 'session_expired') || isSvcError(error, 'upstream_error')
      if (!isTokenRefused) return unclear(error)
      const facts = { now: now(), receivedAt: begun.counter.received_at }
      return {
        status: 'refused',
        spent: false,
        error,
        // It often heals with the user's next message (protocol notes 5.4).
        ...(isRefusedAlone(error) && { pause: untilWritten(facts) }),
      }
    }
    if (error.kind === 'refused') return refused(error, to, begun, rules, now())
    if (!error.facts.neverSent) return unclear(error)
    return {
      status: 'refused',
      spent: false,
      unseen: true,
      error: new SvcError('upstream_error', 'WeChat cannot be reached', { cause: error }),
    }
  }
}

/** Returns whether WeChat refuses a call with -14 although getupdates accepts the token. */
export const isRefusedAlone = (error: unknown): boolean =>
  error instanceof SvcError && isILinkError(error.cause, 'expired')

/** The result of a request without a clear answer. */
const unclear = (cause: unknown): DeliveryResult => ({
  status: 'unknown',
  spent: true,
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
    // This costs no answer; any other refusal may cost one.
    const hint = 'Copy the user id exactly as received; it is case-sensitive.'
    const unknown = new SvcError('invalid_arguments', `WeChat knows no user "${to}"`, { cause: error, hint })
    return { status: 'refused', spent: false, error: unknown, giveUp: true }
  }
  const facts = { now, receivedAt: counter.received_at, used: counter.used, hold }
  const next = afterRefusal(facts, tries)
  const refusedResult = (error: SvcError, more?: Partial<DeliveryResult>): DeliveryResult => ({
    status: 'refused',
    spent: true,
    error,
    ...more,
  })
  if (ret !== -2 && errcode !== -2) {
    const otherRefusal = refusal('upstream_error', 'WeChat refused the message', error)
    return refusedResult(otherRefusal, { giveUp: next.giveUp, pause: next.hold })
  }
  switch (causeOfRefusal(facts, rules)) {
    case 'window':
      return refusedResult(refusal('window_closed', 'the window is shut: WeChat refused the message', error))
    case 'quota':
      return refusedResult(
        refusal('quota_exhausted', 'the answers are used up: WeChat refused the message', error),
      )
    case 'never_wrote':
      return refusedResult(neverWrote(error), next)
    case 'unexplained':
      return refusedResult(throttled(next.hold.until - now, error), next)
  }
}

/** Returns the log columns that describe one item. */
function described(item: WireItem): Pick<SentMessage, 'msg_type' | 'text'> {
  if (item.text_item) return { msg_type: 'TEXT', text: item.text_item.text ?? '' }
  const msg_type = item.image_item ? 'IMAGE' : item.video_item ? 'VIDEO' : 'FILE'
  return { msg_type, text: textOf(item.file_item?.file_name) ?? '' }
}
