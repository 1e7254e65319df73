/** Checks the message store: is it undamaged, and of this version's schema. */

import { join } from 'node:path'
import { explainOtherForm, takeOverCommand } from '../inspect/advised-commands.ts'
import {
  errorFinding,
  type Finding,
  findFailures,
  noteFinding,
  okFinding,
  warningFinding,
} from '../inspect/finding.ts'
import { dataFiles } from '../model/data-files.ts'
import { SvcError } from '../model/error.ts'
import { errorCodeOf } from '../platform/files.ts'
import {
  formatBytes,
  formatCount,
  formatDuration,
  formatLocalTime,
  quoteForShell,
} from '../platform/format.ts'
import { reasonOf, storeErrorOf } from '../platform/system-error.ts'
import type { StoreStats } from '../storage/inspection.ts'
import type { DoctorContext } from './finding.ts'

/** Result of reading the store, or why it could not be read. `sight` is undefined if there is no store. */
export type StoreReading = { sight: StoreStats | undefined } | { error: unknown }

/** Reports the state of the store. */
export function examineStore(context: DoctorContext, look: StoreReading): Finding[] {
  const { config, directory, command } = context
  if (config.storeUrl !== undefined) return examineTables(context, look)
  if (directory.state === 'missing' || directory.state === 'unreadable' || directory.state === 'foreign')
    return []
  const { dir } = directory
  if ('error' in look) return [describeFailure(look.error, context)]
  const { sight } = look
  if (!sight) return [noteFinding('integrity', 'there is no messages.db yet', command('openapi'))]
  if (sight.damage && sight.damage.length > 0) {
    return [errorFinding('integrity', `messages.db is damaged: ${sight.damage[0]}`, setAsideAdvice(dir))]
  }
  const other = explainOtherForm(sight, dir)
  if (other) return [errorFinding('form', other.what, other.fix)]
  const found: Finding[] = [
    okFinding(
      'integrity',
      `messages.db is whole: ${formatCount(sight.messages, 'message')}, ${formatBytes(sight.sizeBytes)}${sight.walBytes > 0 ? ` and ${formatBytes(sight.walBytes)} not yet written back` : ''}`,
    ),
  ]
  if (sight.form > 0 && sight.form < sight.newest) {
    found.push(
      noteFinding(
        'form',
        `messages.db has an older schema version (${sight.form} of ${sight.newest})`,
        'svc upgrades it at its next start. After that an older version cannot read it.',
      ),
    )
  }
  return [...found, ...describeContents(sight, context)]
}

/** Reports the state of a store in a database. Whether the database works is reported with the cluster. */
function examineTables(context: DoctorContext, look: StoreReading): Finding[] {
  if ('error' in look) {
    const hint = look.error instanceof SvcError ? look.error.hint : 'See the log of the database.'
    return [errorFinding('integrity', `the store cannot be read: ${reasonOf(look.error)}`, hint)]
  }
  const { sight } = look
  if (!sight) return []
  const other = explainOtherForm(sight, undefined)
  if (other) return [errorFinding('form', other.what, other.fix)]
  const what = `the store has ${formatCount(sight.messages, 'message')}`
  return [okFinding('integrity', what), ...describeContents(sight, context)]
}

/** Reports webhooks that fail, sends that wait, and backups. */
function describeContents(sight: StoreStats, context: DoctorContext): Finding[] {
  const { clock, command } = context
  const found = findFailures(sight.webhooks ?? [], sight.backups.failure, command)
  if (sight.outbox.messages > 0) found.push(describeOutbox(sight, command('outbox'), clock.now()))
  return [...found, ...describeBackups(sight, context)]
}

function describeBackups(
  { backups: { newest } }: StoreStats,
  { clock, command, config, directory, sessions }: DoctorContext,
): Finding[] {
  const fix = `${command('backup svc.tar')} makes one now; --backup-to FOLDER of svc openapi makes them by schedule.`
  const isDatabase = config.storeUrl !== undefined
  const ageMs = newest === undefined ? Number.POSITIVE_INFINITY : clock.now() - newest.created_at
  const isOld = ageMs > 2 * config.backupEvery
  if (newest && !(isDatabase && isOld)) {
    const what = `the newest backup is ${formatDuration(Math.max(0, ageMs))} old: ${newest.path}, ${formatBytes(newest.size)}`
    return [isOld ? warningFinding('backup', what, fix) : okFinding('backup', what)]
  }
  if (isDatabase) {
    const what = 'svc cannot see the backups of the database'
    return [noteFinding('backup', what, 'Back it up with pg_dump, or let its provider do it.')]
  }
  const isMissed = sessions.sessions.length > 0 && !directory.isSandbox
  return isMissed ? [noteFinding('backup', 'no backup was ever made', fix)] : []
}

function describeFailure(error: unknown, { command, directory: { dir } }: DoctorContext): Finding {
  const code = errorCodeOf(error) ?? ''
  if (/^SQLITE_(CORRUPT|NOTADB)/.test(code)) {
    return errorFinding('integrity', `messages.db is damaged (${code})`, setAsideAdvice(dir))
  }
  if (/^SQLITE_(BUSY|LOCKED)/.test(code)) {
    return warningFinding(
      'integrity',
      'messages.db is in use and could not be read',
      `${command('doctor')} again in a moment; if it lasts, a process may hang.`,
    )
  }
  const cause = storeErrorOf(error, 'messages.db cannot be read')
  const what = cause instanceof Error ? cause.message : 'messages.db cannot be read'
  return errorFinding('integrity', what, takeOverCommand(dir))
}

/** The target is beside the data directory: inside, another folder would look like a session's. */
const setAsideAdvice = (dir: string): string =>
  `Stop svc, then: mkdir ${quoteForShell(`${dir}-damaged`)} && mv ${quoteForShell(join(dir, dataFiles.store))}* ${quoteForShell(`${dir}-damaged`)}/ (sessions stay, and svc creates a new store; "sqlite3 messages.db .recover" in that folder may save the old messages)`

function describeOutbox({ outbox }: StoreStats, command: string, now: number): Finding {
  const oldest =
    outbox.oldestAt === undefined ? '' : `, the oldest for ${formatDuration(now - outbox.oldestAt)}`
  const expiry =
    outbox.firstExpiryAt === undefined
      ? ''
      : `; the first is given up on ${formatLocalTime(outbox.firstExpiryAt)}`
  return noteFinding(
    'outbox',
    `${formatCount(outbox.sends, 'send')} ${outbox.sends === 1 ? 'waits' : 'wait'}, to ${formatCount(outbox.users, 'user')}${oldest}${expiry}`,
    `svc sends them when the user writes or the pace allows it, if a process polls and the session is logged in. ${command} lists them.`,
  )
}
