/** What the parts of the message log have in common; and which process a row in flight belongs to. */
import { hostname } from 'node:os'
import process from 'node:process'
import type { Clock } from '../../platform/clock.ts'
import { errorCodeOf } from '../../platform/files.ts'
import type { Database } from '../../platform/sqlite.ts'
import type { Messages } from './messages.ts'

export interface Ground {
  readonly db: Database
  readonly messages: Messages
  readonly clock: Clock
  /** This process. */
  readonly owner: Owner
}

export abstract class EnginePart implements Ground {
  readonly db: Database
  readonly messages: Messages
  readonly clock: Clock
  readonly owner: Owner

  constructor({ db, messages, clock, owner }: Ground) {
    this.db = db
    this.messages = messages
    this.clock = clock
    this.owner = owner
  }
}

/** Tells this process from an earlier one that had its number. */
const run = crypto.randomUUID().slice(0, 8)
const host = hostname()

/** This process, and whether another one still runs. */
export class Owner {
  /** `<pid>:<run>.<store>:<host>`: unlike that of any other store, in this process too. */
  readonly name = `${process.pid}:${run}.${crypto.randomUUID().slice(0, 4)}:${host}`

  /** Whether what an owner, if any, has by a lease of `leaseMs` may be taken, with `leftMs` of it left. */
  mayTake(owner: string | undefined, leftMs: number, leaseMs: number): boolean {
    return (
      owner === undefined ||
      owner === this.name ||
      leftMs <= 0 ||
      // Far more than a whole lease is left when the clock was set back.
      leftMs > 2 * leaseMs ||
      this.isDead(owner)
    )
  }

  /** Whether an owner certainly no longer runs: only a process of this host can be asked. */
  isDead(owner: string): boolean {
    const [pid, life, ...where] = owner.split(':')
    if (where.join(':') !== host) return false
    // Our own number in another life: the owner died and the number was given to us.
    if (Number(pid) === process.pid) return life?.split('.')[0] !== run
    try {
      process.kill(Number(pid), 0)
      return false
    } catch (error) {
      return errorCodeOf(error) === 'ESRCH'
    }
  }
}
