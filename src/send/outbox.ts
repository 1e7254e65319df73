/**
 * Keeps the sends that wait until they may go. The process that polls sends them: as soon as a batch from
 * their user is committed, and by checks at regular times.
 */
import { Buffer } from 'node:buffer'
import { createTextItem } from '../ilink/encode.ts'
import type { Scope } from '../model/access.ts'
import type { ClosedVerdict, SendRules } from '../model/admission.ts'
import { badArgument, SvcError } from '../model/error.ts'
import type { Cancelled, OutboxEntry, OutboxFilter, OutboxPart } from '../model/message.ts'
import {
  formatPrincipal,
  grantsRight,
  keyIdOf,
  type Principal,
  parsePrincipal,
  scopeOf,
} from '../model/principal.ts'
import { changeApart, type SetAside, settingAside } from '../platform/apart.ts'
import { createYield } from '../platform/clock.ts'
import { withoutUndefined } from '../platform/fields.ts'
import { RunningPart, type Runtime } from '../platform/runtime.ts'
import type {
  EditedText,
  EntryPart,
  EntrySight,
  ExpiryReasons,
  KeptFile,
  LaneFilter,
  StoredEntry,
  WaitingLane,
} from '../storage/outbox.ts'
import { queueLifeMs } from '../storage/outbox-limits.ts'
import type { Store } from '../storage/store.ts'
import { composeMessage } from './delivery.ts'
import { botOf, type SendPorts } from './delivery-attempt.ts'
import { explainWaits, isPaused } from './foresight.ts'
import { cancelledReason, declinedReason, ownProposalError, requireVisible } from './problems.ts'
import { toSendPart } from './result.ts'
import { textLimitBytes } from './split.ts'
import type { Worker } from './worker.ts'

export interface OutboxPorts extends Pick<SendPorts, 'state' | 'media' | 'rules'> {
  store: Pick<Store, 'names' | 'outbox' | 'maintenance'> & { webhooks: Pick<Store['webhooks'], 'get'> }
  worker: Worker
  resolveTarget(
    who: { session?: string; user?: string; scope?: Scope },
    field: string,
  ): Promise<{ session?: string; user?: string }>
}

/**
 * Interval of checks of the lanes that changed or are due. A lane whose user writes is checked immediately.
 */
const checkEveryMs = 1000
/** Interval of checks of all lanes, because a clock that is set makes the known due times wrong. */
const fullCheckEveryMs = 10 * 60_000
/** Wait until the next check for a login that another process made. */
const loginCheckMs = 2000
/** Interval of lease renewals, also during a long upload. */
const renewEveryMs = 20_000
/**
 * A send that has been on its way for this long belongs to a dead process. Used if the process cannot be
 * checked.
 */
const abandonedAfterMs = 10 * 60_000

const expiryReasons: ExpiryReasons = {
  late: { code: 'window_closed', detail: 'not sent in time: the user did not write' },
  unasked: { code: 'forbidden', detail: 'nobody said yes within 24 hours' },
}

export class Outbox extends RunningPart<OutboxPorts> {
  #running: Promise<unknown> | undefined
  /** Why lanes could not be sent from since the last check. */
  readonly #failures = new Map<string, unknown>()
  #renewedAt = 0
  /** Whether this process polls. If so, it sends what waits. */
  #isPoller = false
  /** When to check a lane again (`monotonic`), by lane. A lane that is missing waits for its user. */
  readonly #dueAt = new Map<number, number>()
  /** Revision of the store up to which changes were checked. */
  #revision = 0
  /** When to check all lanes again (`monotonic`). */
  #fullCheckAt = 0

  constructor(ports: OutboxPorts, runtime: Runtime) {
    super(ports, runtime)

    const { bus } = runtime
    bus.on('committed', ({ session, messages }) => {
      const users = [...new Set(messages.map(({ from_user }) => from_user))]
      if (!runtime.closing.aborted)
        void this.#guard(`session ${session}`, () => this.#checkLanesOf({ session, users }))
    })
    bus.on('roleChanged', role => {
      this.#isPoller = role === 'poller'
      this.#fullCheckAt = 0
    })
    bus.on('sessionsChanged', () => {
      this.#fullCheckAt = 0
    })
  }

  /**
   * Lists the waiting sends that the caller may see, oldest first.
   *
   * @throws SvcError `session_not_found`; `invalid_arguments` for a name of no user, or of several
   */
  async list(by: Principal, filter: OutboxFilter = {}): Promise<OutboxEntry[]> {
    const { resolveTarget, store } = this.ports
    const { user, session } = await resolveTarget(
      { user: filter.user_id, session: filter.session, scope: scopeOf(by) },
      'user_id',
    )
    const entries = await store.outbox.list({ user_id: user, session, sight: sightOf(by) })
    return this.#toOutboxEntries(entries)
  }

