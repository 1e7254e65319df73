/**
 * The processes that use the store. Each has a row in `node`, which it renews, and which ends by the database's clock.
 * What a process claims is free for others when its row has ended. A process with `polls` takes part in polling.
 */
import { SvcError } from '../../model/error.ts'
import type { NodeInfo, Replication } from '../../model/nodes.ts'
import type { PgConnection } from '../../platform/postgres.ts'
import type { KeyRing } from '../../platform/sealing.ts'
import { type Sql, sql } from '../../platform/sql.ts'
import type { Repetition } from '../../platform/tasks.ts'
import type { Lease, Leases } from '../leases.ts'
import type { Retention } from '../nouns/retention.ts'
import type { SessionReader } from '../state.ts'
import type { Node } from '../storage.ts'
import { connectionHint, storeErrorOf } from './errors.ts'
import { freeAccounts, PgLease } from './leases.ts'
import { checkReader, followKeys, type KeyState } from './migrate.ts'
import {
  type ComparedNode,
  comparedNodes,
  createDifferenceLog,
  listNodes,
  readReplication,
} from './node-list.ts'
import { type EngineContext, PgPart } from './part.ts'
import { formAfter, steps as ownSteps } from './schema.ts'

/** How long a row lasts after each renewal. */
const termMs = 6000
const renewEveryMs = 1500
const retryEveryMs = 250
/** Longest wait for an answer. Two of them fit into a term. */
const answerMs = 2500
/** This process counts its lease as over so long before the database does. */
const marginMs = 1000
/** A clock that differs by more from the database's is reported, and each change by as much. */
const clockWarnMs = 2000
/** How often this process checks whether its lease is over. */
const checkEveryMs = 250

const term = sql`clock_timestamp() + ${`${termMs} ms`}::interval`

export interface NodeOptions extends Retention {
  /** Steps that the program knows; see `migrate.ts`. */
  steps?: readonly string[]
  version?: string
  name?: string
  keys: KeyRing
}

interface MetaRow extends KeyState {
  min_reader: number
}

/** A moment, by both clocks: the monotonic clock stands still while a machine is suspended, and the other may be set. */
interface Moment {
  monotonic: number
  wall: number
}

export class PgNode extends PgPart implements Node {
  readonly #options: NodeOptions & { logDifferences: ReturnType<typeof createDifferenceLog> }
  readonly #stop = new AbortController()
  /** Where this process answers, and the token that its callers need. */
  #answers: { url?: string; token?: string | undefined } = {}
  #connecting: Promise<PgConnection> | undefined
  /** Before the request for the newest renewal that succeeded. */
  #renewed: Moment = { monotonic: Number.NEGATIVE_INFINITY, wall: 0 }
  /** History of the server, as this process knows it. */
  #timeline: string | undefined
  /** Monotonic. No account is taken before. */
  #heldUntil = Number.NEGATIVE_INFINITY
  #lease: PgLease | undefined
  /** How far the clock of the database is ahead now, and in the last line of the log about it. */
  #clockOffset = { ms: 0, loggedMs: 0 }
  #running: Promise<unknown> = Promise.resolve()
  #left: Promise<void> | undefined

  /** Adds this process to the nodes, and keeps its lease. */
  static async join(context: EngineContext, options: NodeOptions): Promise<PgNode> {
    const node = new PgNode(context, options)
    await node.#renew()
    await node.db.barrier()
    await node.#forgetDead()
    node.#running = Promise.all([node.#keepRenewing().done, node.#watch().done])
    return node
  }

  private constructor(context: EngineContext, options: NodeOptions) {
    super(context)
    this.#options = { ...options, logDifferences: createDifferenceLog(this.log) }
  }

  leases(sessions: Pick<SessionReader, 'listChangedSince'>): Leases {
    return {
      join: ({ alone = false } = {}) => this.#startPolling(sessions, alone),
      isStalled: async () => false,
      findHolder: async () => undefined,
      close: async () => this.#lease?.release(),
    }
  }

  setUrl(url: string, token?: string): void {
    this.#answers = { url, token }
  }

  /** Returns the processes that use the store, this one first. */
  list(): Promise<NodeInfo[]> {
    return listNodes(this.db, this.owner)
  }

  /** Returns what is known about the standbys of the database. */
  readReplication(): Promise<Replication> {
    return readReplication(this.db)
  }

