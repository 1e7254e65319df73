import { addConfigOptions, addEpilogue, type CommandLine, configFrom, subcommand } from '../command.ts'

/** `svc status`. */
export function add(line: CommandLine): void {
  const command = subcommand(line.program, 'status', 'show sessions and service at a glance').description(
    'Show who polls, which sessions are connected, and what waits to be sent. Reads the data directory, asks nobody, and changes nothing.',
  )
  command.option('--json', 'print one JSON object; times are Unix milliseconds')
  addEpilogue(addConfigOptions(command, 'tool'), [
    ['svc status', 'what there is, and how it is'],
    ['svc status --json | jq .connected_count', 'for programs'],
  ])
  command.addHelpText(
    'after',
    'Here 0 means that there is a session, every session is connected and a process polls; 1 anything else.',
  )
  command.action(async (flags: { json?: boolean }) => {
    const config = configFrom(command)
    const { runStatus } = await import('../status.ts')
    line.status = await runStatus(config, flags, command)
  })
}
