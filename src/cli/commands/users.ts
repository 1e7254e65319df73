/** Who may be answered. */
import { type CommandLine, subcommand } from '../command.ts'
import { finish } from './outbox.ts'

/** `svc users`. */
export function add(line: CommandLine): void {
  const command = subcommand(line.program, 'users', 'list who has written, and what may be answered')
    .description(
      'Lists the users who have written to the bot, whoever wrote last first, with the answers that are left and until when. WeChat lets a bot answer for about 24 hours after a user has written, about 10 times.',
    )
    .argument('[session]', 'Only users of this session.')
  finish(command, [['svc users', 'Whom svc send can reach now']], async () => {
    const { listUsers } = await import('../run-reads.ts')
    await listUsers(line, command)
  })
}
