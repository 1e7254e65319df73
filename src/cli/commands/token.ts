import { addConfigOptions, addEpilogue, type CommandLine, configFrom, subcommand } from '../command.ts'

/** `svc token`. */
export function add({ program }: CommandLine): void {
  const command = subcommand(
    program,
    'token',
    'print the token that callers of the service send',
  ).description(
    'Print the token that callers of the service on this data directory send: the one in SVC_TOKEN or SVC_TOKEN_FILE, else the one that was made for it. Changes nothing.',
  )
  addEpilogue(addConfigOptions(command, 'tool'), [
    [
      'curl -H "Authorization: Bearer $(svc token)" http://127.0.0.1:8000/tools',
      'a call of a service that others may reach',
    ],
    ['docker exec svc svc token', 'out of a container'],
  ]).action(async () => {
    const config = configFrom(command)
    const { runToken } = await import('../token.ts')
    await runToken(config)
  })
}
