/** One message on its way: what it may be sent by, the request, and its result on disk. */
import type { Upstream } from '../ilink/api.ts'
import { mediaItem, type UploadedMedia } from '../ilink/encode.ts'
import type { WireItem } from '../ilink/wire.ts'
import type { SendRules, Verdict } from '../model/admission.ts'
import type { SvcError } from '../model/error.ts'
import { type BotInfo, countNow, rightToAnswer } from '../model/session.ts'
import type { Runtime } from '../platform/runtime.ts'
import type { Began, Begun, Entry, Lane, Settlement, Terms } from '../storage/outbox.ts'
import type { State } from '../storage/state.ts'
import type { Store } from '../storage/store.ts'
import { type DeliveryResult, deliver, type Letter, letter } from './delivery.ts'
import type { MediaFiles } from './media-files.ts'
import { type Handed, Muting, type MutingPorts } from './muting.ts'
import { endReasonOf } from './problems.ts'

/** Says what getupdates says, when another endpoint has refused a session with -14. */
export interface TokenCheck {
  /**
   * Does `work`; when that is refused with -14 and getupdates says that the token works, once more.
   *
   * @throws SvcError `session_expired`; `upstream_error` with the refusal as its cause; what `work` throws besides
   */
  settled<T>(session: string, bot: BotInfo, work: () => Promise<T>): Promise<T>
  doubt(session: string, bot: BotInfo): Promise<unknown>
}

export interface SendPorts {
  upstream: Pick<Upstream, 'api' | 'account' | 'sandboxed'>
  state: Pick<State, 'sessions' | 'contexts'>
  check: TokenCheck
  store: Pick<Store, 'durable' | 'names' | 'outbox'> & MutingPorts['store']
  media: MediaFiles
  rules: SendRules
}

/** A message that may be out from now on, or why it is none. */
export type Started =
  | { go: 'begun'; begun: Begun; letter: Letter }
  | { go: 'gone' }
  | { go: 'stopped' }
  | Extract<Began, { go: 'no' }>

export class DeliveryAttempts {
  readonly #ports: SendPorts
  readonly #runtime: Runtime
  readonly #muting: Muting
  /** Ends even the requests that are under way. */
  readonly #cut = new AbortController()

  constructor(ports: SendPorts, runtime: Runtime) {
    this.#ports = ports
    this.#runtime = runtime
    this.#muting = new Muting(ports, runtime)
  }

  /** Ends requests under way, at once and for good: their messages are unknown. */
  cut(reason: SvcError): void {
    this.#cut.abort(reason)
  }

  /** What a user may be answered by, as far as this process knows. */
  async terms(session: string, user: string): Promise<Terms & { token: string | undefined }> {
    const { contexts } = this.#ports.state
    const { rules } = this.#ports
    const context = await contexts.find(session, user)
    return { context: context ?? { used: 0 }, rules, token: context?.token }
  }

  /** Resolves when what became of messages is noted of their accounts. */
  get noted(): Promise<void> {
    return this.#muting.noted
  }

  /** Whether `count` messages to a user may go now; nothing is taken. */
  async verdict(session: string, user: string, count: number): Promise<Verdict> {
    return this.#ports.store.outbox.verdict(session, user, count, await this.terms(session, user))
  }

  /** What is left of the right to answer a user. */
  async right(session: string, user: string): Promise<ReturnType<typeof rightToAnswer>> {
    const { context } = await this.terms(session, user)
    const counters = await this.#ports.store.outbox.counters(session, user)
    const now = this.#runtime.clock.now()
    return rightToAnswer(countNow(context, counters.get(user), now), now)
  }

  /**
   * Begins a message of these parts, once the pace lets it go.
   *
   * @returns `stopped`: the signal aborted while it waited for its slot
   */
  async begin(
    { session, user }: Pick<Lane, 'session' | 'user'>,
    bot: BotInfo,
    { parts, item }: { parts: readonly number[]; item: WireItem },
    signal: AbortSignal,
  ): Promise<Started> {
    const { clock } = this.#runtime
    while (!signal.aborted) {
      const terms = await this.terms(session, user)
      const next = letter(user, item, terms.token, clock.now())
      const began = await this.#ports.store.outbox.begin(parts, bot.bot_id, terms, next.row)
      if (began.go === 'begun') return { go: 'begun', begun: began.begun, letter: next }
      if (began.go !== 'later') return began
      await clock.sleep(began.slot - clock.now(), signal)
    }
    return { go: 'stopped' }
  }

  /** Uploads a file for a user. @returns its item; @throws what `upload` does, and as `TokenCheck.settled` */
  async upload(
    { session, user }: Pick<Lane, 'session' | 'user'>,
    bot: BotInfo,
    upload: () => Promise<UploadedMedia>,
  ): Promise<WireItem> {
    try {
      const item = mediaItem(await this.#ports.check.settled(session, bot, upload))
      this.#muting.uploaded(session, bot, user)
      return item
    } catch (error) {
      this.#muting.uploaded(session, bot, user, error)
      throw error
    }
  }

  /** Hands a message over that was begun. */
  async deliver(session: string, bot: BotInfo, { wire, row }: Letter, begun: Begun): Promise<DeliveryResult> {
    const { clock, log } = this.#runtime
    const { account, api } = this.#ports.upstream
    const { check, rules } = this.#ports
    // Not cancelled when the caller leaves: half a request is the one thing that cannot be told apart later.
    const post = () =>
      check.settled(session, bot, () => api.sendMessage(account(bot), wire, this.#cut.signal))
    const result = await deliver(post, row.to_user, begun, { rules, now: () => clock.now() })
    const { error, status } = result
    // Whoever sends is told; here it is for whoever looks back.
    if (error) log.info('send failed', { session, error, as: status, code: error.code })
    return result
  }

  /** @returns the entries of the message's parts as they stand then; undefined where the disk did not take it */
  async settle(begun: Begun, settlement: Settlement, handed: Handed): Promise<Entry[] | undefined> {
    const { bus, log } = this.#runtime
    const { media, store } = this.#ports
    const taken = settlement.status === 'accepted' || settlement.status === 'suspect'
    try {
      const { entries, files } = await store.outbox.settle(begun, {
        ...settlement,
        ...(taken && begun.hold && { hold: null }),
      })
      const parts = entries.flatMap(({ parts }) => parts)
      bus.tell('handedOver', settlement.status, parts.find(({ id }) => begun.parts.includes(id))?.msg_type)
      if (taken) this.#muting.handedOver(handed, settlement.status as 'accepted' | 'suspect')
      await media.kept.discard(files)
      return entries
    } catch (error) {
      // The send happened whatever the disk says: the caller must hear of it.
      log.error('status of a sent message not stored', { row: begun.row, error })
      return undefined
    }
  }
}

/** What becomes of the rows of a message. */
export const settlementOf = (result: DeliveryResult): Settlement => {
  const { status, message_id, error, spent, unseen, hold } = result
  return { status, message_id, error: error && endReasonOf(error), spent, unseen, hold }
}
