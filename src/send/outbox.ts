/**
 * The outbox: sends that wait until they may go. Whoever polls sends what waits, as soon as a batch is committed, and
 * looks now and then besides.
 */
import type { Closed, SendRules } from '../model/admission.ts'
import { SvcError } from '../model/error.ts'
import type { Cancelled, OutboxEntry, OutboxFilter, OutboxPart } from '../model/message.ts'
import { type Principal, principalText } from '../model/principal.ts'
import { turns } from '../platform/clock.ts'
import { defined } from '../platform/fields.ts'
import type { Runtime } from '../platform/runtime.ts'
import type { EndReason, Entry, EntryPart, KeptFile, LaneFilter, WaitingLane } from '../storage/outbox.ts'
import type { Store } from '../storage/store.ts'
import { botOf, type SendPorts } from './delivery-attempt.ts'
import { explainWaits, isPaused } from './foresight.ts'
import { cancelled, declined } from './problems.ts'
import { partOf } from './result.ts'
import type { Worker } from './worker.ts'

export interface OutboxPorts extends Pick<SendPorts, 'state' | 'media' | 'rules'> {
  store: Pick<Store, 'names' | 'outbox' | 'upkeep'>
  worker: Worker
  meant(who: { session?: string; user?: string }, field: string): Promise<{ session?: string; user?: string }>
}

/** Lanes are looked at this often: those in which something has changed, or that are due. Those of a user who writes, at once. */
const lookEveryMs = 1000
/** All that waits is looked at this often, since a clock that is set makes what was told of a time untrue. */
const wholeEveryMs = 10 * 60_000
/** A login that another process made shows after this. */
const loginMs = 2000
/** Leases are renewed this often, however long an upload takes. */
const renewEveryMs = 20_000
/** A send that is on its way for so long belongs to a process that died, where that cannot be asked. */
const abandonedAfterMs = 10 * 60_000

const tooLate: EndReason = {
  code: 'window_closed',
  detail: 'not sent in time: the user did not write',
}
const nobodySaidYes: EndReason = { code: 'forbidden', detail: 'nobody said yes within 24 hours' }

export class Outbox {
  readonly #ports: OutboxPorts
  readonly #runtime: Runtime
  #running: Promise<void> | undefined
  #renewedAt = 0
  #troubled = false
  /** This process polls: then it is the one that sends what waits. */
  #polls = false
  /** By lane, when to look at it again (`monotonic`); what is not here waits for its user. */
  readonly #due = new Map<number, number>()
  /** What was written before it has been looked at. */
  #revision = 0
  /** When everything is looked at again (`monotonic`). */
  #wholeAt = 0

  constructor(ports: OutboxPorts, runtime: Runtime) {
    this.#ports = ports
    this.#runtime = runtime
    const { bus } = runtime
    bus.on('committed', ({ session, messages }) => {
      const users = [...new Set(messages.map(({ from_user }) => from_user))]
      if (!runtime.closing.aborted) void this.#guarded(() => this.#look({ of: { session, users } }))
    })
    bus.on('roleChanged', role => {
      this.#polls = role === 'poller'
      this.#wholeAt = 0
    })
    bus.on('sessionsChanged', () => {
      this.#wholeAt = 0
    })
  }

  /**
   * What waits, oldest first.
   *
   * @throws SvcError `session_not_found`; `invalid_arguments` for a name that no user has, or several
   */
  async list(filter: OutboxFilter = {}): Promise<OutboxEntry[]> {
    const { meant, store } = this.#ports
    const { user, session } = await meant({ user: filter.user_id, session: filter.session }, 'user_id')
    const entries = await store.outbox.list({ user_id: user, session })
    return this.#shown(entries)
  }

