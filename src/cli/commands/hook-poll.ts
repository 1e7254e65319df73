import { addConfigOptions, type CommandLine, subcommand } from '../command.ts'

/** `svc hook-poll`. */
export function add({ program }: CommandLine): void {
  const command = subcommand(
    program,
    'hook-poll',
    "new messages for an agent's prompt hook, marked as untrusted; nothing when there are none",
  )
    .option('-n, --limit <count>', 'show at most this many; the rest comes next time', '20')
    .option('-c, --consumer <name>', 'name of the reader whose position is used and moved', 'hook')
  addConfigOptions(command, 'tool').addHelpText(
    'after',
    `
Examples:
  # what a prompt hook runs; svc setup claude-code --hook writes it into the settings
  svc hook-poll
  # a second agent with a place of its own, five messages at a time
  svc hook-poll --consumer night-shift --limit 5

Each message is shown once; one that may not have arrived is shown again and says so. The first call of a consumer
shows nothing: it marks the place.
Exit status: 0 done, or nothing there; 1 failed, with a line on stderr. Never 2, by which a hook would hold the prompt
back.`,
  )
  command.action(async () => {
    const { hookPoll } = await import('../hook-poll.ts')
    await hookPoll(command)
  })
}
