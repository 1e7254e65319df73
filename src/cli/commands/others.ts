/** The commands that are no tool's, as data. What they do is loaded when they run. */
import { Argument, type Command, Option } from 'commander'
import type { CommandName } from '../../config.ts'
import { badArgument } from '../../model/error.ts'
import {
  addConfigOptions,
  addEpilogue,
  type CommandLine,
  configFrom,
  type OwnWords,
  quiet,
  subcommand,
  toolUsual,
} from '../command.ts'
import type { HealthFlags } from '../health.ts'
import type { NameFlags } from '../service-plan.ts'

/** One command. */
interface CommandSpec {
  /** As they are typed. */
  words: string
  summary: string
  /** The summary, where there is none. */
  about?: string
  /** Whose options of the table in config it takes, and its own words for some. */
  config?: CommandName
  own?: OwnWords
  /** Its further arguments and options. */
  takes?(command: Command): Command
  /** What `--json` prints, where it has it. */
  json?: string
  examples: readonly (readonly [line: string, does: string])[]
  /** Below the examples, such as a meaning of the exit status of its own. */
  after?: string
  /** @returns the exit status where it is 0 or 1 */
  run(command: Command, line: CommandLine): Promise<unknown>
}

/** The clients' names, as in src/setup/clients.ts: that is loaded when one of them is set up. */
export const clientNames = [
  'claude-code',
  'claude-desktop',
  'cursor',
  'vscode',
  'codex',
  'opencode',
  'gemini',
  'qwen',
  'copilot',
  'cline',
] as const

/** Where the panel listens unless told otherwise. */
const usualPanelPort = 8080

/** A command that only holds others. */
const chosen = (command: string, words: string) => async () => {
  throw badArgument(command, `expected ${words}`)
}

/** An argument that has one of these values. */
const choice = (name: string, about: string, values: readonly string[]) =>
  new Argument(name, about).choices(values).argParser<string>(value => {
    if (values.includes(value)) return value
    throw badArgument(name, `expected one of ${values.join(', ')}, got '${value}'`)
  })

/** Which service is meant. */
const named = (command: Command) =>
  command
    .option('--system', 'the service of the machine, as by default for root')
    .option(
      '--user [name]',
      'the service of this user, as by default for everybody else; with a name: that of the machine, which runs as that user (default on Linux: svc, on macOS: who called sudo)',
    )
    .option('--name <name>', 'what it is called, where there are several', 'svc')

const moved = {
  config: 'migrate',
  json: 'print one JSON object',
  after:
    'Nothing in the folder it moves from is changed. Once more, it brings only what is new; after a break, the rest.\nMessages of before are in the history and are handed to no reader. Here 1 also means that something could not come over.',
} as const
const movedFrom = (program: 'weilink' | 'openclaw') => ({
  examples: [
    [`svc migrate ${program} --dry-run`, 'look first'],
    [`svc migrate ${program}`, 'then do it; stop the other program before you start svc'],
  ] as const,
  takes: (command: Command) =>
    command.option('--dry-run', 'only say what would come over, and change nothing'),
  async run(command: Command) {
    const config = configFrom(command, { sandbox: false }, toolUsual)
    return (await import('../migrate.ts')).runMigrate(program, config, command.opts())
  },
})

