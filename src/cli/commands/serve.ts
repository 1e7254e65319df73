/** Declares the commands that serve: `svc openapi`, `svc mcp`, `svc admin`, `svc sandbox`. */

import { readConfig } from '../../config.ts'
import { badArgument } from '../../model/error.ts'
import { type CommandSpec, configFrom } from '../command.ts'

/** Default port of `svc admin`. */
const defaultPanelPort = 8080

export const commands: readonly CommandSpec[] = [
  {
    words: 'openapi',
    summary: 'serve the nine tools over REST, with interactive docs',
    about:
      'Serve the nine tools until Ctrl-C: over HTTP with JSON, documented at /docs, and over MCP at /mcp on the same port; with --admin-port also the admin panel. It receives messages from WeChat. If another process on the data directory already does that, it follows that process and takes over when it ends. If other machines can reach it, callers need a token: unless you give one, svc makes one and shows it once.',
    config: 'openapi',
    examples: [
      ['svc openapi', 'for programs on this machine, at http://127.0.0.1:8000'],
      ['svc openapi --sandbox --admin-port 8080', 'with a simulated WeChat, and the panel'],
      ['svc openapi --host 0.0.0.0', 'for other machines; svc makes the token'],
    ],
    isServer: true,
    async run(command) {
      const config = configFrom(command)
      await (await import('../serve.ts')).serveOpenApi(config, command)
    },
  },
  {
    words: 'mcp',
    summary: 'serve the nine tools to agents over MCP',
    about:
      'Serve the nine tools to agents over MCP, with resources and prompts. With stdio the client starts and ends svc itself (svc setup <client> writes that into its settings); with http and sse any number of clients can connect until Ctrl-C. If another process on the data directory already receives messages, it follows that process and takes over when it ends. svc openapi serves the same at /mcp. With --url it serves nothing itself: it connects standard input and output to a running service, for clients that cannot reach that service on their own.',
    config: 'mcp',
    addOptions: command =>
      command.option(
        '--url <url>',
        'connect to the running service at this address, such as http://127.0.0.1:8000/mcp or unix:/run/svc.sock; of the other options only those of the token, --key-file, --consumer, --log-level and --log-format apply',
      ),
    examples: [
      ['svc mcp', 'for one client, on standard input and output'],
      [
        'svc mcp -t http --port 9000',
        'at http://127.0.0.1:9000/mcp, with uploads at /media and health at /healthz',
      ],
      ['svc mcp -t stdio --confirm-send', 'a person confirms each message before it is sent'],
      ['svc mcp --key-file agent.key', 'the client may do only what the key in that file may do'],
      ['SVC_TOKEN=… svc mcp --url https://svc.example.org/mcp', 'connects a client to the service there'],
    ],
    isServer: true,
    async run(command) {
      if (command.opts().url !== undefined) return (await import('../bridge.ts')).runBridge(command)
      // Over stdio nothing listens on --port, so its default must not clash with another port.
      const { transport, sandboxPort } = configFrom(command, {}, { port: '0', sandboxPort: '0' })
      const config = configFrom(command, {}, transport === 'stdio' ? { port: '0' } : {})
      if (transport === 'stdio' && command.getOptionValueSource('socket') === 'cli')
        throw badArgument('--socket', 'expected with --transport http or sse', {
          hint: 'Over stdio the client that starts svc is its only one.',
        })
      if (transport !== 'stdio' && config.keyFile !== undefined)
        throw badArgument('--key-file', 'expected with --transport stdio, or with --url', {
          hint: 'Each client over HTTP sends its own key as bearer token.',
        })
      // Port 0 here means that nobody chose one: over stdio a second client's phone may take any free port.
      await (await import('../serve-mcp.ts')).serveMcp(config, command, { isPhoneFree: sandboxPort === 0 })
    },
  },
  {
    words: 'admin',
    summary: 'serve the admin panel alone, for a browser',
    about:
      'Serve the admin panel until Ctrl-C: accounts, conversations and settings, for a browser. It also receives messages, unless another process does. If you run a service anyway, svc openapi --admin-port serves the panel from the same process. If other machines can reach it, the panel asks for the token; svc prints a link at its start that signs you in once.',
    config: 'admin',
    examples: [
      ['svc admin', `on http://127.0.0.1:${defaultPanelPort}, for this machine`],
      ['svc admin --host 0.0.0.0 --admin-port 9000', 'for other machines; svc makes the token'],
    ],
    isServer: true,
    async run(command) {
      // The panel alone serves no REST, so the default of --port must not clash with another port.
      const config = configFrom(command, { port: '0' })
      const { serveAdmin } = await import('../serving.ts')
      await serveAdmin(Object.freeze({ ...config, adminPort: config.adminPort ?? defaultPanelPort }), command)
    },
  },
  {
    words: 'sandbox',
    summary: 'run only the simulated WeChat, to share it between processes',
    about:
      'Run only the simulated WeChat, with its simulated phone, until Ctrl-C. Every svc command with --sandbox on the same data directory uses it, and it stays when they end.',
    config: 'sandbox',
    ownHelp: {
      host: 'address to listen on; anyone who can reach it can use it, except for the phone, which only this machine can open (127.0.0.1)',
      basePath: 'data directory (~/.svc-sandbox)',
    },
    addOptions: command =>
      command.option('--sandbox', 'has no effect here; accepted because every command takes it'),
    examples: [
      ['svc sandbox', 'then, in other terminals: svc openapi --sandbox, svc login --sandbox, …'],
      [
        'svc sandbox --host 0.0.0.0',
        'then, on other machines: svc openapi --upstream-url http://HERE:8001 --cdn-url http://HERE:8001/c2c',
      ],
    ],
    noSandboxHint: 'ever',
    isServer: true,
    async run(command) {
      // `sandbox: true` selects the default directory of the sandbox. No service port is used that could
      // clash. The address of a database is for the nodes that use this sandbox.
      const { SVC_STORE_URL: _url, SVC_STORE_URL_FILE: _file, ...env } = command.io.env
      const config = readConfig({ ...command.opts(), sandbox: true, port: '0' }, env)
      await (await import('../serve.ts')).serveSandbox(config, command)
    },
  },
]
