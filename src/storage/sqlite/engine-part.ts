/** Base of the parts of the message log; and `ProcessOwner`, the process that owns a row in flight. */
import { hostname } from 'node:os'
import process from 'node:process'
import type { Clock } from '../../platform/clock.ts'
import { errorCodeOf } from '../../platform/files.ts'
import type { Sealer } from '../../platform/sealing.ts'
import type { Database } from '../../platform/sqlite.ts'
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

/** A part that also uses other parts. */
export abstract class LinkedPart<Ports> extends EnginePart {
  protected readonly ports: Ports

  constructor(context: SqliteContext, ports: Ports) {
    super(context)
    this.ports = ports
  }
}

/** Distinguishes this process from an earlier one with the same process id. */
const runId = crypto.randomUUID().slice(0, 8)
const host = hostname()

/** This process as an owner, and checks whether other owners still run. */
export class ProcessOwner {
  /** `<pid>:<run>.<store>:<host>`: different for every store, also within one process. */
  readonly name = `${process.pid}:${runId}.${crypto.randomUUID().slice(0, 4)}:${host}`

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
