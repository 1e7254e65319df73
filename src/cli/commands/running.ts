/** The commands that serve, and those that look after what serves. */
import type { Command } from 'commander'
import { type CommandSpec, chosen, configFrom, forgottenSandbox } from '../command.ts'
import type { NameFlags } from '../service-plan.ts'

/** Where the panel listens unless told otherwise. */
const usualPanelPort = 8080

/** Which service is meant. */
const named = (command: Command) =>
  command
    .option('--system', 'the service of the machine, as by default for root')
    .option(
      '--user [name]',
      'the service of this user, as by default for everybody else; with a name: that of the machine, which runs as that user (default on Linux: svc, on macOS: who called sudo)',
    )
    .option('--name <name>', 'what it is called, where there are several', 'svc')

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
      await (await import('../serve.ts')).serveOpenApi(config)
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
        'lead to the running service at this address, as http://127.0.0.1:8000/mcp; takes a token and --log-level beside it',
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
      // Over stdio nobody chose the port: a second client's phone may stand anywhere.
      await (await import('../serve-mcp.ts')).serveMcp(config, { isPhoneFree: sandboxPort === 0 })
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
      await serveAdmin(Object.freeze({ ...config, adminPort: config.adminPort ?? usualPanelPort }))
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
      await (await import('../serve.ts')).serveSandbox(config)
    },
  },
  {
    words: 'status',
    summary: 'show sessions and service at a glance',
    about:
      'Show who polls, which sessions are connected, and what waits to be sent. Reads the data directory, asks nobody, and changes nothing.',
    config: 'tool',
    json: 'print one JSON object; times are Unix milliseconds',
    examples: [
      ['svc status', 'what there is, and how it is'],
      ['svc status --json | jq .connected_count', 'for programs'],
    ],
    after:
      'Here 0 means that there is a session, every session is connected and a process polls; 1 anything else.',
    run: async command =>
      (await import('../status.ts')).runStatus(
        configFrom(command),
        command.opts(),
        forgottenSandbox(command),
      ),
  },
  {
    words: 'token',
    summary: 'print the token that callers of the service send',
    about:
      'Print the token that callers of the service on this data directory send: the one in SVC_TOKEN or SVC_TOKEN_FILE, else the one that was made for it. A token that the service was given with --token is not kept, so it is not known here. Changes nothing.',
    config: 'tool',
    examples: [
      [
        'curl -H "Authorization: Bearer $(svc token)" http://127.0.0.1:8000/tools',
        'a call of a service that others may reach',
      ],
      ['docker exec svc svc token', 'out of a container'],
    ],
    run: async command => (await import('../token.ts')).runToken(configFrom(command)),
  },
  {
    words: 'health',
    summary: 'ask a running service whether it works',
    about:
      'Ask GET /healthz of a running service and print its answer as one line. Needs no token; without an address it finds the service by its data directory; waits 2 seconds at most. For HEALTHCHECK in containers and for monitoring.',
    config: 'health',
    own: {
      host: 'address the service is bound to (127.0.0.1)',
      port: 'its port (as its data directory says, else 8000)',
      socket: 'the Unix socket it listens on instead',
      basePath: 'its data directory, which says where it listens (~/.svc, with --sandbox ~/.svc-sandbox)',
      sandbox: 'for a service with the simulated WeChat, which answers like any other',
    },
    takes: command =>
      command.option('--url <url>', 'its whole address instead, as in https://svc.example.org'),
    json: 'print one JSON object',
    examples: [
      ['svc health', 'on this machine'],
      ['HEALTHCHECK CMD ["svc", "health"]', 'in a Dockerfile'],
    ],
    after:
      'Here 0 means that it works, 1 that it does not or does not answer. What is degraded (an account that is not\nconnected, polls that fail) is said and still 0: a restart would not help it.',
    run: async command => (await import('../health.ts')).runHealth(command),
  },
  {
    words: 'doctor',
    summary: 'look for what is wrong, and say how to mend it',
    about:
      'Look at the data directory, locks, clock, disk, sessions, message store, network and port, and say of each finding how to mend it. Changes nothing, and works beside a running service. Takes the options of svc openapi: give it those that the service is started with.',
    config: 'openapi',
    takes: command =>
      command.option('--timeout <seconds>', 'longest wait for an answer from the network', '5'),
    json: 'print one JSON object: {ok, counts, findings: [{subject, check, severity, what, fix}], …}',
    examples: [
      ['svc doctor', 'look at ~/.svc, and at the service that runs on it'],
      ['svc doctor --json | jq \'.findings[] | select(.severity == "error")\'', 'for programs'],
    ],
    after: 'Here 0 means that no finding is an error (warnings may be), 1 that one is.',
    run: async command =>
      (await import('../doctor.ts')).runDoctor(usual => configFrom(command, {}, usual), command.opts()),
  },
  {
    words: 'service',
    summary: 'run svc in the background, from the start of the machine on',
    takes: command => command.usage('install|uninstall|status [options]'),
    examples: [
      ['sudo svc service install --user svc', 'for the machine, run as the user svc'],
      ['svc service install', 'for you alone, on your data directory'],
      ['svc service status', 'whether it runs, and well'],
    ],
    run: chosen('service', 'install, uninstall or status'),
  },
  {
    words: 'service install',
    summary: 'install svc as a service and start it, or bring it up to date',
    about:
      "Run 'svc openapi' with the options given here as a service of systemd or launchd: it starts with the machine (as an ordinary user: when you log in), and again when it fails. As root it is the machine's, locked in, and runs as an existing user on /var/lib/svc; else yours, on your data directory. What svc is told by the environment here goes along. Once more, with other options, changes and restarts it.",
    config: 'openapi',
    own: {
      basePath:
        'data directory (of the machine: /var/lib/svc, with --sandbox /var/lib/svc-sandbox; yours: ~/.svc, ~/.svc-sandbox)',
    },
    takes: command =>
      named(command).option('--print', 'only show the unit or property list, and change nothing'),
    examples: [
      ['sudo svc service install --user svc --admin-port 8080', 'for the machine, with the panel'],
      ['svc service install --sandbox', 'yours, with the simulated WeChat'],
      ['svc service install --print --system', 'the unit, for a package or to put it in place by hand'],
    ],
    run: async command => (await import('../service.ts')).runInstall(command, command.opts<NameFlags>()),
  },
  {
    words: 'service uninstall',
    summary: 'stop the service and remove it; its data stay',
    takes: named,
    examples: [['sudo svc service uninstall', 'the one of the machine']],
    run: async command => (await import('../service.ts')).runUninstall(command.opts<NameFlags>()),
  },
  {
    words: 'service status',
    summary: 'say whether the service is installed, runs, and is healthy',
    takes: named,
    json: 'print one JSON object; times are Unix milliseconds',
    examples: [
      ['svc service status', 'yours, else that of the machine'],
      ['svc service status --json | jq .healthy', 'for programs'],
    ],
    after: 'Here 0 means that it runs and is healthy, 1 anything else.',
    run: async command => (await import('../service.ts')).runServiceStatus(command.opts<NameFlags>()),
  },
]
