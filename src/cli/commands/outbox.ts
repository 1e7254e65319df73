/** What waits for users to write: listed, and cancelled. */
import type { Command } from 'commander'
import { addConfigOptions, addEpilogue, type CommandLine, subcommand } from '../command.ts'

/** `svc outbox`, `svc outbox cancel`. */
export function add(line: CommandLine): void {
  const list = subcommand(line.program, 'outbox', 'list messages that wait until they may go')
    .enablePositionalOptions()
    .description(
      'Lists what was sent with --when-closed queue and waits until it may go (its user writes, or the pace allows it), in the order in which it goes out. What has been sent, has expired or was cancelled is not here any more: svc history tells.',
    )
    .option('-u, --user <user>', 'Only what waits for this user.')
    .option('-s, --session <session>', 'Only what this session is to send.')
  finish(list, [['svc outbox', 'What waits, oldest first']], async () => {
    const { listOutbox } = await import('../run-reads.ts')
    await listOutbox(line, list)
  })

  const cancel = subcommand(list, 'cancel', 'take back what has not gone out yet')
    .description(
      'Takes back a queued send. What has been sent already, or is being sent right now, stays as it is.',
    )
    .argument('<id>', 'Id of the queued send, as svc outbox and svc send show it.')
  finish(cancel, [['svc outbox cancel 12', 'By its id']], async () => {
    const { cancelOutbox } = await import('../run-reads.ts')
    await cancelOutbox(line, cancel)
  })
}

/** What these commands have in common with those of the tools. */
export function finish(
  command: Command,
  examples: readonly (readonly [line: string, does: string])[],
  run: () => Promise<void>,
): void {
  command.option('--json', 'Print the result as one JSON value.')
  addEpilogue(addConfigOptions(command, 'tool'), examples).action(run)
}
