/** Declares `svc topic`, its subcommands, and `svc notify`. */
import { badArgument } from '../../model/error.ts'
import type { Topic, TopicState } from '../../model/topic.ts'
import * as topic from '../../operations/topics.ts'
import { formatCount, formatLocalTime, quoteForShell } from '../../platform/format.ts'
import { type Column, formatTable } from '../columns.ts'
import { operationCommand } from '../operation-command.ts'
import { type CommandOutput, formatNote } from '../show.ts'
import { colours, oneLine } from '../terminal.ts'
import { parseSpan } from '../typed-time.ts'
import type { TypedInput } from '../view.ts'

export const commands = [
  operationCommand(topic.listTopics, { createEmpty: () => [], render: formatTopics }),
  operationCommand(topic.addTopic, { toInput: toSettings, render: formatTopic }),
  operationCommand(topic.showTopic, { render: formatState }),
  operationCommand(topic.changeTopic, {
    toInput: toSettings,
    changeMade: 'changed',
    render: formatTopic,
  }),
  operationCommand(topic.removeTopic, {
    changeMade: 'removed',
    render: ({ name }) => ({ text: `removed: ${oneLine(name)}\n` }),
  }),
  operationCommand(topic.notify, { render: () => ({}) }),
]

/** Reads the time to wait. @throws SvcError `invalid_arguments` */
function toSettings(typed: TypedInput): TypedInput {
  const { keep_seconds: keep } = typed
  if (typeof keep !== 'string') return typed
  const ms = parseSpan(keep)
  if (ms === undefined) throw badArgument('--expires', 'expected a span such as 12h or 1d, or seconds')
  return { ...typed, keep_seconds: ms / 1000 }
}

function formatTopics(all: readonly Topic[]): CommandOutput {
  if (all.length === 0)
    return {
      note: formatNote('no topics: svc topic add <name> --to <person> makes one; see svc topic add --help'),
    }
  const columns: Column<Topic>[] = [
    ['name', ({ name }) => oneLine(name)],
    ['to', ({ people }) => people.map(nameOf).join(', ')],
    ['waiting', ({ waiting }) => String(waiting)],
    ['sent', ({ sent }) => String(sent)],
    ['out of time', ({ expired }) => String(expired)],
  ]
  return { text: formatTable(all, columns, colours.dim) }
}

function describe(one: Topic): string {
  const { answers, digest, keep_seconds, max_priority, min_priority, name, people, quiet, zone } = one
  const lines = [
    oneLine(name),
    ...people.map(describePerson),
    `priority: ${min_priority} to ${max_priority}${digest ? ', a digest of what is less than high' : ''}`,
    ...describeQuiet({ quiet, zone }),
    `answers: at most ${answers} of 10`,
    `keeps what waits for ${keep_seconds / 3600} h`,
    ...describeUnread(one),
  ]
  return `${lines.join('\n')}\n`
}

const nameOf = ({ name, user_id }: { name?: string; user_id: string }): string => oneLine(name ?? user_id)

const describeQuiet = ({
  quiet,
  zone,
}: {
  quiet?: string | undefined
  zone?: string | undefined
}): string[] =>
  quiet === undefined ? [] : [`quiet: ${quiet}${zone === undefined ? '' : ` (${oneLine(zone)})`}`]

/** `connected`: only `svc topic show` knows it. */
function describePerson(one: Topic['people'][number] & { connected?: boolean }): string {
  const { answers, connected, session, waiting } = one
  const own = [
    ...describeQuiet(one),
    ...(answers === undefined ? [] : [`answers: at most ${answers}`]),
    ...(waiting === 0 ? [] : [`${waiting} waiting`]),
    ...(connected === false ? ['not connected, so everything waits'] : []),
  ]
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

function formatTopic(one: Topic): CommandOutput {
  return { text: describe(one) }
}

type Waiting = TopicState['notices'][number]

function formatState(one: TopicState): CommandOutput {
  if (one.notices.length === 0) return { text: describe(one), note: formatNote('nothing waits') }
  const columns: Column<Waiting>[] = [
    ['for', ({ user_id }) => nameOf(one.people.find(person => person.user_id === user_id) ?? { user_id })],
    ['came', ({ received_at }) => formatLocalTime(received_at)],
    ['priority', ({ priority }) => priority],
    ['what', ({ count, name }) => `${oneLine(name)}${count > 1 ? ` ×${count}` : ''}`],
    ['waits for', ({ state, why }) => (state === 'waiting' ? (why ?? '–') : state)],
    ['until', ({ until }) => formatLocalTime(until)],
  ]
  const unshown = one.waiting - one.notices.filter(({ state }) => state === 'waiting').length
  return {
    text: `${describe(one)}\n${formatTable(one.notices, columns, colours.dim)}`,
    ...(unshown > 0 && { note: formatNote(`${unshown} more wait`) }),
  }
}