  /**
   * Returns a queued send. One that has ended can be read until a week after the call.
   *
   * @throws SvcError `not_found`
   */
  async get(by: Principal, outboxId: string | number): Promise<OutboxEntry> {
    const entry = await this.#findEntry(outboxId, by)
    if (entry?.mode !== 'queue') throw unknownSendError('outbox')
    return (await this.#toOutboxEntries([entry]))[0]!
  }

  async #findEntry(outboxId: string | number, by: Principal): Promise<StoredEntry | undefined> {
    return /^\d{1,15}$/.test(String(outboxId))
      ? this.ports.store.outbox.getEntry(Number(outboxId), sightOf(by))
      : undefined
  }

  async #toOutboxEntries(entries: readonly StoredEntry[]): Promise<OutboxEntry[]> {
    const waiting = await explainWaits(this.ports, entries, this.runtime.clock.now())
    const show = async (
      { id, session, user, ended, ...entry }: StoredEntry,
      nth: number,
    ): Promise<OutboxEntry> => {
      const { created_at, made_by, made_by_name } = entry
      const expires_at = endOf(entry)
      const made = { made_by, made_by_name }
      const user_name = (await this.ports.store.names.list(session)).get(user)
      const times = { created_at, expires_at, ...waiting[nth], ended: ended || undefined }
      const parts = entry.parts.map(toOutboxPart)
      return withoutUndefined({
        outbox_id: String(id),
        session,
        to_user: user,
        user_name,
        ...made,
        ...times,
        parts,
      })
    }
    return Promise.all(entries.map(show))
  }

  /**
   * Ends the waiting parts of a queued send. For a send that waits for approval, this is the "no".
   *
   * @throws SvcError `not_found` if nothing of that id waits: it was sent, cancelled, or has expired
   */
  async cancel(by: Principal, outboxId: string | number): Promise<Cancelled> {
    const { log } = this.runtime
    const { media, store } = this.ports
    const entry = await this.#findEntry(outboxId, by)
    if (!entry) throw unknownSendError('outbox')
    const reason = entry.asked ? declinedReason : cancelledReason
    const ended = await store.outbox.end(entry.id, reason, { only: 'queue', by: formatPrincipal(by) })
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
   * Approves a send that waits for a person's yes (never called for an agent). It goes out now. If it may
   * not go now and its `when_closed` is `queue`, it waits for its user.
   *
   * @param text replaces the text of the send
   * @returns the send after that
   * @throws SvcError `not_found` if nothing of this id waits for approval; `forbidden` if the key of the
   *   caller made the send; `invalid_arguments`, `text_too_long` for a text that cannot replace its text;
   *   `not_connected`, `window_closed`, `quota_exhausted`, `rate_limited` if it may not go now and its
   *   `when_closed` is `fail`: it keeps waiting for approval
   */
  async approve(by: Principal, outboxId: string | number, text?: string): Promise<OutboxEntry> {
    const { clock, log } = this.runtime
    const { worker } = this.ports
    const entry = await this.#findEntry(outboxId, by)
    if (!entry) throw unknownSendError('approvals')
    const key = keyIdOf(by)
    if (key !== undefined && (await this.#findMakingKey(entry)) === key) throw ownProposalError()
    const edited = text === undefined || !entry.asked ? undefined : editText(entry, text, clock.now())
    const lane = entry.asked && (await worker.approve(entry, by, edited))
    if (lane === undefined) {
      throw new SvcError('not_found', 'nothing of this id waits for a yes', {
        hint: 'It was approved, declined or given up; history tells.',
        next: { action: 'see', what: 'approvals' },
      })
    }
    log.info('send approved', { outbox: outboxId })
    await worker.flushWithProgress(entry, lane, undefined)
    return this.get(by, outboxId)
  }

  /** Returns the id of the key that made a send, itself or as its webhook. */
  async #findMakingKey({ made_by = '' }: StoredEntry): Promise<string | undefined> {
    const { kind, id = '' } = parsePrincipal(made_by)
    const maker = kind === 'webhook' ? (await this.ports.store.webhooks.get(id))?.made_by : made_by
    return parsePrincipal(maker ?? '').id
  }

  /** Ends the sends that waited too long, and those of dead processes, and lets those go whose time has come. */
  async endStale(setAside: SetAside): Promise<void> {
    const { clock, log } = this.runtime
    const { media, store } = this.ports
    // While the clock is not trusted (it may be set ahead), nothing is ended because of its age.
    const trusted = await store.maintenance.isClockTrusted()
    const reaped = store.outbox.reap(trusted ? clock.now() - abandonedAfterMs : 0)
    const lost = await settingAside(setAside, reaped)
    if (lost > 0) log.warn('sends of a process that died are unknown', { messages: lost })
    const due = await settingAside(setAside, store.outbox.expire(trusted ? expiryReasons : undefined))
    for (const { entry, ended, files, isLetGo } of due) {
      const lane = entry.parts[0]?.lane
      if (isLetGo && lane !== undefined) {
        // Retention may have removed its row. Then no event says that something waits in the lane.
        void this.#flush({ id: lane, session: entry.session })
        continue
      }
      log.warn('queued send given up: it could not go in time', { outbox: entry.id, messages: ended })
      const discard = () => media.kept.discard(files)
      setAside(...(await changeApart([entry.id], id => `files of send ${id}`, discard)))
    }
  }

  /** Checks the lanes until the service stops. */
  start(): void {
    this.#running ??= this.#run()
  }

  /** Resolves when the lanes are no longer checked. Abort `closing` first. */
  async waitUntilClosed(): Promise<void> {
    await this.#running
  }

  #run(): Promise<unknown> {
    const { closing: signal, log, tasks } = this.runtime
    const often = { everyMs: checkEveryMs, failure: 'outbox not looked after', log, signal }
    const repeated = [
      tasks.repeat({ ...often, name: 'send_claims' }, setAside => this.#renew(setAside)),
      tasks.repeat({ ...often, name: 'send_ends' }, setAside => this.endStale(setAside)),
      tasks.repeat({ ...often, name: 'sends' }, async setAside => {
        setAside(...[...this.#failures].map(([row, error]) => ({ row, error })))
        this.#failures.clear()
        if (this.#isPoller) await this.#checkLanes()
      }),
    ]
    return Promise.all(repeated.map(({ done }) => done))
  }

  /** Renews the lanes that this process sends from, polling or not: an upload may take longer than a lease. */
  async #renew(setAside: SetAside): Promise<void> {
    const { store, worker } = this.ports
    const now = this.runtime.clock.monotonic()
    if (now - this.#renewedAt <= renewEveryMs) return
    this.#renewedAt = now
    for (const lane of worker.runningFlushes.keys())
      setAside(...(await changeApart([lane], laneName, () => store.outbox.claim(lane))))
  }

  /** Starts work on the lanes of users who have written. */
  async #checkLanesOf(of: LaneFilter['of']): Promise<void> {
    const { rules, store, worker } = this.ports
    await this.#renew(this.#note)
    const { lanes } = await store.outbox.listWaiting(rules, { of })
    const flushes = lanes.flatMap(({ id }) => worker.runningFlushes.get(id) ?? [])
    await this.#startLanes(lanes)
    if (flushes.length === 0) return
    // A flush that is about to end may not see what the user wrote. A process that polls for one call does not
    // check again later.
    await Promise.allSettled(flushes)
    await this.#startLanes((await store.outbox.listWaiting(rules, { of })).lanes)
  }

  /** Starts work on the lanes that may go, among those that changed or are due. */
  async #checkLanes(): Promise<void> {
    const { clock } = this.runtime
    const { rules, store } = this.ports
    const now = clock.monotonic()
    const isWhole = now >= this.#fullCheckAt
    if (isWhole) this.#fullCheckAt = now + fullCheckEveryMs
    const ids = [...this.#dueAt].flatMap(([id, at]) => (isWhole || at <= now ? id : []))
    // Delete them first: another check may add one of them again. If this check fails, the next one covers all
    // lanes.
    for (const id of ids) this.#dueAt.delete(id)
    const changed = isWhole ? undefined : { ids, since: this.#revision }
    const found = await store.outbox.listWaiting(rules, changed).catch(error => {
      this.#fullCheckAt = 0
      throw error
    })
    this.#revision = found.revision
    await this.#startLanes(found.lanes)
  }

  /** Sends what may go in these lanes, and notes when to check each again. */
  async #startLanes(lanes: readonly WaitingLane[]): Promise<void> {
    const { clock } = this.runtime
    const turn = createYield(clock)
    for (const lane of lanes) {
      await turn()
      let waitMs: number | undefined
      await this.#guard(laneName(lane.id), async () => {
        waitMs = await this.#startLane(lane)
      })
      if (waitMs === undefined) continue
      const at = clock.monotonic() + waitMs
      // A check that began later may have set a newer time.
      this.#dueAt.set(lane.id, Math.min(at, this.#dueAt.get(lane.id) ?? at))
      if (lane.crowded) this.ports.worker.crowdedUntil.set(lane.session, at + 2 * checkEveryMs)
    }
  }

  /** @returns ms until the next check; undefined: not before its user writes */
  async #startLane(lane: WaitingLane): Promise<number | undefined> {
    const { rules, state, worker } = this.ports
    const { id, not_before, session, verdict } = lane
    const now = this.runtime.clock.now()
    if (worker.runningFlushes.has(id)) return 0
    if (isPaused(lane, now)) return not_before - now
    if (verdict.go === 'no') return waitMsOf(verdict, rules)
    if (!(await botOf(state, session))) return loginCheckMs
    void this.#flush(lane)
    return 0
  }

  #flush(lane: Parameters<Worker['flush']>[0]): Promise<void> {
    return this.#guard(laneName(lane.id), () => this.ports.worker.flush(lane))
  }

  /** Runs `work` for one lane, or for those of a session. If it fails, the next check covers all lanes. */
  async #guard(row: string, work: () => Promise<void>): Promise<void> {
    try {
      await work()
    } catch (error) {
      if (this.runtime.closing.aborted) return
      this.#fullCheckAt = 0
      this.#note({ row, error })
    }
  }

  /** Keeps failures for the next check, which reports them. */
  readonly #note: SetAside = (...failures) => {
    for (const { error, row } of failures) {
      if (this.#running) this.#failures.set(row, error)
      else this.runtime.log.error('outbox not looked after', { row, error })
    }
  }
}

