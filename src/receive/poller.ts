/**
 * Polls all sessions in parallel: runs one loop (`session-poller.ts`) for each login in the session files.
 *
 * The loops are independent. A batch that cannot be stored stays in memory and is stored before that
 * session polls again (`ingest.ts`).
 *
 * Every wait has a deadline. If a wait passes its deadline, a poll is aborted, and its loop starts again
 * after it has ended, so that no bot is polled twice. A commit is not aborted; the delay is logged.
 */
import type { BotInfo } from '../model/session.ts'
import { formatCount } from '../platform/format.ts'
import { fetchLimitVariable } from '../platform/process.ts'
import { RunningPart, type Runtime } from '../platform/runtime.ts'
import { linkSignals } from '../platform/signals.ts'
import type { Repetition } from '../platform/tasks.ts'
import type { Lease } from '../storage/leases.ts'
import type { SessionChanges, SessionRecord } from '../storage/state.ts'
import { ProxyLimits } from './gateway-limits.ts'
import { type PollerPorts, type PollRun, pollingContinues, SessionPoller } from './session-poller.ts'
import { Watchdog } from './watchdog.ts'

export type { PollerPorts } from './session-poller.ts'

/** Changes made by other processes are noticed after this time at the latest. */
const checkEveryMs = 1000
/** Delay between the starts of many loops, so that TLS handshakes do not pile up. */
const staggerMs = 2
/** Time for answers on their way when the lease is lost; a process that stood still first reads what has arrived. */
const arrivalMs = 250
/** Share of the poll limit above which a warning is logged. */
const limitShare = 0.8

export class Poller extends RunningPart<PollerPorts> {
  /**
   * Session pollers by login. Its key is token and creation time, because a new login may get the old
   * token.
   */
  readonly #sessionPollers = new Map<string, SessionPoller>()
  /** Every running loop, also one whose session is gone while its last batch is being stored. */
  readonly #loops = new Set<Promise<void>>()
  /** The sessions as read last in this run, by name. */
  readonly #owned = new Map<string, SessionRecord>()
  /**
   * Logins whose loop ended by itself, with the time of upstream's last answer. The next check restarts
   * them.
   */
  readonly #endedLogins = new Map<string, number | undefined>()
  /** Whether the session files were read in this run. */
  #isRead = false
  #isLimitLogged = false
  /** Reads the sessions to poll. */
  #listing: Repetition | undefined
  readonly #limits = new ProxyLimits()

