/** Builds the answer of a send from the rows of its entry. No other code builds it. */
import { kindAsSentOf } from '../ilink/encode.ts'
import { SvcError } from '../model/error.ts'
import type { SendPart, SendResult, Waiting } from '../model/message.ts'
import { adviceOf } from '../model/next-step.ts'
import type { rightToAnswerOf } from '../model/session.ts'
import { withoutUndefined } from '../platform/fields.ts'
import type { EndReason, EntryPart, StoredEntry } from '../storage/outbox.ts'
import type { StagedFile } from './media-files.ts'
import { cancelledBeforeError, errorOf, wasCancelled } from './problems.ts'

/**
 * @param right what is left of the right to answer
 * @param waiting what the entry waits for, if it has not ended
 * @throws SvcError the first part's error if nothing can have reached the user and nothing waits
 */
export function resultOf(
  entry: StoredEntry,
  right: ReturnType<typeof rightToAnswerOf>,
  waiting: Waiting = {},
): SendResult {
  const { mode, parts, session } = entry
  const waits = mode === 'queue' && !entry.ended
  const went = parts.filter(({ status }) => status === 'accepted' || status === 'suspect')
  const doubtful = parts.some(({ status }) => status === 'unknown')
  if (!waits && !doubtful && went.length === 0) {
    const error = parts.find(part => part.error)?.error
    if (error && wasCancelled(error)) throw cancelledBeforeError(error)
    throw error ? errorOf(error) : new SvcError('upstream_error', 'nothing was sent')
  }
  const status = waits
    ? 'queued'
    : went.length === parts.length
      ? 'accepted'
      : went.length > 0
        ? 'partial'
        : 'unknown'
  return withoutUndefined({
    success: status === 'accepted',
    status,
    message_id: went.at(-1)?.message_id,
    suspect: went.some(part => part.status === 'suspect') || undefined,
    session,
    parts: parts.map(toSendPart),
    ...right,
    ...(waits && { outbox_id: String(entry.id), ...waiting, hint: hintOf(entry, right) }),
  })
}

/**
 * Adds the changed file names to a result.
 *
 * @param files the files of the last parts, in order
 */
export function withRenamedFiles(result: SendResult, files: readonly StagedFile[]): SendResult {
  if (files.length === 0) return result
  const first = result.parts.length - files.length
  const parts = result.parts.map((part, nth): SendPart => {
    const { file_name, renamed } = files[nth - first] ?? {}
    // WeChat does not display names of pictures and videos.
    return renamed === undefined || part.sent_as !== 'file'
      ? part
      : withoutUndefined({ ...part, file_name, renamed })
  })
  return { ...result, parts }
}

function hintOf(
  { asked, send_at }: StoredEntry,
  right: ReturnType<typeof rightToAnswerOf>,
): string | undefined {
  if (asked) return approvalHint
  if (send_at === undefined) return undefined
  const { remaining, window_expires_at: until } = right
  if (until === undefined || until <= send_at) {
    const closes = until === undefined ? 'is closed' : `closes ${new Date(until).toISOString()}`
    return `The window ${closes}, before it is sent: unless the user writes in the meantime, it will wait until they write.`
  }
  return remaining > 0 ? undefined : 'The answers are used up: it will wait until the user writes.'
}

const approvalHint =
  'Not sent yet, and not declined: a person has to approve it. It waits up to 24 hours for a yes, in the panel of svc or with the command svc approvals. Tell your user that; neither send it again nor approve it yourself. history tells what becomes of it, and so does this call repeated with the same idempotency_key.'

export function toSendPart({ kind, status, message_id, error }: EntryPart): SendPart {
  return withoutUndefined({
    kind,
    sent_as: kind === 'text' ? 'text' : kindAsSentOf(kind),
    // A part that is being sent from the outbox is reported as waiting, because the call is over.
    status: status === 'sending' || status === 'asked' ? 'queued' : status,
    message_id,
    // If it waits after a refusal, the lane reports that.
    ...(error && status !== 'queued' && toPartOutcome(error)),
  })
}

const toPartOutcome = (error: EndReason): Pick<SendPart, 'error' | 'reason'> =>
  wasCancelled(error) ? { reason: error.detail } : { error: toPartError(errorOf(error)) }

const toPartError = (error: SvcError): NonNullable<SendPart['error']> =>
  withoutUndefined({
    code: error.code,
    detail: error.message,
    hint: adviceOf(error),
    retry_after: error.retryAfter,
  })
