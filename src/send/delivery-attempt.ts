/** Sends one message: begins it (durable), hands it to WeChat, and stores the result (settles it). */
import type { Upstream } from '../ilink/api.ts'
import { createMediaItem, withContextToken } from '../ilink/encode.ts'
import type { WireItem } from '../ilink/wire.ts'
import type { SendRules } from '../model/admission.ts'
import { SvcError } from '../model/error.ts'
import { type BotInfo, notConnectedError } from '../model/session.ts'
import { RunningPart, type Runtime } from '../platform/runtime.ts'
import type {
  BeginResult,
  BegunMessage,
  OutboxLane,
  SendMode,
  Settlement,
  StoredEntry,
} from '../storage/outbox.ts'
import type { State } from '../storage/state.ts'
import type { Store } from '../storage/store.ts'
import { type ComposedMessage, composeMessage, type DeliveryResult, deliver } from './delivery.ts'
import type { MediaFiles, SendCaller, StagedFile } from './media-files.ts'
import { Muting, type MutingPorts } from './muting.ts'
import { endReasonOf, neverWroteError, notTriedError, stoppedError } from './problems.ts'

/** Asks getupdates whether a token still works after another endpoint refused it with -14. */
interface TokenCheckPort {
  /**
   * Runs `work`. If it is refused with -14 and getupdates says that the token works, runs it once more.
   *
   * @throws SvcError `session_expired`; `upstream_error` with the refusal as its cause; any other error
   *   of `work`
   */
  runChecked<T>(session: string, bot: BotInfo, work: () => Promise<T>): Promise<T>
  checkAfterRefusal(session: string, bot: BotInfo): Promise<unknown>
}

export interface SendPorts {
  upstream: Pick<Upstream, 'api' | 'account' | 'sandboxed'>
  state: Pick<State, 'sessions' | 'contexts' | 'readTogether'>
  check: TokenCheckPort
  store: Pick<Store, 'durable' | 'names' | 'outbox'> & MutingPorts['store']
  media: MediaFiles
  rules: SendRules
}

/** A message that has begun: from now on it may have reached the user. */
export interface StartedMessage extends ComposedMessage {
  begun: BegunMessage
}

/** One message of an entry: which of its parts, from which bot, as which item. */
export interface MessageAttempt {
  to: Pick<OutboxLane, 'session' | 'user'>
  bot: BotInfo
  parts: readonly number[]
  item: WireItem
  /**
   * `queue`: a refused message waits again. `fail`: a refusal also ends the messages after it.
   */
  mode: SendMode
  /** Ends the wait for a slot. A message that has begun but is not handed over yet is not sent. */
  signal: AbortSignal
  /** Present if the message began in the commit that enqueued it. */
  started?: StartedMessage | undefined
  /** The context token that was read together with `bot`, just before `started`. */
  token?: string | undefined
}

export type AttemptResult =
  /** `entries`: the entries of its parts after it settled; undefined if the store failed. */
  | { go: 'sent'; result: DeliveryResult; entries: readonly StoredEntry[] | undefined }
  /** The signal aborted before the message began. */
  | { go: 'stopped' }
  | Extract<BeginResult, { go: 'gone' | 'no' }>

/** Returns the bot that sends for a session; undefined while the session is logged out. */
export async function botOf({ sessions }: SendPorts['state'], session: string): Promise<BotInfo | undefined> {
  const bot = (await sessions.get(session))?.bot
  return bot?.expired_at === undefined ? bot : undefined
}

/** Sends every message of both modes: begins it, hands it over and settles it. */
export class DeliveryAttempts extends RunningPart<SendPorts> {
  readonly #muting: Muting
  /** Aborts requests under way. */
  readonly #abortAll = new AbortController()

  constructor(ports: SendPorts, runtime: Runtime) {
    super(ports, runtime)

    this.#muting = new Muting(ports, runtime)
  }

  /** Aborts requests under way, for good. The status of their messages becomes unknown. */
  abortRequests(reason: SvcError): void {
    this.#abortAll.abort(reason)
  }

  /** Resolves when the muting of accounts is recorded. */
  get pendingNotes(): Promise<void> {
    return this.#muting.pendingNotes
  }

  /**
   * Uploads a file for a user.
   *
   * @returns its item
   * @throws as `MediaFiles.upload` and `TokenCheck.runChecked`
   */
  async upload(
    { session, user }: MessageAttempt['to'],
    bot: BotInfo,
    file: StagedFile,
    { signal, progress }: Pick<SendCaller, 'signal' | 'progress'>,
  ): Promise<WireItem> {
    const { check, media, upstream } = this.ports
    const upload = () => media.upload(upstream.account(bot), user, file, signal, progress)
    try {
      const item = createMediaItem(await check.runChecked(session, bot, upload))
      this.#muting.noteUpload(session, bot, user)
      return item
    } catch (error) {
      this.#muting.noteUpload(session, bot, user, error)
      throw error
    }
  }

