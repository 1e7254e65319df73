/** `svc webhook`: endpoints that events are delivered to. */
import { SvcError } from '../../model/error.ts'
import { closed, text } from '../../model/shapes.ts'
import {
  type AddedWebhook,
  NewWebhookInput,
  type ReplayedWebhook,
  type WebhookDelivery,
  type WebhookEndpoint,
  WebhookLogQuery,
} from '../../model/webhook.ts'
import { counted, localTime } from '../../platform/format.ts'
import { table } from '../columns.ts'
import type { Command } from '../command.ts'
import { resultCommand, wordCommand } from '../result.ts'
import type { Shown } from '../show.ts'
import { colours, oneLine } from '../terminal.ts'
import { inputCommand } from '../tool-flags.ts'
import { typedStart } from '../typed-time.ts'

const idHelp = 'Id of the webhook, as svc webhook shows it.'
const takesId = (command: Command) => command.argument('<id>', idHelp)
const id = 'wh_3f1c9a0b2d4e6f80'

/** A command that does one thing to one endpoint, with the example that says what it `does`. */
const ofOne = <T>(
  word: string,
  summary: string,
  does: string,
  spec: Pick<
    Parameters<typeof wordCommand<T>>[0],
    'about' | 'reads' | 'work' | 'show' | 'done' | 'unprinted'
  >,
) =>
  wordCommand({
    ...{ words: `webhook ${word}`, summary, takes: takesId },
    ...{ ...spec, examples: [[`svc webhook ${word} ${id}`, does]] },
  })

