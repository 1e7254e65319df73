import { addConfigOptions, type CommandLine, configFrom, subcommand } from '../command.ts'

/** `svc mcp`. */
export function add({ program }: CommandLine): void {
  const command = subcommand(program, 'mcp', 'serve the nine tools to agents over MCP')
  addConfigOptions(command, 'mcp').action(async () => {
    const config = configFrom(command)
    const { serveMcp } = await import('../serve-mcp.ts')
    await serveMcp(config)
  })
}
