/** One machine: the process that holds the poll lock polls every session of the data directory. */
import type { Clock } from '../../platform/clock.ts'
import { type FileLock, openLock } from '../../platform/lock.ts'
import { lookAtLock } from '../../platform/lock-look.ts'
import type { Log } from '../../platform/log.ts'
import { linked } from '../../platform/signals.ts'
import { unavailable } from '../../platform/system-error.ts'
import type { Lease, Leases } from '../leases.ts'
import type { SessionSight } from '../state.ts'
import { Heartbeat } from './heartbeat.ts'

interface LeasePorts {
  sessions: Pick<SessionSight, 'list'>
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
    owned: () => sessions.list(),
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