const laneName = (id: number): string => `lane ${id}`

/** Returns until when an entry waits at most (Unix ms). */
const endOf = ({
  asked,
  expires_at,
  send_at,
}: Pick<StoredEntry, 'asked' | 'expires_at' | 'send_at'>): number =>
  asked || send_at === undefined ? expires_at : send_at + queueLifeMs

/**
 * Returns the ms until the next slot, or until a hold ends; undefined if only the user's next message
 * helps.
 */
function waitMsOf(closed: ClosedVerdict, { patienceMs }: SendRules): number | undefined {
  if (closed.why === 'window' || closed.why === 'quota') return undefined
  return closed.why === 'pace' ? Math.max(0, closed.waitMs - patienceMs) : closed.waitMs
}

/**
 * Returns the text that a person wants to send in place of that of an entry.
 *
 * @throws SvcError `invalid_arguments`, `text_too_long`
 */
function editText({ parts, user }: StoredEntry, given: string, now: number): EditedText {
  const texts = parts.filter(({ kind, status }) => kind === 'text' && status === 'asked')
  if (texts.length !== 1)
    throw badArgument('text', 'only a send with exactly one waiting text can get another text', {
      hint: 'Approve it as it is, or decline it and send what you want to say.',
    })
  const text = given.toWellFormed()
  requireVisible(text)
  const bytes = Buffer.byteLength(text)
  if (bytes > textLimitBytes)
    throw new SvcError(
      'text_too_long',
      `the text has ${bytes} bytes; one message has at most ${textLimitBytes}`,
      {
        field: 'text',
      },
    )
  return { text, raw: composeMessage(user, createTextItem(text), now).row.raw }
}

/**
 * Returns the entries that a caller may see. A key with the right `outbox` or `approve` sees all in its scope.
 * Another key sees those that it made, and so do an agent on stdio and a webhook.
 */
export function sightOf(by: Principal): EntrySight | undefined {
  const { grant, id, kind } = by
  if (!grant) return kind === 'stdio' || kind === 'webhook' ? { made_by: [formatPrincipal(by)] } : undefined
  const seesAll = grantsRight(grant, 'outbox') || grantsRight(grant, 'approve')
  return seesAll ? { scope: grant } : { made_by: [`key:${id}`, `panel:${id}`] }
}

/** The text and file of an ended entry are removed; the history keeps them. */
const unknownSendError = (what: 'outbox' | 'approvals') =>
  new SvcError('not_found', 'no queued send of the last 7 days has this id', {
    hint: 'history tells what became of older ones.',
    next: { action: 'see', what },
  })

function toOutboxPart(part: EntryPart): OutboxPart {
  const { file_name, size, source }: Partial<KeptFile> = part.file ?? {}
  const text = part.kind === 'text' && part.text !== '' ? part.text : undefined
  return withoutUndefined({ id: part.message ?? 0, ...toSendPart(part), text, file_name, size, source })
}
