/** `svc openapi`, `svc mcp`, `svc admin`, `svc sandbox`: the commands that serve. */

import { badArgument } from '../../model/error.ts'
import { type CommandSpec, configFrom } from '../command.ts'

/** Where the panel listens unless told otherwise. */
const usualPanelPort = 8080

export const commands: readonly CommandSpec[] = [
  {
    words: 'openapi',
    summary: 'serve the nine tools over REST, with interactive docs',
    about:
      'Serve the nine tools until Ctrl-C: over HTTP with JSON, documented at /docs, and over MCP at /mcp on the same port; with --admin-port the panel too. It polls WeChat; where another process on the data directory does so already, it follows that one and takes over when it ends. Where others can reach it, callers need a token: one is made and shown once, unless given.',
    config: 'openapi',
    examples: [
      ['svc openapi', 'for programs on this machine, at http://127.0.0.1:8000'],
      ['svc openapi --sandbox --admin-port 8080', 'with a simulated WeChat, and the panel'],
      ['svc openapi --host 0.0.0.0', 'for other machines, with a token that is made for it'],
    ],
    async run(command) {
      const config = configFrom(command)
      await (await import('../serve.ts')).serveOpenApi(config, command.io)
    },
  },
  {
    words: 'mcp',
    summary: 'serve the nine tools to agents over MCP',
    about:
      'Serve the nine tools to agents over MCP, with resources and prompts. With stdio the client starts svc itself (svc setup <client> writes that into its settings) and ends it; with http and sse any number of clients come to it until Ctrl-C. Beside another process on the data directory it follows what that one receives, and takes over when it ends. svc openapi serves the same at /mcp. With --url nothing is served here: standard input and output lead to a running service, for clients that cannot reach it by themselves.',
    config: 'mcp',
    takes: command =>
      command.option(
        '--url <url>',
        'lead to the running service at this address, as http://127.0.0.1:8000/mcp or unix:/run/svc.sock; takes a token and --log-level beside it',
      ),
    examples: [
      ['svc mcp', 'for one client, on standard input and output'],
      [
        'svc mcp -t http --port 9000',
        'at http://127.0.0.1:9000/mcp, with /media for uploads and /healthz beside it',
      ],
      ['svc mcp -t stdio --confirm-send', 'a person says yes to each message before it goes out'],
      ['SVC_TOKEN=… svc mcp --url https://svc.example.org/mcp', 'a bridge to the service there'],
    ],
    async run(command) {
      if (command.opts().url !== undefined) return (await import('../bridge.ts')).runBridge(command)
      // Over stdio nothing listens on --port: unless it was given, it cannot be in the way.
      const { transport, sandboxPort } = configFrom(command, {}, { port: '0', sandboxPort: '0' })
      const config = configFrom(command, {}, transport === 'stdio' ? { port: '0' } : {})
      if (transport === 'stdio' && command.getOptionValueSource('socket') === 'cli')
        throw badArgument('--socket', 'expected with --transport http or sse', {
          hint: 'Over stdio the client that starts svc is its only one.',
        })
      // Over stdio nobody chose the port: a second client's phone may stand anywhere.
      await (await import('../serve-mcp.ts')).serveMcp(config, command.io, { isPhoneFree: sandboxPort === 0 })
    },
  },
  {
    words: 'admin',
    summary: 'serve the admin panel alone, for a browser',
    about:
      'Serve the admin panel until Ctrl-C: accounts, conversations and settings, for a browser. It polls too, unless another process does; beside a service, svc openapi --admin-port serves it from that one process. Where others can reach it, it asks for the token: the start prints a link that signs you in once.',
    config: 'admin',
    examples: [
      ['svc admin', `on http://127.0.0.1:${usualPanelPort}, for this machine`],
      ['svc admin --host 0.0.0.0 --admin-port 9000', 'for other machines, with a token that is made for it'],
    ],
    async run(command) {
      // It serves no REST, so that port cannot be in the way.
      const config = configFrom(command, { port: '0' })
      const { serveAdmin } = await import('../serving.ts')
      await serveAdmin(
        Object.freeze({ ...config, adminPort: config.adminPort ?? usualPanelPort }),
        command.io,
      )
    },
  },
  {
    words: 'sandbox',
    summary: 'run only the simulated WeChat, for several processes to share',
    about:
      'Run only the simulated WeChat, with its simulated phone, until Ctrl-C. Every svc command with --sandbox on the same data directory uses it, and it stays when they end.',
    config: 'sandbox',
    own: {
      host: 'address to bind; anybody who reaches it may use it, but the phone answers this machine alone (127.0.0.1)',
      basePath: 'data directory (~/.svc-sandbox)',
    },
    takes: command => command.option('--sandbox', 'changes nothing here; it may stand in every command'),
    examples: [
      ['svc sandbox', 'then, in other terminals: svc openapi --sandbox, svc login --sandbox, …'],
      [
        'svc sandbox --host 0.0.0.0',
        'then, on other machines: svc openapi --upstream-url http://HERE:8001 --cdn-url http://HERE:8001/c2c',
      ],
    ],
    async run(command) {
      // Its directory is a sandbox's by default too, and it has no service port that could clash with its own.
      const config = configFrom(command, { sandbox: true, port: '0' })
      await (await import('../serve.ts')).serveSandbox(config, command.io)
    },
  },
]
