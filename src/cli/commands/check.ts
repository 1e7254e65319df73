/** Whether WeChat takes an account, asked now. */
import { type CommandLine, subcommand } from '../command.ts'
import { finish } from './outbox.ts'

/** `svc check`. */
export function add(line: CommandLine): void {
  const command = subcommand(line.program, 'check', 'ask WeChat now whether an account works')
    .description(
      'Asks WeChat whether it still accepts the login of an account, in some seconds, and heals one that works again. Beside a running service that one asks; otherwise this command polls for as long as it takes, and what arrives is stored.',
    )
    .argument('[session]', 'Only this session; all of them otherwise.')
  finish(command, [['svc check', 'Every account, and exit status 1 unless all work']], async () => {
    const { checkSessions } = await import('../run-reads.ts')
    await checkSessions(line, command)
  })
}
