/** Operations for topics: addresses that programs send notices to, for one or more people. */
import { Type } from '@sinclair/typebox'
import { SvcError } from '../model/error.ts'
import type { MediaKind } from '../model/message.ts'
import { bounded, closed, optional } from '../model/shapes.ts'
import { AcceptedNotice, NewTopicInput, Topic, TopicChangeInput, TopicState } from '../model/topic.ts'
import { readPriority, unknownPriorityError } from '../topics/priority.ts'
import { defineOperation } from './operation.ts'

const topic = bounded(64, 'Name of a topic.', { examples: ['home'] })
const TopicInput = closed({ topic })
/** A call that finds people for a topic may fail with these. */
const peopleErrors = [
  'not_connected',
  'session_not_found',
  'session_expired',
  'window_closed',
  'forbidden',
] as const

const exampleTopic = {
  name: 'home',
  people: [
    { user_id: 'o9cq80x1y2z3@im.wechat', name: 'Mum', session: 'mum', waiting: 1 },
    { user_id: 'o9cq71a2b3c4@im.wechat', name: 'Dad', session: 'dad', quiet: '22:00-06:00', waiting: 0 },
  ],
  min_priority: 'min' as const,
  max_priority: 'high' as const,
  quiet: '23:00-07:00',
  time_zone: 'Asia/Shanghai',
  digest: false,
  answers: 5,
  keep_seconds: 86_400,
  attach_private: false,
  signed: false,
  created_at: 1767225600000,
  made_by: 'owner',
  waiting: 1,
  sent: 41,
  expired: 0,
}
const exampleNotice = {
  id: '5d0c3f9a1b7e2246',
  user_id: 'o9cq80x1y2z3@im.wechat',
  name: 'Disk full',
  priority: 'high' as const,
  count: 3,
  received_at: 1767225660000,
  expires_at: 1767312060000,
  status: 'waiting' as const,
  why: 'window_closed' as const,
}

const exampleState = {
  ...exampleTopic,
  people: exampleTopic.people.map(one => ({ ...one, connected: true })),
  notices: [exampleNotice],
}

export const listTopics = defineOperation({
  name: 'list_topics',
  title: 'List topics, and how much waits in each',
  effect: 'read',
  right: 'topics',
  description:
    'Lists the topics by name: for whom each is, how it notifies, and how many notices wait. Secrets are not shown.',
  output: Type.Array(Topic),
  examples: [{ summary: 'One topic', output: [exampleTopic] }],
  rest: { route: 'GET /topics', tag: 'topics' },
  cli: { path: ['topic'], alias: 'list', examples: [['svc topic', 'Every topic']] },
  run: ({ topics }, _input, { by }) => topics.list(by),
})

/** A sender that knows a topic's secret reaches its people without a key, and without an approval. */
const furtherRights = ({ secret }: { secret?: string | undefined }) => (secret ? (['send'] as const) : [])

export const addTopic = defineOperation({
  name: 'add_topic',
  title: 'Make a topic that notifies people',
  effect: 'write',
  right: 'topics',
  subject: ['name'],
  description:
    'Makes a topic. What programs send to it reaches each of its people on WeChat, as far as WeChat allows answers; the rest waits. Make a key that may only notify it for each program.',
  input: NewTopicInput,
  output: Topic,
  errors: peopleErrors,
  examples: [
    {
      summary: 'For two people, quiet at night',
      input: { name: 'home', to: ['Mum', 'Dad'], quiet: '23:00-07:00', time_zone: 'Asia/Shanghai' },
      output: exampleTopic,
    },
  ],
  furtherRights,
  rest: { route: 'POST /topics', tag: 'topics' },
  cli: {
    path: ['topic', 'add'],
    names: { keep_seconds: 'keep', priorities: 'severity' },
    help: {
      keep_seconds:
        'How long a notice waits, at most, such as 12h. After that it is only counted. Default: 1d.',
      priorities: 'What a severity of senders means here, as in "critical: max". Repeatable.',
      attach_private: 'Fetch files from addresses in your own network, such as a camera.',
    },
    about: 'svc key add NAME --can notify --topics TOPIC makes the key with which a program sends to it.',
    examples: [
      ['svc topic add home --to Mum', 'For one person'],
      ['svc topic add home --to Mum --to Dad', 'For two, each by the account that the person writes to'],
      [
        'svc topic add alerts --to Anna --quiet 23:00-07:00 --time-zone Asia/Shanghai',
        'At night only "max" goes out',
      ],
      [
        'svc topic add builds --to Anna --digest --min-priority default',
        'What is urgent at once, the rest together',
      ],
    ],
  },
  positionals: ['name'],
  run({ topics }, input, { by, local }) {
    rejectPrivate(input.attach_private, local)
    return topics.add(by, input)
  },
})

