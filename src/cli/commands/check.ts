/** `svc check`: what WeChat says of each account now. */
import type { SessionCheck } from '../../model/session.ts'
import { checkSessions } from '../../operations/check.ts'
import { operationCommand } from '../operation-command.ts'
import { type Shown, sessionsText } from '../show.ts'
import { colours, oneLine } from '../terminal.ts'

export const commands = [
  operationCommand(checkSessions, { nothing: [], nothingFails: true, show: checksText }),
]

/** What WeChat says of each; failed unless all work. */
function checksText(checks: readonly SessionCheck[], again: string): Shown {
  if (checks.length === 0) return { ...sessionsText([], again), failed: true }
  const isWell = ({ answered, status }: SessionCheck) => answered && status === 'connected'
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
  return { text: lines.join(''), failed: !checks.every(isWell) }
}
