/** Declares and runs `svc doctor`: prints the report for people or as JSON. */
import type { Report } from '../../doctor/examine.ts'
import { subjects } from '../../doctor/finding.ts'
import { notedAddresses } from '../../inspect/healthz.ts'
import { badArgument } from '../../model/error.ts'
import { counted } from '../../platform/format.ts'
import { spareLoopbackTheProxy } from '../../platform/process.ts'
import { version } from '../../version.ts'
import { type Command, type CommandSpec, configFrom } from '../command.ts'
import { unknownNamed } from '../environment.ts'
import { findingLines, writeResult } from '../print.ts'
import { colours, type Output, oneLine } from '../terminal.ts'
import { isOpen } from './health.ts'

export const commands: readonly CommandSpec[] = [
  {
    words: 'doctor',
    summary: 'find problems and say how to fix them',
    about:
      'Check the data directory, locks, clock, disk, sessions, message store, network and port, and say how to fix each problem. Changes nothing, and can run while a service runs. Takes the options of svc openapi: give the ones that you start the service with.',
    config: 'openapi',
    takes: command =>
      command.option('--timeout <seconds>', 'longest wait for an answer from the network', '5'),
    json: 'print one JSON object: {ok, counts, findings: [{subject, check, severity, what, fix}], …}',
    examples: [
      ['svc doctor', 'check ~/.svc and the service that uses it'],
      ['svc doctor --json | jq \'.findings[] | select(.severity == "error")\'', 'for programs'],
    ],
    after:
      'For this command 0 means that there is no error (there may be warnings), and 1 that there is one.',
    run: runDoctor,
  },
]

/** Runs the command. @returns the exit status: 1 if a finding is an error */
async function runDoctor(command: Command): Promise<0 | 1> {
  const { timeout } = command.opts<{ timeout: string }>()
  const config = configFrom(command)
  const seconds = /^\d{1,4}(\.\d+)?$/.test(timeout) ? Number(timeout) : 0
  if (seconds <= 0 || seconds > 60) {
    throw badArgument('--timeout', 'expected seconds, above 0 and up to 60')
  }
  spareLoopbackTheProxy()
  const noted = isOpen(usual => configFrom(command, {}, usual))
    ? (await notedAddresses(config.basePath))[0]
    : undefined
  const [{ examine }, { installedServices }] = await Promise.all([
    import('../../doctor/examine.ts'),
    import('../service-plan.ts'),
  ])
  const report = await examine({
    address: noted?.url,
    config,
    version,
    deadlineMs: seconds * 1000,
    services: () => installedServices(command.io),
    unknownVariables: unknownNamed(command),
  })
  await writeResult(command, report, reportText(report, command.io.out))
  return report.ok ? 0 : 1
}

/**
 * Formats the report, grouped by subject: with signs and colours on a coloured terminal, with words
 * elsewhere.
 */
function reportText({ findings, counts, base_path }: Report, out: Output): string {
  const lines = [colours.dim(`the data directory is ${oneLine(base_path)}`)]
  for (const subject of subjects) {
    const own = findings.filter(finding => finding.subject === subject)
    if (own.length === 0) continue
    lines.push('', colours.bold(subject))
    for (const { severity, what, fix } of own)
      lines.push(...findingLines(out, { level: severity, what, fix }, '  '))
  }
  const bad = [
    ...(counts.error > 0 ? [colours.red(counted(counts.error, 'error'))] : []),
    ...(counts.warning > 0 ? [colours.yellow(counted(counts.warning, 'warning'))] : []),
    ...(counts.note > 0 ? [counted(counts.note, 'note')] : []),
  ]
  lines.push('', bad.length > 0 ? bad.join(', ') : colours.green('everything is as it should be'))
  return `${lines.join('\n')}\n`
}