export const getTopic = defineOperation({
  name: 'get_topic',
  title: 'Show what waits in a topic, and why',
  effect: 'read',
  right: 'topics',
  description:
    'Shows a topic with the notices that wait: for whom and why each waits, and until when, as far as that is known.',
  input: TopicInput,
  output: TopicState,
  errors: ['not_found'],
  examples: [{ summary: 'One waits', input: { topic: 'home' }, output: exampleState }],
  rest: { route: 'GET /topics/{topic}', tag: 'topics' },
  cli: {
    path: ['topic', 'show'],
    examples: [['svc topic show home', 'What waits, and why']],
  },
  run: ({ topics }, input, { by }) => topics.show(by, input.topic),
})

export const changeTopic = defineOperation({
  name: 'change_topic',
  title: 'Change how a topic notifies',
  effect: 'write',
  right: 'topics',
  subject: ['topic'],
  description:
    'Changes what is given, and leaves the rest as it is. It counts for what waits, too. With `user`, quiet hours, zone and answers are those of this person alone; an empty text brings back those of the topic.',
  input: TopicChangeInput,
  output: Topic,
  errors: ['not_found', ...peopleErrors],
  examples: [
    {
      summary: 'More answers',
      input: { topic: 'home', answers: 6 },
      output: { ...exampleTopic, answers: 6 },
    },
    {
      summary: 'One person leaves it',
      input: { topic: 'home', remove: ['Dad'] },
      output: { ...exampleTopic, people: exampleTopic.people.slice(0, 1) },
    },
  ],
  furtherRights,
  rest: { route: 'PATCH /topics/{topic}', tag: 'topics' },
  cli: {
    path: ['topic', 'change'],
    names: { ...addTopic.cli!.names, paused_until: 'pause' },
    help: {
      ...addTopic.cli!.help,
      paused_until:
        'Until then only "max" goes out; the rest waits for as long as the topic keeps it, and comes together: 1h, 14:00, tomorrow 9:00, on (until you say off), or off.',
    },
    examples: [
      ['svc topic change home --pause 1h', 'Only "max" goes out for an hour; --pause off ends it'],
      ['svc topic change home --quiet ""', 'No quiet hours any more'],
      ['svc topic change home --add Dad', 'Dad is notified, too'],
      ['svc topic change home --remove Mum', 'Mum is not notified any more'],
      ['svc topic change home --user Dad --quiet 22:00-06:00', 'Quiet hours of Dad alone'],
    ],
  },
  run({ topics }, input, { by, local }) {
    rejectPrivate(input.attach_private, local)
    return topics.change(by, input)
  },
})

export const removeTopic = defineOperation({
  name: 'remove_topic',
  title: 'Remove a topic with what waits in it',
  effect: 'destroy',
  right: 'topics',
  subject: ['topic'],
  description: 'Removes a topic. What waits in it is not sent, and senders get not_found.',
  input: TopicInput,
  output: Topic,
  errors: ['not_found'],
  examples: [{ summary: 'Removed', input: { topic: 'home' }, output: exampleTopic }],
  rest: { route: 'DELETE /topics/{topic}', tag: 'topics' },
  cli: {
    path: ['topic', 'remove'],
    question: async (_gateway, { topic }) => `Remove the topic ${topic}, with what waits in it?`,
    examples: [['svc topic remove home', 'Asks first at a terminal']],
  },
  run: ({ topics }, input, { by }) => topics.remove(by, input.topic),
})

