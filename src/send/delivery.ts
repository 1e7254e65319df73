/**
 * Hands one message to WeChat and interprets the answer. Never repeats a refused message. A request without
 * a clear answer stays unknown: repeating it could send the message twice.
 */

import { createClientId, createOutgoingMessage } from '../ilink/encode.ts'
import { textOf } from '../ilink/fields.ts'
import { type ILinkError, isILinkError, isRefusal } from '../ilink/http.ts'
import type { WeixinMessage, WireItem } from '../ilink/wire.ts'
import {
  causeOfRefusal,
  type Hold,
  holdAfterRefusal,
  holdUntilWritten,
  type SendRules,
} from '../model/admission.ts'
import { isSvcError, SvcError } from '../model/error.ts'
import type { SentMessage } from '../storage/messages.ts'
import type { BegunMessage } from '../storage/outbox.ts'
import { neverWroteError, refusalError, throttledError, withStatus } from './problems.ts'

/** The result of one message. */
export interface DeliveryResult {
  status: 'accepted' | 'suspect' | 'refused' | 'unknown'
  message_id?: string
  error?: SvcError
  /** Whether the message may count as one of the answers. */
  spent: boolean
  /** Whether WeChat certainly got no part of the message. */
  unseen?: boolean
  /** Set if it was refused for a reason that our counters do not explain. */
  hold?: Hold
  /** Waiting messages should not be tried before this hold ends. */
  pause?: Hold
  /** Refused again right after the user wrote. Do not try it again. */
  giveUp?: boolean
}

/** A message for WeChat, without the context token that it goes with, and its row for the message log. */
export interface ComposedMessage {
  wire: WeixinMessage
  row: SentMessage
}

export function composeMessage(
  to: string,
  item: WireItem,
  now: number,
  clientId = createClientId(now),
): ComposedMessage {
  const wire = createOutgoingMessage({ to, item, clientId })
  const raw = JSON.stringify(wire)
  return { wire, row: { client_id: clientId, to_user: to, timestamp: now, raw, ...describeItem(item) } }
}

/** Hands a message over by calling `post`. Never throws for errors of WeChat or the network. */
export async function deliver(
  post: () => Promise<{ message_id?: string }>,
  to: string,
  begun: BegunMessage,
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
      if (!isTokenRefused) return unclearResult(error)
      const facts = { now: now(), receivedAt: begun.counter.received_at }
      return {
        status: 'refused',
        spent: false,
        error,
        // This refusal often ends with the user's next message (protocol notes 5.4).
        ...(isRefusedAlone(error) && { pause: holdUntilWritten(facts) }),
      }
    }
    if (isRefusal(error)) return toRefusedResult(error, to, begun, rules, now())
    if (!error.facts.neverSent) return unclearResult(error)
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

/** Returns the result of a request without a clear answer. */
const unclearResult = (cause: unknown): DeliveryResult => ({
  status: 'unknown',
  spent: true,
  error: new SvcError(
    isILinkError(cause, 'timeout') ? 'upstream_timeout' : 'upstream_error',
    'no clear answer came from WeChat; the message may have arrived',
    { cause, hint: 'Do not send it again before you know: ask the user, or look at the phone.' },
  ),
})

/**
 * Statuses of a server that looked at the message or its sender, which may cost an answer. Any other status
 * comes from what stands before WeChat, or answers in its place.
 */
const judgingStatuses = new Set([400, 413, 422, 429])

function toRefusedResult(
  error: ILinkError,
  to: string,
  { counter, hold, tries }: BegunMessage,
  rules: SendRules,
  now: number,
): DeliveryResult {
  const { ret, errcode, status } = error.facts
  if (ret === -3 || errcode === -3) {
    // This costs no answer; any other refusal may cost one.
    const hint = 'Copy the user id exactly as received; it is case-sensitive.'
    const unknown = new SvcError('invalid_arguments', `WeChat knows no user "${to}"`, { cause: error, hint })
    return { status: 'refused', spent: false, error: unknown, giveUp: true }
  }
  const facts = { now, receivedAt: counter.received_at, used: counter.used, hold }
  const next = holdAfterRefusal(facts, tries)
  const refusedResult = (error: SvcError, more?: Partial<DeliveryResult>): DeliveryResult => ({
    status: 'refused',
    spent: true,
    error,
    ...more,
  })
  if (ret !== -2 && errcode !== -2) {
    const { hint } = error.options
    const problem = withStatus('WeChat refused the message', error)
    const spent = status === undefined || judgingStatuses.has(status)
    const otherRefusal = refusalError('upstream_error', problem, error, { hint })
    return refusedResult(otherRefusal, { spent, giveUp: next.giveUp, pause: next.hold })
  }
  switch (causeOfRefusal(facts, rules)) {
    case 'window':
      return refusedResult(
        refusalError('window_closed', 'the window is shut: WeChat refused the message', error),
      )
    case 'quota':
      return refusedResult(
        refusalError('quota_exhausted', 'the answers are used up: WeChat refused the message', error),
      )
    case 'never_wrote':
      return refusedResult(neverWroteError(error), next)
    case 'unexplained':
      return refusedResult(throttledError(next.hold.until - now, error), next)
  }
}

/** Returns the log columns that describe one item. */
function describeItem(item: WireItem): Pick<SentMessage, 'msg_type' | 'text'> {
  if (item.text_item) return { msg_type: 'TEXT', text: item.text_item.text ?? '' }
  const msg_type = item.image_item ? 'IMAGE' : item.video_item ? 'VIDEO' : 'FILE'
  return { msg_type, text: textOf(item.file_item?.file_name) ?? '' }
}