export const commands = [
  wordCommand({
    words: 'webhook',
    also: 'list',
    summary: 'list webhooks and the state of their deliveries',
    about:
      'Lists the endpoints that events are delivered to: messages received, the status of messages sent, changes of accounts. The process that receives messages also delivers, signed as Standard Webhooks says; each event is delivered at least once, and in order within a conversation.',
    examples: [['svc webhook', 'Every endpoint']],
    reads: true,
    work: ({ webhooks }) => webhooks.list(),
    nothing: [],
    show: listText,
  }),
  inputCommand({
    words: 'webhook add',
    summary: 'deliver events to an address',
    about:
      'Adds an endpoint and shows, only this once, the secret that deliveries are signed with. Only a 2xx answer counts as delivered; otherwise svc tries again later.',
    input: NewWebhookInput,
    cli: {
      positionals: ['url'],
      short: { session: 's', user: 'u' },
      names: { headers: 'header' },
      help: {
        types: 'Only these events, separated by commas.',
        user: 'Only messages from and to this user, by id or name.',
        headers:
          'A header to send along, as in "Authorization: Bearer abc"; its value is never shown again. Repeatable.',
        allow_private: 'Allow an address in your own network or on this machine.',
      },
    },
    examples: [
      ['svc webhook add https://example.com/hook', 'Every event'],
      [
        'svc webhook add http://127.0.0.1:5678/webhook/svc --allow-private --types message.received',
        'To n8n on this machine',
      ],
    ],
    work: ({ webhooks }, added) => webhooks.add(added),
    show: secretText,
    async unprinted({ webhooks }, { id }) {
      await webhooks.remove(id)
      throw unshown('no webhook was added: its secret, which is shown once, could not be printed')
    },
  }),
  ofOne('show', 'show whether an endpoint works', 'Whether it works; if not, since when and why', {
    about:
      'Shows an endpoint: its status, the events it gets, how many deliveries succeeded and failed, and why the last one failed.',
    reads: true,
    work: ({ webhooks }, id) => webhooks.get(id),
    show: oneText,
  }),
  ofOne('test', 'deliver a test now', 'Whether the receiver answers', {
    about: 'Delivers an event of type webhook.test, and shows the result. The exit status is 1 if it failed.',
    async work({ webhooks }, id, io) {
      const { commandCall } = await import('../open.ts')
      using call = commandCall(io)
      return await webhooks.test(id, call.signal)
    },
    done: 'tested',
    show: ({ success, status, took_ms, detail }) => ({
      text: success
        ? `${colours.green('delivered')}  HTTP ${status}, ${took_ms} ms\n`
        : `${colours.red('failed')}  ${oneLine(detail ?? '')}, ${took_ms} ms\n`,
      failed: !success,
    }),
  }),
  inputCommand({
    words: 'webhook log',
    summary: 'list the newest deliveries to an endpoint',
    about:
      'Lists the newest deliveries to an endpoint, newest first, with the answer of the receiver. svc keeps the last 100 that succeeded, 200 that failed and 1000 that it gave up.',
    input: closed({ id: text(idHelp), ...WebhookLogQuery.properties }),
    cli: {
      positionals: ['id'],
      short: { limit: 'n' },
      help: { outcome: 'Only deliveries with this outcome.' },
      defaults: { limit: 20 },
    },
    examples: [[`svc webhook log ${id} --outcome gave_up`, 'Events that svc gave up']],
    reads: true,
    work: ({ webhooks }, { id, ...query }) => webhooks.log(id, query),
    show: logText,
  }),
  ofOne('pause', 'stop deliveries until the endpoint is resumed', 'Later events wait', {
    about: 'Stops deliveries to an endpoint until it is resumed. Events that happen in the meantime wait.',
    work: ({ webhooks }, id) => webhooks.pause(id),
    done: 'paused',
    show: oneText,
  }),
  ofOne('resume', 'resume an endpoint, and try at once what failed', 'Deliver what waits, then new events', {
    about:
      'Resumes deliveries to an endpoint that was paused, or that svc has switched off. It continues with the first event that was not delivered. If an endpoint fails, svc tries it at once instead of at its next time.',
    work: ({ webhooks }, id) => webhooks.resume(id),
    done: 'resumed',
    show: oneText,
  }),
  ofOne('rotate', 'replace the secret of an endpoint', 'Make a new secret; it is shown once', {
    about:
      'Makes a new secret for an endpoint and shows it once. For 24 hours deliveries are also signed with the old secret.',
    work: ({ webhooks }, id) => webhooks.rotate(id),
    show: secretText,
    async unprinted() {
      throw unshown('the secret was replaced, and the new one, which is shown once, could not be printed')
    },
  }),
  resultCommand({
    words: 'webhook replay',
    summary: 'deliver events again',
    about: 'Delivers again all events since an event or a time. Each event keeps its id.',
    takes: command =>
      takesId(command)
        .requiredOption(
          '--from <place>',
          'Id of an event, as svc webhook log shows it, or a time such as 2026-01-31, 1h or yesterday.',
        )
        .option('--dry-run', 'Only show what would be delivered again.'),
    examples: [
      [`svc webhook replay ${id} --from 1h --dry-run`, 'Count the events first'],
      [`svc webhook replay ${id} --from 1h`, 'Deliver the events of the last hour again'],
    ],
    typed(command) {
      const [id = ''] = command.args
      const { from, dryRun } = command.opts<{ from: string; dryRun?: boolean }>()
      return { id, start: typedStart('--from', from), dryRun }
    },
    work: ({ clock, webhooks }, { id, start, dryRun }) =>
      webhooks.replay(id, { ...start(clock.now()), dry_run: dryRun }),
    done: 'done',
    show: (replayed, _again, { typed }) => ({
      text: `${replayText(replayed, typed.dryRun)}\n${oneText(replayed).text}`,
    }),
  }),
  ofOne('remove', 'remove an endpoint', 'Its log goes with it', {
    about: 'Removes an endpoint and its log. Events that were not delivered yet are dropped.',
    work: ({ webhooks }, id) => webhooks.remove(id),
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
  if (all.length === 0) return { text: '', note: 'no webhooks: svc webhook add <url> adds one\n' }
  const rows = all.map(one => [
    ...[oneLine(one.id), statusOf(one), oneLine(one.url)],
    one.types.join(',') || 'all',
    one.last_success_at === undefined ? '–' : localTime(one.last_success_at),
  ])
  return { text: table(['id', 'status', 'url', 'events', 'last event delivered'], rows, colours.dim) }
}

function oneText(one: WebhookEndpoint): Shown {
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
  if (tries.length === 0) return { text: '', note: 'nothing was delivered yet\n' }
  const rows = tries.map(one => [
    ...[localTime(one.at), one.outcome, String(one.status ?? '–'), `${one.took_ms} ms`],
    ...[one.type, oneLine(one.event), oneLine(one.detail ?? '')],
  ])
  return { text: table(['time', 'outcome', 'answer', 'took', 'type', 'event', 'why'], rows, colours.dim) }
}
