import { Option } from 'commander'
import { badArgument } from '../../model/error.ts'
import {
  addConfigOptions,
  addEpilogue,
  type CommandLine,
  configFrom,
  subcommand,
  toolUsual,
} from '../command.ts'

/** `svc migrate weilink`, `svc migrate openclaw`. */
export function add(line: CommandLine): void {
  const migrate = subcommand(
    line.program,
    'migrate',
    'take sessions and history over from WeiLink or OpenClaw',
  ).helpCommand(false)
  addEpilogue(migrate.usage('weilink|openclaw [options]'), [
    ['svc migrate weilink --dry-run', 'what would come over, and nothing is changed'],
    ['svc migrate openclaw --help', 'what each takes'],
  ]).action(() => {
    throw badArgument('migrate', 'expected the program to move from, weilink or openclaw')
  })
  const programs = [
    {
      program: 'weilink',
      summary: 'take over the sessions, context tokens, default session and message history of WeiLink',
      from: new Option('--from <folder>', "WeiLink's folder").default('~/.weilink', '~/.weilink'),
    },
    {
      program: 'openclaw',
      summary: "take over the WeChat accounts and context tokens of OpenClaw's WeChat plugin",
      from: new Option('--from <folder>', "OpenClaw's folder")
        .env('OPENCLAW_STATE_DIR')
        .default('~/.openclaw', '~/.openclaw'),
    },
  ] as const
  for (const { program, summary, from } of programs) {
    const command = subcommand(migrate, program, summary)
      .addOption(from)
      .option('--dry-run', 'only say what would come over, and change nothing')
      .option('--json', 'print one JSON object')
    addConfigOptions(command, 'migrate')
    addEpilogue(command, [
      [`svc migrate ${program} --dry-run`, 'look first'],
      [`svc migrate ${program}`, 'then do it; stop the other program before you start svc'],
    ])
    command.addHelpText(
      'after',
      'Nothing in the folder it moves from is changed. Once more, it brings only what is new; after a break, the rest.\nMessages of before are in the history and are handed to no reader. Here 1 also means that something could not come over.',
    )
    command.action(async (flags: { from: string; dryRun?: true; json?: true }) => {
      const config = configFrom(command, { sandbox: false }, toolUsual)
      const { runMigrate } = await import('../migrate.ts')
      line.status = await runMigrate(program, config, flags)
    })
  }
}
