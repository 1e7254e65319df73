import { Argument } from 'commander'
import { addConfigOptions, addEpilogue, type CommandLine, subcommand } from '../command.ts'

/** The clients' names, as in src/setup/clients.ts: that is loaded when one of them is set up. */
export const clientNames = [
  'claude-code',
  'claude-desktop',
  'cursor',
  'vscode',
  'codex',
  'opencode',
  'gemini',
] as const

/** `svc setup`. */
export function add({ program }: CommandLine): void {
  const command = subcommand(
    program,
    'setup',
    'add svc to the MCP settings of an agent, or take it out again',
  )
    .description(
      "Add svc to the MCP settings of an agent, or take it out again, and say what to do next. Comments, order and line ends of the settings stay as they are; a file that cannot be read safely is left alone. The client then starts 'svc mcp' itself, on the data directory given here.",
    )
    .addArgument(new Argument('<client>', 'the agent').choices(clientNames).argRequired())
    .option('--project', 'for the project in this folder only, where the client has such settings')
    .option(
      '--url <url>',
      'reach a running service at this address, as http://127.0.0.1:8000/mcp (the client starts svc itself)',
    )
    .option(
      '--token-env [variable]',
      'with --url: the client sends the token that this environment variable holds (SVC_TOKEN; without the option only to addresses of other machines)',
    )
    .option('--name <name>', 'what the entry is called', 'svc')
    .option('--hook', 'Claude Code: also show new messages with each prompt, by svc hook-poll')
    .option('--remove', 'take the entry, and the hook, out again')
    .option('--print', 'only show the entry and where it would go')
    .option('--force', 'replace or remove an entry of that name although svc did not write it')
  addEpilogue(addConfigOptions(command, 'setup'), [
    ['svc setup claude-code', 'for all projects of this user'],
    ['svc setup cursor --print --sandbox', 'only look, with the pretend WeChat'],
    ['svc setup vscode --url http://127.0.0.1:8000/mcp', 'a service that runs, as svc openapi'],
    ['svc setup claude-code --remove', 'take it out again'],
  ]).action(async (client: string, flags: object) => {
    const { runSetup } = await import('../setup.ts')
    await runSetup(client, flags)
  })
}
