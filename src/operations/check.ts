/** `check_sessions`: asks WeChat whether accounts still work. */
import { Type } from '@sinclair/typebox'
import { SessionCheck } from '../model/session.ts'
import { closed, optional } from '../model/shapes.ts'
import { defineOperation } from './operation.ts'

/** Number of checks at the same time. A check takes seconds, and there may be thousands of sessions. */
const maxConcurrentChecks = 50

/** Checks sessions. Only the command line and the panel have it. */
export const checkSessions = defineOperation({
  name: 'check_sessions',
  title: 'Ask WeChat whether an account works',
  effect: 'write',
  right: 'check',
  description:
    'Asks WeChat whether it still accepts the login of an account; an account that works again is marked as connected. It takes a few seconds. If a service runs, the service asks; otherwise this command polls WeChat itself, and stores the messages that arrive.',
  input: closed({ session: optional.bounded(200, 'Only this session; without it all sessions.') }),
  output: Type.Array(SessionCheck),
  errors: ['session_not_found', 'not_connected'],
  cli: {
    path: ['check'],
    positionals: ['session'],
    short: { session: 's' },
    examples: [['svc check', 'Check every account; exit status 1 if one does not work']],
  },
  async run({ accounts }, { session }) {
    const all = session === undefined ? await accounts.list() : []
    const names =
      session === undefined ? all.flatMap(({ bot_id, name }) => (bot_id ? [name] : [])) : [session]
    const checks: SessionCheck[] = []
    for (let from = 0; from < names.length; from += maxConcurrentChecks) {
      const batch = names.slice(from, from + maxConcurrentChecks)
      checks.push(...(await Promise.all(batch.map(name => accounts.check(name)))))
    }
    return checks
  },
})
