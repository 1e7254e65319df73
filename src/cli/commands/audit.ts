/** Declares `svc audit`: shows who changed or sent what, or with `--follow` new lines as they come. */
import type { AuditLine } from '../../model/audit.ts'
import { badArgument } from '../../model/error.ts'
import { formatCaller } from '../../model/principal.ts'
import { listAudit } from '../../operations/audit.ts'
import { formatLocalTime } from '../../platform/format.ts'
import { operationCommand } from '../operation-command.ts'
import { writeResult } from '../print.ts'
import { tableView, writeFollowing } from '../show.ts'
import { oneLine } from '../terminal.ts'
import type { OperationRequest } from '../view.ts'

const checkEveryMs = 1000

const cells = {
  TIME: ({ at }) => formatLocalTime(at),
  CALLER: ({ name, principal }) => oneLine(formatCaller(principal, name)),
  OPERATION: ({ count, operation }) => (count === undefined ? operation : `${operation} × ${count}`),
  OUTCOME: ({ outcome = 'not ended' }) => outcome,
  ADDRESS: ({ address = '–' }) => oneLine(address),
  SUBJECT: line => oneLine(aboutOf(line)),
} satisfies Readonly<Record<string, (line: AuditLine) => string>>

/** What a call was about; of a decision also whose draft it was, and whether its text was changed. */
function aboutOf({ changed, draft_by, draft_by_name, messages, subject = '' }: AuditLine): string {
  const draft = draft_by === undefined ? '' : `, a draft of ${formatCaller(draft_by, draft_by_name)}`
  const more = `${draft}${changed ? ', changed' : ''}`
  return messages === undefined ? subject : `${subject} (message ${messages.join(', ')}${more})`
}

export const commands = [
  operationCommand(listAudit, {
    jsonHelp: 'Print the result as one JSON value; with --follow one line of the log per line.',
    addOptions: command => command.option('-f, --follow', 'Show new lines as they come, until Ctrl-C.'),
    longRun: { when: command => command.opts().follow === true, run: followAudit },
    ...tableView<AuditLine>('no calls match', Object.entries(cells)),
  }),
]

/** Starts with the lines since a time or after an id, if one is given, else with the next one. */
async function followAudit({ command, config, input }: OperationRequest): Promise<void> {
  const { limit = Number.POSITIVE_INFINITY, ...filter } = listAudit.parse(input)
  // A line is shown as it comes, mostly before its call ends. Only a denial has its outcome by then.
  if ((filter.outcome ?? 'denied') !== 'denied')
    throw badArgument('--outcome', 'expected denied, or nothing, with --follow')
  const { commandCall, createAsk, openForCommand } = await import('../open.ts')
  using call = commandCall(command.io)
  await using opened = await openForCommand(config, command.io)
  const ask = createAsk(opened, call)
  const [newest] = filter.since === undefined ? await ask(listAudit, { limit: 1 }) : []
  let after = filter.after ?? newest?.id ?? 0
  await writeFollowing(command.io.err)
  for (let count = 0; !call.signal.aborted; ) {
    const lines = await ask(listAudit, { ...filter, after })
    for (const line of lines) {
      await writeResult(command, line, formatLine(line))
      after = line.id
      if (++count >= limit) return
    }
    if (lines.length === 0) await opened.gateway.clock.sleep(checkEveryMs, call.signal)
  }
}

const formatLine = (line: AuditLine): string =>
  `${Object.values(cells)
    .map(cell => cell(line))
    .join('  ')
    .trimEnd()}\n`
