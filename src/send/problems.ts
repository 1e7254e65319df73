/** The errors of a send, and the form of them that is stored (`EndReason`). */
import { type ILinkError, isILinkError, isRefusal } from '../ilink/http.ts'
import type { ClosedVerdict } from '../model/admission.ts'
import type { Unanswered } from '../model/call.ts'
import { badArgument, type ErrorCode, SvcError, type SvcErrorOptions } from '../model/error.ts'
import { quotaPerInbound } from '../model/session.ts'
import { isVisible } from '../platform/escape-controls.ts'
import { formatCount, formatDuration } from '../platform/format.ts'
import type { EndReason } from '../storage/outbox.ts'
import { textLimitBytes } from './split.ts'

/** Returns how many messages a send needs, and how many of them hold its text. */
export const countsOf = (parts: readonly { kind: string }[]) => ({
  count: parts.length,
  texts: parts.filter(({ kind }) => kind === 'text').length,
})

/** Returns the error of a send that is not admitted. @param send result of `countsOf` */
export function notAdmittedError(
  closed: ClosedVerdict,
  send: { count: number; texts: number },
  sandboxed: boolean,
): SvcError {
  switch (closed.why) {
    case 'window':
      return new SvcError(
        'window_closed',
        `this user last wrote ${Math.floor(closed.idleMs / 3_600_000)} hours ago`,
      )
    case 'quota':
      return quotaError(closed.left, send)
    case 'never_wrote':
      return neverWroteError()
    case 'held':
      return throttledError(closed.waitMs)
    case 'pace':
      return tooSoonError(closed.waitMs, sandboxed)
  }
}

function quotaError(left: number, { count, texts }: { count: number; texts: number }): SvcError {
  if (left === 0)
    return new SvcError('quota_exhausted', `all ${quotaPerInbound} answers to this user are used`)
  const beside = count > texts ? ` beside ${count - texts} media` : ''
  return texts > 1
    ? new SvcError(
        'text_too_long',
        `the text needs ${texts} messages of ${textLimitBytes} bytes${beside}, with ${formatCount(left, 'answer')} left`,
      )
    : new SvcError(
        'quota_exhausted',
        `${count} messages are to be sent, with ${formatCount(left, 'answer')} to this user left`,
      )
}

/** @throws SvcError `invalid_arguments` for a text of which the user would see nothing */
export function requireVisible(text: string): void {
  if (!isVisible(text))
    throw badArgument(
      'text',
      'expected a text that shows something: it has only spaces, or characters without a sign',
    )
}

/** How far ahead a send may be planned. */
const plannedMs = 7 * 24 * 60 * 60_000

/** @throws SvcError `invalid_arguments` for a time in the past, or after a week */
export function requireSoon(sendAt: number | undefined, now: number): void {
  if (sendAt !== undefined && (sendAt <= now || sendAt > now + plannedMs))
    throw badArgument('send_at', 'expected a time from now on, within seven days')
}

/** @param error the refusal, if WeChat was asked */
export const neverWroteError = (error?: ILinkError): SvcError =>
  refusalError('window_closed', 'this user has never written to this session', error, {
    hint: 'Ask the user to write to the bot first; a bot can only answer.',
  })

/** The user wrote before the current login. A login loses the right to answer earlier messages. */
export const wroteBeforeLoginError = (error: SvcError, session: string): SvcError =>
  refusalError(
    'window_closed',
    `this user has not written to "${session}" since it was logged in anew`,
    error,
    {
      details: { wrote: 'before_login', session },
      hint: 'Ask the user to write to the bot once: a bot can answer only what is written after its login.',
      next: { action: 'queue' },
    },
  )

/**
 * The user wrote to another session, which is not connected. They will not write to this one, because they
 * only know the other session's bot.
 *
 * @param tried the session that was used, or would have been
 * @param error absent if WeChat was not asked
 */
export const wroteElsewhereError = (tried: string, session: string, error?: SvcError): SvcError =>
  refusalError(
    'window_closed',
    `this user has never written to "${tried}", but to "${session}", which is not connected`,
    error,
    { details: { wrote: 'elsewhere', session, tried }, next: { action: 'login', session } },
  )

/** WeChat refused. The error text is `problem`, followed by WeChat's own text. */
export function refusalError(
  code: ErrorCode,
  problem: string,
  error: ILinkError | SvcError | undefined,
  options: SvcErrorOptions = {},
): SvcError {
  const quote = error?.options.quote
  return new SvcError(code, quote === undefined ? problem : `${problem}: ${quote}`, {
    ...options,
    quote,
    cause: error,
  })
}

/** Adds the HTTP status to a problem, unless `refusalError` adds it, because WeChat said nothing else. */
export const withStatus = (problem: string, { facts: { status }, options: { quote } }: ILinkError): string =>
  status === undefined || quote === `HTTP ${status}` ? problem : `${problem} with HTTP ${status}`

/** WeChat refuses for an unknown reason. @param error absent during a hold, when WeChat is not asked */
export const throttledError = (waitMs: number, error?: ILinkError): SvcError =>
  refusalError('rate_limited', 'WeChat refused a message to this user', error, {
    retryAfter: Math.ceil(waitMs / 1000),
    hint: `Most often this is a throttle. Do not repeat now: refused tries count too. Sends to this user go on when the user writes, or in ${formatDuration(waitMs)}.`,
  })

