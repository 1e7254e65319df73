/** Checks the sessions: which ones work, and what to do about the others. */
import { join } from 'node:path'
import { takeOverCommand } from '../inspect/advised-commands.ts'
import { SvcError } from '../model/error.ts'
import { type BotInfo, mutedAdvice, mutedOf } from '../model/session.ts'
import { errorCodeOf } from '../platform/files.ts'
import { formatCount, formatLocalTime, quoteForShell } from '../platform/format.ts'
import { reasonOf } from '../platform/system-error.ts'
import type { InspectedSession, StoreStats } from '../storage/inspection.ts'
import {
  type DoctorContext,
  errorFinding,
  type Finding,
  noteFinding,
  okFinding,
  warningFinding,
} from './finding.ts'

/** Checks every session's files. */
export function examineSessions(context: DoctorContext, store: StoreStats | undefined): Finding[] {
  const { directory, sessions: sight, command } = context
  const { sessions, lostDefault } = sight
  if (directory.state === 'unreadable') return []
  if (sessions.length === 0) {
    return [noteFinding('sessions', 'no session yet', command('login'))]
  }
  const found = sessions.flatMap(session => checkSession(session, context))
  const doubtful = sessions.flatMap(({ name, bot }) =>
    bot?.muted_at === undefined
      ? checkSuspects(name, store?.suspects.get(name) ?? 0)
      : [describeMuted(name, bot)],
  )
  doubtful.push(...sessions.flatMap(({ bot, name }) => checkOwner(name, bot, store?.agents ?? [])))
  if (lostDefault === undefined) return [...found, ...doubtful]
  const next = sessions[0]?.name ?? 'default'
  const what = `the default session is "${lostDefault}", which does not exist; "${next}" is used instead`
  return [
    ...found,
    ...doubtful,
    warningFinding('default', what, command(`sessions default ${quoteForShell(next)}`)),
  ]
}

/** The person who scanned the QR code owns the agents, if known and not erased. */
const checkOwner = (name: string, bot: BotInfo | undefined, agents: readonly string[]): Finding[] =>
  bot === undefined || bot.user_id || agents.length === 0
    ? []
    : [
        warningFinding(
          'agents',
          `the owner of "${name}" is not known: agents (${agents.join(', ')}) answer only those who are allowed`,
          'Log the account in again: who scans the QR code is the owner. Or name users with --allow of svc agent.',
        ),
      ]

const checkSuspects = (name: string, suspects: number): Finding[] =>
  suspects === 0
    ? []
    : [
        warningFinding(
          'shown',
          `${formatCount(suspects, 'message')} of "${name}" in the last 24 hours may not have been shown: WeChat accepted them without an id`,
          'Ask a user whether they arrived. WeChat may show them later, or never: send fewer messages that nobody asked for.',
        ),
      ]

function describeMuted(name: string, bot: BotInfo): Finding {
  const what =
    mutedOf(bot).muted_because === 'no_ids'
      ? 'it accepts messages without an id, which it used to give'
      : 'it refuses files while texts go'
  return warningFinding(
    'muted',
    `WeChat may have muted the account of "${name}" since ${formatLocalTime(bot.muted_at ?? Number.NaN)}: ${what}`,
    mutedAdvice,
  )
}

function checkSession(session: InspectedSession, context: DoctorContext): Finding[] {
  const { contexts, name, trouble } = session
  const folder = join(context.directory.dir, name)
  if (trouble?.kind === 'unreadable')
    return [
      errorFinding(
        'session',
        `"${name}" cannot be used: ${reasonOf(trouble.error)}`,
        remedyOf(trouble.error, folder),
      ),
    ]
  const found = checkStatus(session, context.command(`login ${quoteForShell(name)}`))
  if (contexts !== 'damaged') return [found]
  const what = `contexts.json of "${name}" is damaged: svc can answer a user only after the user writes again`
  return [
    found,
    warningFinding('contexts', what, 'Nothing to do: svc sets the file aside at the next message.'),
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

function checkStatus({ name, status, bot, users }: InspectedSession, login: string): Finding {
  const since = (at: number | undefined) => `since ${formatLocalTime(at ?? Number.NaN)}`
  if (status === 'disconnected')
    return errorFinding('session', `"${name}" is disconnected: its token.json is damaged`, login)
  if (status === 'expired')
    return errorFinding(
      'session',
      `"${name}" is expired ${since(bot?.expired_at)}: WeChat no longer accepts its token`,
      login,
    )
  if (status === 'lapsed')
    return warningFinding(
      'session',
      `"${name}" is lapsed ${since(bot?.lapsed_at)}: WeChat answers, but may no longer deliver messages`,
      login,
    )
  if (bot?.poll_error !== undefined)
    return warningFinding(
      'session',
      `polls of "${name}" fail ${since(bot.failing_since)}: ${bot.poll_error}`,
      'If WeChat has a problem, there is nothing to do: svc polls again by itself. Otherwise check the network and the proxy.',
    )
  const created = bot && bot.created_at > 0 ? ` ${since(bot.created_at)}` : ''
  return okFinding('session', `"${name}" is connected${created}, ${formatCount(users.size, 'user')}`)
}
