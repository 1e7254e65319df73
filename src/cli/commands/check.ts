/** `svc check`: what WeChat says of each account now. */
import type { Session, SessionCheck } from '../../model/session.ts'
import { wordCommand } from '../result.ts'
import { type Shown, sessionsText } from '../show.ts'
import { colours, oneLine } from '../terminal.ts'

export const commands = [
  wordCommand({
    words: 'check',
    summary: 'ask WeChat whether an account works',
    about:
      'Asks WeChat whether it still accepts the login of an account; an account that works again is marked as connected. It takes a few seconds. If a service runs, the service asks; otherwise this command polls WeChat itself, and stores the messages that arrive.',
    takes: command => command.argument('[session]', 'Only this session; without it all sessions.'),
    examples: [['svc check', 'Check every account; exit status 1 if one does not work']],
    async work({ accounts }, only) {
      const names = only ? [only] : (await accounts.list()).filter(isLoggedIn).map(({ name }) => name)
      const checks: SessionCheck[] = []
      // Some at a time: each takes seconds, and there may be thousands.
      for (let from = 0; from < names.length; from += atOnce) {
        const some = names.slice(from, from + atOnce)
        checks.push(...(await Promise.all(some.map(name => accounts.check(name)))))
      }
      return checks
    },
    nothing: [],
    nothingFails: true,
    show: checksText,
  }),
]

const isLoggedIn = ({ bot_id }: Session) => bot_id !== undefined
const atOnce = 50

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
