/** `svc webhook`: endpoints that events are delivered to. */
import type { Command } from 'commander'
import type { Gateway } from '../gateway/gateway-api.ts'
import { badArgument } from '../model/error.ts'
import {
  type AddedWebhook,
  NewWebhookInput,
  type ReplayedWebhook,
  type WebhookDelivery,
  type WebhookEndpoint,
  WebhookLogQuery,
} from '../model/webhook.ts'
import { counted, localTime } from '../platform/format.ts'
import { replayFrom } from '../server/webhook-routes.ts'
import { parse } from '../tools/parse.ts'
import { table } from './columns.ts'
import type { CommandLine } from './command.ts'
import { commandCall } from './open.ts'
import { shown } from './run-reads.ts'
import type { Shown } from './show.ts'
import { colours } from './terminal.ts'
import { oneLine } from './text.ts'
import { typedTime } from './typed-time.ts'

type Hooks = Gateway['webhooks']

const withHooks = <T>(
  line: CommandLine,
  command: Command,
  work: (webhooks: Hooks, id: string) => Promise<T>,
  show: (result: T) => Shown,
  nothing?: T,
) => shown(line, command, ({ webhooks }) => work(webhooks, command.args[0] ?? ''), show, nothing)

export const list = (line: CommandLine, command: Command): Promise<void> =>
  withHooks(line, command, webhooks => webhooks.list(), listText, [])

export const show = (line: CommandLine, command: Command): Promise<void> =>
  withHooks(line, command, (webhooks, id) => webhooks.get(id), oneText)

export const pause = (line: CommandLine, command: Command, paused: boolean): Promise<void> =>
  withHooks(line, command, (webhooks, id) => webhooks.pause(id, paused), oneText)

export const rotate = (line: CommandLine, command: Command): Promise<void> =>
  withHooks(line, command, (webhooks, id) => webhooks.rotate(id), secretText)

export const remove = (line: CommandLine, command: Command): Promise<void> =>
  withHooks(
    line,
    command,
    (webhooks, id) => webhooks.remove(id),
    ({ id }) => ({ text: `removed: ${oneLine(id)}\n` }),
  )

export function add(line: CommandLine, command: Command): Promise<void> {
  const { types, session, user, header, allowPrivate, replies } = command.opts<{
    types?: string
    session?: string
    user?: string
    header?: string[]
    allowPrivate?: boolean
    replies?: boolean
  }>()
  const given = parse(NewWebhookInput, {
    url: command.args[0],
    ...{ session, user, replies, allow_private: allowPrivate },
    types: types?.split(',').map(type => type.trim()),
    headers: header && headersOf(header),
  })
  return withHooks(line, command, webhooks => webhooks.add(given), secretText)
}

function headersOf(given: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    given.map(one => {
      const at = one.indexOf(':')
      if (at < 1)
        throw badArgument('--header', 'expected a name and a value, as in "Authorization: Bearer abc"')
      return [one.slice(0, at).trim(), one.slice(at + 1).trim()]
    }),
  )
}

export async function test(line: CommandLine, command: Command): Promise<void> {
  using call = commandCall()
  const { signal } = call
  await withHooks(
    line,
    command,
    (webhooks, id) => webhooks.test(id, signal),
    ({ success, status, took_ms, detail }) => ({
      text: success
        ? `${colours.green('delivered')}  HTTP ${status}, ${took_ms} ms\n`
        : `${colours.red('failed')}  ${oneLine(detail ?? '')}, ${took_ms} ms\n`,
      failed: !success,
    }),
  )
}

export function log(line: CommandLine, command: Command): Promise<void> {
  const { limit, outcome } = command.opts<{ limit: string; outcome?: string }>()
  const query = parse(WebhookLogQuery, {
    limit: /^\d{1,6}$/.test(limit) ? Number(limit) : limit,
    ...(outcome !== undefined && { outcome }),
  })
  return withHooks(line, command, (webhooks, id) => webhooks.log(id, query), logText)
}

export function replay(line: CommandLine, command: Command): Promise<void> {
  const { dryRun = false, from } = command.opts<{ dryRun?: boolean; from: string }>()
  const text = (replayed: ReplayedWebhook) => `${replayText(replayed, dryRun)}\n${oneText(replayed).text}`
  return shown(
    line,
    command,
    ({ clock, webhooks }) => {
      const start = replayFrom(from, typedTime(from, clock.now()))
      return webhooks.replay(command.args[0] ?? '', { ...start, dry_run: dryRun })
    },
    replayed => ({ text: text(replayed) }),
  )
}

function replayText({ replay }: ReplayedWebhook, dryRun: boolean): string {
  const { events, events_is_lower_bound, since } = replay
  if (events === 0 && !events_is_lower_bound) return 'nothing to deliver again since then'
  const count = `${events_is_lower_bound ? 'more than ' : ''}${counted(events, 'event')}`
  const what = `${count}, the first of ${localTime(since)}`
  return dryRun ? `would deliver again ${what}; nothing was changed` : `delivers again ${what}`
}

const painted = { active: 'green', failing: 'yellow', paused: 'dim', disabled: 'red' } as const
const statusOf = ({ status }: WebhookEndpoint) => colours[painted[status]](status)

function listText(all: readonly WebhookEndpoint[]): Shown {
  if (all.length === 0) return { text: '', note: 'no webhooks: svc webhook add <url> adds one\n' }
  const rows = all.map(one => [
    ...[oneLine(one.id), statusOf(one), oneLine(one.url)],
    one.types.join(',') || 'all',
    one.last_success_at === undefined ? '–' : localTime(one.last_success_at),
  ])
  return { text: table(['id', 'status', 'url', 'events', 'last delivery'], rows, colours.dim) }
}

function oneText(one: WebhookEndpoint): Shown {
  const lines = [
    `${statusOf(one)}  ${oneLine(one.id)} → ${oneLine(one.url)}`,
    `events: ${one.types.join(', ') || 'all'}${one.session ? `, session ${oneLine(one.session)}` : ''}${one.user ? `, user ${oneLine(one.user)}` : ''}`,
    ...Object.keys(one.headers).map(name => `header: ${oneLine(name)}: ***`),
    `${counted(one.tries.done, 'delivery', 'deliveries')}, ${one.tries.failed} failed tries, ${one.tries.gave_up} given up`,
    ...(one.last_success_at === undefined ? [] : [`last delivery ${localTime(one.last_success_at)}`]),
    ...(one.failing_since === undefined
      ? []
      : [`failing since ${localTime(one.failing_since)}: ${oneLine(one.last_error ?? '')}`]),
    ...(one.disabled_reason === undefined
      ? []
      : [
          `switched off ${localTime(one.disabled_at ?? 0)}: ${oneLine(one.disabled_reason)}; svc webhook resume ${oneLine(one.id)}`,
        ]),
  ]
  return { text: `${lines.join('\n')}\n` }
}

const secretText = (added: AddedWebhook): Shown => ({
  text: `${oneText(added).text}secret: ${added.secret} (shown this once)\n`,
})

function logText(tries: readonly WebhookDelivery[]): Shown {
  if (tries.length === 0) return { text: '', note: 'nothing was delivered yet\n' }
  const rows = tries.map(one => [
    ...[localTime(one.at), one.outcome, String(one.status ?? '–'), `${one.took_ms} ms`],
    ...[one.type, oneLine(one.event), oneLine(one.detail ?? '')],
  ])
  return { text: table(['time', 'outcome', 'answer', 'took', 'type', 'event', 'why'], rows, colours.dim) }
}
