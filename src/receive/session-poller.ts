/**
 * Polls one login in a loop. A loop that fails backs off on its own. A login that upstream refuses (-14) is
 * tried again with increasing waits. `poll-waits.ts` has the requests and pauses.
 */
import type { Updates, Upstream } from '../ilink/api.ts'
import { isILinkError } from '../ilink/http.ts'
import type { BotInfo } from '../model/session.ts'
import { backoffMs } from '../platform/clock.ts'
import { nodeCrypto } from '../platform/lazy-crypto.ts'
import type { Permits } from '../platform/permits.ts'
import { RunningPart, type Runtime } from '../platform/runtime.ts'
import { heldMs, type ProxyLimits } from './gateway-limits.ts'
import { type BatchPorts, currentSession, ingest, type PolledLogin, type PollResult } from './ingest.ts'
import { checkRequested, PollWaits } from './poll-waits.ts'
import { PollingNotice } from './polling-notice.ts'
import { pollOutcomeOf } from './session-health.ts'
import { SessionMarks } from './session-marks.ts'
import type { Wait } from './watchdog.ts'

export interface PollerPorts extends BatchPorts {
  upstream: Pick<Upstream, 'api' | 'account'>
  /** Limits the polls that are held at the same time; further ones wait. */
  permits: Permits
}

/** What all loops of one run of the poller share. */
export interface PollRun {
  /** True if it polls for a single call. */
  readonly oneCycle: boolean
  readonly limits: ProxyLimits
  /** Same as `Lease.mayPoll`. */
  mayPoll(session: string): boolean
  /** Aborts when the run ends. */
  readonly stopping: AbortSignal
  /** Aborts with `stopping` or later. A batch in memory then no longer waits for a store that does not answer. */
  readonly closing: AbortSignal
  /** Makes the run wait for this work before it ends. */
  keepUntilDone(work: Promise<unknown>): void
}

/** After failing for this long, the polls' error is written into the session's file. */
const failingAfterMs = 30_000
/** How long upstream holds a poll unless it says otherwise (protocol notes 2.4). */
const defaultHoldMs = 35_000
/** After failures of less than a minute, tries are frequent, to notice soon that upstream works again. */
const shortOutageMs = 60_000
const shortWaitMs = 4000
const maxWaitMs = 30_000
/** Three answers in a row that bring no messages and come faster than this slow the loop down. */
const briskMs = 1000
/**
 * For a single call, a session that has brought messages is polled again after this time. Most calls end
 * before.
 */
const restMs = 1000
/** Upstream refuses a bad token immediately. A poll that is held for this long was accepted. */
const acceptedMs = 3000
/** Wait before asking the lease again, while it is not certain that this process may poll. */
const tryAgainMs = 50
/**
 * Reason to end a loop whose login is polled by a new loop in a moment: upstream must not get a notifystop.
 */
export const pollingContinues = new DOMException('another loop goes on', 'AbortError')

/** The state of a loop. */
interface Loop {
  readonly bot: BotInfo
  cursor: string
  /** Expected time in ms that upstream holds the next poll. */
  holdMs: number
  failures: number
  /** Monotonic time. */
  failingSince?: number
  /** Number of answers in a row that came immediately and brought nothing. */
  brisk: number
  /** Monotonic time at which upstream held no message of this session. */
  clearAt?: number
}

export class SessionPoller extends RunningPart<PollerPorts> {
  readonly login: PolledLogin
  /** Resolves when its loop has ended, and its last batch is stored. */
  ended: Promise<void> = Promise.resolve()
  /** Whether WeChat was asked at least once, and the result is committed. */
  isAnswered?: boolean
  lastPollAt?: number
  readonly #run: PollRun
  readonly #marks: SessionMarks
  readonly #waits: PollWaits
  #notice?: PollingNotice

  constructor(
    ports: PollerPorts,
    runtime: Runtime,
    run: PollRun,
    { name, bot }: { name: string; bot: BotInfo },
  ) {
    super(ports, { ...runtime, log: runtime.log.child('', { session: name }) })
    this.#run = run
    this.login = { name, token: bot.token }
    const { login } = this
    const { sessions, upstream } = ports
    this.#waits = new PollWaits({ login, upstream, limits: run.limits }, this.runtime)
    this.#marks = new SessionMarks({ sessions, login, onLapsed: () => this.#startNotifying() }, this.runtime)
    this.#marks.read(bot)
  }

