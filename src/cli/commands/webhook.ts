/** Declares `svc webhook` and its subcommands, for endpoints that receive events. */
import type { AddedWebhook, ReplayedWebhook, WebhookDelivery, WebhookEndpoint } from '../../model/webhook.ts'
import * as webhook from '../../operations/webhooks.ts'
import { formatCount, formatLocalTime } from '../../platform/format.ts'
import { maskAddress } from '../../platform/log.ts'
import { type Column, formatTable } from '../columns.ts'
import { operationCommand } from '../operation-command.ts'
import { type CommandOutput, formatNote, unprintedError } from '../show.ts'
import { colours, oneLine } from '../terminal.ts'
import { parseTypedStart } from '../typed-time.ts'

export const commands = [
  operationCommand(webhook.listWebhooks, { createEmpty: () => [], render: formatEndpoints }),
  operationCommand(webhook.addWebhook, {
    render: formatSecret,
    async undoUnprinted(ask, { id }) {
      await ask(webhook.removeWebhook, { id })
      throw unprintedError('no webhook was added: its secret, which is shown once, could not be printed')
    },
  }),
  operationCommand(webhook.getWebhook, { render: formatEndpoint }),
  operationCommand(webhook.testWebhook, {
    hasFailed: ({ success }) => !success,
    changeMade: 'tested',
    render: ({ success, status, took_ms, detail }) => ({
      text: success
        ? `${colours.green('delivered')}  HTTP ${status}, ${took_ms} ms\n`
        : `${colours.red('failed')}  ${oneLine(detail ?? '')}, ${took_ms} ms\n`,
    }),
  }),
  operationCommand(webhook.listWebhookDeliveries, { render: formatLog }),
  operationCommand(webhook.pauseWebhook, { changeMade: 'paused', render: formatEndpoint }),
  operationCommand(webhook.resumeWebhook, { changeMade: 'resumed', render: formatEndpoint }),
  operationCommand(webhook.rotateWebhook, {
    render: formatSecret,
    async undoUnprinted() {
      throw unprintedError(
        'the secret was replaced, and the new one, which is shown once, could not be printed',
      )
    },
  }),
  operationCommand(webhook.replayWebhook, {
    changeMade: 'done',
    toInput(typed, _command, now) {
      if (typeof typed.from !== 'string') return typed
      const start = parseTypedStart('--from', typed.from)(now)
      return { ...typed, from: 'since' in start ? start.since : start.event }
    },
    render: (replayed, _again, { input: { dry_run } }) => ({
      text: `${describeReplay(replayed, dry_run)}\n${formatEndpoint(replayed).text}`,
    }),
  }),
  operationCommand(webhook.removeWebhook, {
    changeMade: 'removed',
    render: ({ id }) => ({ text: `removed: ${oneLine(id)}\n` }),
  }),
]

function describeReplay({ replay }: ReplayedWebhook, dryRun = false): string {
  const { events, events_is_lower_bound, since } = replay
  if (events === 0 && !events_is_lower_bound) return 'nothing to deliver again since then'
  const count = `${events_is_lower_bound ? 'more than ' : ''}${formatCount(events, 'event')}`
  const what = `${count}, the first of ${formatLocalTime(since)}`
  return dryRun ? `would deliver again ${what}; nothing was changed` : `delivers again ${what}`
}

const statusColours = { active: 'green', failing: 'yellow', paused: 'dim', disabled: 'red' } as const
const statusOf = ({ status }: WebhookEndpoint) => colours[statusColours[status]](status)

function formatEndpoints(all: readonly WebhookEndpoint[]): CommandOutput {
  if (all.length === 0) return { note: formatNote('no webhooks: svc webhook add <url> adds one') }
  const columns: Column<WebhookEndpoint>[] = [
    ['id', ({ id }) => oneLine(id)],
    ['status', statusOf],
    ['url', ({ url }) => oneLine(maskAddress(url))],
    ['events', ({ types }) => types.join(',') || 'all'],
    ['last event delivered', ({ last_success_at }) => formatLocalTime(last_success_at)],
  ]
  return { text: formatTable(all, columns, colours.dim) }
}

/** Formats everything about one endpoint. */
export function formatEndpoint(one: WebhookEndpoint): CommandOutput {
  const lines = [
    `${statusOf(one)}  ${oneLine(one.id)} → ${oneLine(maskAddress(one.url))}`,
    `events: ${one.types.join(', ') || 'all'}${one.session ? `, session ${oneLine(one.session)}` : ''}${one.user ? `, user ${oneLine(one.user)}` : ''}`,
    ...Object.keys(one.headers).map(name => `header: ${oneLine(name)}: ***`),
    `${formatCount(one.tries.done, 'delivery', 'deliveries')}, ${formatCount(one.tries.failed, 'failed try', 'failed tries')}, ${one.tries.gave_up} given up`,
    ...(one.last_success_at === undefined
      ? []
      : [`last event delivered ${formatLocalTime(one.last_success_at)}`]),
    ...(one.failing_since === undefined
      ? []
      : [`failing since ${formatLocalTime(one.failing_since)}: ${oneLine(one.last_error ?? '')}`]),
    ...(one.next_try_at === undefined ? [] : [`next try ${formatLocalTime(one.next_try_at)}`]),
    ...(one.disabled_reason === undefined
      ? []
      : [
          `switched off ${formatLocalTime(one.disabled_at ?? 0)}: ${oneLine(one.disabled_reason)}; svc webhook resume ${oneLine(one.id)}`,
        ]),
  ]
  return { text: `${lines.join('\n')}\n` }
}

function formatSecret(added: AddedWebhook): CommandOutput {
  return { text: `${formatEndpoint(added).text}secret: ${added.secret} (shown this once)\n` }
}

function formatLog(tries: readonly WebhookDelivery[]): CommandOutput {
  if (tries.length === 0) return { note: formatNote('nothing was delivered yet') }
  const columns: Column<WebhookDelivery>[] = [
    ['time', ({ at }) => formatLocalTime(at)],
    ['outcome', ({ outcome }) => outcome],
    ['answer', ({ status = '–' }) => String(status)],
    ['took', ({ took_ms }) => `${took_ms} ms`],
    ['type', ({ type }) => type],
    ['event', ({ event }) => oneLine(event)],
    ['why', ({ detail = '' }) => oneLine(detail)],
  ]
  return { text: formatTable(tries, columns, colours.dim) }
}
