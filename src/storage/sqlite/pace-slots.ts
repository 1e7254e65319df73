/**
 * When each session and each of its users was, or is to be, sent to, by whichever process on this directory: so all of
 * them together keep the pace.
 *
 * A slot is taken before it is waited for, and given back when nothing went out in it; one that a crash leaves unused
 * costs a wait. Times are those of the wall clock (Unix ms), the only one that processes and restarts share.
 */
import type { SendFacts, SendRules } from '../../model/admission.ts'
import { EnginePart } from './engine-part.ts'

/** Kept at least this long: another process may be configured to look back further. */
const keptMs = 60 * 60_000

export class PaceSlots extends EnginePart {
  /** The slots that count for a message to that user now. */
  taken(session: number | undefined, user: string, { pace, patienceMs }: SendRules): SendFacts['slots'] {
    if (session === undefined || pace === 'off') return { user: [] }
    const now = this.clock.now()
    // One later than anybody waits was taken by a clock that has been set back since.
    const latest = now + patienceMs
    const last = this.db.get<{ at?: number }>`SELECT max(at) AS at FROM turn WHERE session = ${session}
      AND at <= ${latest}`?.at
    const slots = Number.isFinite(pace.perWindow)
      ? this.db.all<{ at: number }>`SELECT at FROM turn WHERE session = ${session} AND peer = ${user}
        AND at > ${now - pace.windowMs} AND at <= ${latest} ORDER BY at DESC LIMIT ${pace.perWindow}`
      : []
    return { last, user: slots.map(({ at }) => at).reverse() }
  }

  take(session: number, user: string, at: number, { pace, patienceMs }: SendRules): void {
    if (pace === 'off') return
    const now = this.clock.now()
    // Two statements: with OR it walks through all of the session's slots.
    const old = now - Math.max(pace.windowMs, keptMs)
    this.db.run`DELETE FROM turn WHERE session = ${session} AND at <= ${old}`
    this.db.run`DELETE FROM turn WHERE session = ${session} AND at > ${now + patienceMs}`
    this.db.run`INSERT INTO turn (session, peer, at) VALUES (${session}, ${user}, ${at})`
  }

  /** Nothing was sent in it. Those that were taken behind it stay where they are. */
  giveBack(session: number, user: string, at: number): void {
    this.db.run`DELETE FROM turn WHERE rowid = (SELECT rowid FROM turn WHERE session = ${session}
      AND peer = ${user} AND at = ${at} LIMIT 1)`
  }
}
