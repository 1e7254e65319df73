/**
 * Declares and runs `svc migrate`: takes over data of another program and prints a report for people or as
 * JSON.
 */
import { Option } from 'commander'
import { parseFolder } from '../../config/values.ts'
import type { MoveResult } from '../../migrate/apply.ts'
import type { MovePlan } from '../../migrate/plan.ts'
import { type Program, programNames } from '../../migrate/source.ts'
import { badArgument } from '../../model/error.ts'
import { formatCount } from '../../platform/format.ts'
import { createLog } from '../../platform/log.ts'
import { type Column, formatTable } from '../columns.ts'
import {
  type Command,
  type CommandLine,
  type CommandSpec,
  keyedConfig,
  requireSubcommand,
  toolDefaults,
} from '../command.ts'
import { formatFinding, writeResult } from '../print.ts'
import { colours, type Output, oneLine } from '../terminal.ts'

/** Declares the command for one program. @param from the option that names its folder */
const createMigrateCommand = (program: Program, summary: string, from: Option): CommandSpec => ({
  words: `migrate ${program}`,
  summary,
  config: 'migrate',
  noSandboxHint: 'ever',
  ownHelp: {
    basePath: 'data directory (~/.svc)',
    sandbox: 'not allowed: a sandbox never holds real accounts',
  },
  addOptions: command =>
    command.addOption(from).option('--dry-run', 'only show what would be taken over; change nothing'),
  jsonHelp: 'print one JSON object',
  examples: [
    [`svc migrate ${program} --dry-run`, 'look first'],
    [`svc migrate ${program}`, 'then take it over; stop the other program before you start svc'],
  ],
  helpFooter:
    'The folder of the other program is not changed. Run it again to take over what is new, or what an interrupted run left.\nsvc history finds the messages that were taken over; svc recv does not return them. Exit status 1 can also mean that something could not be taken over.',
  run: (command, line) => runMigrate(program, command, line),
})

export const commands: readonly CommandSpec[] = [
  {
    words: 'migrate',
    summary: 'take over sessions and history from WeiLink or OpenClaw',
    addOptions: command => command.usage('weilink|openclaw [options]'),
    examples: [
      ['svc migrate weilink --dry-run', 'show what would be taken over'],
      ['svc migrate openclaw --help', 'options for OpenClaw'],
    ],
    run: requireSubcommand('migrate', 'the program to move from, weilink or openclaw'),
  },
  createMigrateCommand(
    'weilink',
    'take over the sessions, context tokens, default session and message history of WeiLink',
    new Option('--from <folder>', "WeiLink's folder").default('~/.weilink'),
  ),
  createMigrateCommand(
    'openclaw',
    "take over the WeChat accounts and context tokens of OpenClaw's WeChat plugin",
    new Option('--from <folder>', "OpenClaw's folder").env('OPENCLAW_STATE_DIR').default('~/.openclaw'),
  ),
]

/** Runs the command. @returns the exit status: 1 if something could not be taken over */
async function runMigrate(program: Program, command: Command, line: CommandLine): Promise<0 | 1> {
  const flags = command.opts<{ from: string; dryRun?: true }>()
  const config = keyedConfig(command, {}, toolDefaults)
  // A user who believes to work in the sandbox must not change the real directory.
  if (config.sandbox)
    throw badArgument('--sandbox', 'real accounts are never taken over into the sandbox', {
      hint: 'Leave --sandbox and SVC_SANDBOX out. With --dry-run nothing is changed.',
    })
  const from = parseFolder(flags.from)
  if (from === undefined) throw badArgument('--from', 'expected a path')
  const [{ applyMove }, { planMove }] = await Promise.all([
    import('../../migrate/apply.ts'),
    import('../../migrate/plan.ts'),
  ])
  const { clock, out } = command.io
  await using plan = await planMove({
    program,
    from,
    into: config.basePath,
    secretKey: config.secretKey,
    upstreamUrl: config.upstreamUrl,
    now: clock.now(),
    storeMaxAgeDays: config.storeMaxAgeDays,
  })
  const log = createLog(config.logLevel, command.io.log)
  const applied = flags.dryRun ? undefined : await applyMove(plan, { config, clock, log })
  const report = reportOf(plan, applied)
  if (applied) line.changeMade = 'done'
  await writeResult(command, report, formatReport(report, out))
  return report.complete ? 0 : 1
}

