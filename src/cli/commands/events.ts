/** Declares and runs `svc events`: prints past events, or new ones as they happen. */
import { createWholeParser } from '../../config/values.ts'
import { badArgument } from '../../model/error.ts'
import { type Event, eventTypes } from '../../model/event.ts'
import { formatCaller } from '../../model/principal.ts'
import type { EventStart } from '../../model/webhook.ts'
import { followEvents } from '../../operations/events.ts'
import { invoke } from '../../operations/gate.ts'
import { toJsonLine } from '../../platform/escape-controls.ts'
import { formatLocalTime } from '../../platform/format.ts'
import { maskAddress } from '../../platform/log.ts'
import { describeItem } from '../chat.ts'
import { type Command, type CommandSpec, directoryFlagsOf, ListOption } from '../command.ts'
import { formatSessions, printNote, writeFollowing } from '../show.ts'
import { oneLine, shortenListed } from '../terminal.ts'
import { parseTypedStart } from '../typed-time.ts'

interface EventsFlags {
  follow?: boolean
  after?: string
  types?: string
  session?: string
  user?: string
  limit?: string
  json?: boolean
}

const dayMs = 24 * 60 * 60_000

export const commands: readonly CommandSpec[] = [
  {
    words: 'events',
    summary: 'show past events, or with --follow new ones',
    about:
      'Shows the events of the last 24 hours, or those after an id: messages received, the status of messages sent, changes of sessions. With --follow it shows new events until Ctrl-C. It only reads the message store: it receives nothing from WeChat, and can run while a service runs.',
    config: 'tool',
    isLasting: command => command.opts<EventsFlags>().follow === true,
    addOptions: command =>
      command
        .option('-f, --follow', 'Show new events as they happen.')
        .option(
          '--after <id>',
          'Start after the event with this id, or at a time such as 2026-01-31, 1h or yesterday; 0: from the beginning.',
        )
        .addOption(new ListOption('--types <types>', 'Only these types, separated by commas.', eventTypes))
        .option('-s, --session <session>', 'Only events of this session.')
        .option('-u, --user <user>', 'Only messages from and to this user, by id or name.')
        .option(
          '-n, --limit <number>',
          'Most events to show: the newest; with --after or --follow the first ones (1 to 1000).',
        ),
    jsonHelp: 'Print a JSON object per line: {id, type, timestamp, data}.',
    examples: [
      ['svc events', 'Events of the last 24 hours'],
      ['svc events -n 5', 'The five newest of that'],
      ['svc events --follow --json | jq -r .type', 'For programs'],
    ],
    run: showEvents,
  },
]

async function showEvents(command: Command): Promise<void> {
  const { follow, after, types, json, session, user, limit } = command.opts<EventsFlags>()
  const filter = { types, session, user }
  const start = after === undefined || after === '0' ? undefined : parseTypedStart('--after', after)
  const most = limit === undefined ? undefined : createWholeParser(1, 1000)(limit)
  if (limit !== undefined && most === undefined)
    throw badArgument('--limit', `expected an integer from 1 to 1000, got ${JSON.stringify(limit)}`)
  const { commandCall, configToRead, isAbsent, openForCommand, rejectAbsent } = await import('../open.ts')
  const config = await configToRead(command)
  if (!follow && (await isAbsent(config))) {
    rejectAbsent(filter)
    if (!json) await printNote(formatSessions([], directoryFlagsOf(command)), command)
    return
  }
  const { err, out } = command.io
  using call = commandCall(command.io)
  await using opened = await openForCommand(config, command.io)
  const { gateway, log } = opened
  const now = gateway.clock.now()
  const begin = after === undefined ? undefined : toStart(start?.(now), after)
  const from = begin ?? (follow ? undefined : new Date(now - dayMs).toISOString())
  const events = await invoke(followEvents, gateway, { ...filter, after: from }, call, log)
  const onGone = () => void err.write('Some events were removed before they were read.\n')
  const found = events.follow(call.signal, { onGone, toEnd: !follow })
  if (follow && !json) await writeFollowing(err)
  // --limit means the first events after a start, else the newest.
  const isTail = most !== undefined && begin === undefined && !follow
  const tail: Event[] = []
  const again = directoryFlagsOf(command)
  const print = (event: Event) => out.write(json ? `${toJsonLine(event)}\n` : formatEvent(event, again))
  let count = 0
  for await (const event of found) {
    count++
    if (!isTail) await print(event)
    else if (tail.push(event) > most) tail.shift()
    if (!isTail && count === most) break
  }
  for (const event of tail) await print(event)
  if (count === 0 && !follow && !json) await printNote({ note: 'no events match' }, command)
}

/** Converts the start for `follow_events`. A typed `0` has no parsed start and is passed on. */
const toStart = (start: EventStart | undefined, typed: string): string =>
  start && 'since' in start ? new Date(start.since).toISOString() : typed

function formatEvent({ id, type, timestamp, data }: Event, again: string): string {
  const what =
    'items' in data
      ? [
          data.session,
          data.status,
          data.user_name ?? (data.direction === 'sent' ? data.to_user : data.from_user),
          shortenListed(
            [data.text, ...data.items.filter(({ kind }) => kind !== 'TEXT').map(describeItem)]
              .filter(Boolean)
              .join('  '),
            `svc history -n 1 --before ${data.id + 1}${again} shows all`,
          ),
        ]
      : 'change' in data
        ? [data.name, data.change]
        : 'url' in data
          ? [maskAddress(data.url), data.reason]
          : 'operation' in data
            ? [formatCaller(data.principal, data.name), data.operation, data.outcome, data.subject]
            : 'folder' in data
              ? [data.folder, data.error]
              : 'invitation_name' in data
                ? [data.name, `joined by the invitation "${data.invitation_name}"`]
                : [data.name, data.muted_since === undefined ? 'no longer muted' : 'may be muted']
  return `${oneLine([formatLocalTime(Date.parse(timestamp)), type, ...what.filter(Boolean), `(${id})`].join('  '))}\n`
}
