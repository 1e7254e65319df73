/**
 * Derives the state of a polled session from its polls (`session-health.ts`), and writes it into the
 * session's file, which all processes read. A caller that asked for a check finds the answer there too.
 */
import { SvcError } from '../model/error.ts'
import type { Marks } from '../model/session.ts'
import { RunningPart } from '../platform/runtime.ts'
import type { PolledSessions } from '../storage/state.ts'
import { currentSession, type PolledLogin } from './ingest.ts'
import {
  nextHealth,
  type PollOutcome,
  retryAfterMs,
  type SessionHealth,
  sessionHealthOf,
} from './session-health.ts'

const worksAgain: Marks = {
  failing_since: undefined,
  poll_error: undefined,
  poll_error_code: undefined,
  poll_error_quote: undefined,
}

interface MarkPorts {
  sessions: PolledSessions
  login: PolledLogin
  /** Called when a lapse begins. */
  onLapsed(): void
}

export class SessionMarks extends RunningPart<MarkPorts> {
  #health: SessionHealth = sessionHealthOf({})
  /** True while a `TokenCheck` waits for the result of the next poll. */
  #isCheckWaiting = false
  /** Unix ms of the last requested check. */
  #checkedFor?: number
  /** The poll error in the file; without a code if a version before 0.2 wrote it. */
  #failure: Pick<Marks, 'poll_error' | 'poll_error_code'> | undefined

  get status(): SessionHealth['sessionStatus'] {
    return this.#health.sessionStatus
  }

  /** Returns the ms to wait before the next probe of an expired session. */
  get retryMs(): number {
    return retryAfterMs(this.#health.refusals)
  }

  /** Whether it says something new that WeChat holds a poll: then the token works. */
  get isDoubtful(): boolean {
    return this.#isCheckWaiting || this.status === 'expired'
  }

  /** Starts with the marks in the file. */
  read(marks: Marks): void {
    this.#health = sessionHealthOf(marks)
    this.#failure = marks.poll_error === undefined ? undefined : marks
  }

  /** Makes the next poll result the answer to the check of that time (Unix ms). @returns false if it was asked for before */
  expectAnswer(at: number): boolean {
    if (at === this.#checkedFor) return false
    this.#checkedFor = at
    this.#isCheckWaiting = true
    return true
  }

  /** Updates the health from a poll result, and answers a check. @returns the marks to write, if any */
  judge(heard: PollOutcome): Marks | undefined {
    const { clock, log } = this.runtime
    const before = this.#health
    this.#health = nextHealth(before, heard)
    const { bareAnswers, sessionStatus, hasBeenWhole } = this.#health
    const isAnswer = this.#isCheckWaiting
    this.#isCheckWaiting = false
    if (sessionStatus === before.sessionStatus && hasBeenWhole === before.hasBeenWhole && !isAnswer)
      return undefined
    if (sessionStatus !== before.sessionStatus) {
      if (sessionStatus === 'connected') log.info('session works again')
      else if (sessionStatus === 'expired')
        log.warn('session expired: WeChat refuses its token; it is tried again, a new login heals it')
      else {
        log.warn('session lapsed: WeChat answers with neither messages nor a cursor; polling and sends go on')
        this.ports.onLapsed()
      }
    }
    const at = clock.now()
    return {
      expired_at: sessionStatus === 'expired' ? at : undefined,
      lapsed_at: sessionStatus === 'lapsed' ? at : undefined,
      idle_at: hasBeenWhole ? at : undefined,
      bare_at: sessionStatus === 'connected' && bareAnswers > 0 ? at : undefined,
      check_at: undefined,
    }
  }

  /** Records that polls have failed for `forMs`. */
  async noteFailure(forMs: number, error: unknown): Promise<void> {
    const { problem, code, options } =
      error instanceof SvcError ? error : new SvcError('internal', 'an unexpected error; see the log')
    const known = this.#failure
    if (problem === known?.poll_error && code === known.poll_error_code) return
    const failure = { poll_error: problem, poll_error_code: code, poll_error_quote: options.quote }
    // A failure that is already recorded keeps its start time.
    const since = known ? {} : { failing_since: Math.round(this.runtime.clock.now() - forMs) }
    if (await this.write({ ...since, ...failure })) this.#failure = failure
  }

  /** Records that a poll was answered. */
  async noteSuccess(): Promise<void> {
    if (!this.#failure) return
    if (await this.write(worksAgain)) this.#failure = undefined
  }

  /** Writes marks into the session's file. @returns whether that worked */
  async write(marks: Marks | undefined): Promise<boolean> {
    if (!marks) return true
    try {
      await currentSession(this.ports.sessions, this.ports.login)
      await this.ports.sessions.mark(this.ports.login.name, this.ports.login.token, marks)
      return true
    } catch (error) {
      this.runtime.log.error('state of session not written', { error })
      return false
    }
  }
}
