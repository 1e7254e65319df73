/**
 * Stores what polls bring: messages, what they say about their senders, and the cursor, in one transaction. Batches that
 * wait are stored together, one group at a time, so that a node locks the head of the log rarely.
 */
import { SvcError } from '../../model/error.ts'
import { sessionKeyOf, withMarks } from '../../model/session.ts'
import type { PgQueries } from '../../platform/postgres.ts'
import { rowsAsJson, rowsOfJson, toJsonb } from '../../platform/postgres-values.ts'
import { noSql, prepared, type Sql, sql } from '../../platform/sql.ts'
import { batchPartOf, type JudgedMessage, judgeMessages } from '../deduplication.ts'
import { mapRaw, mapToken } from '../sealed-places.ts'
import { toSearchableText } from '../search-text.ts'
import type { Ingested, PolledBatch } from '../storage.ts'
import { decide, noteNew, queriesFor } from './known-messages.ts'
import { PgPart } from './part.ts'
import { SenderLanes, updateContexts, updateCounters } from './senders.ts'
import { ensureKeys, keyInUse } from './session-keys.ts'

/** Messages, and characters of them, that are stored in one transaction if they come from several sessions. */
const [groupMessages, groupCharacters] = [2000, 1024 * 1024]
const groupsAtOnce = 2
/** Batches that may be tried again and are remembered. */
const mostUnfinished = 1000

type Rows = Ingested['rows']

interface Waiting {
  batch: PolledBatch
  /** Row ids of an earlier try. */
  known?: Rows | undefined
  done: PromiseWithResolvers<Ingested>
}

interface KeyRow {
  name_key: string
  key?: number
}

interface AccountRow {
  name_key: string
  name: string
  version: string
  bot_id?: string
  token?: string
  info?: string
  cursor?: string
}

/** A batch with what was read for it. */
interface Prepared {
  batch: PolledBatch
  key: number
  account: AccountRow | undefined
  isOurs: boolean
  /** The session has another bot. */
  isLate: boolean
  rows?: Rows | undefined
  judged: readonly JudgedMessage[]
}

export class PgIngest extends PgPart {
  #waiting: Waiting[] = []
  /** Groups under way, each with what no other group may have in common with it. */
  readonly #underWay = new Set<ReadonlySet<string>>()
  /** The last batch of each token, with the row ids of its messages. */
  readonly #unfinished = new Map<string, { id: string; rows: Rows }>()

  async ingest(batch: PolledBatch): Promise<Ingested> {
    const since = this.db.serverRun
    const done = Promise.withResolvers<Ingested>()
    const tried = this.#unfinished.get(batch.token)
    this.#waiting.push({ batch, known: tried?.id === batch.id ? tried.rows : undefined, done })
    void this.#run()
    const result = await done.promise
    await this.db.barrier(since)
    if (result.cursor === 'moved' && this.#unfinished.get(batch.token)?.id === batch.id)
      this.#unfinished.delete(batch.token)
    return result
  }

  /** Stores groups as long as batches wait: while the server works for one group, this process prepares another. */
  async #run(): Promise<void> {
    while (this.#waiting.length > 0 && this.#underWay.size < groupsAtOnce) {
      const own = new Set<string>()
      const group = this.#takeGroup(own)
      if (group.length === 0) return
      this.#underWay.add(own)
      await this.#storeGroup(group)
      this.#underWay.delete(own)
    }
  }

  /**
   * Takes the batches that are stored together: of different sessions, bots and tokens, in the order in which they came.
   *
   * @param own gets what no other group may have in common with this one
   */
  #takeGroup(own: Set<string>): Waiting[] {
    const taken = new Set([...this.#underWay].flatMap(marks => [...marks]))
    const group: Waiting[] = []
    const rest: Waiting[] = []
    let [messages, characters] = [0, 0]
    for (const one of this.#waiting) {
      const { batch } = one
      const marks = [`s ${sessionKeyOf(batch.session)}`, `b ${batch.botId}`, `t ${batch.token}`]
      const isFree = !marks.some(mark => taken.has(mark))
      for (const mark of marks) taken.add(mark)
      const length = batch.messages.reduce((sum, { raw, text }) => sum + raw.length + text.length, 0)
      const fits = messages + batch.messages.length <= groupMessages && characters + length <= groupCharacters
      if (!isFree || (group.length > 0 && !fits)) {
        rest.push(one)
        continue
      }
      group.push(one)
      messages += batch.messages.length
      characters += length
      for (const mark of marks) own.add(mark)
    }
    this.#waiting = rest
    return group
  }

  async #storeGroup(group: readonly Waiting[]): Promise<void> {
    if (group.length > 1) {
      try {
        return this.#end(group, await this.#store(this.db, noSql, group))
      } catch (error) {
        if (error instanceof SvcError) {
          for (const { done } of group) done.reject(error)
          return
        }
        // One of them may be at fault, or lost against another writer: each is tried by itself.
      }
    }
    for (const one of group) {
      try {
        this.#end([one], await this.db.retry(queries => this.#store(queries, queries.lock, [one])))
      } catch (error) {
        one.done.reject(error)
      }
    }
  }

