/** Checks the message store: is it undamaged, and of this version's schema. */

import { join } from 'node:path'
import { explainOtherForm, takeOverCommand } from '../inspect/advised-commands.ts'
import { type Finding, type Found, findFailures, finding } from '../inspect/finding.ts'
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
export function examineStore(context: DoctorContext, look: StoreReading): Found {
  const { config, directory, command } = context
  if (config.storeUrl !== undefined) return examineTables(context, look)
  if (directory.state === 'missing' || directory.state === 'unreadable' || directory.state === 'foreign')
    return undefined
  const { dir } = directory
  if ('error' in look) return describeFailure(look.error, context)
  const { sight } = look
  if (!sight) return finding.note('integrity', 'there is no messages.db yet', command('openapi'))
  if (sight.damage && sight.damage.length > 0) {
    return finding.error('integrity', `messages.db is damaged: ${sight.damage[0]}`, setAsideAdvice(dir))
  }
  const other = explainOtherForm(sight, dir)
  if (other) return finding.error('form', other.what, other.fix)
  return [
    finding.ok(
      'integrity',
      `messages.db is whole: ${formatCount(sight.messages, 'message')}, ${formatBytes(sight.sizeBytes)}${sight.walBytes > 0 ? ` and ${formatBytes(sight.walBytes)} not yet written back` : ''}`,
    ),
    sight.form > 0 &&
      sight.form < sight.newest &&
      finding.note(
        'form',
        `messages.db has an older schema version (${sight.form} of ${sight.newest})`,
        'svc upgrades it at its next start. After that an older version cannot read it.',
      ),
    describeContents(sight, context),
  ]
}

/** Reports the state of a store in a database. Whether the database works is reported with the cluster. */
function examineTables(context: DoctorContext, look: StoreReading): Found {
  if ('error' in look) {
    const hint = look.error instanceof SvcError ? look.error.hint : 'See the log of the database.'
    return finding.error('integrity', `the store cannot be read: ${reasonOf(look.error)}`, hint)
  }
  const { sight } = look
  if (!sight) return undefined
  const other = explainOtherForm(sight, undefined)
  if (other) return finding.error('form', other.what, other.fix)
  const what = `the store has ${formatCount(sight.messages, 'message')}`
  return [finding.ok('integrity', what), describeContents(sight, context)]
}

/** Reports webhooks that fail, sends that wait, and backups. */
function describeContents(sight: StoreStats, context: DoctorContext): Found {
  const { clock, command } = context
  return [
    describeCopy(sight, context),
    findFailures(sight.webhooks ?? [], sight.backups.failure, command),
    sight.outbox.messages > 0 && describeOutbox(sight, command('outbox'), clock.now()),
    describeBackups(sight, context),
  ]
}

/** A copy that was never used: the original may have gone on. */
const describeCopy = ({ restored }: StoreStats, { command, polling }: DoctorContext): Found =>
  restored !== undefined &&
  !polling?.held &&
  finding.warning(
    'copy',
    `this is a copy, restored at ${formatLocalTime(restored)} and not used since; the original may still answer`,
    `Only if the original does not run any more: ${command('openapi')}`,
  )

function describeBackups(
  { backups: { newest } }: StoreStats,
  { clock, command, config, directory, sessions }: DoctorContext,
): Found {
  const fix = `${command('backup svc.tar')} makes one now; --backup-to FOLDER of svc openapi makes them by schedule.`
  const isDatabase = config.storeUrl !== undefined
  const ageMs = newest === undefined ? Number.POSITIVE_INFINITY : clock.now() - newest.created_at
  const isOld = ageMs > 2 * config.backupEvery
  if (newest && !(isDatabase && isOld)) {
    const what = `the newest backup is ${formatDuration(Math.max(0, ageMs))} old: ${newest.path}, ${formatBytes(newest.size)}`
    return isOld ? finding.warning('backup', what, fix) : finding.ok('backup', what)
  }
  if (isDatabase) {
    const what = 'svc cannot see the backups of the database'
    return finding.note('backup', what, 'Back it up with pg_dump, or let its provider do it.')
  }
  const isMissed = sessions.sessions.length > 0 && !directory.isSandbox
  return isMissed ? finding.note('backup', 'no backup was ever made', fix) : undefined
}

function describeFailure(error: unknown, { command, directory: { dir } }: DoctorContext): Finding {
  const code = errorCodeOf(error) ?? ''
  if (/^SQLITE_(CORRUPT|NOTADB)/.test(code)) {
    return finding.error('integrity', `messages.db is damaged (${code})`, setAsideAdvice(dir))
  }
  if (/^SQLITE_(BUSY|LOCKED)/.test(code)) {
    return finding.warning(
      'integrity',
      'messages.db is in use and could not be read',
      `${command('doctor')} again in a moment; if it lasts, a process may hang.`,
    )
  }
  const cause = storeErrorOf(error, 'messages.db cannot be read')
  const what = cause instanceof Error ? cause.message : 'messages.db cannot be read'
  return finding.error('integrity', what, takeOverCommand(dir))
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
  return finding.note(
    'outbox',
    `${formatCount(outbox.sends, 'send')} ${outbox.sends === 1 ? 'waits' : 'wait'}, to ${formatCount(outbox.users, 'user')}${oldest}${expiry}`,
    `svc sends them when the user writes or the pace allows it, if a process polls and the session is logged in. ${command} lists them.`,
  )
}
