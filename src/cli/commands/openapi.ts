import { addConfigOptions, addEpilogue, type CommandLine, configFrom, subcommand } from '../command.ts'

/** `svc openapi`. */
export function add({ program }: CommandLine): void {
  const command = subcommand(
    program,
    'openapi',
    'serve the nine tools over REST, with interactive docs',
  ).description(
    'Serve the nine tools until Ctrl-C: over HTTP with JSON, documented at /docs, and over MCP at /mcp on the same port; with --admin-port the panel too. It polls WeChat; where another process on the data directory does so already, it follows that one and takes over when it ends. Where others can reach it, callers need a token: one is made and shown once, unless given.',
  )
  addEpilogue(addConfigOptions(command, 'openapi'), [
    ['svc openapi', 'for programs on this machine, at http://127.0.0.1:8000'],
    ['svc openapi --sandbox --admin-port 8080', 'with a pretend WeChat, and the panel'],
    ['svc openapi --host 0.0.0.0', 'for other machines, with a token that is made for it'],
  ]).action(async () => {
    const config = configFrom(command)
    const { serveOpenApi } = await import('../serve.ts')
    await serveOpenApi(config)
  })
}
