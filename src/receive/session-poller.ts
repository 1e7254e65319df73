/**
 * One login that is polled, and its loop. A loop that fails backs off alone. A login that upstream refuses (-14) is asked again
 * on a ladder. Every wait has a deadline of its own, and `watchdog.ts` watches it all the same.
 */
import type { Updates, Upstream } from '../ilink/api.ts'
import { isILinkError } from '../ilink/http.ts'
import type { BotInfo } from '../model/session.ts'
import { backoffMs } from '../platform/clock.ts'
import { nodeCrypto } from '../platform/lazy-crypto.ts'
import type { Runtime } from '../platform/runtime.ts'
import { linked } from '../platform/signals.ts'
import type { Slots } from '../platform/slots.ts'
import { type GatewayLimits, heldMs } from './gateway-limits.ts'
import { type BatchPorts, currentSession, ingest, type Polled, type PolledLogin } from './ingest.ts'
import { PollingNotice } from './polling-notice.ts'
import { heardIn } from './session-health.ts'
import { SessionMarks } from './session-marks.ts'
import { endingWith, type Wait } from './watchdog.ts'

export interface PollerPorts extends BatchPorts {
  upstream: Pick<Upstream, 'api' | 'account'>
  /** How many polls may be held at a time; those beyond take turns. */
  slots: Slots
}

/** What all loops of one run of the poller share. */
export interface PollRun {
  /** On behalf of one call. */
  readonly oneCycle: boolean
  readonly limits: GatewayLimits
  /** As of a lease. */
  mayPoll(session: string): boolean
  /** Aborts when the run ends. */
  readonly stopping: AbortSignal
  /** The run ends only after this work. */
  outlive(work: Promise<unknown>): void
}

/** Polls that have failed for so long are told of where all look. */
const failingAfterMs = 30_000
/** Upstream holds a poll about 35 s unless it says otherwise (protocol notes 2.4). */
const defaultHoldMs = 35_000
/** After trouble of less than a minute the next try is near when upstream works again. */
const shortOutageMs = 60_000
const shortWaitMs = 4000
const longestWaitMs = 30_000
/** Answers without messages that come faster than this, three in a row, slow the loop down. */
const briskMs = 1000
/** On behalf of one call, a session that has brought messages is asked again after this: most calls end before. */
const restMs = 1000
/** A token that upstream refuses is refused at once: a poll that is held for so long was accepted. */
const acceptedMs = 3000
/** Whether polling is ours is known so soon, when it is doubtful. */
const tryAgainMs = 50
/** Past its hold, a poll is overdue after this: its own deadlines, for the reply to begin and to end, are shorter. */
const answerGraceMs = 60_000
/** The same for pauses. */
const pauseGraceMs = 30_000
/** A request that was cut off and does not end within this is left to itself. */
const leaveAfterMs = 1000
/** Why a loop is ended whose login is polled by the next one in a moment: upstream is not to hear that polling ends. */
export const goesOn = new DOMException('another loop goes on', 'AbortError')
/** Why a wait is ended: somebody wants to know what getupdates says now. */
const asked = new DOMException('asked', 'AbortError')

/** Where a loop stands. */
interface Loop {
  readonly bot: BotInfo
  cursor: string
  /** How long upstream is expected to hold the next poll. */
  holdMs: number
  failures: number
  /** Monotonic. */
  failingSince?: number
  /** Answers in a row that came at once and brought nothing. */
  brisk: number
  /** Monotonic: upstream held no message of this session then. */
  clearAt?: number
}

export class SessionPoller implements PolledLogin {
  name: string
  readonly token: string
  readonly stop = new AbortController()
  stuck?: boolean
  wait?: Wait
  /** Asked once at least, and what came is committed. */
  answered?: boolean
  lastPollAt?: number
  readonly #ports: PollerPorts
  readonly #runtime: Runtime
  readonly #run: PollRun
  readonly #marks: SessionMarks
  /** Unix ms: the check that was asked for last. */
  #askedAt?: number
  /** Ends the wait under way, be it a pause or a poll. */
  #wake = new AbortController()
  #notice?: PollingNotice