  get wait(): Wait | undefined {
    return this.login.wait
  }

  /** Aborts when the loop has to end, with the poll under way. */
  get stopping(): AbortSignal {
    return this.#waits.stop.signal
  }

  /** Ends the loop and the poll under way. @param reason `pollingContinues`, or absent */
  end(reason?: DOMException): void {
    this.#waits.leaving.abort(reason)
    this.#waits.stop.abort(reason)
  }

  /**
   * Ends the loop when the poll under way is answered, since upstream may not give the answer again.
   *
   * @param withinMs then it ends in any case; by default the deadlines of the poll decide
   */
  async leave(reason?: DOMException, withinMs?: number): Promise<void> {
    this.#waits.leaving.abort(reason)
    if (withinMs === undefined) return
    await this.runtime.clock.sleep(withinMs)
    this.end(reason)
  }

  /**
   * Asks getupdates immediately, once for each `at` (Unix ms). The answer is written into the session's
   * file.
   */
  check(at: number): void {
    if (this.#marks.expectAnswer(at)) this.#waits.interrupt()
  }

  /** Polls until `stop`, or until the login is gone. */
  async follow(delayMs: number): Promise<void> {
    const { sessions, upstream } = this.ports
    const { signal } = this.#waits.leaving
    if (delayMs > 0) await this.#waits.pause(delayMs)
    const bot = (await currentSession(sessions, this.login))?.bot
    if (signal.aborted || !bot) return
    this.#marks.read(bot)
    // Every message needs it. If the first message loaded it, that message would reach the disk 5 ms later.
    nodeCrypto()
    const login = upstream.account(bot)
    this.#notice = new PollingNotice({ api: upstream.api, ...this.runtime, login, stop: signal })
    const loop: Loop = { bot, cursor: bot.cursor, holdMs: defaultHoldMs, failures: 0, brisk: 0 }
    while (!signal.aborted) {
      const polled = await this.#poll(loop, this.#notice)
      if (polled && !(await this.#takeResult(loop, polled))) break
    }
    await this.#notifyStop()
  }

  /**
   * Polls once, as soon as the limit of parallel polls allows it. Returns undefined if it may not poll, or if
   * the poll failed and the pause after it is over.
   */
  async #poll(loop: Loop, notice: PollingNotice): Promise<{ updates: Updates; askedAt: number } | undefined> {
    const { signal } = this.#waits.leaving
    try {
      using _permit = await this.ports.permits.take(signal)
      if (!this.#run.mayPoll(this.login.name)) {
        await this.#waits.pause(tryAgainMs)
        return undefined
      }
      // A probe of an expired session begins with a notifystart, and waits for it. No other poll does.
      if (this.#marks.status === 'expired') await notice.notifyStart()
      else if (!notice.isAnswered) this.#startNotifying()
      // The process may have stood still during the notifystart.
      if (signal.aborted || !this.#run.mayPoll(this.login.name)) return undefined
      const askedAt = this.runtime.clock.monotonic()
      return { askedAt, updates: await this.#request(loop) }
    } catch (error) {
      if (!signal.aborted && error !== checkRequested) await this.#handleFailure(loop, error)
      return undefined
    }
  }

  /** Handles a failed poll, and waits until the next try. */
  async #handleFailure(loop: Loop, error: unknown): Promise<void> {
    const { bus, clock, log } = this.runtime
    this.isAnswered = true
    const isRefused = isILinkError(error, 'expired')
    bus.notify('polled', isRefused ? 'refused' : 'failed')
    if (isRefused) {
      await this.#marks.noteSuccess()
      await this.#marks.write(this.#marks.judge('refused'))
      return this.#waits.pause(this.#marks.retryMs)
    }
    loop.failures += 1
    loop.failingSince ??= clock.monotonic()
    const failingMs = clock.monotonic() - loop.failingSince
    if (failingMs >= failingAfterMs) await this.#marks.noteFailure(failingMs, error)
    const longMs = failingMs > shortOutageMs ? maxWaitMs : shortWaitMs
    const waitMs = backoffMs(loop.failures - 1, 1000, longMs)
    log.warn('poll failed', { error, failures: loop.failures, retryInMs: Math.round(waitMs) })
    await this.#waits.pause(waitMs)
  }

  /** Commits the result of a poll. @returns false if this loop must end */
  async #takeResult(
    loop: Loop,
    { updates, askedAt }: { updates: Updates; askedAt: number },
  ): Promise<boolean> {
    const { clock, log } = this.runtime
    const answeredAt = clock.monotonic()
    if (answeredAt - askedAt > heldMs) loop.clearAt = askedAt
    this.lastPollAt = clock.now()
    if (loop.failures > 0) log.info('polling again', { failures: loop.failures })
    loop.failures = 0
    loop.failingSince = undefined
    await this.#marks.noteSuccess()
    const heard = pollOutcomeOf(updates)
    const marks = heard && this.#marks.judge(heard)
    loop.holdMs = updates.nextHoldMs ?? loop.holdMs
    const { cursor: before } = loop
    const hasMessages = updates.messages.length > 0
    this.runtime.bus.notify('polled', hasMessages ? 'messages' : 'empty')
    const isNew = hasMessages || (updates.cursor !== undefined && updates.cursor !== before)
    // Marks go before messages, so that a reader of a new message does not see its session as expired. An idle poll
    // makes one write of both.
    if (hasMessages || !isNew) await this.#marks.write(marks)
    if (isNew) {
      const committed = await this.#commit(loop, updates, {
        clearAt: loop.clearAt,
        ...(!hasMessages && { marks }),
      })
      if (committed === undefined) return false
      loop.cursor = committed
    }
    if (!hasMessages) loop.clearAt = answeredAt
    this.isAnswered = true
    if (this.#run.oneCycle && hasMessages) await this.#waits.pause(restMs)
    // An answer without messages, or with the same ones for the same cursor, must not cause a busy loop.
    const idle = !hasMessages || loop.cursor === before
    loop.brisk = idle && clock.monotonic() - askedAt < briskMs ? loop.brisk + 1 : 0
    if (loop.brisk >= 3) await this.#waits.pause(Math.min(briskMs * (loop.brisk - 2), 10_000))
    return true
  }

  async #request(loop: Loop): Promise<Updates> {
    const over = this.#marks.isDoubtful ? new AbortController() : undefined
    if (over) void this.#noteHeld(over.signal)
    // A late answer belongs to the cursor that was sent, and the loop may have moved on.
    const asked = { ...loop }
    try {
      return await this.#waits.request(asked, updates => {
        // Upstream may not send them again. The loop that runs by then notices that the cursor moved.
        if (updates.messages.length === 0 || this.#run.closing.aborted) return
        this.#run.keepUntilDone(
          this.#commit(asked, updates).catch(error =>
            this.runtime.log.error('late batch not committed', { error }),
          ),
        )
      })
    } finally {
      over?.abort()
    }
  }

  #commit(
    { bot, cursor }: Pick<Loop, 'bot' | 'cursor'>,
    updates: Updates,
    more: Pick<PollResult, 'clearAt' | 'marks'> = {},
  ): Promise<string | undefined> {
    const { clock, log } = this.runtime
    return ingest(this.ports, this.login, { bot, cursor, updates, ...more, clock, log }, this.#run)
  }

  /** Records that upstream holds the poll under way, unless the poll ends before. */
  async #noteHeld(over: AbortSignal): Promise<void> {
    await this.runtime.clock.sleep(acceptedMs, over)
    if (!over.aborted) await this.#marks.write(this.#marks.judge('held'))
  }

  /** Sends notifystart until upstream has answered it, and for as long as the session is lapsed. */
  #startNotifying(): void {
    if (this.#run.oneCycle) return
    // The probes of an expired session send it themselves.
    this.#notice?.keepNotifying(isHeard => {
      const { status } = this.#marks
      return status === 'expired' || (isHeard && status !== 'lapsed')
    })
  }

  /** Sends notifystop, unless polling continues here or in a process that has taken over. */
  async #notifyStop(): Promise<void> {
    const { mayPoll, oneCycle } = this.#run
    const { aborted, reason } = this.#waits.leaving.signal
    const isLast = aborted && reason !== pollingContinues && mayPoll(this.login.name)
    if (isLast && !oneCycle && this.#marks.status !== 'expired') await this.#notice?.notifyStop()
  }
}