  /** Begins a message once the pace allows it, hands it over and settles it. */
  async send(message: MessageAttempt): Promise<AttemptResult> {
    const { signal } = message
    const started = message.started ?? (await this.#begin(message))
    if ('go' in started) return started
    const result: DeliveryResult = signal.aborted
      ? unseenResult(stoppedError(signal))
      : await this.#deliver(message, started)
    return { go: 'sent', result, entries: await this.#settle(message, started, result) }
  }

  async #begin({
    to,
    bot,
    parts,
    item,
    signal,
  }: MessageAttempt): Promise<StartedMessage | Exclude<AttemptResult, { go: 'sent' }>> {
    const { clock } = this.runtime
    const { rules, store } = this.ports
    while (!signal.aborted) {
      const composed = composeMessage(to.user, item, clock.now())
      const began = await store.outbox.begin(parts, bot.bot_id, rules, composed.row)
      if (began.go === 'begun') return { begun: began.begun, ...composed }
      if (began.go !== 'later') return began
      await clock.sleep(began.slot - clock.now(), signal)
    }
    return { go: 'stopped' }
  }

  /**
   * Reads what a message goes with, once it has begun: the login and the context token of one moment. Both may
   * have changed since the message was planned.
   *
   * @throws SvcError if the session has another bot, or no right to answer this user
   */
  async #readRight(
    { to: { session, user }, bot, started, token }: MessageAttempt,
    { begun }: StartedMessage,
  ) {
    const { state } = this.ports
    if (started && token === begun.token) return { bot, token }
    return await state.readTogether(async () => {
      const current = (await state.sessions.get(session))?.bot
      if (current?.bot_id !== bot.bot_id) throw notConnectedError(session)
      const token = (await state.contexts.find(session, user))?.token
      if (begun.token !== undefined && token === undefined) throw neverWroteError()
      return { bot: current, token }
    })
  }

  async #deliver(message: MessageAttempt, started: StartedMessage): Promise<DeliveryResult> {
    const { clock, log } = this.runtime
    const { account, api } = this.ports.upstream
    const { check, rules } = this.ports
    const { session, user } = message.to
    const { begun } = started
    const right = await this.#readRight(message, started).catch((cause: unknown) => ({ cause }))
    if ('cause' in right) return unseenResult(right.cause)
    const { bot, token } = right
    const wire = withContextToken(started.wire, token)
    // Goes on when the caller leaves: after half a request nobody can tell whether the message arrived.
    const post = () =>
      check.runChecked(session, bot, () => api.sendMessage(account(bot), wire, this.#abortAll.signal))
    const result = await deliver(post, user, begun, { rules, now: () => clock.now() })
    const { error, status } = result
    // The log is for people; the caller gets the result.
    if (error) log.info('send failed', { session, error, as: status, code: error.code })
    return result
  }

  async #settle(message: MessageAttempt, { begun, row }: StartedMessage, result: DeliveryResult) {
    const { bus, log } = this.runtime
    const { media, store } = this.ports
    const { bot, to } = message
    const { status } = result
    const isTaken = status === 'accepted' || status === 'suspect'
    const settlement = settlementOf(message.mode, result)
    try {
      const hold = isTaken && begun.hold ? null : settlement.hold
      const { entries, files } = await store.outbox.settle(begun, { ...settlement, hold })
      const parts = entries.flatMap(({ parts }) => parts)
      bus.notify('handedOver', settlement.status, parts.find(({ id }) => begun.parts.includes(id))?.msg_type)
      if (isTaken) this.#muting.noteMessage({ session: to.session, bot, at: row.timestamp }, status)
      if (files.length > 0) await media.kept.discard(files)
      return entries
    } catch (error) {
      // The message was sent even if the store failed, so the caller must get the result.
      log.error('status of a sent message not stored', { row: begun.row, error })
      return undefined
    }
  }
}

/** Returns the result of a message that was not handed to WeChat. */
const unseenResult = (cause: unknown): DeliveryResult => ({
  status: 'refused',
  spent: false,
  unseen: true,
  error: cause instanceof SvcError ? cause : new SvcError('internal', 'an unexpected error', { cause }),
})

/** Returns what to store for a message, and for the messages after it in its entry. */
function settlementOf(mode: SendMode, result: DeliveryResult): Settlement {
  const { status, message_id, error, spent, unseen, giveUp, pause } = result
  const waits = mode === 'queue' && status === 'refused' && !giveUp
  // A later part would arrive out of order, and sending on after a refusal makes it worse.
  const isLast = mode === 'queue' ? giveUp : status === 'refused' || status === 'unknown'
  return {
    status: waits ? 'queued' : status,
    message_id,
    error: error && endReasonOf(error),
    spent,
    unseen,
    rest: isLast && error ? endReasonOf(notTriedError(error)) : undefined,
    hold: (mode === 'queue' ? pause : undefined) ?? result.hold,
  }
}
