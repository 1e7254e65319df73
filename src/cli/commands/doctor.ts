import { Option } from 'commander'
import { addConfigOptions, addEpilogue, type CommandLine, configFrom, subcommand } from '../command.ts'

/** `svc doctor`. */
export function add(line: CommandLine): void {
  const command = subcommand(
    line.program,
    'doctor',
    'look for what is wrong, and say how to mend it',
  ).description(
    'Look at the data directory, locks, clock, disk, sessions, message store, network and port, and say of each finding how to mend it. Changes nothing, and works beside a running service. Takes the options of svc openapi: give it those that the service is started with.',
  )
  command
    .option(
      '--json',
      'print one JSON object: {ok, counts, findings: [{subject, check, severity, what, fix}], …}',
    )
    .addOption(
      new Option('--timeout <seconds>', 'longest wait for an answer from the network')
        .default('5')
        .argParser(text => text),
    )
  addEpilogue(addConfigOptions(command, 'openapi'), [
    ['svc doctor', 'look at ~/.svc, and at the service on port 8000'],
    ['svc doctor --json | jq \'.findings[] | select(.severity == "error")\'', 'for programs'],
  ])
  command.addHelpText('after', 'Here 0 means that no finding is an error (warnings may be), 1 that one is.')
  command.action(async (flags: { json?: boolean; timeout: string }) => {
    const config = configFrom(command)
    const { runDoctor } = await import('../doctor.ts')
    line.status = await runDoctor(config, flags, command)
  })
}
