/** One machine: the process that holds the poll lock polls every session of the data directory. */

import { stat, utimes } from 'node:fs/promises'
import { AwakeTime, type Clock } from '../../platform/clock.ts'
import { type FileLock, openLock } from '../../platform/lock.ts'
import { lookAtLock } from '../../platform/lock-look.ts'
import type { Log } from '../../platform/log.ts'
import { linked } from '../../platform/signals.ts'
import { unavailable } from '../../platform/system-error.ts'
import type { Lease, Leases } from '../leases.ts'
import type { SessionSight } from '../state.ts'

interface LeasePorts {
  sessions: Pick<SessionSight, 'changedSince'>
  clock: Clock
  log: Log
}

/** @param path of the lock's file, which bears the sign of life too */
export async function openLeases(path: string, ports: LeasePorts): Promise<Leases> {
  const lock = await openLock(path)
  const heartbeat = new Heartbeat(path, ports.clock)
  return {
    async join() {
      const taken = await lock.tryLock().catch(error => {
        throw unavailable(error, 'it cannot be told who polls')
      })
      return taken ? leaseOf(lock, heartbeat, ports) : undefined
    },
    stalled: () => heartbeat.stalled(),
    async holder() {
      const seen = await lookAtLock(path).catch(() => undefined)
      return seen?.held === false ? undefined : seen?.pid
    },
    close: () => lock.close(),
  }
}

function leaseOf(lock: FileLock, heartbeat: Heartbeat, { sessions, log }: LeasePorts): Lease {
  const { lost } = lock
  const over = new AbortController()
  const ended = linked(over.signal, lost)
  const beating = heartbeat.beat(ended.signal).finally(() => ended[Symbol.dispose]())
  let released: Promise<void> | undefined
  return {
    lost,
    owned: revision => sessions.changedSince(revision),
    mayPoll: () => !over.signal.aborted && lock.sure,
    release() {
      over.abort()
      released ??= beating
        .then(() => lock.unlock())
        .catch(error => log.error('poll lock cannot be given back', { error }))
      return released
    },
  }
}

/** A poller beats this often. */
export const beatEveryMs = 4000
/** Without a beat for this long, the poller counts as stalled. */
export const stalledMs = 15_000

/** What one look adds to the silence at most: who did not look for longer may have stood still, and the poller with him. */
const longestLookMs = 2000

/**
 * A sign of life of the process that polls, for those that follow it. A stopped or hung process keeps its lock, and
 * nobody may poll beside it, so the lock alone does not tell: while polling goes on, the lock's file is touched.
 */
export class Heartbeat {
  readonly #path: string
  readonly #clock: Clock
  /** The time of the file as seen last, by whatever clock: a stepped one changes nothing. */
  #seen: number | undefined
  readonly #awake: AwakeTime
  /** So long it was looked at without a beat. */
  #silentMs = 0

  constructor(path: string, clock: Clock) {
    this.#path = path
    this.#clock = clock
    this.#awake = new AwakeTime(clock, longestLookMs)
  }

  /** Beats until the signal aborts. */
  async beat(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const now = new Date()
      // A beat that fails is missed by those who follow; polling itself goes on.
      await utimes(this.#path, now, now).catch(() => {})
      await this.#clock.sleep(beatEveryMs, signal)
    }
  }

  /** Looks once, which is to be done every second. @returns whether the polling process has shown no life for too long */
  async stalled(): Promise<boolean> {
    const beatenAt = await stat(this.#path).then(
      info => info.mtimeMs,
      () => undefined,
    )
    const sinceMs = this.#awake.look()
    this.#silentMs = beatenAt === this.#seen ? this.#silentMs + sinceMs : 0
    this.#seen = beatenAt
    return this.#silentMs > stalledMs
  }
}
