/**
 * One message handed over to upstream: its turn, its intent on disk, the request, and what the answer means.
 *
 * A refusal is never retried here, and a request that got no clear answer is unknown for good: repeating it blindly could
 * send it twice.
 */
import type { Account, Api } from '../ilink/api.ts'
import { newClientId, outgoingMessage } from '../ilink/encode.ts'
import { type ILinkError, isILinkError } from '../ilink/http.ts'
import type { WireItem } from '../ilink/wire.ts'
import { isSvcError, SvcError } from '../model/error.ts'
import type { SentStatus } from '../model/message.ts'
import { type BotInfo, quotaPerInbound, type UserContext, windowMs } from '../model/session.ts'
import type { Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import type { SentMessage } from '../store/store.ts'
import type { Judge } from './judge.ts'
import type { Place } from './pace.ts'

export interface HandOverPorts {
  api: Api
  judge: Judge
  account(bot: BotInfo): Account
  clock: Clock
  log: Log
}

/** One message, ready to go. */
export interface Ready {
  session: string
  bot: BotInfo
  to: string
  item: WireItem
  /** `used` counts this message. */
  context: UserContext
  place: Place
  /** The caller's; looked at until the message is on its way, not after. */
  signal: AbortSignal
  /** Notes on disk that it may be out from now on. @returns its row, or undefined when it is not to go any more */
  begin(message: SentMessage): number | undefined
  /** Notes what became of it. */
  end(outcome: Outcome): void
}

/** What became of one message, and whether it may have cost a unit of quota. */
export interface Outcome {
  status: SentStatus
  message_id?: string
  error?: SvcError
  spent: boolean
  /** Row in the log; absent when it never was on its way. */
  row?: number
}

export class HandOver {
  readonly #ports: HandOverPorts
  /** Ends even the requests that are under way. */
  readonly #cut = new AbortController()

  constructor(ports: HandOverPorts) {
    this.#ports = ports
  }

  /** Ends requests under way, at once and for good: their messages are unknown. */
  cut(reason: SvcError): void {
    this.#cut.abort(reason)
  }

  /** Never throws for what upstream or the network does. @throws what is a bug */
  async send(ready: Ready): Promise<Outcome> {
    const { account, api, clock, judge, log } = this.#ports
    const { session, bot, to, item, context, place, signal } = ready
    const clientId = newClientId(clock.now())
    const message = outgoingMessage({
      ...{ to, item, clientId },
      ...(context.token && { contextToken: context.token }),
    })
    let row: number | undefined
    try {
      await place.turn()
      if (signal.aborted) throw stopped(signal)
      // The intent goes to disk first: after a crash the row says that something may have gone out.
      row = ready.begin({
        client_id: clientId,
        to_user: to,
        timestamp: clock.now(),
        raw: JSON.stringify(message),
        ...described(item),
      })
      if (row === undefined) throw new SvcError('not_found', 'it was cancelled meanwhile')
    } catch (error) {
      this.#giveBack(place)
      if (error instanceof SvcError) return { status: 'refused', spent: false, error }
      throw error
    }
    let outcome: Outcome
    try {
      // Not cancelled when the caller leaves: half a request is the one thing that cannot be told apart later.
      const { message_id } = await judge.settled(session, bot, () =>
        api.sendMessage(account(bot), message, this.#cut.signal),
      )
      outcome =
        message_id === undefined
          ? { status: 'suspect', spent: true, row }
          : { status: 'accepted', spent: true, message_id, row }
    } catch (error) {
      outcome = {
        ...(isILinkError(error)
          ? this.#failure(error, context, to)
          : stands(error)
            ? { status: 'refused', spent: false, error }
            : doubtful(error)),
        row,
      }
      // Whoever sends is told; here it is for whoever looks back.
      log.info('send failed', { session, error, as: outcome.status, code: outcome.error?.code })
      if (isILinkError(error) && error.neverSent) this.#giveBack(place)
    }
    try {
      ready.end(outcome)
    } catch (error) {
      // The send happened whatever the disk says: the caller must hear of it.
      log.error('status of a sent message not stored', { session, row, error })
    }
    return outcome
  }

  /** WeChat saw nothing of this try. */
  #giveBack(place: Place): void {
    try {
      place.unused()
    } catch (error) {
      this.#ports.log.warn('turn not given back', { error })
    }
  }

  /** What a failed request means for its message. */
  #failure(error: ILinkError, context: UserContext, to: string): Outcome {
    switch (error.kind) {
      case 'refused':
        // "No such user" costs nothing; any other refusal may have counted.
        return {
          status: 'refused',
          spent: !isUnknownUser(error),
          error: this.#refusal(error, context, to),
        }
      default:
        if (error.neverSent) {
          return {
            status: 'refused',
            spent: false,
            error: new SvcError('upstream_error', 'WeChat cannot be reached', { cause: error }),
          }
        }
        return doubtful(error)
    }
  }

  /** -2 is one code for many causes; our own counters say which (protocol notes 5.2). */
  #refusal(error: ILinkError, context: UserContext, to: string): SvcError {
    const now = this.#ports.clock.now()
    const options = { cause: error, details: { ret: error.ret, errcode: error.errcode } }
    if (isUnknownUser(error)) {
      return new SvcError('invalid_arguments', `WeChat knows no user "${to}"`, {
        ...options,
        hint: 'Copy the user id exactly as received; it is case-sensitive.',
      })
    }
    if (context.received_at === undefined) {
      return new SvcError('window_closed', 'WeChat refused: this user has never written to this session', {
        ...options,
        hint: 'Ask the user to write to the bot first; a bot can only answer.',
      })
    }
    if (now - context.received_at >= windowMs)
      return new SvcError('window_closed', 'WeChat refused: the window is shut', options)
    if (context.used >= quotaPerInbound)
      return new SvcError('quota_exhausted', 'WeChat refused: the answers are used up', options)
    const lastHour = context.last_sent_at !== undefined && now - context.last_sent_at < 60 * 60_000
    return new SvcError(
      lastHour ? 'rate_limited' : 'upstream_error',
      'WeChat refused the message and gave no reason',
      {
        ...options,
        ...(lastHour && { retryAfter: 300 }),
        hint: 'Most often this is a throttle. Do not repeat now: refused tries count too. Wait some minutes, or until the user writes.',
      },
    )
  }
}