/** Programs that do not know svc use `/notify/<topic>`, each in its own form. */
export const notify = defineOperation({
  name: 'notify',
  title: 'Notify the people of a topic on WeChat',
  effect: 'write',
  audited: 'counted',
  subject: ['topic'],
  right: 'notify',
  description:
    'Says something to a topic. It is stored when this returns, and goes out when it may: urgent things at once, the others together. The same again is one message with a count.',
  input: closed({
    topic,
    text: optional(
      Type.String({
        maxLength: 100_000,
        description: 'What to say. What is too long for a message also goes as a file.',
      }),
    ),
    title: optional.bounded(1000, 'A title.', { examples: ['Backup failed'] }),
    priority: optional.bounded(
      100,
      'How urgent it is: min, low, default, high, max, 1 to 5, or a word for it; the topic may allow less.',
      { default: 'default', examples: ['high'] },
    ),
    file_path: optional.bounded(4096, 'A file: over HTTP one below the media folder of svc.'),
    tags: optional(Type.Array(bounded(100), { maxItems: 10, description: 'Words to show with it.' })),
    click: optional.bounded(1000, 'An address to show with it.'),
    fingerprint: optional.bounded(500, 'What has the same one is the same. Default: title and text.'),
    resolved: optional(Type.Boolean({ description: 'What was said under this fingerprint is over.' })),
  }),
  output: AcceptedNotice,
  errors: ['not_found', 'payload_too_large'],
  examples: [
    {
      summary: 'A backup failed',
      input: { topic: 'home', text: 'exit status 2', title: 'Backup failed', priority: 'high' },
      output: {
        id: '5d0c3f9a1b7e2246',
        topic: 'home',
        received_at: 1767225660000,
        expires_at: 1767312060000,
      },
    },
  ],
  rest: { route: 'POST /topics/{topic}/notices', tag: 'topics' },
  cli: {
    path: ['notify'],
    names: { file_path: 'file', tags: 'tag' },
    stdin: 'text',
    stdinUnless: ['title', 'file_path'],
    help: {
      text: 'What to say; - reads it from stdin, as do pipes if nothing else is given.',
      file_path: 'Path of a picture or another file.',
    },
    about:
      'Prints nothing unless it fails, so it suits cron. A service sends it; svc topic show says what waits, and why.',
    examples: [
      ['svc notify home "The washing machine is done"', 'To the people of the topic'],
      [
        'backup || svc notify home --title "Backup failed" --priority high "exit status $?"',
        'Only if it fails',
      ],
      ['df -h | svc notify home - --priority low', 'The output of another program, with the next digest'],
    ],
  },
  positionals: ['topic', 'text'],
  async run({ topics }, { file_path, priority: urgency, text = '', topic, ...said }, call) {
    const { name, priorities } = await topics.find(call.by, topic)
    const { priority = 'default', unknown } = readPriority(urgency, priorities, true)
    if (unknown !== undefined) throw unknownPriorityError()
    const media = file_path === undefined ? undefined : { kind: kindOf(file_path), path: file_path }
    const [accepted] = await topics.accept(call, name, [{ ...said, text, priority, ...(media && { media }) }])
    return accepted!
  },
})

const kindOf = (path: string): MediaKind =>
  /\.(png|jpe?g|gif|webp|bmp)$/i.test(path) ? 'image' : /\.(mp4|mov|m4v)$/i.test(path) ? 'video' : 'file'

/** @throws SvcError `forbidden` for a caller on another machine */
function rejectPrivate(isPrivate: boolean | undefined, local: boolean | readonly string[]): void {
  if (isPrivate && local !== true) throw new SvcError('forbidden', 'attach_private cannot be set over HTTP')
}