  constructor(ports: PollerPorts, runtime: Runtime) {
    super(ports, runtime)

    runtime.bus.on('sessionsChanged', () => this.#listing?.nudge())
  }

  /** Returns the Unix ms of the last answer to a poll of that login. */
  lastPoll(bot: BotInfo): number | undefined {
    const login = loginOf(bot)
    return this.#sessionPollers.get(login)?.lastPollAt ?? this.#endedLogins.get(login)
  }

  /**
   * Whether a batch in memory cannot be committed. Small writes may still succeed on a disk too full for
   * it.
   */
  get isStuck(): boolean {
    for (const { login } of this.#sessionPollers.values()) if (login.isCommitStuck) return true
    return false
  }

  /** Whether every session was asked in this run, and its answer is committed or was an error. */
  get isAnswered(): boolean {
    return this.#isRead && [...this.#sessionPollers.values()].every(sessionPoller => sessionPoller.isAnswered)
  }

  /**
   * Polls the sessions of a lease until `stop` aborts or the lease is lost. Then waits until the batches in
   * memory are committed. Does not release the lease.
   *
   * @param options.oneCycle for a single call: upstream is not notified that polling starts or ends, and
   *   a session that has brought messages is polled again only a second later, so that no poll is started
   *   just to be aborted
   */
  async run(
    lease: Omit<Lease, 'release'>,
    stop: AbortSignal,
    { oneCycle = false }: { oneCycle?: boolean } = {},
  ): Promise<void> {
    using ended = linkSignals(stop, lease.lost)
    const { signal } = ended
    const { log, tasks } = this.runtime
    const run: PollRun = {
      oneCycle,
      stopping: signal,
      closing: lease.waitsForStore ? stop : signal,
      limits: this.#limits,
      mayPoll: session => lease.mayPoll(session),
      keepUntilDone: work => void this.#track(work.then(() => {})),
    }
    this.#isRead = false
    let revision: number | undefined
    // At once: the loop below may wait for a database that does not answer.
    const endPolls = () => {
      const reason = lease.isShared ? pollingContinues : undefined
      for (const sessionPoller of this.#sessionPollers.values())
        if (stop.aborted) sessionPoller.end(reason)
        else void sessionPoller.leave(reason, arrivalMs)
    }
    signal.addEventListener('abort', endPolls, { once: true })
    const often = { everyMs: checkEveryMs, log, signal }
    const wait = (ms: number, either: AbortSignal) => lease.waitForChange(ms, either)
    const watching = this.#watch(signal)
    const failure = 'sessions to poll cannot be read'
    this.#listing = tasks.repeat({ ...often, name: 'polled_sessions', failure, wait }, async () => {
      const owned = await lease.listOwned(revision)
      const ending = this.#loopsOf(owned.changed)
      const hasOthers = this.#adjust(owned.changed, run)
      for (const [name, loop] of ending) void this.#track(loop.then(() => lease.giveUp(name)))
      // Another process may have made, removed or renamed a session.
      if (hasOthers && revision !== undefined) this.runtime.bus.notify('sessionsChanged')
      revision = owned.revision
      this.#isRead = true
    })
    await Promise.all([this.#listing.done, watching.done])
    await Promise.all(this.#loops)
    for (const map of [this.#owned, this.#sessionPollers, this.#endedLogins]) map.clear()
  }

  #watch(signal: AbortSignal): Repetition {
    const { clock, log, tasks } = this.runtime
    const watchdog = new Watchdog(clock)
    const failure = 'polls are not watched'
    return tasks.repeat({ name: 'poll_watchdog', everyMs: checkEveryMs, failure, log, signal }, () => {
      for (const sessionPoller of watchdog.findOverdue(this.#sessionPollers.values()))
        this.#endOverdue(sessionPoller)
    })
  }

  /** Ends a loop that waits for something overdue. The next check restarts it. */
  #endOverdue(sessionPoller: SessionPoller): void {
    const { log } = this.runtime
    const { login, stopping, wait } = sessionPoller
    const session = login.name
    if (wait?.what === 'commit') {
      if (!login.isCommitStuck) log.error('a batch is being committed for far too long', { session })
      login.isCommitStuck = true
    } else if (!stopping.aborted) {
      if (wait?.isDoubted)
        log.info('the machine slept, or its clock was set: the poll begins anew', { session })
      else log.warn('poll shows no life; it begins anew', { session, waitsFor: wait?.what })
      sessionPoller.end(pollingContinues)
    }
  }

  /** Returns the loops of the sessions that are gone, by name: resolved promises for sessions that are not polled. */
  #loopsOf(changed: SessionChanges['changed']): [name: string, loop: Promise<void>][] {
    return [...changed]
      .filter(([, record]) => record === undefined)
      .map(([name]) => {
        const bot = this.#owned.get(name)?.bot
        const polling = bot && this.#sessionPollers.get(loginOf(bot))
        return [name, polling?.ended ?? Promise.resolve()]
      })
  }

  /** Starts and ends loops according to the changed sessions. @returns whether a session is new or gone */
  #adjust(changed: SessionChanges['changed'], run: PollRun): boolean {
    if (run.stopping.aborted) return false
    let hasOthers = false
    const oldLogins: string[] = []
    const newLogins = new Map<string, SessionRecord>()
    for (const [name, record] of changed) {
      const before = this.#owned.get(name)
      hasOthers ||= (before === undefined) !== (record === undefined)
      if (before?.bot) oldLogins.push(loginOf(before.bot))
      if (record?.bot && !newLogins.has(loginOf(record.bot))) newLogins.set(loginOf(record.bot), record)
      if (record) this.#owned.set(name, record)
      else this.#owned.delete(name)
    }
    let started = 0
    for (const login of new Set([...oldLogins, ...newLogins.keys(), ...this.#endedLogins.keys()])) {
      const isOf = (record: SessionRecord | undefined) => record?.bot && loginOf(record.bot) === login
      const running = this.#sessionPollers.get(login)
      const held = running && this.#owned.get(running.login.name)
      // Two folders with one login (a copy made by hand): two polls would take messages from each other.
      const { name, bot } =
        (isOf(held) ? held : (newLogins.get(login) ?? this.#owned.values().find(isOf))) ?? {}
      if (name !== undefined && bot) {
        const sessionPoller = running ?? this.#start(login, { name, bot }, run, started++ * staggerMs)
        sessionPoller.login.name = name
        if (bot.check_at !== undefined) sessionPoller.check(bot.check_at)
      } else if (running && !run.mayPoll(running.login.name)) {
        // Another process is to poll it. That can wait for the answer under way.
        void running.leave(pollingContinues)
      } else if (running) {
        // A new login may get the old token.
        const isBack = this.#owned.values().some(({ bot }) => bot?.token === running.login.token)
        running.end(isBack ? pollingContinues : undefined)
        this.#sessionPollers.delete(login)
      }
    }
    this.#endedLogins.clear()
    this.#warnOfLimit()
    return hasOthers
  }

  #start(
    login: string,
    session: { name: string; bot: BotInfo },
    run: PollRun,
    delayMs: number,
  ): SessionPoller {
    const sessionPoller = new SessionPoller(this.ports, this.runtime, run, session)
    sessionPoller.lastPollAt = this.#endedLogins.get(login)
    this.#sessionPollers.set(login, sessionPoller)
    sessionPoller.ended = this.#track(
      sessionPoller
        .follow(delayMs)
        .catch(error =>
          this.runtime.log.error('poll loop failed', { session: sessionPoller.login.name, error }),
        )
        .finally(() => {
          // A loop that ended by itself is restarted by the next check, from the current files.
          if (this.#sessionPollers.get(login) !== sessionPoller) return
          this.#sessionPollers.delete(login)
          this.#endedLogins.set(login, sessionPoller.lastPollAt)
        }),
    )
    return sessionPoller
  }

  /**
   * Warns when the sessions come near the limit of parallel polls. Above it, sessions poll one after the other.
   * Needed for the library, and for programs that cannot restart themselves with a higher limit.
   */
  #warnOfLimit(): void {
    const { log } = this.runtime
    const { permits } = this.ports
    const isNear = this.#sessionPollers.size > permits.size * limitShare
    if (isNear && !this.#isLimitLogged) {
      log.warn(
        `this process can poll ${formatCount(permits.size, 'session')} at a time: start it with ${fetchLimitVariable}=60000 in its environment`,
        { sessions: this.#sessionPollers.size },
      )
    }
    this.#isLimitLogged = isNear
  }

  /** Makes the run wait for this work before it ends. */
  #track(work: Promise<void>): Promise<void> {
    const kept: Promise<void> = work.finally(() => this.#loops.delete(kept))
    this.#loops.add(kept)
    return kept
  }
}

/** Cached for each file content, because thousands are compared. */
const logins = new WeakMap<BotInfo, string>()

function loginOf(bot: BotInfo): string {
  const known = logins.get(bot)
  if (known !== undefined) return known
  const login = `${bot.token}\n${bot.created_at}`
  logins.set(bot, login)
  return login
}
