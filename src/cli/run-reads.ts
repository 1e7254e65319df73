/** Commands that look at what is not a tool's: the users, and the outbox. */
import type { Command } from 'commander'
import type { Gateway } from '../gateway/face.ts'
import { createLog } from '../platform/log.ts'
import type { CommandLine } from './command.ts'
import { openForCommand } from './open.ts'
import { jsonLine } from './print.ts'
import { toolConfig } from './run-tool.ts'
import { cancelledText, outboxText, type Shown, usersText, writeNote } from './show.ts'
import { writeOut } from './terminal.ts'

/** `svc outbox`. */
export const listOutbox = (line: CommandLine, command: Command): Promise<void> => {
  const { user, session } = command.opts() as { user?: string; session?: string }
  const filter = { ...(user !== undefined && { user_id: user }), ...(session !== undefined && { session }) }
  return shown(line, command, gateway => gateway.outbox.list(filter), outboxText)
}

/** `svc outbox cancel`. */
export const cancelOutbox = (line: CommandLine, command: Command): Promise<void> =>
  shown(line, command, gateway => gateway.outbox.cancel(command.args[0]!), cancelledText)

/** `svc users`. */
export const listUsers = (line: CommandLine, command: Command): Promise<void> =>
  shown(
    line,
    command,
    async gateway => {
      const [only] = command.args
      const names = only === undefined ? (await gateway.accounts.list()).map(({ name }) => name) : [only]
      const users = await Promise.all(
        names.map(async session =>
          (await gateway.accounts.users(session)).map(user => ({ session, ...user })),
        ),
      )
      return users.flat().sort((a, b) => (b.last_received ?? 0) - (a.last_received ?? 0))
    },
    usersText,
  )

async function shown<T>(
  line: CommandLine,
  command: Command,
  read: (gateway: Gateway) => Promise<T>,
  show: (result: T) => Shown,
): Promise<void> {
  const config = toolConfig(command)
  await using stack = new AsyncDisposableStack()
  const { gateway } = await openForCommand(config, createLog(config.logLevel), stack)
  const result = await read(gateway)
  const seen = show(result)
  if (seen.failed) line.status = 1
  if (command.opts().json === true) return writeOut(`${jsonLine(result)}\n`)
  await writeOut(seen.text)
  await writeNote(seen, command)
}
