/**
 * The sessions that this node polls. Each account belongs to the node that `account.node` names, for as long as that node
 * has its row in `node`. Every change of the owner raises `account.fence`, and a node takes an account only with the fence
 * that it has read: of several that want it, one gets it.
 */

import { sessionKeyOf } from '../../model/session.ts'
import type { Clock } from '../../platform/clock.ts'
import type { Log } from '../../platform/log.ts'
import { RoomPart } from '../../platform/runtime.ts'
import { type Sql, sql } from '../../platform/sql.ts'
import type { Lease } from '../leases.ts'
import type { SessionChanges, SessionReader } from '../state.ts'
import type { PgDatabase } from './database.ts'
import { OwnedSessions } from './owned-sessions.ts'

/** Accounts that are taken, or given up, in one transaction. */
const atOnce = 500
/** No poll begins in the last part of a lease: most end by themselves then, and lose no answer. */
const quietMs = 1000
/** Changes of the other processes are followed at most this often. */
const followEveryMs = 100

export interface PgLeasePorts {
  db: PgDatabase
  clock: Clock
  log: Log
  sessions: Pick<SessionReader, 'listChangedSince'>
  /** Time in ms for which the lease of this node is certainly valid. */
  leftMs(): number
  /** Whether no account may be taken: the holders of leases may be unknown after a failover. */
  isHeld(): boolean
  /** Frees all accounts of this node. */
  free(): Promise<void>
}

/** An account, as it was read last. */
interface Account {
  /** Whether the session exists. */
  there: boolean
  /** What its node is chosen by; a rename leaves it. */
  hash: number
  node?: string | undefined
  fence: number
}

interface AccountRow {
  name_key: string
  bot_id?: string
  node?: string
  fence: number
  changed: number
}

/** Frees all accounts of a node, which must hold the row of the node locked. */
export const freeAccounts = (node: string): Sql[] => [
  // Locks every row updated below, in the common lock order, to avoid deadlocks.
  sql`SELECT FROM account WHERE node = ${node} OR (node IS NULL AND bot_id IS NOT NULL) ORDER BY name_key FOR UPDATE`,
  sql`UPDATE account SET node = NULL, fence = fence + 1 WHERE node = ${node}`,
  sql`SELECT touch_sessions(free.keys) FROM (SELECT array_agg(name_key) AS keys FROM account
    WHERE node IS NULL AND bot_id IS NOT NULL) free WHERE free.keys IS NOT NULL`,
]

