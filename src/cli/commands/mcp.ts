import { addConfigOptions, addEpilogue, type CommandLine, configFrom, subcommand } from '../command.ts'

/** `svc mcp`. */
export function add({ program }: CommandLine): void {
  const command = subcommand(program, 'mcp', 'serve the nine tools to agents over MCP').description(
    'Serve the nine tools to agents over MCP, with resources and prompts. With stdio the client starts svc itself (svc setup <client> writes that into its settings) and ends it; with http and sse any number of clients come to it until Ctrl-C. Beside another process on the data directory it follows what that one receives, and takes over when it ends. svc openapi serves the same at /mcp.',
  )
  addEpilogue(addConfigOptions(command, 'mcp'), [
    ['svc mcp', 'for one client, on standard input and output'],
    [
      'svc mcp -t http --port 9000',
      'at http://127.0.0.1:9000/mcp, with /media for uploads and /healthz beside it',
    ],
    ['svc mcp -t stdio --confirm-send', 'a person says yes to each message before it goes out'],
  ]).action(async () => {
    // Over stdio nothing listens on --port: unless it was given, it cannot be in the way.
    const { transport, sandboxPort } = configFrom(command, {}, { port: '0', sandboxPort: '0' })
    const config = configFrom(command, {}, transport === 'stdio' ? { port: '0' } : {})
    // Over stdio nobody chose the port: a second client's phone may stand anywhere.
    const isPhoneFree = sandboxPort === 0
    const { serveMcp } = await import('../serve-mcp.ts')
    await serveMcp(config, { isPhoneFree })
  })
}
