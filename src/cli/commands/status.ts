/** `svc status`: a data directory at a glance, for people and for programs. */
import { svcCommand } from '../../inspect/advised-commands.ts'
import type { StatusReport } from '../../inspect/status-report.ts'
import { byteSize, counted, localTime, shellWord } from '../../platform/format.ts'
import { version } from '../../version.ts'
import { table } from '../columns.ts'
import { type Command, type CommandSpec, configFrom } from '../command.ts'
import { jsonLine } from '../print.ts'
import { colours, oneLine } from '../terminal.ts'

export const commands: readonly CommandSpec[] = [
  {
    words: 'status',
    summary: 'show the sessions and the service at a glance',
    about:
      'Show which process receives messages, which sessions are connected, and what waits to be sent. It only reads the data directory: it asks neither WeChat nor a service, and changes nothing.',
    config: 'tool',
    json: 'print one JSON object; times are Unix milliseconds',
    examples: [
      ['svc status', 'sessions, service and message store'],
      ['svc status --json | jq .connected_count', 'for programs'],
    ],
    after:
      'For this command 0 means that there is a session, every session is connected and a process receives messages; otherwise it is 1.',
    run: runStatus,
  },
]

/** @returns the exit status: 0 when every session is connected and a process polls */
async function runStatus(command: Command): Promise<0 | 1> {
  const { basePath, sandbox } = configFrom(command)
  const { json } = command.opts<{ json?: boolean }>()
  const { readStatus } = await import('../../inspect/status-report.ts')
  const seen = await readStatus({ basePath, sandbox, version })
  await command.io.out.write(json ? `${jsonLine(seen)}\n` : statusText(seen))
  return seen.ok ? 0 : 1
}

export function statusText(seen: StatusReport): string {
  const { polling, sessions, store, outbox, session_count, connected_count, base_path } = seen
  const { green, red, yellow, bold, dim } = colours
  const advised = (words: string) => svcCommand(words, base_path, seen.sandbox)
  const who = polling.pid === undefined ? 'a process' : `process ${polling.pid}`
  const service = polling.active
    ? `${green('polls')}: ${who} since ${localTime(polling.since)}`
    : polling.stalled
      ? `${red('stalled')}: ${who} keeps the lock and shows no life; see ${advised('doctor')}`
      : `${yellow('nobody polls')}: ${advised('openapi')}`
  const { service_pid, service_url } = seen
  const listens = service_pid === polling.pid ? '' : `; process ${service_pid} listens`
  const at = service_url === undefined ? '' : `${listens} at ${oneLine(service_url)}`
  const waits = outbox.sends === 0 ? '' : `, ${counted(outbox.sends, 'send')} waiting: ${advised('outbox')}`
  const asks = seen.approvals === 0 ? '' : `, ${seen.approvals} waiting for approval: ${advised('approvals')}`
  const lost = sessions.find(session => !session.connected && !session.unreadable)
  const connected = `${connected_count} of ${session_count} connected`
  const sight =
    lost === undefined
      ? (connected_count < session_count ? red : green)(connected)
      : `${red(connected)}; log in again: ${advised(`login ${shellWord(lost.name)}`)}`
  const lines = [
    `${dim('directory')}  ${oneLine(base_path)}${seen.sandbox ? ' (sandbox)' : ''}`,
    `${dim('service')}    ${service}${at}`,
    `${dim('sessions')}   ${session_count === 0 ? `none yet: ${advised('login')}` : sight}`,
    `${dim('store')}      ${store ? `${counted(store.messages, 'message')}, ${byteSize(store.size_bytes)}${waits}${asks}` : 'none'}`,
    ...sessions
      .filter(({ suspect_count = 0 }) => suspect_count > 0)
      .map(
        ({ name, suspect_count = 0 }) =>
          `${yellow('shown?')}     ${counted(suspect_count, 'message')} of the last 24 hours from ${oneLine(name)} may not have been shown`,
      ),
    ...sessions.flatMap(({ name, muted_since }) =>
      muted_since === undefined
        ? []
        : [
            `${red('muted?')}     WeChat may have muted ${oneLine(name)} since ${localTime(muted_since)}; see ${advised('doctor')}`,
          ],
    ),
    ...sessions
      .filter(({ poll_error }) => poll_error !== undefined)
      .map(
        ({ name, failing_since, poll_error = '' }) =>
          `${red('polls')}      those of ${oneLine(name)} fail since ${localTime(failing_since)}: ${oneLine(poll_error)}; see ${advised('doctor')}`,
      ),
    ...(seen.webhooks ?? []).map(
      ({ id, status, why }) =>
        `${red('webhook')}    ${id} is ${status}: ${oneLine(why)}; ${advised('webhook')}`,
    ),
    ...seen.trouble.map(what => `${red('trouble')}    ${oneLine(what)}; see ${advised('doctor')}`),
  ]
  const rows = sessions.map(session => [
    `${session.is_default ? '*' : ' '} ${oneLine(session.name)}`,
    session.status,
    String(session.user_count),
    localTime(session.created_at),
    localTime(session.expired_at ?? session.lapsed_at ?? session.failing_since),
    oneLine(session.bot_id ?? '–'),
  ])
  const listed =
    rows.length === 0
      ? ''
      : `\n${table(['  SESSION', 'STATUS', 'USERS', 'LOGGED IN', 'TROUBLE SINCE', 'BOT'], rows, bold)}`
  return `${lines.join('\n')}\n${listed}`
}