type Report = ReturnType<typeof reportOf>

/** Returns the report of a move, without secrets. */
function reportOf(plan: MovePlan, applied: MoveResult | undefined) {
  const findings = [...plan.findings, ...(applied?.findings.list ?? [])]
  const { history, tally, program, from, into, running, defaultSession } = plan
  const sessions = plan.sessions.map(({ action, name, source }) => {
    const done = applied?.sessions.get(name)
    // The planned action for the login, or its result.
    const login: keyof typeof logins = done === undefined ? action : 'failed' in done ? 'failed' : done.login
    const { bot_id, user_id, users } = source
    // 'taken' if polling continues where the other program stopped.
    const cursor: Cursor =
      login === 'kept' ? 'kept' : login === 'failed' || source.cursor === '' ? 'none' : 'taken'
    return { name, from_name: source.name, bot_id, user_id, login, cursor, users: users.size }
  })
  return {
    program,
    from,
    into,
    running,
    default_session: defaultSession,
    sessions,
    dry_run: applied === undefined,
    /** True if everything was, or would be, taken over. */
    complete: !findings.some(({ level }) => level === 'problem'),
    history: history && {
      messages: history.rows,
      received: tally.received,
      sent: tally.sent,
      added: applied?.history.added,
      left_out: applied?.history.leftOut,
      damaged: tally.damaged,
      media_lost: tally.mediaLost,
    },
    findings,
  }
}

type Cursor = 'taken' | 'kept' | 'none'
const logins = {
  added: 'new',
  renewed: 'newer login',
  kept: 'is there already',
  failed: 'not taken over',
} as const

function formatReport(report: Report, out: Output): string {
  const { dim, green, yellow } = colours
  const { sessions, history, default_session: chosen } = report
  const lines = [
    `${dim('from')}     ${oneLine(report.from)} (${programNames[report.program]})`,
    `${dim('into')}     ${oneLine(report.into)}`,
    '',
  ]
  if (sessions.length > 0) {
    const columns: Column<Report['sessions'][number]>[] = [
      ['  SESSION', ({ name }) => `${name === chosen ? '*' : ' '} ${oneLine(name)}`],
      ['LOGIN', ({ login }) => logins[login]],
      ['USERS', 'users'],
      ['POLLING', ({ cursor }) => (cursor === 'none' ? 'begins anew' : 'goes on')],
      ['BOT', 'bot_id'],
    ]
    lines.push(formatTable(sessions, columns).trimEnd(), '')
  } else lines.push('no session that can be taken over', '')
  if (history) {
    const { messages, received, sent, added, left_out } = history
    const done =
      added === undefined
        ? ''
        : `: ${added} new, ${messages - added - (left_out ?? 0)} there already${left_out ? `, ${left_out} left out` : ''}`
    lines.push(
      `${dim('history')}  ${formatCount(messages, 'message')}, ${received} received and ${sent} sent${done}`,
      '',
    )
  }
  for (const { level, text, hint } of report.findings)
    lines.push(...formatFinding(out, { level, what: text, fix: hint }))
  const end = report.dry_run
    ? sessions.length > 0 || history
      ? 'nothing was changed: run it without --dry-run to do it'
      : 'nothing was changed, and there is nothing to take over'
    : report.complete
      ? green('done: everything was taken over')
      : yellow('done, but not everything was taken over: see above')
  return `${lines.join('\n')}\n\n${end}\n`
}
