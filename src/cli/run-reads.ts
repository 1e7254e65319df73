/** Commands that look at what is not a tool's: the users, and the outbox. */
import type { Command } from 'commander'
import type { Gateway, PanelGateway } from '../gateway/gateway-api.ts'
import { badArgument } from '../model/error.ts'
import type { Session, SessionCheck } from '../model/session.ts'
import { systemClock } from '../platform/clock.ts'
import { againFlags, type CommandLine } from './command.ts'
import { commandCall, isAbsent, openForCommand } from './open.ts'
import { jsonLine } from './print.ts'
import { toolConfig } from './run-tool.ts'
import * as show from './show.ts'
import { writeOut } from './terminal.ts'

/** `svc outbox`. */
export const listOutbox = (line: CommandLine, command: Command): Promise<void> => {
  const { user, session } = command.opts<{ user?: string; session?: string }>()
  return shown(line, command, ({ outbox }) => outbox.list({ user_id: user, session }), show.outboxText, [])
}

/** `svc approvals`. */
export const listApprovals = (line: CommandLine, command: Command): Promise<void> => {
  const asked = async ({ outbox }: Gateway) =>
    (await outbox.list()).filter(({ waits_for }) => waits_for === 'approval')
  return shown(line, command, asked, entries => show.approvalsText(entries, againFlags(command)), [])
}

/** `svc approvals yes`. */
export const approve = (line: CommandLine, command: Command): Promise<void> =>
  shown(line, command, gateway => gateway.outbox.approve(command.args[0] ?? ''), show.approvedText)

/** `svc outbox cancel`, `svc approvals no`. */
export const cancelOutbox = (line: CommandLine, command: Command): Promise<void> => {
  const done = command.name() === 'no' ? 'declined' : 'cancelled'
  const cancel = ({ outbox }: Gateway) => outbox.cancel(command.args[0] ?? '')
  return shown(line, command, cancel, ended => show.cancelledText(ended, done))
}

/** It is shown anew after this. */
const typingFadesMs = 4500

/** `svc users`. */
export const listUsers = (line: CommandLine, command: Command): Promise<void> => {
  let isAny = false
  return shown(
    line,
    command,
    async gateway => {
      const [session] = command.args
      isAny = session !== undefined || (await gateway.accounts.list()).length > 0
      return gateway.users.list(session === undefined ? {} : { session })
    },
    users => (isAny ? show.usersText(users) : show.sessionsText([], againFlags(command))),
    command.args.length === 0 ? [] : undefined,
  )
}

/** `svc users name`. */
export const nameUser = (line: CommandLine, command: Command): Promise<void> => {
  const { session, clear } = command.opts<{ session?: string; clear?: boolean }>()
  const [user_id, name = clear ? '' : undefined] = command.args
  if (name === undefined) throw badArgument('<name>', 'missing; give a name, or --clear')
  if (clear && name !== '') throw badArgument('--clear', 'takes no name beside it')
  const request = { user_id: user_id!, name, session }
  return shown(line, command, ({ users }) => users.name(request), show.namedText)
}

/** `svc typing`: shown again and again, since it fades in some seconds. */
export async function showTyping(command: Command): Promise<void> {
  const { seconds, session, json } = command.opts<{ seconds: string; session?: string; json?: boolean }>()
  const longest = /^\d{1,3}$/.test(seconds) ? Number(seconds) : 0
  if (longest < 1 || longest > 300) throw badArgument('--seconds', 'expected 1 to 300 seconds')
  const config = toolConfig(command)
  using call = commandCall()
  await using opened = await openForCommand(config)
  const to = command.args[0]!
  const request = { to, media: [], typing: true, session }
  const until = systemClock.monotonic() + longest * 1000
  for (let nth = 0; !call.signal.aborted && systemClock.monotonic() < until; nth++) {
    const result = await opened.gateway.sender.send(request, call)
    if (nth === 0) await writeOut(json ? `${jsonLine(result)}\n` : show.typingText(result, to, longest))
    const leftMs = until - systemClock.monotonic()
    await systemClock.sleep(Math.max(0, Math.min(typingFadesMs, leftMs)), call.signal)
  }
}

/** `svc check`. */
export const checkSessions = (line: CommandLine, command: Command): Promise<void> =>
  shown(
    line,
    command,
    async ({ accounts }) => {
      const [only] = command.args
      // Some at a time: each takes seconds, and there may be thousands.
      const names =
        only === undefined ? (await accounts.list()).filter(isLoggedIn).map(({ name }) => name) : [only]
      const checks: SessionCheck[] = []
      for (let from = 0; from < names.length; from += checksAtOnce) {
        const some = names.slice(from, from + checksAtOnce)
        checks.push(...(await Promise.all(some.map(name => accounts.check(name)))))
      }
      return checks
    },
    checks => show.checksText(checks, againFlags(command)),
    command.args.length === 0 ? [] : undefined,
  )

const isLoggedIn = ({ bot_id }: Session) => bot_id !== undefined
const checksAtOnce = 50

/** @param nothing what there is to see where there is no data directory: then none is made */
export async function shown<T>(
  line: CommandLine,
  command: Command,
  read: (gateway: Pick<PanelGateway, keyof Gateway | 'clock'>) => Promise<T>,
  said: (result: T) => show.Shown,
  nothing?: T,
): Promise<void> {
  const config = toolConfig(command)
  const tell = async (result: T, seen: show.Shown) => {
    if (seen.failed) line.status = 1
    if (command.opts().json === true) return writeOut(`${jsonLine(result)}\n`)
    await writeOut(seen.text)
    await show.writeNote(seen, command)
  }
  if (nothing !== undefined && (await isAbsent(config)))
    return tell(nothing, show.sessionsText([], againFlags(command)))
  await using opened = await openForCommand(config)
  const result = await read(opened.gateway)
  await tell(result, said(result))
}
