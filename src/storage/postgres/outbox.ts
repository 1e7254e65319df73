/** Implements `OutboxStore` by its parts, and changes calls that no process sends at the moment. */
import type { SendRules, Verdict } from '../../model/admission.ts'
import { joinSql, sql } from '../../platform/sql.ts'
import type { SentMessage } from '../messages.ts'
import { readWaiting } from '../nouns/inspection.ts'
import { refuseRevoked } from '../nouns/keys.ts'
import type {
  ApproveResult,
  BeginResult,
  BegunMessage,
  EditedText,
  EnqueueResult,
  HoldBack,
  NewEntry,
  OutboxStore,
  Settlement,
  SettleResult,
} from '../outbox.ts'
import { approve, isAsked } from '../rules/outbox-ends.ts'
import { OutboxPlan } from '../rules/outbox-plan.ts'
import type { Attempt } from './database.ts'
import { Doubts } from './doubts.ts'
import { drive } from './drive.ts'
import { PgEntries } from './entries.ts'
import { PgLanes } from './lanes.ts'
import { PgOutboxBegin } from './outbox-begin.ts'
import { PgOutboxCalls, type PgOutboxParts } from './outbox-calls.ts'
import { PgOutboxEnds } from './outbox-ends.ts'
import { type PgPlan, writePlan } from './outbox-plans.ts'
import { type EngineContext, PgPart } from './part.ts'
import { postgresDialect } from './routines.ts'

function createParts(context: EngineContext): PgOutboxParts {
  const lanes = new PgLanes(context)
  return { lanes, entries: new PgEntries(context, { lanes }), doubts: new Doubts(context.clock) }
}

export class PgOutbox extends PgPart implements OutboxStore {
  readonly #parts = createParts(this)
  readonly #calls = new PgOutboxCalls(this, this.#parts)
  readonly #begin = new PgOutboxBegin(this, this.#parts)
  readonly #ends = new PgOutboxEnds(this, this.#parts)

  async enqueue(entry: NewEntry, rules: SendRules, first?: SentMessage): Promise<EnqueueResult> {
    for (;;) {
      const result = await this.#calls.enqueue(entry, rules, first)
      if (result !== 'known') return result
      const earlier = await this.#ends.findByKey(entry.key!)
      if (earlier) return { state: 'known', entry: earlier }
    }
  }

  begin(ids: readonly number[], botId: string, rules: SendRules, message: SentMessage): Promise<BeginResult> {
    return this.#begin.begin({ ids, botId, rules, message })
  }

  settle(begun: BegunMessage, settlement: Settlement): Promise<SettleResult> {
    return this.#calls.settle(begun, settlement)
  }

  checkAdmission(session: string, user: string, count: number, rules: SendRules): Promise<Verdict> {
    return this.#parts.lanes.checkAdmission(session, user, count, rules)
  }

  approve(id: number, rules: SendRules, by: string, edited?: EditedText): Promise<ApproveResult | undefined> {
    return this.durably(() => this.db.retry(queries => this.#approve(queries, { id, rules, by, edited })))
  }

  async #approve(
    queries: Attempt,
    { id, rules, by, edited }: { id: number; rules: SendRules; by: string; edited: EditedText | undefined },
  ): Promise<ApproveResult | undefined> {
    await this.#parts.lanes.lock(queries, sql`l.id = (SELECT lane FROM outbox WHERE id = ${id})`)
    const [found] = await this.#parts.entries.load(queries, sql`e.id = ${id}`)
    if (!found?.lane || !isAsked(found.entry, this.clock.now())) return undefined
    const guards = await drive(queries, refuseRevoked(postgresDialect, by))
    const facts = { ...found, ...(await this.#parts.lanes.readForAdmission(queries, found.lane, rules)) }
    const plan: PgPlan = new OutboxPlan(this.clock.now())
    const result = approve(facts, { rules, by, edited }, plan)
    if (!plan.isEmpty) await writePlan(queries, plan, guards)
    return result
  }

  async holdBack(lane: number, { refused = [], hold, pause }: HoldBack): Promise<void> {
    const held = hold && sql`held_at = ${hold.since}, held_until = ${hold.until}, holds = ${hold.count}`
    const paused = pause && sql`not_before = ${pause.not_before}, failures = ${pause.failures}`
    const changes = [sql`used = used`, held ?? [], paused ?? []].flat()
    await this.durably(() =>
      this.db.script([
        sql`UPDATE outbox_lane SET ${joinSql(changes)} WHERE id = ${lane}`,
        sql`UPDATE outbox_part SET tries = tries + 1 WHERE id = ANY (${refused}::bigint[])`,
      ]),
    )
  }

  listWaiting: OutboxStore['listWaiting'] = (rules, some) => this.#parts.lanes.listWaiting(rules, some)
  claim: OutboxStore['claim'] = lane => this.#parts.lanes.claim(lane)
  release: OutboxStore['release'] = lane => this.#parts.lanes.release(lane)
  getCounters: OutboxStore['getCounters'] = (session, user) => this.#parts.lanes.getCounters(session, user)
  getEntry: OutboxStore['getEntry'] = (id, sight) => this.#parts.entries.getEntry(id, sight)
  list: OutboxStore['list'] = filter => this.#parts.entries.list(filter)
  getDepth: OutboxStore['getDepth'] = () => drive(this.db, readWaiting())
  fileOf: OutboxStore['fileOf'] = (message, sight) => this.#parts.entries.fileOf(message, sight)
  listFiles: OutboxStore['listFiles'] = () => this.#parts.entries.listFiles()
  findByKey: OutboxStore['findByKey'] = key => this.#ends.findByKey(key)
  end: OutboxStore['end'] = (id, reason, options) => this.#ends.end(id, reason, options)
  renew: OutboxStore['renew'] = id => this.#ends.renew(id)
  expire: OutboxStore['expire'] = reasons => this.#ends.expire(reasons)

  async reap(before: number): Promise<number> {
    await this.#calls.settleAgain()
    const begun = this.#parts.doubts.listOver()
    const unknown = await this.#ends.reap(before, begun)
    this.#parts.doubts.take(begun)
    return unknown
  }
}
