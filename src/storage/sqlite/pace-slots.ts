/** The slots of the pace, in the table `turn`. */
import type { SendFacts, SendRules } from '../../model/admission.ts'
import { oldSlotsAt } from '../outbox-rules.ts'
import { EnginePart } from './engine-part.ts'

/**
 * The slots: the times at which each session and each of its users was, or will be, sent to. So all processes
 * together keep the pace.
 *
 * A slot is taken before the wait for it, and given back if nothing was sent in it. A slot that a crash
 * leaves unused costs one wait. Times are those of the wall clock (Unix ms), the only clock that processes
 * and restarts share.
 */
export class SqlitePaceSlots extends EnginePart {
  /** Returns the slots that count for a message to that user now. */
  listTaken(session: number | undefined, user: string, { pace, patienceMs }: SendRules): SendFacts['slots'] {
    if (session === undefined || pace === 'off') return { user: [] }
    const now = this.clock.now()
    // A slot later than anyone would wait was taken by a clock that was set back since.
    const latest = now + patienceMs
    const last = this.db.get<{ at?: number }>`SELECT max(at) AS at FROM turn WHERE session = ${session}
      AND at <= ${latest}`?.at
    // SQLite recompiles a statement for each LIMIT value that it can see.
    const slots = Number.isFinite(pace.perWindow)
      ? this.db.all<{ at: number }>`SELECT at FROM turn WHERE session = ${session} AND peer = ${user}
        AND at > ${now - pace.windowMs} AND at <= ${latest} ORDER BY at DESC LIMIT 0 + ${pace.perWindow}`
      : []
    return { last, user: slots.map(({ at }) => at).reverse() }
  }

  take(session: number, user: string, at: number, { pace, patienceMs }: SendRules): void {
    if (pace === 'off') return
    const now = this.clock.now()
    // Two statements: with OR, SQLite walks through all slots of the session.
    const old = oldSlotsAt(now, pace)
    this.db.run`DELETE FROM turn WHERE session = ${session} AND at <= ${old}`
    this.db.run`DELETE FROM turn WHERE session = ${session} AND at > ${now + patienceMs}`
    this.db.run`INSERT INTO turn (session, peer, at) VALUES (${session}, ${user}, ${at})`
  }

  /** Gives back a slot in which nothing was sent. Later slots stay where they are. */
  giveBack(session: number, user: string, at: number): void {
    this.db.run`DELETE FROM turn WHERE rowid = (SELECT rowid FROM turn WHERE session = ${session}
      AND peer = ${user} AND at = ${at} LIMIT 1)`
  }
}
