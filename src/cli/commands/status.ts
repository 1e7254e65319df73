/** Declares and runs `svc status`: prints the state of a data directory for people or as JSON. */
import { svcCommand } from '../../inspect/advised-commands.ts'
import { findDoubts, findFailingTasks, findFailures } from '../../inspect/finding.ts'
import type { StatusReport } from '../../inspect/status-report.ts'
import type { NodeInfo } from '../../model/nodes.ts'
import { systemClock } from '../../platform/clock.ts'
import {
  formatBytes,
  formatCount,
  formatDuration,
  formatLocalTime,
  quoteForShell,
} from '../../platform/format.ts'
import { version } from '../../version.ts'
import { type Column, formatTable } from '../columns.ts'
import { type Command, type CommandSpec, keyedConfig } from '../command.ts'
import { writeResult } from '../print.ts'
import { sessionColumns } from '../show.ts'
import { colours, oneLine } from '../terminal.ts'

export const commands: readonly CommandSpec[] = [
  {
    words: 'status',
    summary: 'show the sessions and the service at a glance',
    about:
      'Show which process receives messages, which sessions are connected, and what waits to be sent. It only reads the data directory, or the database of --store-url-file: it asks neither WeChat nor a service, and changes nothing.',
    config: 'tool',
    jsonHelp: 'print one JSON object; times are Unix milliseconds',
    examples: [
      ['svc status', 'sessions, service and message store'],
      ['svc status --json | jq .connected_count', 'for programs'],
    ],
    helpFooter:
      'For this command 0 means that there is a session, every session is connected and a process receives messages; otherwise it is 1.',
    run: runStatus,
  },
]

/** Runs the command. @returns the exit status: 0 if every session is connected and a process polls */
async function runStatus(command: Command): Promise<0 | 1> {
  const { basePath, sandbox, storeUrl } = keyedConfig(command)
  const { readStatus } = await import('../../inspect/status-report.ts')
  const report = await readStatus({ basePath, sandbox, storeUrl, version })
  await writeResult(command, report, formatStatus(report))
  return report.ok ? 0 : 1
}

function describeNodes(nodes: readonly NodeInfo[]): string {
  const living = nodes.filter(node => node.polls && node.lease_left_ms > 0).length
  return living > 0
    ? colours.green(living === 1 ? '1 node polls' : `${living} nodes poll`)
    : colours.yellow('no node polls')
}

/** Formats a node as one line. */
function formatNode({ accounts, lease_left_ms, name, polls, url, version }: NodeInfo): string {
  const work =
    lease_left_ms <= 0
      ? 'does not answer: it died, or cannot reach the database'
      : polls
        ? `polls ${formatCount(accounts, 'session')}`
        : 'does not poll'
  return [oneLine(name), `svc ${oneLine(version)}`, work, ...(url === undefined ? [] : [oneLine(url)])].join(
    ', ',
  )
}

/** Formats the report: labelled lines, then the table of sessions. */
export function formatStatus(report: StatusReport): string {
  const { polling, sessions, store, outbox, session_count, connected_count, base_path } = report
  const { green, red, yellow, dim } = colours
  const advised = (words: string) => svcCommand(words, base_path, report.sandbox)
  const who = polling.pid === undefined ? 'a process' : `process ${polling.pid}`
  const service = report.cluster
    ? describeNodes(report.cluster.nodes)
    : polling.active
      ? `${green('polls')}: ${who} since ${formatLocalTime(polling.since)}`
      : polling.stalled
        ? `${red('stalled')}: ${who} keeps the lock and does not respond; see ${advised('doctor')}`
        : `${yellow('nobody polls')}: ${advised('openapi')}`
  const { service_pid, service_url } = report
  const listens = service_pid === polling.pid ? '' : `; process ${service_pid} listens`
  const at = service_url === undefined ? '' : `${listens} at ${oneLine(service_url)}`
  const waits =
    outbox.sends === 0 ? '' : `, ${formatCount(outbox.sends, 'send')} waiting: ${advised('outbox')}`
  const asks =
    report.approvals === 0 ? '' : `, ${report.approvals} waiting for approval: ${advised('approvals')}`
  const plans = report.planned === 0 ? '' : `, ${report.planned} waiting for their time: ${advised('outbox')}`
  const lost = sessions.find(session => !session.connected && !session.unreadable)
  const connected = `${connected_count} of ${session_count} connected`
  const connection =
    lost === undefined
      ? (connected_count < session_count ? red : green)(connected)
      : `${red(connected)}; log in again: ${advised(`login ${quoteForShell(lost.name)}`)}`
  let text = ''
  const addLine = (paint: (text: string) => string, label: string, what: string) => {
    text += `${paint(label)}${' '.repeat(11 - label.length)}${what}\n`
  }
  addLine(dim, 'directory', `${oneLine(base_path)}${report.sandbox ? ' (sandbox)' : ''}`)
  if (report.cluster) addLine(dim, 'database', oneLine(report.cluster.address))
  if (report.unread) {
    addLine(red, 'store', 'not read: sessions and waiting sends are not known')
    for (const what of report.trouble) addLine(red, 'trouble', `${oneLine(what)}; see ${advised('doctor')}`)
    return text
  }
  addLine(dim, 'service', report.cluster ? service : `${service}${at}`)
  for (const node of report.cluster?.nodes ?? [])
    addLine(node.lease_left_ms > 0 ? dim : red, 'node', formatNode(node))
  addLine(dim, 'sessions', session_count === 0 ? `none yet: ${advised('login')}` : connection)
  const messages = store && `${formatCount(store.messages, 'message')}, ${formatBytes(store.size_bytes)}`
  addLine(dim, 'store', messages ? `${messages}${waits}${asks}${plans}` : 'none')
  const { backup, backup_failure, failing_tasks = [], webhooks = [] } = report
  const age = backup && formatDuration(Math.max(0, systemClock.now() - backup.created_at))
  if (backup) addLine(dim, 'backup', `${age} ago, ${formatBytes(backup.size)}: ${oneLine(backup.path)}`)
  else if (session_count > 0 && !report.cluster && !report.sandbox)
    addLine(dim, 'backup', `none yet: ${advised('backup svc.tar')}`)
  const found = [
    ...sessions.flatMap(findDoubts),
    ...findFailingTasks(failing_tasks),
    ...findFailures(webhooks, backup_failure, advised),
  ]
  for (const what of [...found.map(({ what }) => what), ...report.trouble])
    addLine(red, 'trouble', `${oneLine(what)}; see ${advised('doctor')}`)
  if (sessions.length === 0) return text
  const columns: Column<StatusReport['sessions'][number]>[] = [...sessionColumns]
  columns.splice(4, 0, [
    'TROUBLE SINCE',
    ({ expired_at, lapsed_at, failing_since }) => formatLocalTime(expired_at ?? lapsed_at ?? failing_since),
  ])
  return `${text}\n${formatTable(sessions, columns)}`
}