  #end(group: readonly Waiting[], results: readonly Ingested[]): void {
    for (const [nth, { batch, done }] of group.entries()) {
      const result = results[nth]!
      this.#unfinished.delete(batch.token)
      this.#unfinished.set(batch.token, { id: batch.id, rows: result.rows })
      const [oldest] = this.#unfinished.keys()
      if (this.#unfinished.size > mostUnfinished && oldest !== undefined) this.#unfinished.delete(oldest)
      done.resolve(result)
    }
  }

  /** Reads, decides, and writes with one script. */
  async #store(queries: PgQueries, lock: Sql, group: readonly Waiting[]): Promise<Ingested[]> {
    const now = this.clock.now()
    const [batches, lanes] = await this.#prepare(queries, lock, group, now)
    const rows: object[] = []
    const accounts: object[] = []
    const places: (Rows[number] | { nth: number })[][] = []
    for (const one of batches) {
      const place = one.judged.map((judged, nth) => {
        const tried = one.rows?.[nth]
        if (judged.verdict === 'repeat' && tried === undefined)
          this.log.info('message delivered again under a new id', {
            session: one.batch.session,
            message_id: judged.id,
          })
        // What an earlier try stored may be lost since: a server that crashed had not made it durable.
        if (judged.verdict === 'known' || judged.verdict === 'repeat') return tried ?? 'duplicate'
        return { nth: rows.push(this.#rowOf(judged, one, now)) }
      })
      places.push(place)
      const areNew = place.map(row => row !== 'duplicate')
      if (one.isOurs) {
        const account = movedAccountOf(one, updateContexts(one, lanes, areNew, this.sealer))
        if (account) accounts.push(account)
      } else if (!one.isLate) {
        const areAdded = place.map(row => typeof row === 'object')
        updateCounters(one, lanes, areAdded)
      }
    }
    const first = await write(queries, { batches, lanes, accounts, rows })
    return batches.map(({ isOurs }, at) => ({
      rows: places[at]!.map(row => (typeof row === 'object' ? first + row.nth - 1 : row)),
      cursor: isOurs ? 'moved' : 'gone',
    }))
  }

  async #prepare(
    queries: PgQueries,
    lock: Sql,
    group: readonly Waiting[],
    now: number,
  ): Promise<[Prepared[], SenderLanes]> {
    const parts = group.map(({ batch }) => batchPartOf(batch.messages))
    const ids = parts.flatMap(part => [...part.ids])
    const messages = parts.flatMap(part => part.messages)
    const [keys, accounts, lanes] = selectState(group, lock).map(rowsAsJson)
    const [known, copies] = queriesFor(ids, messages, now).map(rowsAsJson)
    const found = await queries.one(
      prepared(
        sql`SELECT ${keys} AS keys, ${accounts} AS accounts, ${lanes} AS lanes, ${known} AS known, ${copies} AS copies`,
      ),
    )
    const rows = [rowsOfJson(found.known), rowsOfJson(found.copies)] as const
    const judged = await decide(queries, ids, rows, log =>
      parts.map((part, nth) => {
        const { botId } = group[nth]!.batch
        const list = judgeMessages(log, botId, { ...part, left: new Map() }, now)
        for (const one of list) noteNew(log, botId, one)
        return list
      }),
    )
    const keyOf = new Map(rowsOfJson<KeyRow>(found.keys).map(({ name_key, key }) => [name_key, key]))
    const accountOf = new Map(rowsOfJson<AccountRow>(found.accounts).map(row => [row.name_key, row]))
    const missing = group.map(({ batch }) => batch.session).filter(name => !keyOf.get(sessionKeyOf(name)))
    const added = missing.length > 0 ? await ensureKeys(queries, missing) : new Map<string, number>()
    const all: Prepared[] = []
    for (const [nth, { batch, known: rows }] of group.entries()) {
      const name = sessionKeyOf(batch.session)
      const key = keyOf.get(name) ?? added.get(name)!
      const account = accountOf.get(name)
      const isLate = account?.bot_id !== undefined && account.bot_id !== batch.botId
      all.push({
        batch,
        key,
        account,
        isOurs: this.#isOurs(account, batch),
        isLate,
        rows,
        judged: judged[nth]!,
      })
    }
    return [all, new SenderLanes(rowsOfJson(found.lanes))]
  }

