/** Declares `svc webhook` and its subcommands, for endpoints that receive events. */
import { SvcError } from '../../model/error.ts'
import type { AddedWebhook, ReplayedWebhook, WebhookDelivery, WebhookEndpoint } from '../../model/webhook.ts'
import * as webhook from '../../operations/webhooks.ts'
import { counted, localTime } from '../../platform/format.ts'
import { type Column, table } from '../columns.ts'
import { operationCommand } from '../operation-command.ts'
import { note, type Shown } from '../show.ts'
import { colours, oneLine } from '../terminal.ts'
import { typedStart } from '../typed-time.ts'

export const commands = [
  operationCommand(webhook.listWebhooks, { nothing: () => [], show: listText }),
  operationCommand(webhook.addWebhook, {
    show: secretText,
    async unprinted(ask, { id }) {
      await ask(webhook.removeWebhook, { id })
      throw unshown('no webhook was added: its secret, which is shown once, could not be printed')
    },
  }),
  operationCommand(webhook.getWebhook, { show: oneText }),
  operationCommand(webhook.testWebhook, {
    failed: ({ success }) => !success,
    done: 'tested',
    show: ({ success, status, took_ms, detail }) => ({
      text: success
        ? `${colours.green('delivered')}  HTTP ${status}, ${took_ms} ms\n`
        : `${colours.red('failed')}  ${oneLine(detail ?? '')}, ${took_ms} ms\n`,
    }),
  }),
  operationCommand(webhook.webhookLog, { show: logText }),
  operationCommand(webhook.pauseWebhook, { done: 'paused', show: oneText }),
  operationCommand(webhook.resumeWebhook, { done: 'resumed', show: oneText }),
  operationCommand(webhook.rotateWebhook, {
    show: secretText,
    async unprinted() {
      throw unshown('the secret was replaced, and the new one, which is shown once, could not be printed')
    },
  }),
  operationCommand(webhook.replayWebhook, {
    done: 'done',
    meant(typed, _command, now) {
      if (typeof typed.from !== 'string') return typed
      const start = typedStart('--from', typed.from)(now)
      return { ...typed, from: 'since' in start ? start.since : start.event }
    },
    show: (replayed, _again, { input: { dry_run } }) => ({
      text: `${replayText(replayed, dry_run)}\n${oneText(replayed).text}`,
    }),
  }),
  operationCommand(webhook.removeWebhook, {
    done: 'removed',
    show: ({ id }) => ({ text: `removed: ${oneLine(id)}\n` }),
  }),
]

const unshown = (problem: string) =>
  new SvcError('internal', problem, {
    hint: 'Check where the output goes, and the free space there, then run the command again.',
  })

function replayText({ replay }: ReplayedWebhook, dryRun = false): string {
  const { events, events_is_lower_bound, since } = replay
  if (events === 0 && !events_is_lower_bound) return 'nothing to deliver again since then'
  const count = `${events_is_lower_bound ? 'more than ' : ''}${counted(events, 'event')}`
  const what = `${count}, the first of ${localTime(since)}`
  return dryRun ? `would deliver again ${what}; nothing was changed` : `delivers again ${what}`
}

const painted = { active: 'green', failing: 'yellow', paused: 'dim', disabled: 'red' } as const
const statusOf = ({ status }: WebhookEndpoint) => colours[painted[status]](status)

function listText(all: readonly WebhookEndpoint[]): Shown {
  if (all.length === 0) return { note: note('no webhooks: svc webhook add <url> adds one') }
  const columns: Column<WebhookEndpoint>[] = [
    ['id', ({ id }) => oneLine(id)],
    ['status', statusOf],
    ['url', ({ url }) => oneLine(url)],
    ['events', ({ types }) => types.join(',') || 'all'],
    ['last event delivered', ({ last_success_at }) => localTime(last_success_at)],
  ]
  return { text: table(all, columns, colours.dim) }
}

/** Formats everything about one endpoint. */
export function oneText(one: WebhookEndpoint): Shown {
  const lines = [
    `${statusOf(one)}  ${oneLine(one.id)} → ${oneLine(one.url)}`,
    `events: ${one.types.join(', ') || 'all'}${one.session ? `, session ${oneLine(one.session)}` : ''}${one.user ? `, user ${oneLine(one.user)}` : ''}`,
    ...Object.keys(one.headers).map(name => `header: ${oneLine(name)}: ***`),
    `${counted(one.tries.done, 'delivery', 'deliveries')}, ${counted(one.tries.failed, 'failed try', 'failed tries')}, ${one.tries.gave_up} given up`,
    ...(one.last_success_at === undefined ? [] : [`last event delivered ${localTime(one.last_success_at)}`]),
    ...(one.failing_since === undefined
      ? []
      : [`failing since ${localTime(one.failing_since)}: ${oneLine(one.last_error ?? '')}`]),
    ...(one.next_try_at === undefined ? [] : [`next try ${localTime(one.next_try_at)}`]),
    ...(one.disabled_reason === undefined
      ? []
      : [
          `switched off ${localTime(one.disabled_at ?? 0)}: ${oneLine(one.disabled_reason)}; svc webhook resume ${oneLine(one.id)}`,
        ]),
  ]
  return { text: `${lines.join('\n')}\n` }
}

function secretText(added: AddedWebhook): Shown {
  return { text: `${oneText(added).text}secret: ${added.secret} (shown this once)\n` }
}

function logText(tries: readonly WebhookDelivery[]): Shown {
  if (tries.length === 0) return { note: note('nothing was delivered yet') }
  const columns: Column<WebhookDelivery>[] = [
    ['time', ({ at }) => localTime(at)],
    ['outcome', ({ outcome }) => outcome],
    ['answer', ({ status = '–' }) => String(status)],
    ['took', ({ took_ms }) => `${took_ms} ms`],
    ['type', ({ type }) => type],
    ['event', ({ event }) => oneLine(event)],
    ['why', ({ detail = '' }) => oneLine(detail)],
  ]
  return { text: table(tries, columns, colours.dim) }
}
