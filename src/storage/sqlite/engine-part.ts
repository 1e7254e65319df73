/** Base of the parts of the message log; and `ProcessOwner`, the process that owns a row in flight. */
import { hostname } from 'node:os'
import process from 'node:process'
import type { Clock } from '../../platform/clock.ts'
import { errorCodeOf } from '../../platform/files.ts'
import type { Sealer } from '../../platform/sealing.ts'
import type { Database } from '../../platform/sqlite.ts'
import { maxReaders, noPlaceError } from '../events.ts'
import { familyOf } from '../keys.ts'
import type { SqliteMessages } from './messages.ts'

/** What the parts of the SQLite message log share. */
export interface SqliteContext {
  readonly db: Database
  readonly messages: SqliteMessages
  readonly clock: Clock
  readonly sealer: Sealer
  /** This process. */
  readonly owner: ProcessOwner
}

export abstract class EnginePart implements SqliteContext {
  readonly db: Database
  readonly messages: SqliteMessages
  readonly clock: Clock
  readonly sealer: Sealer
  readonly owner: ProcessOwner

  constructor({ db, messages, clock, sealer, owner }: SqliteContext) {
    this.db = db
    this.messages = messages
    this.clock = clock
    this.sealer = sealer
    this.owner = owner
  }
}

/** Lists all keys with their makers. */
const listMade = (db: Database): { id: string; made_by: string }[] =>
  db.all`SELECT id, made_by FROM access_key`

/**
 * Makes room for a new reader (`<key id>/<name>`, without a key `<name>`) among those of the keys that share its bounds.
 *
 * @param idleMs a reader that was idle for so long may give its place
 * @returns the reader that gives its place, if all places are taken
 * @throws SvcError `rate_limited`
 */
export function findPlace(
  { db, clock }: Pick<SqliteContext, 'db' | 'clock'>,
  table: 'consumer' | 'event_reader WHERE place >= 0',
  reader: string,
  idleMs: number,
): string | undefined {
  const key = reader.slice(0, Math.max(0, reader.indexOf('/')))
  const family = familyOf(key === '' ? [] : listMade(db), key)
  const longest = db.get<{ name: string; seen_at: number }>(
    `SELECT name, seen_at FROM (SELECT * FROM ${table})
     WHERE substr(name, 1, instr(name, '/') - 1) IN (SELECT value FROM json_each(?))
     ORDER BY seen_at DESC LIMIT 1 OFFSET ?`,
    ...[JSON.stringify([...family]), maxReaders - 1],
  )
  const waitMs = longest ? longest.seen_at + idleMs - clock.now() : 0
  if (waitMs > 0) throw noPlaceError(waitMs)
  return longest?.name
}

/** Distinguishes this process from an earlier one with the same process id. */
const runId = crypto.randomUUID().slice(0, 8)
const host = hostname()

/** This process as an owner, and checks whether other owners still run. */
export class ProcessOwner {
  /** `<pid>:<run>.<store>:<host>`: different for every store, also within one process. */
  readonly name = `${process.pid}:${runId}.${crypto.randomUUID().slice(0, 4)}:${host}`

  /**
   * Whether this process may take what an owner (if any) holds by a lease of `leaseMs` with `leftMs` left.
   */
  mayTake(owner: string | undefined, leftMs: number, leaseMs: number): boolean {
    return (
      owner === undefined ||
      owner === this.name ||
      leftMs <= 0 ||
      // Far more than a whole lease is left if the clock was set back.
      leftMs > 2 * leaseMs ||
      this.isDead(owner)
    )
  }

  /** Whether an owner certainly no longer runs. Only a process of this host can be checked. */
  isDead(owner: string): boolean {
    const [pid, life, ...where] = owner.split(':')
    if (where.join(':') !== host) return false
    // Our own process id with another run: that owner died, and the id was assigned to us.
    if (Number(pid) === process.pid) return life?.split('.')[0] !== runId
    try {
      process.kill(Number(pid), 0)
      return false
    } catch (error) {
      return errorCodeOf(error) === 'ESRCH'
    }
  }
}