  /** Whether the batch belongs to the session as it is. */
  #isOurs(account: AccountRow | undefined, { session, token, cursorFrom, cursorTo }: PolledBatch): boolean {
    if (account?.bot_id === undefined || account.token === undefined || account.name !== session) return false
    const { bot_id, token: sealed, cursor = '' } = account
    return (
      mapToken({ bot_id, token: sealed }, this.sealer.open).token === token &&
      (cursor === cursorFrom || cursor === cursorTo)
    )
  }

  #rowOf({ message, id, hash }: JudgedMessage, { batch, key }: Prepared, now: number): object {
    return {
      message_id: id,
      session: key,
      sent: 0,
      bot_id: batch.botId,
      peer: message.from_user,
      msg_type: message.msg_type,
      timestamp: message.timestamp,
      stored_at: now,
      content_hash: hash,
      text: toSearchableText(message.text),
      raw: mapRaw(message.raw, id, this.sealer.seal),
    }
  }
}

/** Selects the keys of the sessions, their accounts, and the lanes of the senders. */
function selectState(group: readonly Waiting[], lock: Sql): [keys: Sql, accounts: Sql, lanes: Sql] {
  const names = group.map(({ batch }) => sessionKeyOf(batch.session))
  const senders = group.flatMap(({ batch }, nth) => {
    const peers = batch.messages.flatMap(({ from_user: user }) => (user ? [user, user.toLowerCase()] : []))
    return [...new Set(peers)].map(peer => ({ name: names[nth]!, peer }))
  })
  const keys = sql`SELECT given.name_key, ${keyInUse(sql`given.name_key`)} AS key FROM unnest(${names}::text[]) AS given(name_key)`
  const accounts = sql`SELECT name_key, name, bot_id, token, info, cursor, xmin::text AS version FROM account
    WHERE name_key = ANY (${names}::text[]) ORDER BY name_key${lock}`
  const lanes = sql`WITH keys AS MATERIALIZED (${keys})
    SELECT lane.* FROM unnest(${senders.map(({ name }) => name)}::text[],
        ${senders.map(({ peer }) => peer)}::text[]) AS sender(name_key, peer)
      JOIN keys USING (name_key) CROSS JOIN LATERAL (SELECT l.id, l.xmin::text AS version, l.session, l.peer, l.token,
        l.received_at, l.first_seen, l.used FROM outbox_lane l
        WHERE l.session = keys.key AND l.peer = sender.peer LIMIT 1${lock}) lane`
  return [keys, accounts, lanes]
}

/** The account of a batch after it; undefined if nothing changes. */
function movedAccountOf({ account, batch }: Prepared, wrote: boolean): object | undefined {
  const { cursorTo, marks } = batch
  const info = withMarks(JSON.parse(account!.info ?? '{}'), marks ?? {})
  if (!info && !wrote && (account!.cursor ?? '') === cursorTo) return undefined
  return { name_key: account!.name_key, cursor: cursorTo, info: info ? JSON.stringify(info) : account!.info }
}

/** Writes what was decided, if nothing that was read has changed. @returns id of the first message */
async function write(
  queries: PgQueries,
  {
    batches,
    lanes,
    accounts,
    rows,
  }: {
    batches: readonly Prepared[]
    lanes: SenderLanes
    accounts: readonly object[]
    rows: readonly object[]
  },
): Promise<number> {
  const guarded = batches
    .flatMap(({ account }) => account ?? [])
    .map(({ name_key, version }) => ({ name_key, version }))
  const all = { ...lanes.changes(), accounts, rows }
  const used = Object.entries(all).filter(([, list]) => list.length > 0)
  if (used.length === 0) return 0
  const changes = toJsonb({ guarded, ...Object.fromEntries(used) })
  const { last } = await queries.one<{ last: number }>(
    prepared(sql`SELECT write_batches(${changes}::jsonb) AS last`),
  )
  return last - rows.length + 1
}