  /** Gives up everything, and removes this process from the nodes. Never rejects. */
  leave(): Promise<void> {
    this.#left ??= (async () => {
      this.#stop.abort()
      await this.#running
      await this.#lease?.release()
      await this.#send([sql`DELETE FROM node WHERE id = ${this.owner}`])
        .then(() => this.db.touch())
        .catch(error => this.log.debug('this node ends without a word to the database', { error }))
      await this.#connecting?.then(
        connection => connection.destroy(),
        () => {},
      )
    })()
    return this.#left
  }

  get commitMs(): number {
    return this.db.lastBarrier.tookMs
  }

  get leaseLeftMs(): number {
    return Math.max(0, this.#leftMs)
  }

  get clockOffsetMs(): number {
    return this.#clockOffset.ms
  }

  /** @param now by the database, read between the moment `asked` (Unix ms) and now */
  #compareClocks(now: number, asked: number): void {
    const answered = this.clock.now()
    // An answer that took long says too little.
    if (answered - asked > clockWarnMs / 2) return
    const ms = Math.round(now - (asked + answered) / 2)
    const loggedMs = Math.abs(ms) < clockWarnMs ? 0 : ms
    const { loggedMs: before } = this.#clockOffset
    const isNews = Math.abs(loggedMs - before) >= clockWarnMs
    this.#clockOffset = { ms, loggedMs: isNews ? loggedMs : before }
    if (!isNews) return
    if (loggedMs === 0) this.log.info('the clock of this machine agrees with the database’s again')
    else
      this.log.warn('the clock of this machine differs from the database’s', {
        ms,
        hint: 'Let all machines of the cluster follow one time server.',
      })
  }

  /** Time in ms for which the lease of this process certainly lasts. */
  get #leftMs(): number {
    const { monotonic, wall } = this.#now()
    const passed = Math.max(monotonic - this.#renewed.monotonic, Math.abs(wall - this.#renewed.wall))
    return termMs - marginMs - passed
  }

  #now(): Moment {
    return { monotonic: this.clock.monotonic(), wall: this.clock.now() }
  }

  async #startPolling(
    sessions: Pick<SessionReader, 'listChangedSince'>,
    alone: boolean,
  ): Promise<Lease | undefined> {
    if (this.#lease && !this.#lease.isOver) return this.#lease
    if (this.#leftMs <= 0) await this.#renew()
    const others = sql`SELECT FROM node o WHERE o.polls AND o.id <> ${this.owner} AND o.lease_until > clock_timestamp()`
    const [added] = await this.#send([
      sql`UPDATE node SET polls = true WHERE id = ${this.owner} AND lease_until > clock_timestamp()
        AND NOT (${alone} AND EXISTS (${others})) RETURNING id`,
      ...freeAccounts(this.owner),
    ])
    if (added?.length === 0 && alone) return undefined
    if (added?.length !== 1 || this.#leftMs <= 0)
      throw new SvcError('store_unavailable', 'the lease of this node is over', { hint: connectionHint })
    this.#lease = new PgLease({
      db: this.db,
      clock: this.clock,
      log: this.log,
      sessions,
      leftMs: () => this.#leftMs,
      isHeld: () => this.clock.monotonic() < this.#heldUntil,
      free: () => this.#stopPolling(),
    })
    await this.db.touch()
    return this.#lease
  }

  async #stopPolling(): Promise<void> {
    try {
      const node = sql`UPDATE node SET polls = false WHERE id = ${this.owner}`
      await this.#send([node, ...freeAccounts(this.owner)])
      await this.db.touch()
    } catch (error) {
      // Others take the accounts when the row of this node has ended; this process frees them before it polls again.
      this.log.warn('the sessions of this node cannot be given up now', { error })
    }
  }

  #keepRenewing(): Repetition {
    const { clock, db, log } = this
    const { signal } = this.#stop
    let beganAt = clock.monotonic()
    return db.tasks.repeat(
      {
        name: 'node_lease',
        everyMs: renewEveryMs,
        firstMs: renewEveryMs,
        retryMs: () => retryEveryMs,
        failure: 'the lease of this node cannot be renewed',
        log,
        signal,
        wait: (ms, either) => clock.sleep(Math.max(0, beganAt + ms - clock.monotonic()), either),
      },
      async () => {
        beganAt = clock.monotonic()
        await this.#renew()
        // Else the last rows of a node that died stay hidden.
        void db.barrier().catch(() => {})
      },
    )
  }

  /** Ends the lease as soon as it is over by a clock of this process. */
  #watch(): Repetition {
    const { db, log } = this
    const { signal } = this.#stop
    const failure = 'the lease of this node is not watched'
    return db.tasks.repeat({ name: 'node_watch', everyMs: checkEveryMs, failure, log, signal }, () => {
      if (this.#lease && !this.#lease.isOver && this.#leftMs <= 0)
        this.#lose('the lease of this node is over')
    })
  }

  #lose(reason: string): void {
    if (!this.#lease || this.#lease.isOver) return
    this.log.warn('this node polls no session for now', { reason })
    this.#lease.lose(reason)
  }

  async #renew(): Promise<void> {
    const asked = this.#now()
    const { keys, maxAgeDays, maxCount, version = '', name = '' } = this.#options
    const { url } = this.#answers
    const token = this.#answers.token && keys.derive(`hash of the token ${this.#answers.token}`)
    const readMeta = sql`SELECT min_reader, secret_key, old_key,
      (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now FROM meta`
    const [meta, renewed, others] = await this.#send([
      readMeta,
      sql`UPDATE node SET lease_until = ${term}, url = ${url}, keys = ${keys.keyIds}::text[], token = ${token}
        WHERE id = ${this.owner} AND lease_until > clock_timestamp() RETURNING id`,
      comparedNodes,
    ])
    const { now, ...found } = meta![0] as unknown as MetaRow & { now: number }
    this.#compareClocks(now, asked.wall)
    await this.#checkMeta(found)
    this.#options.logDifferences(others as unknown as ComparedNode[])
    if (renewed?.length === 0) {
      // Others may have had its accounts. It begins with none.
      this.#lose('the lease of this node ended in the database')
      const [, ...rest] = await this.#send([
        sql`INSERT INTO node (id, name, version, url, keys, token, max_age_days, max_count, lease_until)
          VALUES (${this.owner}, ${name}, ${version}, ${url}, ${keys.keyIds}::text[], ${token}, ${maxAgeDays}, ${maxCount}, ${term})
          ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until, started_at = clock_timestamp(),
            polls = false, keys = excluded.keys, epoch = node.epoch + 1`,
        ...freeAccounts(this.owner),
        // A process that changes the key lets no node join, and looks at the nodes there are.
        readMeta,
      ])
      await this.#checkMeta(rest.at(-1)![0] as unknown as MetaRow)
    }
    if (asked.monotonic > this.#renewed.monotonic) this.#renewed = asked
  }

  /**
   * Serves nothing any more if a newer version has changed the tables in a way that this one does not know, or if this
   * process lacks a secret key.
   */
  async #checkMeta({ min_reader, ...state }: MetaRow): Promise<void> {
    try {
      checkReader(formAfter((this.#options.steps ?? ownSteps).length), min_reader)
      followKeys(state, this.#options.keys)
    } catch (error) {
      this.db.refuse(error as SvcError)
      this.#stop.abort()
      this.#lose((error as SvcError).message)
      this.log.error('this node stops serving', { error })
      await this.#send([sql`DELETE FROM node WHERE id = ${this.owner}`])
      throw error
    }
  }

  /** Runs statements in one transaction on the connection of the lease. */
  async #send(statements: readonly Sql[]): Promise<Record<string, unknown>[][]> {
    this.#connecting ??= this.#connect()
    const connecting = this.#connecting
    try {
      return await (await connecting).script(statements)
    } catch (error) {
      const isUsable = await connecting.then(
        ({ lost }) => !lost.aborted,
        () => false,
      )
      if (!isUsable && this.#connecting === connecting) this.#connecting = undefined
      throw storeErrorOf(error, this.db.address)
    }
  }

  /** Opens the connection of the lease. It ends when the server does, so that another server is noticed. */
  async #connect(): Promise<PgConnection> {
    const connection = await this.db.connect(answerMs)
    try {
      await this.#followTimeline(connection)
      return connection
    } catch (error) {
      connection.destroy()
      throw error
    }
  }

  /**
   * A standby that took over may not know the newest leases. So no account is taken for a whole term: until then the
   * lease of everyone has ended, or was renewed here.
   */
  async #followTimeline(connection: PgConnection): Promise<void> {
    const read = sql`SELECT timeline() AS now, timeline AS known,
      coalesce(timeline_at > clock_timestamp() - ${`${termMs} ms`}::interval, false) AS "isNew" FROM meta`
    const { isNew, known, now } = await connection.one<{ now?: string; known?: string; isNew: boolean }>(read)
    if (now !== undefined && now !== known)
      await connection.script([
        // A dump that was restored on another server may have brought the name of a run.
        sql`DELETE FROM server_run WHERE (SELECT timeline FROM meta) IS DISTINCT FROM timeline()`,
        sql`UPDATE head SET revision = revision + 1`,
      ])
    const isOther = (before: string | undefined) =>
      before !== undefined && now !== undefined && before !== now
    const isChanged = isNew || isOther(known) || isOther(this.#timeline)
    this.#timeline = now ?? this.#timeline
    if (!isChanged) return
    this.#heldUntil = this.clock.monotonic() + termMs
    this.#lose('another server of the database took over')
    this.log.error(
      'another server of the database took over; without synchronous replication, data may be lost',
      {
        timeline: now,
      },
    )
  }

  /** Removes how far nodes that ended knew the log to be durable. This node knows more. */
  async #forgetDead(): Promise<void> {
    await this.db.run(sql`DELETE FROM durable d WHERE NOT EXISTS (SELECT FROM node n WHERE n.id = d.node)
      AND EXISTS (SELECT FROM durable o WHERE o.node = ${this.owner} AND o.upto >= d.upto AND o.place >= d.place)`)
  }
}
