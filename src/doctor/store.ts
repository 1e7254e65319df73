/** Checks the message store: is it undamaged, and of this version's schema. */
import { join } from 'node:path'
import { newerFix, newerStore, takeOver } from '../inspect/advised-commands.ts'
import { dataFiles } from '../model/data-files.ts'
import { errorCodeOf } from '../platform/files.ts'
import { byteSize, counted, localTime, shellWord, span } from '../platform/format.ts'
import { unavailable } from '../platform/system-error.ts'
import type { StoreStats } from '../storage/sight.ts'
import { bad, type DoctorContext, type Found, note, ok, warning } from './finding.ts'

/** Result of reading the store, or why it could not be read. `sight` is undefined if there is no store. */
export type StoreLook = { sight: StoreStats | undefined } | { error: unknown }

/** Reports the state of the store. */
export function examineStore(context: DoctorContext, look: StoreLook): Found[] {
  const { directory, clock, command } = context
  if (directory.state === 'missing' || directory.state === 'unreadable' || directory.state === 'foreign')
    return []
  const { dir } = directory
  if ('error' in look) return [unreadable(look.error, context)]
  const { sight } = look
  if (!sight) return [note('integrity', 'there is no messages.db yet', command('openapi'))]
  if (sight.damage && sight.damage.length > 0) {
    return [bad('integrity', `messages.db is damaged: ${sight.damage[0]}`, setAside(dir))]
  }
  if (sight.form > sight.newest) {
    return [bad('form', newerStore(sight), newerFix)]
  }
  const found: Found[] = [
    ok(
      'integrity',
      `messages.db is whole: ${counted(sight.messages, 'message')}, ${byteSize(sight.sizeBytes)}${sight.walBytes > 0 ? ` and ${byteSize(sight.walBytes)} not yet written back` : ''}`,
    ),
  ]
  if (sight.form < sight.newest) {
    found.push(
      note(
        'form',
        `messages.db has an older schema version (${sight.form} of ${sight.newest})`,
        'svc upgrades it at its next start. After that an older version cannot read it.',
      ),
    )
  }
  for (const { id, status, why, since } of sight.webhooks ?? [])
    found.push(
      warning(
        'webhook',
        `webhook ${id} ${status === 'disabled' ? 'was disabled' : 'has failed since'} ${localTime(since)}: ${why}`,
        status === 'disabled'
          ? `${command(`webhook resume ${id}`)} enables it, ${command(`webhook test ${id}`)} tries it.`
          : `${command(`webhook test ${id}`)} tries it.`,
      ),
    )
  if (sight.outbox.messages > 0) found.push(outboxOf(sight, command('outbox'), clock.now()))
  return found
}

function unreadable(error: unknown, { command, directory: { dir } }: DoctorContext): Found {
  const code = errorCodeOf(error) ?? ''
  if (/^SQLITE_(CORRUPT|NOTADB)/.test(code)) {
    return bad('integrity', `messages.db is damaged (${code})`, setAside(dir))
  }
  if (/^SQLITE_(BUSY|LOCKED)/.test(code)) {
    return warning(
      'integrity',
      'messages.db is in use and could not be read',
      `${command('doctor')} again in a moment; if it lasts, a process may hang.`,
    )
  }
  const cause = unavailable(error, 'messages.db cannot be read')
  const what = cause instanceof Error ? cause.message : 'messages.db cannot be read'
  return bad('integrity', what, takeOver(dir))
}

/** The target is beside the data directory: inside, another folder would look like a session's. */
const setAside = (dir: string): string =>
  `Stop svc, then: mkdir ${shellWord(`${dir}-damaged`)} && mv ${shellWord(join(dir, dataFiles.store))}* ${shellWord(`${dir}-damaged`)}/ (sessions stay, and svc creates a new store; "sqlite3 messages.db .recover" in that folder may save the old messages)`

function outboxOf({ outbox }: StoreStats, command: string, now: number): Found {
  const oldest = outbox.oldestAt === undefined ? '' : `, the oldest for ${span(now - outbox.oldestAt)}`
  const expiry =
    outbox.firstExpiryAt === undefined ? '' : `; the first is given up on ${localTime(outbox.firstExpiryAt)}`
  return note(
    'outbox',
    `${counted(outbox.sends, 'send')} ${outbox.sends === 1 ? 'waits' : 'wait'}, to ${counted(outbox.users, 'user')}${oldest}${expiry}`,
    `svc sends them when the user writes or the pace allows it, if a process polls and the session is logged in. ${command} lists them.`,
  )
}
