/** `svc migrate`: what comes over from another program, for people and for programs. */

import { folder } from '../config/values.ts'
import type { Config } from '../config.ts'
import { type Applied, applyMove } from '../migrate/apply.ts'
import { type Plan, planMove } from '../migrate/plan.ts'
import { type Program, programNames } from '../migrate/source.ts'
import { badArgument } from '../model/error.ts'
import { systemClock } from '../platform/clock.ts'
import { createLog } from '../platform/log.ts'
import { table } from './columns.ts'
import { findingLines, jsonLine } from './print.ts'
import { colours, writeOut } from './terminal.ts'
import { oneLine } from './text.ts'

/** Runs the command. @returns its exit status: 1 when something could not come over */
export async function runMigrate(
  program: Program,
  config: Config,
  flags: { from: string; dryRun?: true; json?: true },
): Promise<0 | 1> {
  const from = folder(flags.from)
  if (from === undefined) throw badArgument('--from', 'expected a path')
  const clock = systemClock
  await using plan = await planMove({
    ...{ program, from, into: config.basePath, upstreamUrl: config.upstreamUrl, now: clock.now() },
    storeMaxAgeDays: config.storeMaxAgeDays,
  })
  const log = createLog(config.logLevel)
  const applied = flags.dryRun ? undefined : await applyMove(plan, { config, clock, log })
  const report = reportOf(plan, applied)
  await writeOut(flags.json ? `${jsonLine(report)}\n` : textOf(report))
  return report.complete ? 0 : 1
}

/** What happens, or happened, to a login. */
type Login = 'added' | 'renewed' | 'kept' | 'failed'

const planned = { add: 'added', renew: 'renewed', merge: 'kept' } as const
type Report = ReturnType<typeof reportOf>

/** What is said of a move: no secrets in it. */
function reportOf(plan: Plan, applied: Applied | undefined) {
  const findings = [...plan.findings, ...(applied?.findings.list ?? [])]
  const { history, tally, program, from, into, running, defaultSession } = plan
  const sessions = plan.sessions.map(({ action, name, source }) => {
    const done = applied?.sessions.get(name)
    const login: Login = done === undefined ? planned[action] : 'failed' in done ? 'failed' : done.login
    const { bot_id, user_id, users } = source
    // Whether polling goes on where the other program stopped.
    const cursor: Cursor =
      login === 'kept' ? 'kept' : login === 'failed' || source.cursor === '' ? 'none' : 'taken'
    return { name, from_name: source.name, bot_id, user_id, login, cursor, users: users.size }
  })
  return {
    ...{ program, from, into, running, default_session: defaultSession, sessions },
    dry_run: applied === undefined,
    /** Nothing was, or would be, left behind. */
    complete: !findings.some(({ level }) => level === 'problem'),
    history: history && {
      ...{ messages: history.rows, received: tally.received, sent: tally.sent },
      ...{ added: applied?.history.added, left_out: applied?.history.leftOut },
      ...{ damaged: tally.damaged, media_lost: tally.mediaLost },
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

function textOf(report: Report): string {
  const { bold, dim, green, yellow } = colours
  const { sessions, history, default_session: chosen } = report
  const lines = [
    `${dim('from')}     ${oneLine(report.from)} (${programNames[report.program]})`,
    `${dim('into')}     ${oneLine(report.into)}`,
    '',
  ]
  if (sessions.length > 0) {
    const rows = sessions.map(({ name, bot_id, login, users, cursor }) => [
      `${name === chosen ? '*' : ' '} ${oneLine(name)}`,
      logins[login],
      String(users),
      { taken: 'goes on', kept: 'goes on', none: 'begins anew' }[cursor],
      oneLine(bot_id),
    ])
    lines.push(table(['  SESSION', 'LOGIN', 'USERS', 'POLLING', 'BOT'], rows, bold).trimEnd(), '')
  } else lines.push('no session that can be taken over', '')
  if (history) {
    const { messages, received, sent, added, left_out } = history
    const done =
      added === undefined
        ? ''
        : `: ${added} new, ${messages - added - (left_out ?? 0)} there already${left_out ? `, ${left_out} left out` : ''}`
    lines.push(`${dim('history')}  ${messages} messages, ${received} received and ${sent} sent${done}`, '')
  }
  for (const { level, text, hint } of report.findings) lines.push(...findingLines(level, text, hint))
  const end = report.dry_run
    ? 'nothing was changed: run it without --dry-run to do it'
    : report.complete
      ? green('done: everything came over')
      : yellow('done, and not everything came over: see above')
  return `${lines.join('\n')}\n\n${end}\n`
}
