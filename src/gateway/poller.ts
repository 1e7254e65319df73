/**
 * Polls every session at once and commits what arrives by the inbox law: messages durably into the store, then
 * context tokens, then the cursor; a later step never happens without the earlier ones.
 *
 * Sessions are independent loops: one that errs backs off alone. A batch that cannot be stored stays in memory and
 * is stored before that session polls again, so the cursor never passes what is not on disk.
 *
 * Every wait has a deadline of its own. One that outlives it is noticed all the same: a poll is cut off and its loop
 * begins anew once it has ended, so that no bot is polled twice; a batch in hand is waited for and told of.
 */

import type { Api, Updates } from '../ilink/api.ts'
import { derivedId, isFromUser, summary } from '../ilink/decode.ts'
import { isILinkError } from '../ilink/http.ts'
import type { BotInfo } from '../model/session.ts'
import { backoffMs, type Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import type { SessionRecord, Sessions } from '../state/sessions.ts'
import type { BatchCommit } from '../state/state.ts'
import type { ReceivedMessage, Store } from '../store/store.ts'
import { endingWith, type Wait, Watchdog } from './watchdog.ts'
import { writtenAt } from './written-at.ts'

export interface PollerPorts {
  api: Api
  sessions: Sessions
  store: Store
  /** Context tokens, then the cursor, in one hold of the data lock. */
  commit(batch: BatchCommit): Promise<'moved' | 'gone'>
  account(bot: BotInfo): { base_url: string; token: string }
  clock: Clock
  log: Log
}

/** Upstream holds a poll about 35 s unless it says otherwise (protocol notes 2.4). */
const defaultHoldMs = 35_000
/** An expired token is tried again this often. */
const probeEveryMs = 30 * 60_000
/** Changes made by other processes are seen after this at the latest. */
const lookEveryMs = 1000
/** After trouble of less than a minute the next try is near when upstream works again. */
const shortOutageMs = 60_000
const shortWaitMs = 4000
const longestWaitMs = 30_000
/** Answers without messages that come faster than this, three in a row, slow the loop down. */
const briskMs = 1000
/** A poll that is answered later than this was held: nothing waited for it. */
const heldMs = 500
/** Whether polling is ours is known so soon, when it is doubtful. */
const tryAgainMs = 50
/** The starts of many loops are spread by this, so that handshakes do not pile up. */
const staggerMs = 2

/** A farewell may take this long: whoever stops the service waits for it. */
const farewellMs = 1500
/** Past its hold, a poll is overdue after this: its own deadlines, for the reply to begin and to end, are shorter. */
const answerGraceMs = 60_000
/** The same for pauses, and for one try to commit. */
const pauseGraceMs = 30_000
const commitGraceMs = 60_000
/** A request that was cut off and does not end within this is left to itself. */
const leaveAfterMs = 1000
/** Why a loop is ended that waits for something overdue. */
const overdue = new DOMException('overdue', 'AbortError')

/** One login that is polled. It goes by its token, so renaming its session interrupts nothing. */
interface Follower {
  /** Of the session, as far as known. */
  name: string
  readonly token: string
  readonly stop: AbortController
  /** Upstream refuses the token. */
  expired: boolean
  /** A batch in hand cannot be committed. */
  stuck?: boolean
  /** What its loop waits for. */
  wait?: Wait
  /** Asked once at least, and what came is committed. */
  answered?: boolean
  lastPollAt?: number
}

export class Poller {
  readonly #ports: PollerPorts
  /** By login: token and time, since a login may bring the old token. */
  readonly #followers = new Map<string, Follower>()
  /** Every loop that runs, also one whose session is gone while its last batch is being stored. */
  readonly #loops = new Set<Promise<void>>()
  #stopping = new AbortController().signal
  /** The session files have been looked at in this run. */
  #begun = false
  #oneCycle = false
  #mayPoll = () => true
  #nudge = new AbortController()

  constructor(ports: PollerPorts) {
    this.#ports = ports
  }

  /** By session, Unix ms of the last answer to a poll. */
  lastPolls(): ReadonlyMap<string, number> {
    const polls = new Map<string, number>()
    for (const { name, lastPollAt } of this.#followers.values()) {
      if (lastPollAt !== undefined) polls.set(name, lastPollAt)
    }
    return polls
  }

  /** Whether a batch in hand cannot be committed: small writes may work on a disk that is full for it. */
  get stuck(): boolean {
    return [...this.#followers.values()].some(follower => follower.stuck)
  }

  /** Whether every session has been asked in this run, with an answer committed or an error. */
  get answered(): boolean {
    return this.#begun && [...this.#followers.values()].every(follower => follower.answered)
  }

  /** Looks at the session files now: something changed. */
  changed(): void {
    this.#nudge.abort()
  }

  /**
   * Polls until `signal` aborts; then waits for the batches in hand to be committed.
   *
   * @param options.oneCycle on behalf of one call: sessions are neither greeted nor bidden farewell, and one that has
   *   brought messages is asked again only at the next look, so that no poll is begun to be cut off
   * @param options.mayPoll asked before each poll: whether the right to poll is surely ours at this moment
   */
  async run(
    signal: AbortSignal,
    options: { oneCycle?: boolean; mayPoll?: () => boolean } = {},
  ): Promise<void> {
    const { clock, log, sessions } = this.#ports
    this.#oneCycle = options.oneCycle ?? false
    this.#mayPoll = options.mayPoll ?? (() => true)
    this.#begun = false
    this.#stopping = signal
    signal.addEventListener('abort', () => this.#nudge.abort(), { once: true })
    const watchdog = new Watchdog(clock)
    while (!signal.aborted) {
      this.#nudge = new AbortController()
      for (const follower of watchdog.overdue(this.#followers.values())) this.#rouse(follower)
      try {
        this.#adjust(await sessions.list(), signal)
        this.#begun = true
      } catch (error) {
        log.error('session files cannot be read', { error })
      }
      if (!signal.aborted) await clock.sleep(lookEveryMs, this.#nudge.signal)
    }
    for (const follower of this.#followers.values()) follower.stop.abort()
    await Promise.all(this.#loops)
    this.#followers.clear()
  }

  /** Ends a loop that waits for something overdue; the look after its end starts it anew. */
  #rouse(follower: Follower): void {
    const { log } = this.#ports
    const { name: session, stop, wait } = follower
    if (wait?.what === 'commit') {
      if (!follower.stuck) log.error('a batch is being committed for far too long', { session })
      follower.stuck = true
    } else if (!stop.signal.aborted) {
      log.warn('poll shows no life; it begins anew', { session, waitsFor: wait?.what })
      stop.abort(overdue)
    }
  }

  /** The same as `clock.sleep`, watched. */
  async #pause(follower: Follower, ms: number): Promise<void> {
    const { clock } = this.#ports
    follower.wait = { what: 'pause', dueAt: clock.monotonic() + ms + pauseGraceMs }
    await clock.sleep(ms, follower.stop.signal)
    follower.wait = undefined
  }

  /** One poll, watched. */
  async #ask(follower: Follower, bot: BotInfo, cursor: string, holdMs: number, log: Log): Promise<Updates> {
    const { account, api, clock } = this.#ports
    const { signal } = follower.stop
    follower.wait = { what: 'answer', dueAt: clock.monotonic() + holdMs + answerGraceMs }
    try {
      const polled = api.getUpdates(account(bot), cursor, holdMs, signal)
      return await endingWith(polled, signal, clock, leaveAfterMs, updates => {
        // Upstream may not send them again. The loop that runs by now notices that the cursor moved.
        if (updates.messages.length === 0 || this.#stopping.aborted) return
        const commit = this.#commit(follower, bot, cursor, updates, undefined, log)
          .catch(error => log.error('late batch not committed', { error }))
          .then(() => void this.#loops.delete(commit))
        this.#loops.add(commit)
      })
    } finally {
      follower.wait = undefined
    }
  }

  #adjust(records: readonly SessionRecord[], signal: AbortSignal): void {
    const wanted = new Map<string, { name: string; bot: BotInfo }>()
    for (const { name, bot } of records) {
      // Two folders with one login, a copy made by hand: two polls would steal each other's messages.
      if (bot && !wanted.has(loginOf(bot))) wanted.set(loginOf(bot), { name, bot })
    }
    for (const [login, follower] of this.#followers) {
      const record = wanted.get(login)
      if (record) follower.name = record.name
      // Refused elsewhere, by a send or by another process: the loop begins anew, with the wait for its probe.
      const refused = record?.bot.expired_at !== undefined && !follower.expired
      if (record && !refused) continue
      follower.stop.abort()
      this.#followers.delete(login)
    }
    let started = 0
    for (const [login, { name, bot }] of wanted) {
      if (this.#followers.has(login) || signal.aborted) continue
      const follower: Follower = {
        name,
        token: bot.token,
        stop: new AbortController(),
        expired: bot.expired_at !== undefined,
      }
      this.#followers.set(login, follower)
      const loop = this.#follow(follower, started++ * staggerMs)
        .catch(error => this.#ports.log.error('poll loop failed', { session: follower.name, error }))
        .finally(() => {
          // One that ended by itself is started again by the next look, from what stands on disk then.
          if (this.#followers.get(login) === follower) this.#followers.delete(login)
          this.#loops.delete(loop)
        })
      this.#loops.add(loop)
    }
  }

  async #follow(follower: Follower, delayMs: number): Promise<void> {
    const { api, clock, account } = this.#ports
    const { token } = follower
    const { signal } = follower.stop
    const log = this.#ports.log.child('', { session: follower.name })
    if (delayMs > 0) await this.#pause(follower, delayMs)
    const bot = (await this.#current(follower))?.bot
    if (signal.aborted || !bot) return
    follower.expired = bot.expired_at !== undefined
    let cursor = bot.cursor
    let holdMs = defaultHoldMs
    let failures = 0
    /** Monotonic. */
    let failingSince: number | undefined
    let brisk = 0
    let greeted = false
    /** Monotonic: upstream held no message of this session then. */
    let clearAt: number | undefined

    while (!signal.aborted) {
      if (follower.expired) {
        follower.answered = true
        await this.#pause(follower, probeEveryMs)
        if (signal.aborted) break
      }
      if (!greeted && !follower.expired && !this.#oneCycle) {
        greeted = true
        // Best effort, as the official client does; never a reason to wait with the first poll.
        api.notifyStart(account(bot), signal).catch(error => {
          log.debug('notifystart failed', { error })
          // The poll that follows would hear the same; the next look begins the loop anew, with the wait for its probe.
          if (isILinkError(error, 'expired') && !signal.aborted)
            void this.#mark(follower.name, token, clock.now())
        })
      }
      while (!this.#mayPoll() && !signal.aborted) await this.#pause(follower, tryAgainMs)
      if (signal.aborted) break
      const askedAt = clock.monotonic()
      let updates: Updates
      try {
        updates = await this.#ask(follower, bot, cursor, holdMs, log)
      } catch (error) {
        if (signal.aborted) break
        if (isILinkError(error, 'expired')) {
          if (!follower.expired) log.warn('session expired: WeChat refuses its token; log it in again')
          follower.expired = true
          await this.#mark(follower.name, token, clock.now())
          continue
        }
        failures += 1
        follower.answered = true
        failingSince ??= clock.monotonic()
        const longMs = clock.monotonic() - failingSince > shortOutageMs ? longestWaitMs : shortWaitMs
        const waitMs = backoffMs(failures - 1, 1000, longMs)
        log.warn('poll failed', { error, failures, retryInMs: Math.round(waitMs) })
        await this.#pause(follower, waitMs)
        continue
      }
      const answeredAt = clock.monotonic()
      if (answeredAt - askedAt > heldMs) clearAt = askedAt
      follower.lastPollAt = clock.now()
      if (failures > 0) log.info('polling again', { failures })
      failures = 0
      failingSince = undefined
      if (follower.expired) {
        await this.#mark(follower.name, token, undefined)
        follower.expired = false
        log.info('session works again')
      }
      holdMs = updates.nextHoldMs ?? holdMs

      const before = cursor
      if (updates.messages.length > 0 || (updates.cursor !== undefined && updates.cursor !== cursor)) {
        const committed = await this.#commit(follower, bot, cursor, updates, clearAt, log)
        if (committed === undefined) break
        cursor = committed
      }
      if (updates.messages.length === 0) clearAt = answeredAt
      follower.answered = true
      if (this.#oneCycle && updates.messages.length > 0) break
      // An answer that brings no message, or the same ones for the same cursor, must not make us ask in a circle.
      const idle = updates.messages.length === 0 || cursor === before
      brisk = idle && clock.monotonic() - askedAt < briskMs ? brisk + 1 : 0
      if (brisk >= 3) await this.#pause(follower, Math.min(briskMs * (brisk - 2), 10_000))
    }
    // Only cut off: it goes on in a moment.
    if (greeted && !follower.expired && signal.reason !== overdue) {
      const soon = AbortSignal.timeout(farewellMs)
      await endingWith(api.notifyStop(account(bot), soon), soon, clock, leaveAfterMs).catch(error =>
        log.debug('notifystop failed', { error }),
      )
    }
  }

  /** The session that has this login now, whatever it is called. */
  async #current(follower: Follower): Promise<SessionRecord | undefined> {
    const { sessions } = this.#ports
    const named = await sessions.get(follower.name)
    if (named?.bot?.token === follower.token) return named
    const moved = (await sessions.list()).find(record => record.bot?.token === follower.token)
    if (moved) follower.name = moved.name
    return moved
  }

  /**
   * Stores a batch, then moves the cursor.
   *
   * @param clearAt monotonic: upstream held nothing back then
   * @returns the cursor to poll with, or undefined when this loop must end: the session was logged out or logged in
   *   anew meanwhile, or the service stops with the batch unstored (then the cursor stands before it)
   */
  async #commit(
    follower: Follower,
    bot: BotInfo,
    cursor: string,
    updates: Updates,
    clearAt: number | undefined,
    log: Log,
  ): Promise<string | undefined> {
    const { clock, commit, store } = this.#ports
    // Not the loop's own signal: messages of a session that is logged out meanwhile are to be stored all the same.
    const signal = this.#stopping
    const receivedAt = clock.now()
    const earliest = clearAt === undefined ? undefined : receivedAt - (clock.monotonic() - clearAt)
    const rows: ReceivedMessage[] = []
    const inbound: BatchCommit['inbound'] = []
    const senders: { row: number; user_id: string; token?: string }[] = []
    for (const { raw, message } of updates.messages) {
      // The bot's own messages and those of other bots are not for readers (protocol notes 6, Filter).
      if (!isFromUser(message, bot.bot_id)) continue
      const told = summary(message, receivedAt)
      rows.push({ ...told, derived_id: told.message_id === undefined ? derivedId(message) : '', raw })
      if (told.from_user) {
        const { from_user: user_id, contextToken: token } = told
        senders.push({ row: rows.length - 1, user_id, ...(token && { token }) })
      }
    }
    let stored = rows.length === 0
    for (let failures = 0; ; failures++) {
      // When the service stops, a batch in hand gets one more try: upstream may not send it again.
      const last = signal.aborted
      follower.wait = { what: 'commit', dueAt: clock.monotonic() + commitGraceMs }
      try {
        if (!stored) {
          // Its name may have changed; not knowing that is no reason not to store.
          await this.#current(follower).catch(() => undefined)
          const results = store.insertReceived(follower.name, bot.bot_id, rows)
          stored = true
          for (const { row, ...sender } of senders) {
            const { timed, timestamp } = rows[row]!
            const arrival = { now: receivedAt, earliest, isNew: results[row] !== 'duplicate' }
            inbound.push({ ...sender, ...writtenAt(timed ? timestamp : undefined, arrival) })
          }
          log.debug('batch stored', {
            messages: rows.length,
            new: results.filter(result => result !== 'duplicate').length,
          })
        }
        const next = updates.cursor ?? cursor
        const batch = { token: bot.token, cursorFrom: cursor, cursorTo: next, inbound, now: receivedAt }
        for (let renames = 0; renames < 10; renames++) {
          const { name } = follower
          if ((await commit({ ...batch, session: name })) === 'moved') {
            follower.stuck = false
            return next
          }
          await this.#current(follower)
          if (follower.name === name) break
        }
        return undefined
      } catch (error) {
        follower.stuck = true
        log.error('batch not committed; it stays in memory and polling of this session waits', {
          error,
          messages: rows.length,
          stored,
        })
        if (last) return undefined
        await clock.sleep(backoffMs(failures, 250, 10_000), signal)
      } finally {
        follower.wait = undefined
      }
    }
  }

  async #mark(name: string, token: string, expiredAt: number | undefined): Promise<void> {
    try {
      await this.#ports.sessions.markExpired(name, token, expiredAt)
    } catch (error) {
      this.#ports.log.error('state of session not written', { session: name, error })
    }
  }
}

const loginOf = (bot: BotInfo) => `${bot.token}\n${bot.created_at}`
