import { addConfigOptions, type CommandLine, configFrom, subcommand } from '../command.ts'

/** `svc openapi`. */
export function add({ program }: CommandLine): void {
  const command = subcommand(program, 'openapi', 'serve the nine tools over REST, with interactive docs')
  addConfigOptions(command, 'openapi').action(async () => {
    const config = configFrom(command)
    const { serveOpenApi } = await import('../serve.ts')
    await serveOpenApi(config)
  })
}
