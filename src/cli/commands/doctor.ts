/** Declares and runs `svc doctor`: prints the report for people or as JSON. */
import type { Report } from '../../doctor/examine.ts'
import { subjects } from '../../doctor/finding.ts'
import { listNotedAddresses } from '../../inspect/healthz.ts'
import { badArgument } from '../../model/error.ts'
import { formatCount } from '../../platform/format.ts'
import { bypassProxyForLoopback } from '../../platform/process.ts'
import { version } from '../../version.ts'
import { type Command, type CommandSpec, configFrom, keyedConfig } from '../command.ts'
import { describeUnknownVariables } from '../environment.ts'
import { formatFinding, writeResult } from '../print.ts'
import { colours, type Output, oneLine } from '../terminal.ts'
import { isAddressUnset } from './health.ts'

export const commands: readonly CommandSpec[] = [
  {
    words: 'doctor',
    summary: 'find problems and say how to fix them',
    about:
      'Check the data directory, locks, clock, disk, sessions, message store, network and port, and say how to fix each problem. Changes nothing, and can run while a service runs. Takes the options of svc openapi: give the ones that you start the service with.',
    config: 'openapi',
    addOptions: command =>
      command.option('--timeout <seconds>', 'longest wait for an answer from the network', '5'),
    jsonHelp: 'print one JSON object: {ok, counts, findings: [{subject, check, severity, what, fix}], …}',
    examples: [
      ['svc doctor', 'check ~/.svc and the service that uses it'],
      ['svc doctor --json | jq \'.findings[] | select(.severity == "error")\'', 'for programs'],
    ],
    helpFooter:
      'For this command 0 means that there is no error (there may be warnings), and 1 that there is one.',
    run: runDoctor,
  },
]

/** Runs the command. @returns the exit status: 1 if a finding is an error */
async function runDoctor(command: Command): Promise<0 | 1> {
  const { timeout } = command.opts<{ timeout: string }>()
  const config = keyedConfig(command)
  const seconds = /^\d{1,4}(\.\d+)?$/.test(timeout) ? Number(timeout) : 0
  if (seconds <= 0 || seconds > 60) {
    throw badArgument('--timeout', 'expected seconds, above 0 and up to 60')
  }
  bypassProxyForLoopback()
  const noted = isAddressUnset(usual => configFrom(command, {}, usual))
    ? (await listNotedAddresses(config.basePath))[0]
    : undefined
  const [{ examine }, { listInstalledServices }] = await Promise.all([
    import('../../doctor/examine.ts'),
    import('../service-plan.ts'),
  ])
  const report = await examine({
    address: noted,
    config,
    version,
    deadlineMs: seconds * 1000,
    services: () => listInstalledServices(command.io),
    unknownVariables: describeUnknownVariables(command),
  })
  await writeResult(command, report, formatReport(report, command.io.out))
  return report.ok ? 0 : 1
}

/**
 * Formats the report, grouped by subject: with signs and colours on a coloured terminal, with words
 * elsewhere.
 */
function formatReport({ findings, counts, base_path }: Report, out: Output): string {
  const lines = [colours.dim(`the data directory is ${oneLine(base_path)}`)]
  for (const subject of subjects) {
    const own = findings.filter(finding => finding.subject === subject)
    if (own.length === 0) continue
    lines.push('', colours.bold(subject))
    for (const { severity, what, fix } of own)
      lines.push(...formatFinding(out, { level: severity, what, fix }, '  '))
  }
  const bad = [
    ...(counts.error > 0 ? [colours.red(formatCount(counts.error, 'error'))] : []),
    ...(counts.warning > 0 ? [colours.yellow(formatCount(counts.warning, 'warning'))] : []),
    ...(counts.note > 0 ? [formatCount(counts.note, 'note')] : []),
  ]
  lines.push('', bad.length > 0 ? bad.join(', ') : colours.green('everything is as it should be'))
  return `${lines.join('\n')}\n`
}