  /**
   * A queued send, also after it left, until a week after the call.
   *
   * @throws SvcError `not_found`
   */
  async get(outboxId: string | number): Promise<OutboxEntry> {
    const entry = await this.#entry(outboxId)
    if (entry?.mode !== 'queue') throw unknownSend('outbox')
    return (await this.#shown([entry]))[0]!
  }

  async #entry(outboxId: string | number): Promise<Entry | undefined> {
    return /^\d{1,15}$/.test(String(outboxId)) ? this.#ports.store.outbox.entry(Number(outboxId)) : undefined
  }

  async #shown(entries: readonly Entry[]): Promise<OutboxEntry[]> {
    const waiting = await explainWaits(this.#ports, entries, this.#runtime.clock.now())
    const show = async ({ id, session, user, ended, ...entry }: Entry, nth: number): Promise<OutboxEntry> => {
      const { created_at, expires_at } = entry
      const user_name = (await this.#ports.store.names.of(session)).get(user)
      const times = { created_at, expires_at, ...waiting[nth], ended: ended || undefined }
      const parts = entry.parts.map(shown)
      return defined({ outbox_id: String(id), session, to_user: user, user_name, ...times, parts })
    }
    return Promise.all(entries.map(show))
  }

  /**
   * Ends what waits of a queued send; where it waits for a yes, this is the no.
   *
   * @throws SvcError `not_found` when nothing of that id waits, since it was sent, cancelled, or has expired
   */
  async cancel(outboxId: string | number, by: Principal): Promise<Cancelled> {
    const { log } = this.#runtime
    const { media, store } = this.#ports
    const entry = await this.#entry(outboxId)
    if (!entry) throw unknownSend('outbox')
    const reason = entry.asked ? declined : cancelled
    const ended = await store.outbox.end(entry.id, reason, { only: 'queue', by: principalText(by) })
    if (!ended) {
      throw new SvcError('not_found', 'nothing of this id waits in the outbox', {
        hint: 'history tells what became of what left it.',
        next: { action: 'see', what: 'outbox' },
      })
    }
    await media.kept.discard(ended.files)
    log.info(`queued send ${reason.code}`, { outbox: outboxId, messages: ended.ended })
    return { success: ended.ended > 0, outbox_id: String(outboxId), cancelled: ended.ended }
  }

  /**
   * A person says yes to a send that waits for that (never an agent): it goes out now. What may wait for its user, by `when_closed`,
   * waits where it may not go.
   *
   * @returns it as it stands then
   * @throws SvcError `not_found` when nothing of this id waits for a yes; `not_connected`, `window_closed`,
   *   `quota_exhausted`, `rate_limited` when it may not go now and was not to wait: it goes on waiting for a yes
   */
  async approve(outboxId: string | number, by: Principal): Promise<OutboxEntry> {
    const { log } = this.#runtime
    const { worker } = this.#ports
    const entry = await this.#entry(outboxId)
    if (!entry) throw unknownSend('approvals')
    const lane = entry.asked && (await worker.approve(entry, by))
    if (lane === undefined) {
      throw new SvcError('not_found', 'nothing of this id waits for a yes', {
        hint: 'It was approved, declined or given up; history tells.',
        next: { action: 'see', what: 'approvals' },
      })
    }
    log.info('send approved', { outbox: outboxId })
    await worker.watch(entry, lane, undefined)
    return this.get(outboxId)
  }

  /** Ends what has waited too long, and what a process that died was sending. */
  async tidy(): Promise<void> {
    const { clock, log } = this.#runtime
    const { media, store } = this.#ports
    // A clock that was set ahead ends nothing that waits, or is on its way.
    const trusted = await store.upkeep.trustsClock()
    const lost = await store.outbox.reap(trusted ? clock.now() - abandonedAfterMs : 0)
    if (lost > 0) log.warn('sends of a process that died are unknown', { messages: lost })
    if (!trusted) return
    for (const { entry, ended, files } of await store.outbox.expire(tooLate, nobodySaidYes)) {
      log.warn('queued send given up: it could not go in time', { outbox: entry.id, messages: ended })
      await media.kept.discard(files)
    }
  }

  /** Looks after the lanes until the service stops. */
  start(): void {
    this.#running ??= this.#run()
  }

  /** Resolves when the lanes are not looked after any more; `closing` has to be aborted. */
  async closed(): Promise<void> {
    await this.#running
  }

  async #run(): Promise<void> {
    const { clock, closing } = this.#runtime
    while (!closing.aborted) {
      await this.#guarded(async () => {
        await this.tidy()
        if (this.#polls) await this.#look()
      })
      await clock.sleep(lookEveryMs, closing)
    }
  }

  /** Begins to work on lanes that may go: on some of them, or on those in which something has changed, or that are due. */
  async #look(some?: LaneFilter): Promise<void> {
    const { clock } = this.#runtime
    const { rules, store, worker } = this.#ports
    const now = clock.monotonic()
    if (now - this.#renewedAt > renewEveryMs) {
      this.#renewedAt = now
      for (const lane of worker.flushing.keys()) await store.outbox.claim(lane)
    }
    if (some) return this.#attend((await store.outbox.waiting(rules, some)).lanes)
    const isWhole = now >= this.#wholeAt
    if (isWhole) this.#wholeAt = now + wholeEveryMs
    const ids = [...this.#due].flatMap(([id, at]) => (isWhole || at <= now ? id : []))
    const changed = isWhole ? undefined : { ids, since: this.#revision }
    const { lanes, revision } = await store.outbox.waiting(rules, changed)
    this.#revision = revision
    for (const id of ids) this.#due.delete(id)
    await this.#attend(lanes)
  }

  /** Sends what waits in these lanes where it may go, and notes when to look at them again. */
  async #attend(lanes: readonly WaitingLane[]): Promise<void> {
    const { clock } = this.#runtime
    const turn = turns(clock)
    for (const lane of lanes) {
      await turn()
      const waitMs = await this.#work(lane)
      if (waitMs === undefined) continue
      const at = clock.monotonic() + waitMs
      this.#due.set(lane.id, at)
      if (lane.crowded) this.#ports.worker.crowded.set(lane.session, at + 2 * lookEveryMs)
    }
  }

  /** @returns when to look at it again, in ms; undefined: not before its user writes */
  async #work(lane: WaitingLane): Promise<number | undefined> {
    const { rules, state, worker } = this.#ports
    const { id, not_before, session, verdict } = lane
    const now = this.#runtime.clock.now()
    if (worker.flushing.has(id)) return 0
    if (isPaused(lane, now)) return not_before - now
    if (verdict.go === 'no') return waitMsOf(verdict, rules)
    if (!(await botOf(state, session))) return loginMs
    void this.#guarded(() => worker.flush(lane))
    return 0
  }

  /** The store's troubles pass; they are told once and tried again at the next look. */
  async #guarded(work: () => Promise<void> | void): Promise<void> {
    try {
      await work()
      this.#troubled = false
    } catch (error) {
      if (this.#runtime.closing.aborted) return
      this.#wholeAt = 0
      if (!this.#troubled) this.#runtime.log.error('outbox not looked after', { error })
      this.#troubled = true
    }
  }
}

/** How long to wait until the next slot, or until a hold ends; undefined where only the user's next message helps. */
function waitMsOf(closed: Closed, { patienceMs }: SendRules): number | undefined {
  if (closed.why === 'window' || closed.why === 'quota') return undefined
  return closed.why === 'pace' ? Math.max(0, closed.waitMs - patienceMs) : closed.waitMs
}

/** Its text and file go when it has ended; the history keeps them. */
const unknownSend = (what: 'outbox' | 'approvals') =>
  new SvcError('not_found', 'no queued send of the last 7 days has this id', {
    hint: 'history tells what became of older ones.',
    next: { action: 'see', what },
  })

function shown(part: EntryPart): OutboxPart {
  const { file_name, size, source }: Partial<KeptFile> = part.file ?? {}
  const text = part.kind === 'text' && part.text !== '' ? part.text : undefined
  return defined({ id: part.message ?? 0, ...partOf(part), text, file_name, size, source })
}
