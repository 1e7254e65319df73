/** Declares `svc topic`, its subcommands, and `svc notify`. */
import { type Topic, type TopicState, untilSaid } from '../../model/topic.ts'
import * as topic from '../../operations/topics.ts'
import { formatCount, formatLocalTime, quoteForShell } from '../../platform/format.ts'
import { type Column, formatTable } from '../columns.ts'
import { operationCommand } from '../operation-command.ts'
import { type CommandOutput, formatLines, type OutputLines, tableView } from '../show.ts'
import { oneLine } from '../terminal.ts'

export const commands = [
  operationCommand(
    topic.listTopics,
    tableView('no topics: svc topic add <name> --to <person> makes one; see svc topic add --help', [
      ['name', 'name'],
      ['to', ({ people }) => people.map(nameOf).join(', ')],
      ['waiting', 'waiting'],
      ['sent', 'sent'],
      ['out of time', 'expired'],
      ['paused until', pausedUntil],
    ]),
  ),
  operationCommand(topic.addTopic, { render: describe }),
  operationCommand(topic.getTopic, { render: formatState }),
  operationCommand(topic.changeTopic, { changeMade: 'changed', render: describe }),
  operationCommand(topic.removeTopic, {
    changeMade: 'removed',
    render: ({ name }) => [`removed: ${oneLine(name)}`],
  }),
  operationCommand(topic.notify, { render: () => ({}) }),
]

function describe(one: Topic): OutputLines {
  const { answers, digest, keep_seconds, max_priority, min_priority, name, people, template } = one
  return [
    oneLine(name),
    ...people.map(describePerson),
    `priority: ${min_priority} to ${max_priority}${digest ? ', a digest of what is less than high' : ''}`,
    describeQuiet(one),
    one.paused_until !== undefined && `paused until ${pausedUntil(one)}; only "max" goes out`,
    `answers: at most ${answers} of 10`,
    `keeps what waits for ${keep_seconds / 3600} h`,
    template !== undefined && `template: ${oneLine(template)}`,
    ...describeUnread(one),
  ]
}

const nameOf = ({ name, user_id }: { name?: string; user_id: string }): string => oneLine(name ?? user_id)

const describeQuiet = ({ quiet, time_zone: zone }: Pick<Topic, 'quiet' | 'time_zone'>) =>
  quiet !== undefined && `quiet: ${quiet}${zone === undefined ? '' : ` (${oneLine(zone)})`}`

/** Says until when a topic is paused. */
function pausedUntil({ name, paused_until: until }: Topic): string {
  return until === untilSaid ? `svc topic change ${oneLine(name)} --pause off` : formatLocalTime(until)
}

/** `connected`: only `svc topic show` knows it. */
function describePerson(one: Topic['people'][number] & { connected?: boolean }): string {
  const { answers, connected, session, waiting, why } = one
  const own = [
    describeQuiet(one),
    answers !== undefined && `answers: at most ${answers}`,
    waiting > 0 && `${waiting} waiting${why ? ` (${why})` : ''}`,
    connected === false && 'not connected, so everything waits',
  ].filter(Boolean)
  return `to ${nameOf(one)} by ${oneLine(session)}${own.length > 0 ? `: ${own.join(', ')}` : ''}`
}

/** Says what senders said that was not understood, and how to change that. */
function* describeUnread({ name, priorities = {}, template_missed: missed, unknown_severities = {} }: Topic) {
  const change = `svc topic change ${oneLine(name)}`
  if (missed)
    yield `template: it found nothing in ${formatCount(missed, 'body', 'bodies')}, shown without it; ${change} --template changes it`
  for (const [word, count] of Object.entries(unknown_severities).filter(([word]) => word !== '')) {
    // A change names all of them.
    const all = Object.entries({ ...priorities, [word]: 'high' })
    const options = all.map(
      ([one, priority]) => `--severity ${quoteForShell(oneLine(`${one}: ${priority}`))}`,
    )
    yield `severity: ${oneLine(word)} (×${count}) is not known, so it is "default"; ${change} ${options.join(' ')} maps it`
  }
}

function formatState(one: TopicState): CommandOutput {
  if (one.notices.length === 0) return { text: describe(one), note: 'nothing waits' }
  const columns: Column<TopicState['notices'][number]>[] = [
    ['for', ({ user_id }) => nameOf(one.people.find(person => person.user_id === user_id) ?? { user_id })],
    ['came', 'received_at'],
    ['priority', 'priority'],
    [
      'what',
      ({ count, name, resolved }) =>
        `${resolved ? '✓ ' : ''}${oneLine(name)}${count > 1 ? ` ×${count}` : ''}`,
    ],
    ['waits for', ({ status, why }) => (status === 'waiting' ? (why ?? '–') : status)],
    ['until', ({ until }) => formatLocalTime(until)],
  ]
  const unshown = one.waiting - one.notices.filter(({ status }) => status === 'waiting').length
  return {
    text: `${formatLines(describe(one))}\n${formatTable(one.notices, columns)}`,
    note: [unshown > 0 && `${unshown} more wait`],
  }
}