/** The pace allows the next send only in `waitMs`. */
function tooSoonError(waitMs: number, sandboxed: boolean): SvcError {
  const seconds = Math.ceil(waitMs / 1000)
  return new SvcError('rate_limited', 'the pace allows no more sends to this user for now', {
    retryAfter: seconds,
    details: { why: 'pace' },
    ...(sandboxed && {
      // The sandbox also limits bursts, as WeChat does.
      hint: 'In the sandbox you can send without waiting: start svc, and each command that sends, with --pace off, and switch "burst" off at the phone.',
      next: { action: 'wait' },
    }),
  })
}

/** An earlier send to the same user is not finished. */
export const busyError = (): SvcError =>
  new SvcError(
    'rate_limited',
    'an earlier send to this user still waits for WeChat, such as with an upload',
    {
      retryAfter: 60,
      details: { why: 'busy' },
      hint: 'What is sent to one user goes one after the other. An upload that hangs is given up by itself, within 90 seconds for a small file: try again then.',
    },
  )

/** Another process took this call for dead and ended it. */
export const takenOverError = (): SvcError =>
  new SvcError('rate_limited', 'this call took so long that it was taken for dead', {
    retryAfter: 5,
    hint: 'Call again with the same idempotency key: it answers with what became of it and sends nothing twice.',
  })

/** Returns the error for work whose signal aborted. */
export const stoppedError = ({ reason }: AbortSignal): SvcError =>
  reason instanceof SvcError
    ? reason
    : new SvcError('shutting_down', 'the caller left; nothing more was sent')

export const notTriedError = ({ code, retryAfter }: SvcError): SvcError =>
  new SvcError(code, 'not tried, because an earlier part failed', { retryAfter })

/** Turns an upload error into the error that the caller gets. */
export function uploadError<E>(error: E, to: string): E | SvcError {
  if (!isILinkError(error)) return error
  if (isRefusal(error)) {
    const { ret, errcode } = error.facts
    const problem = withStatus(`nothing was sent, WeChat refused the upload for ${to}`, error)
    return refusalError('upstream_error', problem, error, {
      hint:
        error.kind === 'http'
          ? error.options.hint
          : ret === -2 || errcode === -2
            ? 'WeChat may refuse every file of an account for a while as texts go out: send a text, and the file later. The id of the user is not what is wrong.'
            : 'Check that the user id is exactly the one received, then try again.',
    })
  }
  return new SvcError(
    error.kind === 'timeout' ? 'upstream_timeout' : 'upstream_error',
    'the upload to WeChat failed; nothing was sent',
    { cause: error },
  )
}

export const endReasonOf = ({ code, problem, options, retryAfter }: SvcError): EndReason => {
  const { field, hint, next, quote } = options
  return {
    code,
    detail: problem,
    field,
    hint,
    next,
    quote,
    retry_after: retryAfter,
  }
}

export const errorOf = ({ code, detail, retry_after, ...options }: EndReason): SvcError =>
  new SvcError(code as ErrorCode, detail, { ...options, retryAfter: retry_after })

/** A person cancelled or declined the send. These are not errors, so the codes are not in the catalogue. */
export const cancelledReason: EndReason = { code: 'cancelled', detail: 'cancelled' }
export const declinedReason: EndReason = { code: 'declined', detail: 'declined' }

export const wasCancelled = ({ code }: EndReason): boolean =>
  code === cancelledReason.code || code === declinedReason.code

/** The send with this key was queued, and then a person cancelled or declined it. */
export const cancelledBeforeError = ({ code }: EndReason) =>
  new SvcError('idempotency_conflict', `a person ${actionOf(code)} the send with this idempotency key`, {
    details: { answer: code === declinedReason.code ? 'declined' : 'cancelled' },
    hint: 'Do not send it again unchanged: ask what should be sent instead.',
  })

const actionOf = (code: string) => (code === declinedReason.code ? 'declined' : 'took back')

/** A person has to approve the send, and it cannot wait for that in an outbox. */
export const notApprovedError = (answer: Unanswered | 'draft') => {
  if (answer === 'draft')
    return new SvcError('forbidden', 'This key may only propose messages; nothing was sent', {
      hint: 'A person has to approve each message of this key. A typing indicator cannot wait for that, and neither can a message without the message store.',
    })
  return answer === 'cancelled'
    ? new SvcError('forbidden', 'The question was closed without an answer; nothing was sent', {
        details: { answer },
        hint: 'A person has to confirm each send here: ask your user whether to try again.',
      })
    : new SvcError('forbidden', 'Nobody could be asked whether to send this; nothing was sent', {
        details: { answer },
        hint: 'A person has to confirm each send here: tell your user what you would send. They can call you in a client that shows such a question (elicitation), or start svc without --confirm-send.',
      })
}

/** A key cannot approve what it proposed. */
export const ownProposalError = () =>
  new SvcError('forbidden', 'A key cannot approve its own message', {
    hint: 'Somebody with another key, or the owner of the service, has to approve it.',
  })

/** Another send already uses the key. */
export const keyConflictError = () =>
  new SvcError(
    'idempotency_conflict',
    'this idempotency key was used for another message within the last 24 hours',
  )