export class PgLease extends RoomPart<PgLeasePorts> implements Lease {
  readonly #lost = new AbortController()
  #isReleased = false
  /** The highest `account.changed`, and the other changes, that were read. */
  readonly #read = { changed: -1, touched: 0 }
  /** By the form in which names are compared. */
  readonly #accounts = new Map<string, Account>()
  /** `all`: accounts of this node that another one is to poll. `ended`: those of them that this node polls no more. */
  readonly #leaving = {
    all: new Set<string>(),
    ended: new Set<string>(),
    freeing: undefined as Promise<void> | undefined,
  }
  readonly #owned = new OwnedSessions()
  /** Names of the nodes, by id. The row of one that died may be gone before its accounts are taken. */
  readonly #names = new Map<string, string>()
  #listing: Promise<unknown> = Promise.resolve()

  get lost(): AbortSignal {
    return this.#lost.signal
  }

  isShared = false
  /** A lease is over when the database is away. */
  get waitsForStore(): boolean {
    return true
  }

  get isOver(): boolean {
    return this.#isReleased || this.#lost.signal.aborted
  }

  mayPoll(session?: string): boolean {
    if (this.isOver) return false
    const leftMs = this.ports.leftMs()
    return session === undefined ? leftMs > 0 : leftMs > quietMs && this.#isOwn(sessionKeyOf(session))
  }

  #isOwn(key: string): boolean {
    return this.#accounts.get(key)?.node === this.ports.db.node && !this.#leaving.all.has(key)
  }

  /** Ends the lease without a word to the database: another process may have the accounts. */
  lose(reason: string): void {
    this.#lost.abort(new DOMException(reason, 'AbortError'))
  }

  async release(): Promise<void> {
    if (this.#isReleased) return
    this.#isReleased = true
    await this.#listing.catch(() => {})
    await this.ports.free()
  }

  async waitForChange(ms: number, signal: AbortSignal): Promise<void> {
    const { clock, db } = this.ports
    const until = clock.monotonic() + ms
    await clock.sleep(followEveryMs, signal)
    for (let leftMs = ms; leftMs > 0 && !signal.aborted; leftMs = until - clock.monotonic()) {
      if (db.isClosed || db.horizon.touched !== this.#read.touched) return
      await db.wait(horizon => horizon.touched !== this.#read.touched, leftMs, signal)
    }
  }

  listOwned(revision?: number): Promise<SessionChanges> {
    const listed = this.#listing.catch(() => {}).then(() => this.#list(revision))
    this.#listing = listed
    return listed
  }

  async #list(revision?: number): Promise<SessionChanges> {
    if (!this.isOver) await this.#balance()
    const changes = await this.ports.sessions.listChangedSince(this.#owned.readUpTo)
    this.#owned.follow(changes, name => this.#isOwn(sessionKeyOf(name)))
    return this.#owned.list(revision)
  }

  /** Takes the accounts that are free and fall to this node, and begins to give up those that fall to another one. */
  async #balance(): Promise<void> {
    const { db, isHeld, leftMs, log } = this.ports
    this.#read.touched = db.horizon.touched
    const [nodes, changed] = (await db.script([
      sql`SELECT id, name, lease_until > clock_timestamp() AS lives FROM node WHERE polls`,
      sql`SELECT name_key, bot_id, node, fence, changed FROM account WHERE changed > ${this.#read.changed}`,
    ])) as [{ id: string; name: string; lives: boolean }[], AccountRow[]]
    // Taken by a call whose answer was lost.
    const isNew = ({ name_key, node }: AccountRow) =>
      node === db.node && this.#accounts.get(name_key)?.node !== node
    if (changed.some(isNew)) await db.barrier()
    for (const { bot_id, changed: at, fence, name_key, node } of changed) {
      this.#read.changed = Math.max(this.#read.changed, at)
      this.#accounts.set(name_key, { there: bot_id !== undefined, hash: hashOf(bot_id ?? ''), node, fence })
      if (node !== db.node) this.#leaving.all.delete(name_key)
    }
    const living = new Set(nodes.flatMap(({ id, lives }) => (lives ? [id] : [])))
    for (const { id, name } of nodes) this.#names.set(id, name)
    // A node that does not find itself has no lease any more, and will know it soon.
    if (!living.has(db.node) || leftMs() <= 0) return
    this.isShared = living.size > 1
    const choices = [...living].map(id => ({ id, hash: hashOf(id) }))
    const wanted: string[] = []
    const unwanted: string[] = []
    for (const [key, { hash, node, there }] of this.#accounts) {
      if (!there) continue
      const isMine = nodeFor(hash, choices) === db.node
      if (node === db.node ? !isMine : isMine && (node === undefined || !living.has(node))) {
        if (node !== db.node) wanted.push(key)
        else if (!this.#leaving.all.has(key)) unwanted.push(key)
      }
    }
    this.#drain(unwanted)
    if (isHeld()) return
    wanted.sort()
    const lost = new Map<string, number>()
    for (let from = 0; from < wanted.length && leftMs() > 0; from += atOnce)
      await this.#take(wanted.slice(from, from + atOnce), lost)
    for (const [id, accounts] of lost)
      log.info('this node took over the accounts of a node whose lease is over', {
        accounts,
        node: this.#names.get(id) ?? id,
      })
    for (const id of this.#names.keys()) if (!living.has(id)) this.#names.delete(id)
  }

  /** An account that is polled is given up when its last batch is stored, any other one now. */
  #drain(keys: readonly string[]): void {
    if (keys.length === 0) return
    const polled = new Set(this.#owned.names().map(sessionKeyOf))
    for (const key of keys) {
      this.#leaving.all.add(key)
      if (!polled.has(key)) this.#confirm(key)
    }
  }

  /** The accounts count as taken when that is durable. @param lost counts those that another node had, by its id */
  async #take(keys: readonly string[], lost: Map<string, number>): Promise<void> {
    const { db } = this.ports
    const fences = keys.map(key => this.#accounts.get(key)!.fence)
    const [, taken] = (await db.script([
      // Waits for a renewal under way. A node whose row is gone gives up everything before it adds its row again.
      sql`DELETE FROM node WHERE lease_until <= clock_timestamp()`,
      sql`UPDATE account a SET node = ${db.node}, fence = a.fence + 1
        FROM unnest(${keys}::text[], ${fences}::bigint[]) AS wanted (key, fence)
        WHERE a.name_key = wanted.key AND a.fence = wanted.fence AND a.bot_id IS NOT NULL
          AND (a.node IS NULL OR NOT EXISTS (SELECT FROM node n WHERE n.id = a.node AND n.polls))
          AND EXISTS (SELECT FROM node n WHERE n.id = ${db.node} AND n.polls)
        RETURNING a.name_key, a.fence`,
      sql`SELECT touch_sessions(${keys}::text[])`,
    ])) as [unknown, Pick<AccountRow, 'name_key' | 'fence'>[]]
    await db.barrier()
    for (const { fence, name_key } of taken) {
      const account = this.#accounts.get(name_key)
      if (account?.node !== undefined) lost.set(account.node, (lost.get(account.node) ?? 0) + 1)
      Object.assign(account ?? {}, { node: db.node, fence })
    }
  }

  giveUp(session: string): void {
    this.#confirm(sessionKeyOf(session))
  }

  #confirm(key: string): void {
    if (!this.#leaving.all.has(key) || this.isOver) return
    this.#leaving.ended.add(key)
    this.#leaving.freeing ??= this.#giveUpEnded()
  }

  /** Those that end at about the same time are given up together. */
  async #giveUpEnded(): Promise<void> {
    const { clock, db, log } = this.ports
    const failure = 'sessions cannot be given to other nodes'
    using task = db.tasks.register({ name: 'given_sessions', everyMs: followEveryMs, failure, log })
    while (this.#leaving.ended.size > 0 && !this.isOver) {
      await clock.sleep(followEveryMs / 2, this.lost)
      const keys = [...this.#leaving.ended].sort().slice(0, atOnce)
      const freed = db.script([
        sql`UPDATE account SET node = NULL, fence = fence + 1 WHERE name_key = ANY (${keys}::text[]) AND node = ${db.node}`,
        sql`SELECT touch_sessions(${keys}::text[])`,
      ])
      // What fails stays in the set, and is tried again.
      await task.run(async () => {
        await freed
        for (const key of keys) this.#leaving.ended.delete(key)
      })
      await db.touch().catch(() => {})
    }
    this.#leaving.freeing = undefined
  }
}

interface Choice {
  id: string
  hash: number
}

/** Returns the node that has an account: the one whose hash together with the account's is the highest. */
function nodeFor(account: number, nodes: readonly Choice[]): string | undefined {
  let best: { id: string; score: number } | undefined
  for (const { id, hash } of nodes) {
    const score = mixed(account ^ hash)
    if (!best || score > best.score || (score === best.score && id > best.id)) best = { id, score }
  }
  return best?.id
}

/** FNV-1a, mixed, since its low bits depend little on the last characters. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  return mixed(hash)
}

/** The last step of MurmurHash3: each bit of the result depends on all bits of `value`. */
function mixed(value: number): number {
  let hash = value
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}
