/** `svc doctor`: the report, for people and for programs. */
import type { Config } from '../config.ts'
import { examine, type Report } from '../doctor/examine.ts'
import { subjects } from '../doctor/finding.ts'
import { notedAddresses } from '../inspect/healthz.ts'
import { badArgument } from '../model/error.ts'
import { counted } from '../platform/format.ts'
import { spareLoopbackTheProxy } from '../platform/process.ts'
import { version } from '../version.ts'
import { isOpen } from './health.ts'
import { findingLines, jsonLine } from './print.ts'
import { installedServices } from './service-plan.ts'
import { colours, writeOut } from './terminal.ts'
import { oneLine } from './text.ts'

/** Runs the command. @returns its exit status: 1 when a finding is an error */
export async function runDoctor(
  read: (usual?: { port: string; host: string }) => Config,
  flags: { json?: boolean; timeout: string },
): Promise<0 | 1> {
  const config = read()
  const seconds = /^\d{1,4}(\.\d+)?$/.test(flags.timeout) ? Number(flags.timeout) : 0
  if (seconds <= 0 || seconds > 60) {
    throw badArgument('--timeout', 'expected seconds, above 0 and up to 60')
  }
  spareLoopbackTheProxy()
  const noted = isOpen(read) ? (await notedAddresses(config.basePath))[0] : undefined
  const report = await examine({
    address: noted?.url,
    ...{ config, version, deadlineMs: seconds * 1000, services: installedServices },
  })
  await writeOut(flags.json ? `${jsonLine(report)}\n` : reportText(report))
  return report.ok ? 0 : 1
}

/** Grouped by subject; signs and colours on a terminal that has them, words elsewhere. */
function reportText({ findings, counts, base_path }: Report): string {
  const lines = [colours.dim(`the data directory is ${oneLine(base_path)}`)]
  for (const subject of subjects) {
    const own = findings.filter(finding => finding.subject === subject)
    if (own.length === 0) continue
    lines.push('', colours.bold(subject))
    for (const { severity, what, fix } of own) lines.push(...findingLines(severity, what, fix, '  '))
  }
  const bad = [
    ...(counts.error > 0 ? [colours.red(counted(counts.error, 'error'))] : []),
    ...(counts.warning > 0 ? [colours.yellow(counted(counts.warning, 'warning'))] : []),
    ...(counts.note > 0 ? [counted(counts.note, 'note')] : []),
  ]
  lines.push('', bad.length > 0 ? bad.join(', ') : colours.green('everything is as it should be'))
  return `${lines.join('\n')}\n`
}
