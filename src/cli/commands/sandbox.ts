import { addConfigOptions, addEpilogue, type CommandLine, configFrom, subcommand } from '../command.ts'

/** `svc sandbox`. */
export function add({ program }: CommandLine): void {
  const command = subcommand(
    program,
    'sandbox',
    'run only the pretend WeChat, for several processes to share',
  ).description(
    'Run only the pretend WeChat, with its simulated phone, until Ctrl-C. Every svc command with --sandbox on the same data directory uses it, and it stays when they end.',
  )
  const own = {
    host: 'address to bind; open to whoever reaches it, but the phone answers this machine alone (127.0.0.1)',
    basePath: 'data directory (~/.svc-sandbox)',
  }
  addEpilogue(addConfigOptions(command, 'sandbox', own), [
    ['svc sandbox', 'then, in other terminals: svc openapi --sandbox, svc login --sandbox, …'],
    [
      'svc sandbox --host 0.0.0.0',
      'then, on other machines: svc openapi --upstream-url http://HERE:8001 --cdn-url http://HERE:8001/c2c',
    ],
  ])
  command.option('--sandbox', 'changes nothing here; it may stand in every command')
  command.action(async () => {
    // Its directory is a sandbox's by default too, and it has no service port that could clash with its own.
    const config = configFrom(command, { sandbox: true, port: '0' })
    const { serveSandbox } = await import('../serve.ts')
    await serveSandbox(config)
  })
}
