/** Checks the locks: their kind, whether it works on this machine, and which process polls. */
import { join } from 'node:path'
import { takeOver } from '../inspect/advised-commands.ts'
import { dataFiles } from '../model/data-files.ts'
import { localTime, shellWord, span } from '../platform/format.ts'
import { type LockSight, lookAtLock } from '../platform/lock-look.ts'
import { reasonOf } from '../platform/system-error.ts'
import { bad, type DoctorContext, type Found, note, ok, warning } from './finding.ts'

/** Checks both lock files. */
export async function examineLocks(context: DoctorContext): Promise<Found[]> {
  const { dir, state } = context.directory
  if (state !== 'ours') return []
  try {
    const data = await lookAtLock(join(dir, dataFiles.dataLock))
    // `pollerOf` reports a poll lock that cannot be read.
    const poll = await lookAtLock(join(dir, dataFiles.pollLock)).catch(() => undefined)
    return [...kindOf(dir, data, poll), ...pollerOf(context)]
  } catch (error) {
    const what = `.data.lock cannot be read: ${reasonOf(error)}`
    return [bad('kind', what, takeOver(dir)), ...pollerOf(context)]
  }
}

function kindOf(dir: string, ...locks: (LockSight | undefined)[]): Found[] {
  const kinds = [...new Set(locks.flatMap(lock => lock?.kind ?? []))]
  if (kinds.length === 0) return []
  const isUsable = kinds.length === 1 && locks.every(lock => lock === undefined || lock.held !== undefined)
  if (isUsable) return [ok('kind', `locked with ${kinds[0]}, which works here`)]
  const files = [dataFiles.dataLock, dataFiles.pollLock].map(name => shellWord(join(dir, name))).join(' ')
  return [
    bad(
      'kind',
      `the directory is locked with ${kinds.join(' and ')}, which cannot be used here`,
      `Use it with the machine and the program that created it. Or stop every svc of this directory, then: rm ${files}`,
    ),
  ]
}

function pollerOf({ directory, polling, sessions, clock, command }: DoctorContext): Found[] {
  if (!polling) return [bad('poller', '.poll.lock cannot be read', takeOver(directory.dir))]
  const { held, pid, process: state, since, stalled, seenAt } = polling
  if (held === undefined) return []
  const start = command('openapi')
  if (!held)
    return sessions.sessions.some(({ status }) => status === 'connected')
      ? [warning('poller', 'no process polls: messages wait at WeChat until one does', start)]
      : [note('poller', 'no process polls', start)]
  const who = pid === undefined ? 'a process' : `process ${pid}`
  const elsewhere = state === 'gone' ? ', in another container or on another machine' : ''
  if (!stalled)
    return [
      ok('poller', `${who} polls${since === undefined ? '' : ` since ${localTime(since)}`}${elsewhere}`),
    ]
  const last = seenAt === undefined ? '' : ` since ${span(clock.now() - seenAt)}`
  const fix =
    state === 'stopped'
      ? `kill -CONT ${pid}`
      : state === 'gone'
        ? 'It runs in another container or on another machine: restart it there.'
        : `kill ${pid}; another svc of this directory takes over, or: ${start}`
  const how =
    state === 'stopped'
      ? 'polls and has been stopped (SIGSTOP or Ctrl-Z)'
      : `holds the poll lock and has shown no life${last}`
  return [bad('poller', `${who} ${how}: no messages are received, and no other process can poll`, fix)]
}
