/** Checks the sessions: which ones work, and what to do about the others. */

import { join } from 'node:path'
import { takeOverCommand } from '../inspect/advised-commands.ts'
import { type Found, findDoubts, finding } from '../inspect/finding.ts'
import { type DescribedSession, describeSession } from '../inspect/status-report.ts'
import type { Scope } from '../model/access.ts'
import { SvcError } from '../model/error.ts'
import type { BotInfo } from '../model/session.ts'
import { errorCodeOf } from '../platform/files.ts'
import { formatCount, formatLocalTime, quoteForShell } from '../platform/format.ts'
import { reasonOf } from '../platform/system-error.ts'
import type { InspectedSession, StoreStats } from '../storage/inspection.ts'
import type { DoctorContext } from './finding.ts'

/** Checks every session's files. */
export function examineSessions(context: DoctorContext, store: StoreStats | undefined): Found {
  const { directory, sessions: sight, command } = context
  const { sessions, lostDefault } = sight
  if (directory.state === 'unreadable') return undefined
  const blind = findBlindKeys(sessions, store, command)
  if (sessions.length === 0) {
    return [finding.note('sessions', 'no session yet', command('login')), blind]
  }
  const described = sessions.map(session => describeSession(session, context.polling, store))
  const found = [
    sessions.map((session, nth) => checkSession(session, described[nth]!, context)),
    described.map(findDoubts),
    sessions.map(({ bot, name }) => checkOwner(name, bot, store?.agents ?? [])),
    blind,
  ]
  if (lostDefault === undefined) return found
  const next = sessions[0]?.name ?? 'default'
  const what = `the default session is "${lostDefault}", which does not exist; "${next}" is used instead`
  return [found, finding.warning('default', what, command(`sessions default ${quoteForShell(next)}`))]
}

/** Keys that see nothing: the people whose accounts they are limited to are logged out, or all their users were erased. */
function findBlindKeys(
  sessions: readonly InspectedSession[],
  store: StoreStats | undefined,
  command: DoctorContext['command'],
): Found {
  const isBlind = ({ bots, users }: Scope) =>
    users?.length === 0 || (bots && !sessions.some(({ bot }) => bot && bots.includes(bot.bot_id)))
  return (store?.keys ?? [])
    .filter(({ scope }) => isBlind(scope))
    .map(({ name }) =>
      finding.warning(
        'key',
        `the key "${name}" sees nothing: it is limited to people who are not logged in, or to users who were erased`,
        `A login of the same person in the same session gives it back. For another person make a new key: ${command('key add')}.`,
      ),
    )
}

/** The person who scanned the QR code owns the agents, if known and not erased. */
const checkOwner = (name: string, bot: BotInfo | undefined, agents: readonly string[]): Found =>
  bot === undefined || bot.user_id || agents.length === 0
    ? undefined
    : finding.warning(
        'agents',
        `the owner of "${name}" is not known: agents (${agents.join(', ')}) answer only those who are allowed`,
        'Log the account in again: who scans the QR code is the owner. Or name users with --allow of svc agent.',
      )

function checkSession(
  { contexts, name, trouble }: InspectedSession,
  described: DescribedSession,
  context: DoctorContext,
): Found {
  const folder = join(context.directory.dir, name)
  if (trouble?.kind === 'unreadable')
    return finding.error(
      'session',
      `"${name}" cannot be used: ${reasonOf(trouble.error)}`,
      remedyOf(trouble.error, folder),
    )
  const found = checkStatus(described, context.command(`login ${quoteForShell(name)}`))
  if (contexts !== 'damaged') return found
  const what = `contexts.json of "${name}" is damaged: svc can answer a user only after the user writes again`
  return [
    found,
    finding.warning('contexts', what, 'Nothing to do: svc sets the file aside at the next message.'),
  ]
}

/**
 * Returns the advice for files that cannot be used: if another user owns them, the command that takes them
 * over; else the error's hint.
 */
function remedyOf(error: unknown, folder: string): string {
  if (!(error instanceof SvcError)) return takeOverCommand(folder)
  return /^(EACCES|EPERM)$/.test(errorCodeOf(error.cause) ?? '') ? takeOverCommand(folder) : error.hint
}

function checkStatus(session: DescribedSession, login: string): Found {
  const { created_at = 0, expired_at, lapsed_at, name, poll_error, status, user_count } = session
  const since = (at: number | undefined) => `since ${formatLocalTime(at ?? Number.NaN)}`
  if (status === 'disconnected')
    return finding.error('session', `"${name}" is disconnected: its token.json is damaged`, login)
  if (status === 'expired')
    return finding.error(
      'session',
      `"${name}" is expired ${since(expired_at)}: WeChat no longer accepts its token`,
      login,
    )
  if (status === 'lapsed')
    return finding.warning(
      'session',
      `"${name}" is lapsed ${since(lapsed_at)}: WeChat answers, but may no longer deliver messages`,
      login,
    )
  if (poll_error !== undefined) return undefined
  const created = created_at > 0 ? ` ${since(created_at)}` : ''
  return finding.ok('session', `"${name}" is connected${created}, ${formatCount(user_count, 'user')}`)
}