  constructor(
    ports: PollerPorts,
    runtime: Runtime,
    run: PollRun,
    { name, bot }: { name: string; bot: BotInfo },
  ) {
    this.#ports = ports
    this.#runtime = { ...runtime, log: runtime.log.child('', { session: name }) }
    this.#run = run
    this.name = name
    this.token = bot.token
    this.#marks = new SessionMarks(ports.sessions, this.#runtime, this, () => this.#greet())
    this.#marks.read(bot)
  }

  /** Asks getupdates at once, once for each such time; what it says is noted in the session's file. */
  check(at: number): void {
    if (at === this.#askedAt) return
    this.#askedAt = at
    this.#marks.ask()
    this.#wake.abort(asked)
    this.#wake = new AbortController()
  }

  /** Polls until `stop`, or until the login is gone. */
  async follow(delayMs: number): Promise<void> {
    const { sessions, upstream } = this.#ports
    const { signal } = this.stop
    if (delayMs > 0) await this.#pause(delayMs)
    const bot = (await currentSession(sessions, this))?.bot
    if (signal.aborted || !bot) return
    this.#marks.read(bot)
    // Every message needs it. Loaded with the first one, it would keep that from the disk for 5 ms.
    nodeCrypto()
    this.#notice = new PollingNotice({ api: upstream.api, ...this.#runtime }, upstream.account(bot), signal)
    const loop: Loop = { bot, cursor: bot.cursor, holdMs: defaultHoldMs, failures: 0, brisk: 0 }
    while (!signal.aborted) {
      const polled = await this.#poll(loop, this.#notice)
      if (polled && !(await this.#take(loop, polled))) break
    }
    await this.#farewell()
  }

  /** One poll, when it is its turn; undefined when there was none, or it failed, and the pause after that is over. */
  async #poll(loop: Loop, notice: PollingNotice): Promise<{ updates: Updates; askedAt: number } | undefined> {
    const { signal } = this.stop
    try {
      using _slot = await this.#ports.slots.take(signal)
      if (!this.#run.mayPoll(this.name)) {
        await this.#pause(tryAgainMs)
        return undefined
      }
      // A probe begins with a fresh notifystart; otherwise it is never a reason to wait with a poll.
      if (this.#marks.standing === 'expired') await notice.say()
      else if (!notice.heard) this.#greet()
      if (signal.aborted) return undefined
      const askedAt = this.#runtime.clock.monotonic()
      return { askedAt, updates: await this.#ask(loop.bot, loop.cursor, loop.holdMs) }
    } catch (error) {
      if (!signal.aborted && error !== asked) await this.#failed(loop, error)
      return undefined
    }
  }

  /** Waits until the next try. */
  async #failed(loop: Loop, error: unknown): Promise<void> {
    const { bus, clock, log } = this.#runtime
    this.answered = true
    const isRefused = isILinkError(error, 'expired')
    bus.tell('polled', isRefused ? 'refused' : 'failed')
    if (isRefused) {
      await this.#marks.works()
      await this.#marks.write(this.#marks.judged('refused'))
      return this.#pause(this.#marks.retryMs)
    }
    loop.failures += 1
    loop.failingSince ??= clock.monotonic()
    const failingMs = clock.monotonic() - loop.failingSince
    if (failingMs >= failingAfterMs) await this.#marks.fails(failingMs, error)
    const longMs = failingMs > shortOutageMs ? longestWaitMs : shortWaitMs
    const waitMs = backoffMs(loop.failures - 1, 1000, longMs)
    log.warn('poll failed', { error, failures: loop.failures, retryInMs: Math.round(waitMs) })
    await this.#pause(waitMs)
  }

  /** Commits what a poll brought. @returns false when this loop has to end */
  async #take(loop: Loop, { updates, askedAt }: { updates: Updates; askedAt: number }): Promise<boolean> {
    const { clock, log } = this.#runtime
    const answeredAt = clock.monotonic()
    if (answeredAt - askedAt > heldMs) loop.clearAt = askedAt
    this.lastPollAt = clock.now()
    if (loop.failures > 0) log.info('polling again', { failures: loop.failures })
    loop.failures = 0
    loop.failingSince = undefined
    await this.#marks.works()
    const heard = heardIn(updates)
    const marks = heard && this.#marks.judged(heard)
    loop.holdMs = updates.nextHoldMs ?? loop.holdMs
    const { cursor: before } = loop
    const hasMessages = updates.messages.length > 0
    this.#runtime.bus.tell('polled', hasMessages ? 'messages' : 'empty')
    const isNew = hasMessages || (updates.cursor !== undefined && updates.cursor !== before)
    // Whoever reads a message finds the session well; an idle poll's two changes of the file are one write.
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
    this.answered = true
    if (this.#run.oneCycle && hasMessages) await this.#pause(restMs)
    // An answer that brings no message, or the same ones for the same cursor, must not make us ask in a circle.
    const idle = !hasMessages || loop.cursor === before
    loop.brisk = idle && clock.monotonic() - askedAt < briskMs ? loop.brisk + 1 : 0
    if (loop.brisk >= 3) await this.#pause(Math.min(briskMs * (loop.brisk - 2), 10_000))
    return true
  }

  /** The same as `clock.sleep`, watched. */
  async #pause(ms: number): Promise<void> {
    const { clock } = this.#runtime
    using either = linked(this.stop.signal, this.#wake.signal)
    this.wait = { what: 'pause', dueAt: clock.monotonic() + ms + pauseGraceMs }
    await clock.sleep(ms, either.signal)
    this.wait = undefined
  }

  /** One poll, watched. */
  async #ask(bot: BotInfo, cursor: string, holdMs: number): Promise<Updates> {
    const { clock } = this.#runtime
    const { api, account } = this.#ports.upstream
    const { limits } = this.#run
    const login = account(bot)
    const expectedMs = limits.expectedMs(login.base_url, holdMs)
    using either = linked(this.stop.signal, this.#wake.signal)
    const { signal } = either
    const askedAt = clock.monotonic()
    this.wait = { what: 'answer', dueAt: askedAt + expectedMs + answerGraceMs }
    const over = this.#marks.isDoubtful ? new AbortController() : undefined
    if (over) void this.#held(over.signal)
    try {
      const polled = api.getUpdates(login, cursor, expectedMs, signal)
      const updates = await endingWith(polled, signal, clock, leaveAfterMs, updates => {
        // Upstream may not send them again. The loop that runs by now notices that the cursor moved.
        if (updates.messages.length === 0 || this.#run.stopping.aborted) return
        this.#run.outlive(
          this.#commit({ bot, cursor }, updates).catch(error =>
            this.#runtime.log.error('late batch not committed', { error }),
          ),
        )
      })
      if (updates.form === undefined) limits.forget(login.base_url)
      return updates
    } catch (error) {
      const tookMs = clock.monotonic() - askedAt
      if (signal.aborted || !limits.noteFailure(login.base_url, tookMs, error)) throw error
      this.#runtime.log.debug('a long poll was cut', { tookMs: Math.round(tookMs), error })
      return { messages: [] }
    } finally {
      over?.abort()
      this.wait = undefined
    }
  }

  #commit(
    { bot, cursor }: Pick<Loop, 'bot' | 'cursor'>,
    updates: Updates,
    more: Pick<Polled, 'clearAt' | 'marks'> = {},
  ): Promise<string | undefined> {
    const { clock, log } = this.#runtime
    return ingest(this.#ports, this, { bot, cursor, updates, ...more, clock, log }, this.#run.stopping)
  }

  /** Notes that upstream lets the poll under way wait, unless it is over by then. */
  async #held(over: AbortSignal): Promise<void> {
    await this.#runtime.clock.sleep(acceptedMs, over)
    if (!over.aborted) await this.#marks.write(this.#marks.judged('held'))
  }

  /** Says that polling begins, until upstream has heard it and for as long as the session is lapsed. */
  #greet(): void {
    if (this.#run.oneCycle) return
    // The probes of an expired session say it themselves.
    this.#notice?.keepSaying(isHeard => {
      const { standing } = this.#marks
      return standing === 'expired' || (isHeard && standing !== 'lapsed')
    })
  }

  /** Not where polling goes on, here or in a process that has taken over. */
  async #farewell(): Promise<void> {
    const { mayPoll, oneCycle } = this.#run
    const { aborted, reason } = this.stop.signal
    const isLast = aborted && reason !== goesOn && mayPoll(this.name)
    if (isLast && !oneCycle && this.#marks.standing !== 'expired') await this.#notice?.farewell()
  }
}
