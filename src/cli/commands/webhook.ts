/** Declares `svc webhook` and its subcommands, for endpoints that receive events. */
import type {
  AddedWebhook,
  ReplayedWebhook,
  WebhookDelivery,
  WebhookEndpoint,
  WebhookTest,
} from '../../model/webhook.ts'
import * as webhook from '../../operations/webhooks.ts'
import { formatCount, formatLocalTime } from '../../platform/format.ts'
import { maskAddress } from '../../platform/log.ts'
import { operationCommand } from '../operation-command.ts'
import { formatLines, type OutputLines, showTable, tableView, unprintedError } from '../show.ts'
import { colours, oneLine } from '../terminal.ts'
import { parseTypedStart } from '../typed-time.ts'

export const commands = [
  operationCommand(
    webhook.listWebhooks,
    tableView('no webhooks: svc webhook add <url> adds one', [
      ['id', 'id'],
      ['status', statusOf],
      ['url', ({ url }) => oneLine(maskAddress(url))],
      ['events', ({ types }) => types.join(',') || 'all'],
      ['last event delivered', 'last_success_at'],
    ]),
  ),
  operationCommand(webhook.addWebhook, {
    render: describeAdded,
    async undoUnprinted(ask, { id }) {
      await ask(webhook.removeWebhook, { id })
      throw unprintedError('no webhook was added: its secret, which is shown once, could not be printed')
    },
  }),
  operationCommand(webhook.getWebhook, { render: describeEndpoint }),
  operationCommand(webhook.testWebhook, {
    hasFailed: ({ success }) => !success,
    changeMade: 'tested',
    render: test => [describeTest(test)],
  }),
  operationCommand(webhook.listWebhookDeliveries, {
    render: (tries, _again, { input: { event } }) => {
      const { note, text = '' } = showTable(tries, 'nothing was delivered yet', [
        ['time', ({ at }) => formatLocalTime(at)],
        ['outcome', 'outcome'],
        ['answer', ({ status = '–' }) => String(status)],
        ['took', ({ took_ms }) => `${took_ms} ms`],
        ['type', 'type'],
        ['event', 'event'],
        ['why', 'detail'],
      ])
      return event === undefined
        ? { note, text }
        : { note, text: `${text}${formatLines(tries.flatMap(describeMore))}` }
    },
  }),
  operationCommand(webhook.pauseWebhook, { changeMade: 'paused', render: describeEndpoint }),
  operationCommand(webhook.resumeWebhook, { changeMade: 'resumed', render: describeEndpoint }),
  operationCommand(webhook.rotateWebhook, {
    render: describeAdded,
    async undoUnprinted() {
      throw unprintedError(
        'the secret was replaced, and the new one, which is shown once, could not be printed',
      )
    },
  }),
  operationCommand(webhook.replayWebhook, {
    changeMade: 'done',
    hasFailed: ({ replay: { result } }) => result?.success === false,
    toInput(typed, _command, now) {
      if (typeof typed.from !== 'string') return typed
      const start = parseTypedStart('--from', typed.from)(now)
      return { ...typed, from: 'since' in start ? start.since : start.event }
    },
    render: (replayed, _again, { input: { dry_run } }) => [
      describeReplay(replayed, dry_run),
      ...describeEndpoint(replayed),
    ],
  }),
  operationCommand(webhook.removeWebhook, {
    changeMade: 'removed',
    render: ({ id }) => [`removed: ${oneLine(id)}`],
  }),
]

function describeTest({ success, status, took_ms, detail }: WebhookTest): string {
  return success
    ? `${colours.green('delivered')}  HTTP ${status}, ${took_ms} ms`
    : `${colours.red('failed')}  ${oneLine(detail ?? '')}, ${took_ms} ms`
}

/** Describes what only a list of the attempts at one event has. */
const describeMore = ({ at, next_try_at, payload, response }: WebhookDelivery): OutputLines => [
  next_try_at !== undefined && `next try ${formatLocalTime(next_try_at)}`,
  payload && `sent: ${oneLine(JSON.stringify(payload))}`,
  response !== undefined && `answer of ${formatLocalTime(at)}:`,
  ...(response?.split('\n').map(line => `  ${oneLine(line)}`) ?? []),
]

function describeReplay({ replay }: ReplayedWebhook, dryRun = false): string {
  const { events, events_is_lower_bound, since, result } = replay
  if (result) return describeTest(result)
  if (events === 0 && !events_is_lower_bound) return 'nothing to deliver again since then'
  const count = `${events_is_lower_bound ? 'more than ' : ''}${formatCount(events, 'event')}`
  const what = `${count}, the first of ${formatLocalTime(since)}`
  return dryRun ? `would deliver again ${what}; nothing was changed` : `delivers again ${what}`
}

const statusColours = { active: 'green', failing: 'yellow', paused: 'dim', disabled: 'red' } as const

function statusOf({ status }: WebhookEndpoint): string {
  return colours[statusColours[status]](status)
}

/** Describes everything about one endpoint. */
export function describeEndpoint(one: WebhookEndpoint): OutputLines {
  return [
    `${statusOf(one)}  ${oneLine(one.id)} → ${oneLine(maskAddress(one.url))}`,
    `events: ${one.types.join(', ') || 'all'}${one.session ? `, session ${oneLine(one.session)}` : ''}${one.user ? `, user ${oneLine(one.user)}` : ''}`,
    ...Object.keys(one.headers).map(name => `header: ${oneLine(name)}: ***`),
    `${formatCount(one.tries.done, 'delivery', 'deliveries')}, ${formatCount(one.tries.failed, 'failed try', 'failed tries')}, ${one.tries.gave_up} given up`,
    one.last_success_at !== undefined && `last event delivered ${formatLocalTime(one.last_success_at)}`,
    one.failing_since !== undefined &&
      `failing since ${formatLocalTime(one.failing_since)}: ${oneLine(one.last_error ?? '')}`,
    one.next_try_at !== undefined && `next try ${formatLocalTime(one.next_try_at)}`,
    one.disabled_reason !== undefined &&
      `switched off ${formatLocalTime(one.disabled_at ?? 0)}: ${oneLine(one.disabled_reason)}; svc webhook resume ${oneLine(one.id)}`,
  ]
}

function describeAdded(added: AddedWebhook): OutputLines {
  return [...describeEndpoint(added), `secret: ${added.secret} (shown this once)`]
}