const specs: readonly CommandSpec[] = [
  {
    words: 'users',
    summary: 'list who has written, and what may be answered',
    about:
      'Lists the users who have written to the bot, the latest first, with the answers that are left and until when. WeChat lets a bot answer for about 24 hours after a user has written, about 10 times.',
    config: 'tool',
    takes: command => command.enablePositionalOptions().argument('[session]', 'Only users of this session.'),
    json: 'Print the result as one JSON value.',
    examples: [['svc users', 'Whom svc send can reach now']],
    run: async (command, line) => (await import('../run-reads.ts')).listUsers(line, command),
  },
  {
    words: 'users name',
    summary: 'give a user a name',
    about:
      'Gives a user a name that svc shows instead of the id, and that svc send and svc history take. No two users of a session have the same name, and none has an "@". It is kept when the session is logged out. Agents read names and cannot set them.',
    config: 'tool',
    takes: command =>
      command
        .argument('<user>', 'Id of the user, or the name that the user has now.')
        .argument('[name]', 'What svc calls the user from now on; an empty one takes the name away.')
        .option('-s, --session <session>', 'As a user of this session; without it the one written to last.')
        .option('--clear', 'Take the name away.'),
    json: 'Print the result as one JSON value.',
    examples: [
      ['svc users name o9cq80x1y2z3@im.wechat Mum', 'From now on: svc send Mum "Hello!"'],
      ['svc users name Mum --clear', 'The id again'],
    ],
    run: async (command, line) => (await import('../run-reads.ts')).nameUser(line, command),
  },
  {
    words: 'typing',
    summary: 'show a user that the bot is typing',
    about:
      'Shows a user that the bot is typing, for as long as told or until Ctrl-C. Nothing is sent, and no answer is used. svc send --typing shows it from the start of a send.',
    config: 'tool',
    takes: command =>
      command
        .argument('<user>', 'Id or name of a user who has written.')
        .option('--seconds <seconds>', 'How long.', '5')
        .option('-s, --session <session>', 'From this session; without it the one written to last.'),
    json: 'Print the result as one JSON value.',
    examples: [['svc typing Mum --seconds 20', 'While another program makes an answer']],
    run: async command => (await import('../run-reads.ts')).showTyping(command),
  },
  {
    words: 'outbox',
    summary: 'list messages that wait until they may go',
    about:
      'Lists what was sent with --when-closed queue and waits until it may go (its user writes, or the pace allows it), in the order in which it goes out. What has been sent, has expired or was cancelled is not here any more: svc history tells.',
    config: 'tool',
    takes: command =>
      command
        .enablePositionalOptions()
        .option('-u, --user <user>', 'Only what waits for this user.')
        .option('-s, --session <session>', 'Only what this session is to send.'),
    json: 'Print the result as one JSON value.',
    examples: [['svc outbox', 'What waits, oldest first']],
    run: async (command, line) => (await import('../run-reads.ts')).listOutbox(line, command),
  },
  {
    words: 'outbox cancel',
    summary: 'take back what has not gone out yet',
    about:
      'Takes back a queued send. What has been sent already, or is being sent right now, stays as it is.',
    config: 'tool',
    takes: command => command.argument('<id>', 'Id of the queued send, as svc outbox and svc send show it.'),
    json: 'Print the result as one JSON value.',
    examples: [['svc outbox cancel 12', 'By its id']],
    run: async (command, line) => (await import('../run-reads.ts')).cancelOutbox(line, command),
  },
  {
    words: 'approvals',
    summary: 'list what waits for a person to say yes',
    about:
      'Lists what agents want to send and nobody could be asked about: svc was started with --confirm-send, and the client has no way to ask. Each waits 24 hours for a yes.',
    config: 'tool',
    takes: command => command.enablePositionalOptions(),
    json: 'Print the result as one JSON value, texts whole.',
    examples: [['svc approvals', 'What waits, oldest first']],
    run: async (command, line) => (await import('../run-reads.ts')).listApprovals(line, command),
  },
  {
    words: 'approvals yes',
    summary: 'let it be sent',
    about:
      'Sends what waits for a yes. When it may not go now (window closed, answers used up, too fast) it goes on waiting for a yes, or for the user to write where the agent asked for that.',
    config: 'tool',
    takes: command => command.argument('<id>', 'Id of the send, as svc approvals shows it.'),
    json: 'Print the result as one JSON value.',
    examples: [['svc approvals yes 12', 'By its id']],
    run: async (command, line) => (await import('../run-reads.ts')).approve(line, command),
  },
  {
    words: 'approvals no',
    summary: 'decline it',
    about: 'Declines what waits for a yes: it is never sent, and the agent learns that.',
    config: 'tool',
    takes: command => command.argument('<id>', 'Id of the send, as svc approvals shows it.'),
    json: 'Print the result as one JSON value.',
    examples: [['svc approvals no 12', 'By its id']],
    run: async (command, line) => (await import('../run-reads.ts')).cancelOutbox(line, command),
  },
  {
    words: 'check',
    summary: 'ask WeChat now whether an account works',
    about:
      'Asks WeChat whether it still accepts the login of an account, in some seconds, and heals one that works again. Beside a running service that one asks; otherwise this command polls for as long as it takes, and what arrives is stored.',
    config: 'tool',
    takes: command => command.argument('[session]', 'Only this session; all of them otherwise.'),
    json: 'Print the result as one JSON value.',
    examples: [['svc check', 'Every account, and exit status 1 unless all work']],
    run: async (command, line) => (await import('../run-reads.ts')).checkSessions(line, command),
  },
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
      const { serveAdmin } = await import('../panel.ts')
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
    run: async command => (await import('../status.ts')).runStatus(configFrom(command), command.opts()),
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
    takes: command =>
      command
        .option('--host <address>', 'address the service is bound to (127.0.0.1) [SVC_HOST]')
        .option('-p, --port <port>', 'its port (as its data directory says, else 8000) [SVC_PORT]')
        .option(
          '-d, --base-path <folder>',
          'its data directory, which says where it listens (~/.svc, with --sandbox ~/.svc-sandbox) [SVC_BASE_PATH]',
        )
        .option('--socket <path>', 'the Unix socket it listens on instead [SVC_SOCKET]')
        .option('--url <url>', 'its whole address instead, as in https://svc.example.org')
        .option(
          '--sandbox',
          'for a service with the simulated WeChat, which answers like any other [SVC_SANDBOX]',
        ),
    json: 'print one JSON object',
    examples: [
      ['svc health', 'on this machine'],
      ['HEALTHCHECK CMD ["svc", "health"]', 'in a Dockerfile'],
    ],
    after:
      'Here 0 means that it works, 1 that it does not or does not answer. What is degraded (an account that is not\nconnected, polls that fail) is said and still 0: a restart would not help it.',
    run: async command => (await import('../health.ts')).runHealth(command.opts<HealthFlags>()),
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
  {
    words: 'migrate',
    summary: 'take sessions and history over from WeiLink or OpenClaw',
    takes: command => command.usage('weilink|openclaw [options]'),
    examples: [
      ['svc migrate weilink --dry-run', 'what would come over, and nothing is changed'],
      ['svc migrate openclaw --help', 'what each takes'],
    ],
    run: chosen('migrate', 'the program to move from, weilink or openclaw'),
  },
  {
    words: 'migrate weilink',
    summary: 'take over the sessions, context tokens, default session and message history of WeiLink',
    ...moved,
    ...movedFrom('weilink'),
    takes: command =>
      movedFrom('weilink').takes(command.option('--from <folder>', "WeiLink's folder", '~/.weilink')),
  },
  {
    words: 'migrate openclaw',
    summary: "take over the WeChat accounts and context tokens of OpenClaw's WeChat plugin",
    ...moved,
    ...movedFrom('openclaw'),
    takes: command =>
      movedFrom('openclaw').takes(
        command.addOption(
          new Option('--from <folder>', "OpenClaw's folder").env('OPENCLAW_STATE_DIR').default('~/.openclaw'),
        ),
      ),
  },
  {
    words: 'setup',
    summary: 'add svc to the MCP settings of an agent, or take it out again',
    about:
      "Add svc to the MCP settings of an agent, or take it out again, and say what to do next. Your own entries and comments stay; a file that cannot be read safely is left alone. The client then starts 'svc mcp' itself, on the data directory given here.",
    config: 'setup',
    takes: command =>
      command
        .addArgument(choice('<client>', 'the agent', clientNames))
        .option('--project', 'for the project in this folder only, where the client has such settings')
        .option(
          '--url <url>',
          'reach a running service at this address, as http://127.0.0.1:8000/mcp (the client starts svc itself)',
        )
        .option(
          '--token-env [variable]',
          'with --url: the client sends the token that this environment variable holds (SVC_TOKEN; without the option only to addresses of other machines); claude-desktop and cline read no variables: there the entry has a place for the token',
        )
        .option('--name <name>', 'what the entry is called', 'svc')
        .option('--hook', 'Claude Code: also show new messages with each prompt, by svc hook-poll')
        .option('--remove', 'take the entry, and the hook, out again')
        .option('--print', 'only show the entry and where it would go')
        .option('--force', 'replace or remove an entry of that name although svc did not write it'),
    examples: [
      ['svc setup claude-code', 'for all projects of this user'],
      ['svc setup cursor --print --sandbox', 'only look, with the simulated WeChat'],
      ['svc setup vscode --url http://127.0.0.1:8000/mcp', 'a service that runs, as svc openapi'],
      ['svc setup claude-code --remove', 'take it out again'],
    ],
    run: async command => (await import('../setup.ts')).runSetup(command.args[0] ?? '', command.opts()),
  },
  {
    words: 'hook-poll',
    summary: "new messages for an agent's prompt hook, marked as untrusted; nothing when there are none",
    config: 'tool',
    takes: command =>
      command
        .option('-n, --limit <count>', 'show at most this many; the rest comes next time', '20')
        .option('-c, --consumer <name>', 'name of the reader whose position is used and moved', 'hook'),
    examples: [
      ['svc hook-poll', 'what a prompt hook runs; svc setup claude-code --hook writes it into the settings'],
      [
        'svc hook-poll --consumer night-shift --limit 5',
        'a second agent with a place of its own, five messages at a time',
      ],
    ],
    after:
      'Never 2 here, by which a hook would hold the prompt back. Each message is shown once; one that may not have arrived\nis shown again and says so. The first call of a consumer shows nothing: it marks the place.',
    run: async command => (await import('../hook-poll.ts')).hookPoll(command),
  },
  {
    words: 'completion',
    summary: 'print the completion script of your shell',
    about: 'Prints a script that completes commands, options, sessions and users with the Tab key.',
    takes: command => command.addArgument(choice('<shell>', 'your shell', ['bash', 'zsh', 'fish'])),
    examples: [
      ['eval "$(svc completion bash)"', 'bash: add this line to ~/.bashrc'],
      ['eval "$(svc completion zsh)"', 'zsh: add this line to ~/.zshrc, after compinit'],
      ['svc completion fish > ~/.config/fish/completions/svc.fish', 'fish: once'],
    ],
    run: async command => (await import('../completion.ts')).printScript(command.args[0] ?? ''),
  },
]

/** Adds the commands that begin with `word`, or all of them. */
export function add(line: CommandLine, word?: string): void {
  for (const spec of specs)
    if (word === undefined || spec.words.split(' ')[0] === word) addCommand(line, spec)
  if (word !== undefined && word !== 'complete') return
  quiet(line.program.command('complete', { hidden: true }))
    .argument('[words...]')
    .allowUnknownOption()
    .passThroughOptions()
    .action(async (words: string[]) =>
      (await import('../completion.ts')).printCompletions(words, line.needed),
    )
}

function addCommand(line: CommandLine, spec: CommandSpec): void {
  const { words, summary, about = summary, config, own, takes, json, examples, after, run } = spec
  const command = subcommand(line.program, words.split(' '), summary).description(about).helpCommand(false)
  takes?.(command)
  if (json) command.option('--json', json)
  if (config) addConfigOptions(command, config, own)
  addEpilogue(command, examples)
  if (after) command.addHelpText('after', after)
  command.action(async () => {
    const status = await run(command, line)
    if (typeof status === 'number') line.status = status
  })
}
