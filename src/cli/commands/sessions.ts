/**
 * Declares the commands for accounts: `svc sessions` with its subcommands, `svc login`, `svc logout`, `svc
 * check`.
 */
import type { SessionCheck } from '../../model/session.ts'
import { checkSessions } from '../../operations/check.ts'
import { verbs } from '../../operations/tools.ts'
import { operationCommand } from '../operation-command.ts'
import { formatSessions, type Shown } from '../show.ts'
import { colours, oneLine } from '../terminal.ts'

export const commands = [
  operationCommand(verbs.sessions, { createEmpty: () => [], render: formatSessions }),
  operationCommand(verbs.login, {
    jsonHelp: 'Print each change of the status as one line of JSON; the first has the QR code.',
    longRun: {
      when: () => true,
      run: async typed => (await import('../login.ts')).runLogin(typed),
    },
    render: () => ({}),
  }),
  operationCommand(verbs.logout, {
    absentCode: 'session_not_found',
    changeMade: 'logged out',
    render: ({ session }) => [`logged out: ${oneLine(session)}`],
  }),
  operationCommand(verbs.renameSession, {
    absentCode: 'session_not_found',
    changeMade: 'renamed',
    render: ({ old_name, new_name }) => [`renamed: ${oneLine(old_name)} → ${oneLine(new_name)}`],
  }),
  operationCommand(verbs.setDefault, {
    absentCode: 'session_not_found',
    changeMade: 'changed',
    render: ({ default_session }) => [`default session: ${oneLine(default_session)}`],
  }),
  operationCommand(checkSessions, {
    createEmpty: () => [],
    hasFailed: checks => checks.length === 0 || !checks.every(isHealthy),
    render: formatChecks,
  }),
]

const isHealthy = ({ answered, status }: SessionCheck) => answered && status === 'connected'

/** Formats what WeChat answered for each session. */
function formatChecks(checks: readonly SessionCheck[], again: string): Shown {
  if (checks.length === 0) return formatSessions([], again)
  return checks.map(check => {
    const { answered, poll_error, session, status } = check
    const next = !answered
      ? `, ${poll_error === undefined ? 'WeChat gave no clear answer' : `polls fail: ${oneLine(poll_error)}`}; it was ${status} before`
      : status === 'expired'
        ? `, log in again: svc login ${oneLine(session)}${again}`
        : status === 'lapsed'
          ? ', WeChat answers and may bring no messages'
          : ''
    const paint = isHealthy(check) ? colours.green : colours.red
    return `${oneLine(session)}: ${paint(answered ? status : 'unclear')}${next}`
  })
}
