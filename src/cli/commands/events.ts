/** `svc events`: what happened, and what happens. */
import type { Command } from 'commander'
import type { Gateway } from '../../gateway/gateway-api.ts'
import type { Event } from '../../model/event.ts'
import { localTime } from '../../platform/format.ts'
import { typesOf } from '../../push/events.ts'
import { type CommandSpec, toolConfig } from '../command.ts'
import { jsonLine } from '../print.ts'
import { writeErr, writeOut } from '../terminal.ts'
import { oneLine } from '../text.ts'
import { typedTime } from '../typed-time.ts'

interface Flags {
  follow?: boolean
  after?: string
  types?: string
  session?: string
  user?: string
  json?: boolean
}

const dayMs = 24 * 60 * 60_000
const pageEvents = 100

export const commands: readonly CommandSpec[] = [
  {
    words: 'events',
    summary: 'show what happened, and with --follow what happens',
    about:
      'Shows the events of the last 24 hours, or those after an id: messages, the status of sent ones, what became of sessions. With --follow those that come from now on, until Ctrl-C. Follows the store, beside any service, and receives nothing from WeChat itself.',
    config: 'tool',
    takes: command =>
      command
        .option('-f, --follow', 'Go on with what comes.')
        .option(
          '--after <id>',
          'Begin after the event of this id, or at a time such as 2026-01-31, 1h or yesterday; 0: at the beginning.',
        )
        .option('--types <types>', 'Only these types, separated by commas: message.received,session.status …')
        .option('-s, --session <session>', 'Only events of this session.')
        .option('-u, --user <user>', 'Only messages from and to this user, by id or name.'),
    json: 'Print a JSON object per line: {id, type, timestamp, data}.',
    examples: [
      ['svc events', 'What happened since yesterday'],
      ['svc events --follow --json | jq -r .type', 'For programs'],
    ],
    run: showEvents,
  },
]

async function showEvents(command: Command): Promise<void> {
  const { follow, after, types, json, session, user } = command.opts<Flags>()
  const asked = { ...typesOf(types), ...(session && { session }), ...(user && { user }) }
  const config = toolConfig(command)
  const { commandCall, isAbsent, openForCommand } = await import('../open.ts')
  if (!follow && (await isAbsent(config))) return
  using call = commandCall()
  await using opened = await openForCommand(config)
  const { clock, events } = opened.gateway
  const wanted = await events.wanted(asked)
  const startOf = () => placeOf(after, events, clock.now())
  const tell = (event: Event) => writeOut(json ? `${jsonLine(event)}\n` : lineOf(event))
  const onGone = () => void writeErr('Some events were removed before they were read.\n')
  if (follow) {
    const from = (await startOf()) ?? (await events.head())
    for await (const event of events.follow(from, wanted, call.signal, onGone)) await tell(event)
    return
  }
  let cursor = (await startOf()) ?? (await events.head(clock.now() - dayMs))
  for (let isEnd = false; !isEnd && !call.signal.aborted; ) {
    const page = await events.page(cursor, { ...wanted, limit: pageEvents })
    if (page.gone) onGone()
    for (const { event } of page.events) await tell(event)
    isEnd = page.cursor === cursor
    cursor = page.cursor
  }
}

/** Where somebody wants to begin: after an event, or with what happened since a time. */
async function placeOf(
  after: string | undefined,
  events: Gateway['events'],
  now: number,
): Promise<string | undefined> {
  const time = after === undefined || after === '0' ? undefined : typedTime(after, now)
  return time === undefined ? after : events.head(time)
}

function lineOf({ id, type, timestamp, data }: Event): string {
  const what =
    'items' in data
      ? [
          data.session,
          data.status,
          data.user_name ?? (data.direction === 'sent' ? data.to_user : data.from_user),
          data.text,
        ]
      : 'change' in data
        ? [data.name, data.change]
        : [data.url, data.reason]
  return `${oneLine([localTime(Date.parse(timestamp)), type, ...what.filter(Boolean), `(${id})`].join('  '))}\n`
}
