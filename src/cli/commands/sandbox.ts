import { addConfigOptions, type CommandLine, configFrom, subcommand } from '../command.ts'

/** `svc sandbox`. */
export function add({ program }: CommandLine): void {
  const command = subcommand(
    program,
    'sandbox',
    'run only the pretend WeChat, for several processes to share',
  )
  addConfigOptions(command, 'sandbox').action(async () => {
    // Its directory is a sandbox's by default too, and it has no service port that could clash with its own.
    const config = configFrom(command, { sandbox: true, port: '0' })
    const { serveSandbox } = await import('../serve.ts')
    await serveSandbox(config)
  })
}
