/** The message store: whether it is whole, of our form, and kept small enough. */
import { join } from 'node:path'
import { newerFix, newerStore, takeOver } from '../inspect/advised-commands.ts'
import { dataFiles } from '../model/data-files.ts'
import { errorCodeOf } from '../platform/files.ts'
import { byteSize, counted, localTime, shellWord, span } from '../platform/format.ts'
import { unavailable } from '../platform/system-error.ts'
import type { StoreStats } from '../storage/sight.ts'
import { bad, type DoctorContext, type Found, note, ok, warning } from './finding.ts'

/** What was read of the store, or why it could not be. */
export type StoreLook = { sight: StoreStats | undefined } | { error: unknown }

/** Judges what was read of the store. */
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
        `messages.db is of an older form (${sight.form} of ${sight.newest})`,
        'It is brought up to date when svc starts next; an older version cannot read it then.',
      ),
    )
  }
  for (const { id, status, why, since } of sight.webhooks ?? [])
    found.push(
      warning(
        'webhook',
        `webhook ${id} ${status === 'disabled' ? 'was switched off' : 'has failed since'} ${localTime(since)}: ${why}`,
        status === 'disabled'
          ? `${command(`webhook resume ${id}`)} switches it on, ${command(`webhook test ${id}`)} tries it.`
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
      'messages.db is being written to and could not be looked at',
      `${command('doctor')} again in a moment; if it lasts, look for a process that hangs.`,
    )
  }
  const told = unavailable(error, 'messages.db cannot be read')
  const what = told instanceof Error ? told.message : 'messages.db cannot be read'
  return bad('integrity', what, takeOver(dir))
}

/** Beside the directory, since in it another folder would look like a session's. */
const setAside = (dir: string): string =>
  `Stop svc, then: mkdir ${shellWord(`${dir}-damaged`)} && mv ${shellWord(join(dir, dataFiles.store))}* ${shellWord(`${dir}-damaged`)}/ (sessions are kept, a new store is made; "sqlite3 messages.db .recover" there may save the old messages)`

function outboxOf({ outbox }: StoreStats, command: string, now: number): Found {
  const oldest = outbox.oldestAt === undefined ? '' : `, the oldest for ${span(now - outbox.oldestAt)}`
  const expiry =
    outbox.firstExpiryAt === undefined ? '' : `; the first is given up on ${localTime(outbox.firstExpiryAt)}`
  return note(
    'outbox',
    `${counted(outbox.sends, 'send')} ${outbox.sends === 1 ? 'waits' : 'wait'}, to ${counted(outbox.users, 'user')}${oldest}${expiry}`,
    `They go out while somebody polls and the session is logged in, once the user writes or the pace allows it; ${command} shows them.`,
  )
}