/** Why something ended whose signal aborted. */
export const stopped = (signal: AbortSignal): SvcError =>
  signal.reason instanceof SvcError
    ? signal.reason
    : new SvcError('shutting_down', 'the caller left; nothing more was sent')

const isUnknownUser = ({ ret, errcode }: ILinkError) => ret === -3 || errcode === -3

/** Why the judge says that a -14 stands; anything else got no clear answer. */
const stands = (error: unknown): error is SvcError =>
  isSvcError(error, 'session_expired') || isSvcError(error, 'upstream_error')

/** What got no clear answer. */
const doubtful = (cause: unknown): Outcome => ({
  status: 'unknown',
  spent: true,
  error: new SvcError(
    isILinkError(cause, 'timeout') ? 'upstream_timeout' : 'upstream_error',
    'no clear answer came from WeChat; the message may have arrived',
    { cause, hint: 'Do not send it again before you know: ask the user, or look at the phone.' },
  ),
})

/** The index columns of one item. */
export function described(item: WireItem): { msg_type: 'TEXT' | 'IMAGE' | 'FILE' | 'VIDEO'; text: string } {
  if (item.text_item) return { msg_type: 'TEXT', text: item.text_item.text ?? '' }
  return { msg_type: item.image_item ? 'IMAGE' : item.video_item ? 'VIDEO' : 'FILE', text: '' }
}
