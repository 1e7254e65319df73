/**
 * When each session and each of its users was last sent to, by whichever process on this directory: so all of them
 * together keep the pace.
 *
 * A turn is booked before it is waited for, and given back when nothing went out in it; one that a crash leaves unused
 * costs a wait. Times are
 * those of the wall clock (Unix ms), the only one that processes and restarts share.
 */
import type { Clock } from '../platform/clock.ts'
import type { Database } from '../platform/sqlite.ts'
import type { Messages } from './messages.ts'

/** The turns that count now. */
export interface TurnsTaken {
  /** Unix ms. */
  now: number
  /** The newest one of the session. */
  last: number | undefined
  /** The newest ones of the user, oldest first. */
  user: number[]
}

export interface TurnRules {
  /** So many turns of a user, of the last `windowMs`, are of interest. May be infinite: then none is. */
  perWindow: number
  windowMs: number
  /** Turns later than this from now were booked by a clock that has been set back since: they do not count. */
  aheadMs: number
}

/** Kept at least this long: another process may be configured to look back further. */
const keptMs = 60 * 60_000

export class Turns {
  readonly #db: Database
  readonly #messages: Messages
  readonly #clock: Clock

  constructor(db: Database, messages: Messages, clock: Clock) {
    this.#db = db
    this.#messages = messages
    this.#clock = clock
  }

  /** The turns that count for a message to that user now. */
  taken(session: string, user: string, rules: TurnRules): TurnsTaken {
    return this.#taken(this.#messages.knownKey(session), user, rules)
  }

  /**
   * Books the turn that `choose` names (Unix ms), with nobody else booking meanwhile; none when it throws.
   *
   * @returns milliseconds until then
   */
  book(session: string, user: string, rules: TurnRules, choose: (taken: TurnsTaken) => number): number {
    return this.#db.transaction(() => {
      const key = this.#messages.keyOf(session)
      const taken = this.#taken(key, user, rules)
      const { now } = taken
      const at = choose(taken)
      // Two statements: with OR it walks through all of the session's turns.
      const old = now - Math.max(rules.windowMs, keptMs)
      this.#db.prepare('DELETE FROM turn WHERE session = ? AND at <= ?').run(key, old)
      this.#db.prepare('DELETE FROM turn WHERE session = ? AND at > ?').run(key, now + rules.aheadMs)
      this.#db.prepare('INSERT INTO turn (session, peer, at) VALUES (?, ?, ?)').run(key, user, at)
      return at - now
    })
  }

  /** Gives back a turn in which nothing was sent. Those that were booked behind it stay where they are. */
  giveBack(session: string, user: string, at: number): void {
    this.#db
      .prepare(
        'DELETE FROM turn WHERE rowid = (SELECT rowid FROM turn WHERE session = ? AND peer = ? AND at = ? LIMIT 1)',
      )
      .run(this.#messages.keyOf(session), user, at)
  }

  /**
   * Gives a turn back and books the one that `choose` names instead, with nobody else booking meanwhile.
   *
   * @returns milliseconds until then
   */
  rebook(
    session: string,
    user: string,
    at: number,
    rules: TurnRules,
    choose: (taken: TurnsTaken) => number,
  ): number {
    return this.#db.transaction(() => {
      this.giveBack(session, user, at)
      return this.book(session, user, rules, choose)
    })
  }

  #taken(session: number | undefined, user: string, rules: TurnRules): TurnsTaken {
    const now = this.#clock.now()
    if (session === undefined) return { now, last: undefined, user: [] }
    const latest = now + rules.aheadMs
    const last = this.#db
      .prepare('SELECT max(at) AS at FROM turn WHERE session = ? AND at <= ?')
      .get(session, latest)?.at
    const turns = Number.isFinite(rules.perWindow)
      ? this.#db
          .prepare(
            'SELECT at FROM turn WHERE session = ? AND peer = ? AND at > ? AND at <= ? ORDER BY at DESC LIMIT ?',
          )
          .all(session, user, now - rules.windowMs, latest, rules.perWindow)
      : []
    return {
      now,
      last: typeof last === 'number' ? last : undefined,
      user: turns.map(row => Number(row.at)).reverse(),
    }
  }
}
