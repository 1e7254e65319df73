/** Checks the locks: their kind, whether it works on this machine, and which process polls. */

import { join } from 'node:path'
import { takeOverCommand } from '../inspect/advised-commands.ts'
import { type Found, finding } from '../inspect/finding.ts'
import { dataFiles } from '../model/data-files.ts'
import { systemClock } from '../platform/clock.ts'
import { formatDuration, formatLocalTime, quoteForShell } from '../platform/format.ts'
import { inspectLock, type LockInspection } from '../platform/lock-look.ts'
import { reasonOf } from '../platform/system-error.ts'
import { type DoctorContext, describeIdle } from './finding.ts'

/** Checks both lock files. */
export async function examineLocks(context: DoctorContext): Promise<Found> {
  const { dir, state } = context.directory
  if (state !== 'ours' || context.config.storeUrl !== undefined) return undefined
  try {
    const data = await inspectLock(join(dir, dataFiles.dataLock))
    // `checkPoller` reports a poll lock that cannot be read.
    const poll = await inspectLock(join(dir, dataFiles.pollLock)).catch(() => undefined)
    return [checkKind(dir, data, poll), await checkHeld(dir), checkPoller(context)]
  } catch (error) {
    const what = `.data.lock cannot be read: ${reasonOf(error)}`
    return [finding.error('kind', what, takeOverCommand(dir)), checkPoller(context)]
  }
}

function checkKind(dir: string, ...locks: (LockInspection | undefined)[]): Found {
  const kinds = [...new Set(locks.flatMap(lock => lock?.kind ?? []))]
  if (kinds.length === 0) return undefined
  const isUsable = kinds.length === 1 && locks.every(lock => lock === undefined || lock.held !== undefined)
  if (isUsable) return finding.ok('kind', `locked with ${kinds[0]}, which works here`)
  const files = [dataFiles.dataLock, dataFiles.pollLock].map(name => quoteForShell(join(dir, name))).join(' ')
  return finding.error(
    'kind',
    `the directory is locked with ${kinds.join(' and ')}, which cannot be used here`,
    `Use it with the machine and the program that created it. Or stop every svc of this directory, then: rm ${files}`,
  )
}

/** svc holds the lock for moments. The file cannot tell who does: another program writes no note into it. */
async function checkHeld(dir: string): Promise<Found> {
  const path = join(dir, dataFiles.dataLock)
  for (let looks = 0; looks < 10; looks++) {
    if ((await inspectLock(path))?.held !== true) return undefined
    await systemClock.sleep(30)
  }
  const what = 'a program keeps .data.lock: sends wait for it, and fail after 10 seconds'
  return finding.error(
    'held',
    what,
    `End that program; these have the file open: fuser ${quoteForShell(path)}`,
  )
}

function checkPoller(context: DoctorContext): Found {
  const { directory, polling, clock, command } = context
  if (!polling) return finding.error('poller', '.poll.lock cannot be read', takeOverCommand(directory.dir))
  const { held, pid, process: state, since, stalled, seenAt } = polling
  if (held === undefined) return undefined
  if (!held) return describeIdle(context, { check: 'poller', severity: 'warning', what: 'no process polls' })
  const who = pid === undefined ? 'a process' : `process ${pid}`
  const elsewhere = state === 'gone' ? ', in another container or on another machine' : ''
  if (!stalled)
    return finding.ok(
      'poller',
      `${who} polls${since === undefined ? '' : ` since ${formatLocalTime(since)}`}${elsewhere}`,
    )
  const last = seenAt === undefined ? '' : ` since ${formatDuration(clock.now() - seenAt)}`
  const fix =
    state === 'stopped'
      ? `kill -CONT ${pid}`
      : state === 'gone'
        ? 'It runs in another container or on another machine: restart it there.'
        : `kill ${pid}; another svc of this directory takes over, or: ${command('openapi')}`
  const how =
    state === 'stopped'
      ? 'polls and has been stopped (SIGSTOP or Ctrl-Z)'
      : `holds the poll lock and has shown no life${last}`
  return finding.error(
    'poller',
    `${who} ${how}: no messages are received, and no other process can poll`,
    fix,
  )
}
