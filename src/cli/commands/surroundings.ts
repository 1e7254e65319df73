/** The commands that fit svc to what is around it: agents, the shell, and programs that it takes over from. */
import { type Command, Option } from 'commander'
import { type CommandSpec, choice, chosen, configFrom, toolUsual } from '../command.ts'

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

export const commands: readonly CommandSpec[] = [
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
]
