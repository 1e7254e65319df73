/**
 * Declares the commands for accounts: `svc sessions` with its subcommands, `svc login`, `svc logout`, `svc
 * check`.
 */
import type { SessionCheck } from '../../model/session.ts'
import { checkSessions } from '../../operations/check.ts'
import { verbs } from '../../operations/tools.ts'
import { operationCommand } from '../operation-command.ts'
import { type Shown, sessionsText } from '../show.ts'
import { colours, oneLine } from '../terminal.ts'

export const commands = [
  operationCommand(verbs.sessions, { nothing: () => [], show: sessionsText }),
  operationCommand(verbs.login, {
    json: 'Print each change of the status as one line of JSON; the first has the QR code.',
    lasting: {
      when: () => true,
      run: async typed => (await import('../login.ts')).runLogin(typed),
    },
    show: () => ({}),
  }),
  operationCommand(verbs.logout, {
    absent: 'session_not_found',
    done: 'logged out',
    show: ({ session }) => ({ text: `logged out: ${oneLine(session)}\n` }),
  }),
  operationCommand(verbs.renameSession, {
    absent: 'session_not_found',
    done: 'renamed',
    show: ({ old_name, new_name }) => ({ text: `renamed: ${oneLine(old_name)} → ${oneLine(new_name)}\n` }),
  }),
  operationCommand(verbs.setDefault, {
    absent: 'session_not_found',
    done: 'changed',
    show: ({ default_session }) => ({ text: `default session: ${oneLine(default_session)}\n` }),
  }),
  operationCommand(checkSessions, {
    nothing: () => [],
    failed: checks => checks.length === 0 || !checks.every(isWell),
    show: checksText,
  }),
]

const isWell = ({ answered, status }: SessionCheck) => answered && status === 'connected'

/** Formats what WeChat answered for each session. */
function checksText(checks: readonly SessionCheck[], again: string): Shown {
  if (checks.length === 0) return sessionsText([], again)
  const lines = checks.map(check => {
    const { answered, poll_error, session, status } = check
    const next = !answered
      ? `, ${poll_error === undefined ? 'WeChat gave no clear answer' : `polls fail: ${oneLine(poll_error)}`}; it was ${status} before`
      : status === 'expired'
        ? `, log in again: svc login ${oneLine(session)}${again}`
        : status === 'lapsed'
          ? ', WeChat answers and may bring no messages'
          : ''
    const paint = isWell(check) ? colours.green : colours.red
    return `${oneLine(session)}: ${paint(answered ? status : 'unclear')}${next}\n`
  })
  return { text: lines.join('') }
}
