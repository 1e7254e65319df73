/** The locks: which kind, whether this machine can use it, and who polls. */
import { join } from 'node:path'
import { takeOver } from '../inspect/advised-commands.ts'
import { dataFiles } from '../model/data-files.ts'
import { isoTime, span } from '../platform/format.ts'
import { type LockSight, lookAtLock } from '../platform/lock-look.ts'
import { shellWord } from '../platform/shell.ts'
import { reasonOf } from '../platform/system-error.ts'
import type { Patient } from './context.ts'
import { bad, type Found, note, ok, warning } from './finding.ts'

/** Looks at both lock files. */
export async function examineLocks(patient: Patient): Promise<Found[]> {
  const { dir, state } = patient.place
  if (state !== 'ours') return []
  try {
    const data = await lookAtLock(join(dir, dataFiles.dataLock))
    return [...kindOf(dir, data, patient.polling?.lock), ...pollerOf(patient)]
  } catch (error) {
    const what = `.data.lock cannot be read: ${reasonOf(error)}`
    return [bad('kind', what, takeOver(dir)), ...pollerOf(patient)]
  }
}

function kindOf(dir: string, ...locks: (LockSight | undefined)[]): Found[] {
  const kinds = new Set(locks.flatMap(lock => lock?.kind ?? []))
  const [kind] = kinds
  if (kind === undefined) return []
  const anew = `Stop every svc of this directory, then: rm ${shellWord(join(dir, dataFiles.dataLock))} ${shellWord(join(dir, dataFiles.pollLock))}`
  if (kinds.size > 1 || !/^(flock|lockfile)$/.test(kind))
    return [
      bad(
        'kind',
        'the lock files record kinds of lock that differ, or that this version does not know',
        anew,
      ),
    ]
  if (locks.some(lock => lock !== undefined && lock.held === undefined))
    return [
      bad(
        'kind',
        `the directory is locked with ${kind}, which cannot be used here`,
        `Use the machine and the program it was made with. ${anew}`,
      ),
    ]
  return [ok('kind', `locked with ${kind}, which works here`)]
}

function pollerOf({ place, polling, sessions, clock, command }: Patient): Found[] {
  const { dir } = place
  if (!polling) return [bad('poller', '.poll.lock cannot be read', takeOver(dir))]
  const { held, pid, process: state, since, stalled, seenAt } = polling
  if (held === undefined) return []
  if (!held) {
    const start = command('openapi')
    const connected = sessions.sessions.some(({ status }) => status === 'connected')
    return [
      connected
        ? warning('poller', 'nobody polls: messages wait at WeChat until somebody does', start)
        : note('poller', 'nobody polls', start),
    ]
  }
  const who = pid === undefined ? 'a process' : `process ${pid}`
  if (state === 'stopped') {
    return [
      bad(
        'poller',
        `${who} polls and has been stopped (SIGSTOP or Ctrl-Z): no message comes in, and nobody else may poll`,
        `kill -CONT ${pid}`,
      ),
    ]
  }
  if (stalled) {
    const last = seenAt === undefined ? '' : ` since ${span(clock.now() - seenAt)}`
    return [
      bad(
        'poller',
        `${who} holds the poll lock and has shown no life${last}: no message comes in, and nobody else may poll`,
        state === 'gone'
          ? 'It runs in another container or on another machine: restart it there.'
          : `kill ${pid}; another svc of this directory takes over, or: ${command('openapi')}`,
      ),
    ]
  }
  const elsewhere = state === 'gone' ? ', in another container or on another machine' : ''
  return [ok('poller', `${who} polls${since === undefined ? '' : ` since ${isoTime(since)}`}${elsewhere}`)]
}
