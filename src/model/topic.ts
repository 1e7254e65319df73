/** Topics: addresses that programs send notices to, for one or more people on WeChat. */
import { type Static, Type } from '@sinclair/typebox'
import type { MediaContent } from './message.ts'
import { bounded, closed, flag, integer, oneOf, optional, text } from './shapes.ts'

/** From the least to the most urgent, as ntfy names them. */
export const priorities = ['min', 'low', 'default', 'high', 'max'] as const
export type Priority = (typeof priorities)[number]

/** Bytes of the text of a notice. What is longer keeps its beginning and its end. A message has 16,384. */
export const longestNotice = 15_000

/** A text that no message can hold, as a file that begins with its title. */
export const fileOfText = (title = '', text: string) => ({
  name: `${
    title
      .replace(/[^\p{L}\p{N}\p{M}._-]+/gu, ' ')
      .slice(0, 60)
      .trim() || 'notice'
  }.txt`,
  bytes: new TextEncoder().encode(title ? `${title}\n\n${text}` : text),
})

/** The text of a notice that says nothing, as in ntfy. */
export const nothingSaid = 'triggered'

/** What a sender says to a topic. */
export interface Notice {
  readonly title?: string
  /** May be '' only with a title or media. What is too long keeps its beginning and its end. */
  readonly text: string
  /** As the sender claims it; the topic caps it. */
  readonly priority: Priority
  readonly tags?: readonly string[]
  /** An address that is shown as text. */
  readonly click?: string
  /** Staged already (`upload_id`), or an address for the client that checks addresses (`url`). */
  readonly media?: MediaContent
  /** The same again is one: Alertmanager's fingerprint, ntfy's sequence id. Absent: title and text. */
  readonly fingerprint?: string
  /** What was said under this fingerprint is over. */
  readonly resolved?: boolean
  /** What its reader did not understand: `svc topic show` counts it. */
  readonly unread?: {
    /** No path of the topic's template is in the body. */
    readonly template?: true
    /** A severity that nothing maps. */
    readonly severity?: string
  }
}

/** Whether a notice has a text, a title or a file. One that only ends an earlier one may have none. */
export const saysSomething = ({ media, text, title }: Notice): boolean =>
  text.trim() !== '' || Boolean(title?.trim()) || media !== undefined

export const AcceptedNotice = Type.Object({
  id: text(
    'The same again from the same sender has the same id. `0`: too much waits, so only its name is counted.',
  ),
  topic: Type.String(),
  received_at: integer('Unix milliseconds.'),
  expires_at: integer('Unix milliseconds: what could not be sent until then is only counted.'),
})
export type AcceptedNotice = Static<typeof AcceptedNotice>

/** What a door needs to know of a topic to read what a sender says. */
export interface TopicForDoor {
  readonly name: string
  /** How JSON of an unknown form is read: a text with paths, such as `{{ .alerts[0].labels.alertname }}`. */
  readonly template?: string
  /** With it senders sign, as GitHub does. Must never leave svc. */
  readonly secret?: string
  /** Whether files are fetched from addresses in a private network. */
  readonly attach_private: boolean
  /** Priorities by the severities of senders, such as `critical`. */
  readonly priorities?: Readonly<Record<string, Priority>>
}

const PriorityShape = (description: string, more: object = {}) => oneOf(priorities, description, more)
const name = bounded(
  64,
  'Name of the topic, as in its address: letters of any script, digits, "-" and "_".',
  {
    examples: ['home'],
  },
)
/** A far time: what is paused until then is paused until a person says otherwise. JSON with more digits names ids. */
export const untilSaid = 999_999_999_999_999

/** People of a topic, at most. */
export const mostMembers = 20
const people = (description: string, minItems = 1) =>
  Type.Array(bounded(512), { minItems, maxItems: mostMembers, description, examples: [['Mum', 'Dad']] })

/** Without defaults: a change leaves the rest as it is. */
const settings = {
  min_priority: optional(
    PriorityShape('What is less urgent causes no message: it goes with the next one. Default: min.'),
  ),
  max_priority: optional(PriorityShape('What senders may claim at most. Default: high.')),
  quiet: optional(
    Type.String({
      pattern: '^(([01][0-9]|2[0-3]):[0-5][0-9]-([01][0-9]|2[0-3]):[0-5][0-9])?$',
      description: 'Hours in which only "max" goes out, in the zone of the topic. An empty text: none.',
      examples: ['23:00-07:00'],
    }),
  ),
  time_zone: optional(
    Type.String({
      maxLength: 64,
      description: 'Time zone of the topic. Default: that of the service.',
      examples: ['Asia/Shanghai'],
    }),
  ),
  digest: optional.flag(
    'Everything less urgent than "high" waits for a digest. Default: only "low" and "min".',
  ),
  answers: optional.between(
    1,
    8,
    'How many of the ten answers to a message of the person all topics together may take. Default: 5.',
  ),
  keep_seconds: optional.between(
    60,
    7 * 86_400,
    'How long a notice waits, at most. After that it is only counted. Default: a day.',
  ),
  template: optional(
    Type.String({
      maxLength: 4000,
      description:
        'How JSON of an unknown form is read: a text with paths, such as `{{ .alerts[0].labels.alertname }}`. An empty text: none.',
    }),
  ),
  secret: optional(
    Type.String({
      maxLength: 200,
      description:
        'With it senders sign what they send, as GitHub does: at least 16 characters. An empty text: none.',
    }),
  ),
  priorities: optional(
    Type.Unsafe<Readonly<Record<string, Priority>>>({
      type: 'object',
      additionalProperties: oneOf(priorities),
      description: 'Priorities by the severities of senders.',
      examples: [{ critical: 'max', warning: 'default' }],
    }),
  ),
  attach_private: optional.flag(
    'Fetch files from addresses in a private network, such as a camera. Only on the command line.',
  ),
}

