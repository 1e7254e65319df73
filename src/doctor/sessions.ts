/** The sessions: which can be polled and sent from, and what to do about the others. */
import { join } from 'node:path'
import { takeOver } from '../inspect/advised-commands.ts'
import { counted, localTime } from '../platform/format.ts'
import { shellWord } from '../platform/shell.ts'
import { reasonOf } from '../platform/system-error.ts'
import type { SeenSession, StoreStats } from '../storage/sight.ts'
import type { DoctorContext } from './context.ts'
import { bad, type Found, note, ok, warning } from './finding.ts'

/** Looks at every session's files. */
export function examineSessions(context: DoctorContext, store: StoreStats | undefined): Found[] {
  const { directory, sessions: sight, command } = context
  const { sessions, lostDefault } = sight
  if (directory.state === 'unreadable') return []
  if (sessions.length === 0) {
    return [note('sessions', 'no session yet', command('login'))]
  }
  const found = sessions.flatMap(session => sessionOf(session, context))
  for (const { name } of sessions) {
    const suspects = store?.suspects.get(name) ?? 0
    if (suspects === 0) continue
    found.push(
      warning(
        'shown',
        `${counted(suspects, 'message')} of "${name}" in the last 24 hours may not have been shown: WeChat accepted them without an id`,
        'Ask a user whether they arrived. WeChat may show them later, or hold them back by its rules: send less of what nobody asked for.',
      ),
    )
  }
  if (lostDefault !== undefined) {
    const next = sessions[0]?.name ?? 'default'
    found.push(
      warning(
        'default',
        `the default session is "${lostDefault}", which does not exist; "${next}" stands in for it`,
        command(`sessions default ${shellWord(next)}`),
      ),
    )
  }
  return found
}

function sessionOf(
  { name, status, bot, trouble, contexts, users }: SeenSession,
  { command, directory: { dir } }: DoctorContext,
): Found[] {
  if (trouble?.kind === 'unreadable')
    return [bad('session', `"${name}" cannot be read: ${reasonOf(trouble.error)}`, takeOver(join(dir, name)))]
  const login = command(`login ${shellWord(name)}`)
  const since = (at: number | undefined) => `since ${localTime(at ?? Number.NaN)}`
  const found: Found[] = []
  if (status === 'disconnected')
    found.push(bad('session', `"${name}" is disconnected: its token.json is damaged`, login))
  else if (status === 'expired')
    found.push(
      bad(
        'session',
        `"${name}" is expired ${since(bot?.expired_at)}: WeChat no longer accepts its token`,
        login,
      ),
    )
  else if (status === 'lapsed')
    found.push(
      warning(
        'session',
        `"${name}" is lapsed ${since(bot?.lapsed_at)}: WeChat answers and may bring no messages any more`,
        login,
      ),
    )
  else if (bot?.poll_error !== undefined)
    found.push(
      warning(
        'session',
        `polls of "${name}" fail ${since(bot.failing_since)}: ${bot.poll_error}`,
        'Nothing to do where WeChat is in trouble: polls are tried again by themselves. Otherwise look at the network and the proxy.',
      ),
    )
  else {
    const created = bot && bot.created_at > 0 ? ` ${since(bot.created_at)}` : ''
    found.push(ok('session', `"${name}" is connected${created}, ${counted(users.size, 'user')}`))
  }
  if (contexts === 'damaged' || contexts === 'unreadable')
    found.push(
      warning(
        'contexts',
        `contexts.json of "${name}" is ${contexts}: a user can be answered only after writing again`,
        contexts === 'damaged'
          ? 'Nothing to do: svc sets it aside at the next message.'
          : takeOver(join(dir, name)),
      ),
    )
  return found
}
