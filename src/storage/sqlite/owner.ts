/** Which process a row in flight belongs to, and whether that one still runs. */
import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import process from 'node:process'
import { errorCodeOf } from '../../platform/files.ts'

/** Tells this process from an earlier one that had its number. */
const run = randomUUID().slice(0, 8)
const host = hostname()

export class Owner {
  /** `<pid>:<run>.<store>:<host>`: unlike that of any other store, in this process too. */
  readonly name = `${process.pid}:${run}.${randomUUID().slice(0, 4)}:${host}`

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
