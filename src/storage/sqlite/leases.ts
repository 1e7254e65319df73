/** Leases on one machine: the process that holds the poll lock polls every session of the data directory. */

import { stat, utimes } from 'node:fs/promises'
import { AwakeTime, type Clock } from '../../platform/clock.ts'
import { type FileLock, openLock } from '../../platform/lock.ts'
import { inspectLock } from '../../platform/lock-look.ts'
import type { Log } from '../../platform/log.ts'
import { RoomPart } from '../../platform/runtime.ts'
import { linkSignals } from '../../platform/signals.ts'
import { storeErrorOf } from '../../platform/system-error.ts'
import type { Tasks } from '../../platform/tasks.ts'
import type { Lease, Leases } from '../leases.ts'
import type { SessionReader } from '../state.ts'

interface LeasePorts {
  sessions: Pick<SessionReader, 'listChangedSince'>
  clock: Clock
  log: Log
  tasks: Tasks
}

/** @param path path of the lock file; its modification time is the sign of life */
export async function openLeases(path: string, ports: LeasePorts): Promise<Leases> {
  const lock = await openLock(path)
  const heartbeat = new Heartbeat({ path, clock: ports.clock })
  return {
    async join() {
      const taken = await lock.tryLock().catch(error => {
        throw storeErrorOf(error, 'it cannot be told who polls')
      })
      return taken ? createLease(lock, heartbeat, ports) : undefined
    },
    isStalled: () => heartbeat.isStalled(),
    async findHolder() {
      const seen = await inspectLock(path).catch(() => undefined)
      return seen?.held === false ? undefined : seen?.pid
    },
    close: () => lock.close(),
  }
}

function createLease(
  lock: FileLock,
  heartbeat: Heartbeat,
  { sessions, clock, log, tasks }: LeasePorts,
): Lease {
  const { lost } = lock
  const over = new AbortController()
  const ended = linkSignals(over.signal, lost)
  const failure = 'the sign of life for other processes cannot be given'
  const { done } = tasks.repeat(
    { name: 'sign_of_life', everyMs: beatEveryMs, failure, log, signal: ended.signal },
    () => heartbeat.beat(),
  )
  const beating = done.finally(() => ended[Symbol.dispose]())
  let released: Promise<void> | undefined
  return {
    lost,
    isShared: false,
    waitsForStore: false,
    listOwned: revision => sessions.listChangedSince(revision),
    mayPoll: () => !over.signal.aborted && lock.isReallyHeld,
    waitForChange: (ms, signal) => clock.sleep(ms, signal),
    giveUp() {},
    release() {
      over.abort()
      released ??= beating
        .then(() => lock.unlock())
        .catch(error => log.error('poll lock cannot be given back', { error }))
      return released
    },
  }
}

/** How often a poller updates its sign of life. */
export const beatEveryMs = 4000
/** Without a sign of life for this long, the poller counts as stalled. */
export const stalledMs = 15_000

/**
 * The most silence that one check adds. If this process did not check for longer, the machine may have
 * stopped, and the poller with it.
 */
const longestCheckMs = 2000

/**
 * Sign of life of the polling process, for the processes that wait for its lock. A stopped or hung process
 * keeps its lock, and no other may poll then, so the lock alone proves nothing. While polling goes on, the
 * lock file is touched.
 */
export class Heartbeat extends RoomPart<{ path: string; clock: Clock }> {
  /** Modification time at the last check. Only changes count, so a changed clock has no effect. */
  #seen: number | undefined
  readonly #awake = new AwakeTime(this.ports.clock, longestCheckMs)
  /** Time watched without a sign of life. */
  #silentMs = 0

  /** Touches the file. If that fails, other processes miss a sign of life; polling itself continues. */
  async beat(): Promise<void> {
    const now = new Date()
    await utimes(this.ports.path, now, now)
  }

  /**
   * Checks once; call it every second. @returns whether the polling process has shown no sign of life for too
   * long
   */
  async isStalled(): Promise<boolean> {
    const beatenAt = await stat(this.ports.path).then(
      info => info.mtimeMs,
      () => undefined,
    )
    const sinceMs = this.#awake.measure()
    this.#silentMs = beatenAt === this.#seen ? this.#silentMs + sinceMs : 0
    this.#seen = beatenAt
    return this.#silentMs > stalledMs
  }
}
