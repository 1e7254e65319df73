/**
 * One login that is polled, and its loop: one that errs backs off alone, one that upstream refuses (-14) is asked again
 * every half hour, and says so. Every wait has a deadline of its own, and is watched all the same (`watchdog.ts`).
 */

import type { Api, Updates } from '../ilink/api.ts'
import { isILinkError } from '../ilink/http.ts'
import type { BotInfo } from '../model/session.ts'
import { backoffMs } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import type { Slots } from '../platform/slots.ts'
import { type BatchPorts, commitPolled, currentSession, type Polled, type PolledLogin } from './batch.ts'
import { endingWith, type Wait } from './watchdog.ts'

export interface PollerPorts extends BatchPorts {
  api: Api
  account(bot: BotInfo): { base_url: string; token: string }
  /** How many polls may be held at a time; those beyond take turns. */
  slots: Slots
  log: Log
}

/** What all followers of one run of the poller share. */
export interface PollRun {
  /** On behalf of one call. */
  readonly oneCycle: boolean
  /** Whether the right to poll is surely ours at this moment. */
  mayPoll(): boolean
  /** Aborts when the run ends. */
  readonly stopping: AbortSignal
  /** The run ends only after this work. */
  outlive(work: Promise<unknown>): void
}

/** Upstream holds a poll about 35 s unless it says otherwise (protocol notes 2.4). */
const defaultHoldMs = 35_000
/** An expired token is tried again this often. */
const probeEveryMs = 30 * 60_000
/** After trouble of less than a minute the next try is near when upstream works again. */
const shortOutageMs = 60_000
const shortWaitMs = 4000
const longestWaitMs = 30_000
/** Answers without messages that come faster than this, three in a row, slow the loop down. */
const briskMs = 1000
/** On behalf of one call, a session that has brought messages is asked again after this: most calls end before. */
const restMs = 1000
/** A poll that is answered later than this was held: nothing waited for it. A new connection to far away takes a second. */
const heldMs = 4000
/** Whether polling is ours is known so soon, when it is doubtful. */
const tryAgainMs = 50
/** A farewell may take this long: whoever stops the service waits for it. */
const farewellMs = 1500
/** Past its hold, a poll is overdue after this: its own deadlines, for the reply to begin and to end, are shorter. */
const answerGraceMs = 60_000
/** The same for pauses. */
const pauseGraceMs = 30_000
/** A request that was cut off and does not end within this is left to itself. */
const leaveAfterMs = 1000
/** Why a loop is ended that waits for something overdue. */
export const overdue = new DOMException('overdue', 'AbortError')

export class Follower implements PolledLogin {
  name: string
  readonly token: string
  readonly stop = new AbortController()
  /** Upstream refuses the token. */
  expired: boolean
  stuck?: boolean
  wait?: Wait
  /** Asked once at least, and what came is committed. */
  answered?: boolean
  lastPollAt?: number
  readonly #ports: PollerPorts
  readonly #run: PollRun

  constructor(ports: PollerPorts, run: PollRun, { name, bot }: { name: string; bot: BotInfo }) {
    this.#ports = ports
    this.#run = run
    this.name = name
    this.token = bot.token
    this.expired = bot.expired_at !== undefined
  }