/** Input for a new topic. */
export const NewTopicInput = closed({
  name,
  to: people('The people, each by user id or name.'),
  session: optional.bounded(
    200,
    'The account that sends; by default, for each person, the one that this person wrote to last.',
  ),
  ...settings,
})
export type NewTopicInput = Static<typeof NewTopicInput>

/** What to change. */
export const TopicChangeInput = closed({
  topic: name,
  add: optional(people('People who are notified from now on, each by user id or name.')),
  remove: optional(people('People who are not notified any more. What waits for them goes.')),
  paused_until: optional.between(
    0,
    untilSaid,
    `Unix milliseconds: until then only "max" goes out, and the rest waits for as long as the topic keeps it. ${untilSaid}: until it is changed. 0: it goes on.`,
  ),
  user: optional.bounded(512, 'Quiet hours, zone and answers are only for this person of the topic.', {
    examples: ['Dad'],
  }),
  ...settings,
})
export type TopicChangeInput = Static<typeof TopicChangeInput>

/** Why a notice waits. */
const waitReasons = [
  'gathering',
  'digest',
  'below_min',
  'quiet',
  'paused',
  'window_closed',
  'kept_answers',
  'topic_answers',
  'sending',
  'not_connected',
  'not_running',
] as const
export type WaitReason = (typeof waitReasons)[number]

const person = {
  user_id: Type.String(),
  name: optional.text('The name that people gave to the user.'),
  session: text('The account that sends.'),
  quiet: optional.text('Quiet hours of this person, in place of those of the topic.'),
  time_zone: optional.text('Time zone of this person, in place of that of the topic.'),
  answers: optional.integer(
    'Answers that all topics of this person may take, in place of those of the topic.',
  ),
  waiting: integer('Number of notices that wait for this person.'),
  why: optional.oneOf(waitReasons, 'Why most of them wait, as for a notice of `GET /topics/{topic}`.'),
  until: optional.integer('Unix milliseconds: the first of these goes then, as far as it is known.'),
}

export const Topic = Type.Object(
  {
    name: Type.String(),
    people: Type.Array(Type.Object(person), { description: 'Who is notified.' }),
    min_priority: oneOf(priorities),
    max_priority: oneOf(priorities),
    quiet: optional(Type.String()),
    time_zone: optional(Type.String()),
    digest: Type.Boolean(),
    answers: Type.Integer(),
    keep_seconds: Type.Integer(),
    paused_until: optional.integer(
      `Unix milliseconds: until then only "max" goes out. ${untilSaid}: until it is changed. Absent: it is not paused.`,
    ),
    template: optional(Type.String()),
    priorities: settings.priorities,
    attach_private: Type.Boolean(),
    signed: flag('Whether it has a secret with which senders sign.'),
    created_at: integer('Unix milliseconds.'),
    made_by: text('Who made it: owner, key:<id>, panel or panel:<id of the key>.'),
    waiting: integer('Number of notices that wait, each once for each person.'),
    sent: integer('Number of notices that were sent since it was made, each once for each person.'),
    expired: integer('Number of notices that ran out of time.'),
    template_missed: optional.integer(
      'Bodies in which the template found nothing, since the last change. They are shown without it.',
    ),
    unknown_severities: optional(
      Type.Unsafe<Readonly<Record<string, number>>>({
        type: 'object',
        additionalProperties: Type.Integer(),
        description: 'Severities that came since the last change and that nothing maps, with their counts.',
      }),
    ),
  },
  { description: 'A topic, without its secret.' },
)
export type Topic = Static<typeof Topic>

/** A topic, with what waits and why. */
export const TopicState = Type.Object({
  ...Topic.properties,
  people: Type.Array(
    Type.Object({
      ...person,
      connected: flag('Whether the account is connected. If not, everything waits.'),
    }),
  ),
  notices: Type.Array(
    Type.Object({
      id: text('The same for each person.'),
      user_id: text('For whom it waits.'),
      name: text('Its title, or the beginning of its text.'),
      priority: oneOf(priorities),
      count: integer('How often the same came.'),
      resolved: optional.flag('It says that something is over.'),
      received_at: integer('Unix milliseconds.'),
      expires_at: integer('Unix milliseconds.'),
      status: oneOf(
        ['waiting', 'sending', 'unknown'],
        'unknown: it was on its way when its process ended, so it may have arrived. The next message names it.',
      ),
      why: optional.oneOf(
        waitReasons,
        'gathering: it waits some seconds for others. digest: it waits for a digest. below_min: it is less urgent than the topic sends. quiet: quiet hours. paused: the topic is paused. window_closed: the person has to write first. kept_answers: the last answers are kept. topic_answers: topics have used theirs. sending: a message is on its way. not_connected: the account is not connected. not_running: no service runs, so nothing is sent.',
      ),
      until: optional.integer('Unix milliseconds: it goes then, as far as it is known.'),
    }),
    { description: 'Newest first, at most 100.' },
  ),
})
export type TopicState = Static<typeof TopicState>
