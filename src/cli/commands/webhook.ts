/** `svc webhook`: endpoints that events are delivered to. */
import type { Command } from 'commander'
import { badArgument } from '../../model/error.ts'
import {
  type AddedWebhook,
  NewWebhookInput,
  type ReplayedWebhook,
  replayFrom,
  type WebhookDelivery,
  type WebhookEndpoint,
  WebhookLogQuery,
} from '../../model/webhook.ts'
import { counted, localTime } from '../../platform/format.ts'
import { parse } from '../../tools/parse.ts'
import { table } from '../columns.ts'
import { resultCommand, wordCommand } from '../result.ts'
import type { Shown } from '../show.ts'
import { colours } from '../terminal.ts'
import { oneLine } from '../text.ts'
import { typedTime } from '../typed-time.ts'

const ofOne = (command: Command) => command.argument('<id>', 'Id of the webhook, as svc webhook shows it.')
const id = 'wh_3f1c9a0b2d4e6f80'

export const commands = [
  wordCommand({
    words: 'webhook',
    summary: 'list where events are delivered to, and how that goes',
    about:
      'Lists the endpoints that events are delivered to: each message that comes, what becomes of those sent, changes of accounts. Whichever process polls delivers, signed by Standard Webhooks, each event at least once and in order per conversation.',
    examples: [['svc webhook', 'Every endpoint']],
    work: ({ webhooks }) => webhooks.list(),
    nothing: [],
    show: listText,
  }),
  wordCommand({
    words: 'webhook list',
    summary: 'the same as svc webhook alone',
    examples: [['svc webhook list', 'Every endpoint']],
    work: ({ webhooks }) => webhooks.list(),
    nothing: [],
    show: listText,
  }),
  resultCommand({
    words: 'webhook add',
    summary: 'deliver events to an address from now on',
    about:
      'Adds an endpoint, and shows the secret that deliveries are signed with, this once. Only an answer of 2xx counts as delivered; anything else comes again later.',
    takes: command =>
      command
        .argument('<url>', 'An http or https address.')
        .option(
          '--types <types>',
          'Only these events, separated by commas: message.received, message.status, session.status, endpoint.disabled.',
        )
        .option('-s, --session <session>', 'Only events of this session.')
        .option('-u, --user <user>', 'Only messages from and to this user, by id or name.')
        .option(
          '--header <header>',
          'A header to send along, as in "Authorization: Bearer abc"; its value is never shown again. Repeatable.',
          (one: string, before: string[] = []) => [...before, one],
        )
        .option('--allow-private', 'The address may be of your own network, or of this machine.')
        .option('--replies', 'Send the text of an answer {"reply": {"text": …}} to the user who wrote.'),
    examples: [
      ['svc webhook add https://example.com/hook', 'Everything that happens'],
      [
        'svc webhook add http://127.0.0.1:5678/webhook/svc --allow-private --types message.received',
        'To n8n on this machine',
      ],
    ],
    typed: newWebhook,
    work: ({ webhooks }, added) => webhooks.add(added),
    show: secretText,
  }),
  wordCommand({
    words: 'webhook show',
    summary: 'how one endpoint does',
    takes: ofOne,
    examples: [[`svc webhook show ${id}`, 'Whether it works, since when not, and why']],
    work: ({ webhooks }, id) => webhooks.get(id),
    show: oneText,
  }),
  wordCommand({
    words: 'webhook test',
    summary: 'deliver a test now',
    about:
      'Delivers an event of type webhook.test, and tells what came of it. Exit status 1 where it failed.',
    takes: ofOne,
    examples: [[`svc webhook test ${id}`, 'Whether the receiver answers']],
    async work({ webhooks }, id) {
      const { commandCall } = await import('../open.ts')
      using call = commandCall()
      return await webhooks.test(id, call.signal)
    },
    show: ({ success, status, took_ms, detail }) => ({
      text: success
        ? `${colours.green('delivered')}  HTTP ${status}, ${took_ms} ms\n`
        : `${colours.red('failed')}  ${oneLine(detail ?? '')}, ${took_ms} ms\n`,
      failed: !success,
    }),
  }),
  resultCommand({
    words: 'webhook log',
    summary: 'the newest tries to deliver',
    takes: command =>
      ofOne(command)
        .option('-n, --limit <count>', 'Tries at most.', '20')
        .option('--outcome <outcome>', 'Only those that came to this: done, failed, gave_up.'),
    examples: [[`svc webhook log ${id} --outcome gave_up`, 'What was not delivered in the end']],
    typed(command) {
      const { limit, outcome } = command.opts<{ limit: string; outcome?: string }>()
      const [id = ''] = command.args
      const count = /^\d{1,6}$/.test(limit) ? Number(limit) : limit
      return {
        id,
        query: parse(WebhookLogQuery, { limit: count, ...(outcome !== undefined && { outcome }) }),
      }
    },
    work: ({ webhooks }, { id, query }) => webhooks.log(id, query),
    show: logText,
  }),
  wordCommand({
    words: 'webhook pause',
    summary: 'deliver nothing until it is resumed',
    takes: ofOne,
    examples: [[`svc webhook pause ${id}`, 'What happens meanwhile waits']],
    work: ({ webhooks }, id) => webhooks.pause(id, true),
    show: oneText,
  }),
  wordCommand({
    words: 'webhook resume',
    summary: 'go on from where it was, also where svc switched it off',
    takes: ofOne,
    examples: [[`svc webhook resume ${id}`, 'Deliver what waits, and what comes']],
    work: ({ webhooks }, id) => webhooks.pause(id, false),
    show: oneText,
  }),
  wordCommand({
    words: 'webhook rotate',
    summary: 'a new secret; that of before signs as well for 24 hours',
    takes: ofOne,
    examples: [[`svc webhook rotate ${id}`, 'Shows the new secret, this once']],
    work: ({ webhooks }, id) => webhooks.rotate(id),
    show: secretText,
  }),
  resultCommand({
    words: 'webhook replay',
    summary: 'deliver events again',
    about: 'Delivers everything again from an event or a time on, with the ids that it had.',
    takes: command =>
      ofOne(command)
        .requiredOption(
          '--from <from>',
          'Id of an event, as svc webhook log shows it, or a time such as 2026-01-31, 1h or yesterday.',
        )
        .option('--dry-run', 'Only say what would be delivered again.'),
    examples: [
      [`svc webhook replay ${id} --from 1h --dry-run`, 'How much that would be'],
      [`svc webhook replay ${id} --from 1h`, 'What happened in the last hour'],
    ],
    typed: command => ({
      id: command.args[0] ?? '',
      ...command.opts<{ from: string; dryRun?: boolean }>(),
    }),
    async work({ clock, webhooks }, { id, from, dryRun }) {
      const start = replayFrom(from, typedTime(from, clock.now()))
      return webhooks.replay(id, { ...start, dry_run: dryRun })
    },
    show: (replayed, _again, { typed }) => ({
      text: `${replayText(replayed, typed.dryRun)}\n${oneText(replayed).text}`,
    }),
  }),
  wordCommand({
    words: 'webhook remove',
    summary: 'deliver nothing to it any more',
    takes: ofOne,
    examples: [[`svc webhook remove ${id}`, 'Its log goes with it']],
    work: ({ webhooks }, id) => webhooks.remove(id),
    show: ({ id }) => ({ text: `removed: ${oneLine(id)}\n` }),
  }),
]

function newWebhook(command: Command): NewWebhookInput {
  const { types, session, user, header, allowPrivate, replies } = command.opts<{
    types?: string
    session?: string
    user?: string
    header?: string[]
    allowPrivate?: boolean
    replies?: boolean
  }>()
  return parse(NewWebhookInput, {
    url: command.args[0],
    ...{ session, user, replies, allow_private: allowPrivate },
    types: types?.split(',').map(type => type.trim()),
    headers: header && headersOf(header),
  })
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
  if (tries.length === 0) return { text: '', note: 'nothing was delivered yet\n' }
  const rows = tries.map(one => [
    ...[localTime(one.at), one.outcome, String(one.status ?? '–'), `${one.took_ms} ms`],
    ...[one.type, oneLine(one.event), oneLine(one.detail ?? '')],
  ])
  return { text: table(['time', 'outcome', 'answer', 'took', 'type', 'event', 'why'], rows, colours.dim) }
}