  /** Polls until `stop`, or until the login is gone. */
  async follow(delayMs: number): Promise<void> {
    const { api, account, clock, sessions, slots } = this.#ports
    const { mayPoll, oneCycle } = this.#run
    const { signal } = this.stop
    const log = this.#ports.log.child('', { session: this.name })
    if (delayMs > 0) await this.#pause(delayMs)
    const bot = (await currentSession(sessions, this))?.bot
    if (signal.aborted || !bot) return
    this.expired = bot.expired_at !== undefined
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
      if (this.expired) {
        this.answered = true
        await this.#pause(probeEveryMs)
        if (signal.aborted) break
      }
      if (!greeted && !this.expired && !oneCycle) {
        greeted = true
        // Best effort, as the official client does; never a reason to wait with the first poll.
        api.notifyStart(account(bot), signal).catch(error => {
          log.debug('notifystart failed', { error })
          // The poll that follows would hear the same; the next look begins the loop anew, with the wait for its probe.
          if (isILinkError(error, 'expired') && !signal.aborted) void this.#mark(clock.now())
        })
      }
      while (!mayPoll() && !signal.aborted) await this.#pause(tryAgainMs)
      if (signal.aborted) break
      let askedAt = clock.monotonic()
      let updates: Updates
      try {
        using _slot = await slots.take(signal)
        if (!mayPoll()) continue
        askedAt = clock.monotonic()
        updates = await this.#ask(bot, cursor, holdMs, log)
      } catch (error) {
        if (signal.aborted) break
        if (isILinkError(error, 'expired')) {
          if (!this.expired) log.warn('session expired: WeChat refuses its token; log it in again')
          this.expired = true
          await this.#mark(clock.now())
          continue
        }
        failures += 1
        this.answered = true
        failingSince ??= clock.monotonic()
        const longMs = clock.monotonic() - failingSince > shortOutageMs ? longestWaitMs : shortWaitMs
        const waitMs = backoffMs(failures - 1, 1000, longMs)
        log.warn('poll failed', { error, failures, retryInMs: Math.round(waitMs) })
        await this.#pause(waitMs)
        continue
      }
      const answeredAt = clock.monotonic()
      if (answeredAt - askedAt > heldMs) clearAt = askedAt
      this.lastPollAt = clock.now()
      if (failures > 0) log.info('polling again', { failures })
      failures = 0
      failingSince = undefined
      if (this.expired) {
        await this.#mark(undefined)
        this.expired = false
        log.info('session works again')
      }
      holdMs = updates.nextHoldMs ?? holdMs

      const before = cursor
      if (updates.messages.length > 0 || (updates.cursor !== undefined && updates.cursor !== cursor)) {
        const committed = await this.#commit({ bot, cursor, updates, clearAt, log })
        if (committed === undefined) break
        cursor = committed
      }
      if (updates.messages.length === 0) clearAt = answeredAt
      this.answered = true
      if (oneCycle && updates.messages.length > 0) await this.#pause(restMs)
      // An answer that brings no message, or the same ones for the same cursor, must not make us ask in a circle.
      const idle = updates.messages.length === 0 || cursor === before
      brisk = idle && clock.monotonic() - askedAt < briskMs ? brisk + 1 : 0
      if (brisk >= 3) await this.#pause(Math.min(briskMs * (brisk - 2), 10_000))
    }
    // Only cut off: it goes on in a moment.
    if (greeted && !this.expired && signal.reason !== overdue) {
      const soon = AbortSignal.timeout(farewellMs)
      await endingWith(api.notifyStop(account(bot), soon), soon, clock, leaveAfterMs).catch(error =>
        log.debug('notifystop failed', { error }),
      )
    }
  }

  /** The same as `clock.sleep`, watched. */
  async #pause(ms: number): Promise<void> {
    const { clock } = this.#ports
    this.wait = { what: 'pause', dueAt: clock.monotonic() + ms + pauseGraceMs }
    await clock.sleep(ms, this.stop.signal)
    this.wait = undefined
  }

  /** One poll, watched. */
  async #ask(bot: BotInfo, cursor: string, holdMs: number, log: Log): Promise<Updates> {
    const { account, api, clock } = this.#ports
    const { signal } = this.stop
    this.wait = { what: 'answer', dueAt: clock.monotonic() + holdMs + answerGraceMs }
    try {
      const polled = api.getUpdates(account(bot), cursor, holdMs, signal)
      return await endingWith(polled, signal, clock, leaveAfterMs, updates => {
        // Upstream may not send them again. The loop that runs by now notices that the cursor moved.
        if (updates.messages.length === 0 || this.#run.stopping.aborted) return
        this.#run.outlive(
          this.#commit({ bot, cursor, updates, clearAt: undefined, log }).catch(error =>
            log.error('late batch not committed', { error }),
          ),
        )
      })
    } finally {
      this.wait = undefined
    }
  }

  #commit(polled: Polled): Promise<string | undefined> {
    return commitPolled(this.#ports, this, polled, this.#run.stopping)
  }

  async #mark(expiredAt: number | undefined): Promise<void> {
    try {
      await this.#ports.sessions.markExpired(this.name, this.token, expiredAt)
    } catch (error) {
      this.#ports.log.error('state of session not written', { session: this.name, error })
    }
  }
}
