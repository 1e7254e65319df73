/** Programs that speak WeChat's protocol to svc: each has a key with the right `relay`. */
import { type Static, Type } from '@sinclair/typebox'
import { bounded, closed, integer, oneOf, optional, text } from './shapes.ts'

/** What a program may answer: every message; messages that begin with its name or quote it; or how many sends go to a message. */
export type RelayAnswers = 'all' | 'called' | number
export const toRelayAnswers = (text: string): RelayAnswers =>
  text === 'all' || text === 'called' ? text : Number(text)

/** Programs whose settings svc knows. */
export const relayPrograms = [
  ...(['openclaw', 'weilink', 'hermes', 'cc-connect', 'astrbot', 'langbot', 'wechat-acp'] as const),
  'nonebot',
] as const
export type RelayProgram = (typeof relayPrograms)[number]

const answers = ['all', 'called', '1', '2', '3', '4', '5', '6', '7', '8', '9'] as const

export const NewRelayInput = closed({
  name: bounded(
    64,
    'Name of the program, and of its key. With `answers` called, messages begin with it. No two keys in use that you see have the same name.',
    { examples: ['openclaw'] },
  ),
  session: optional.bounded(
    200,
    'The session whose messages it gets, and as which it answers. Default: the only one that is logged in.',
    { examples: ['work'] },
  ),
  users: optional(
    Type.Array(bounded(512), { maxItems: 1000, description: 'Only these users, by id or name.' }),
  ),
  answers: optional.oneOf(
    answers,
    'all: it answers every message. called: it gets only messages that begin with its name, or quote its answers. 1 to 9: at most so many of its sends go to each message of a person.',
    { default: 'all' },
  ),
  for: optional.oneOf(relayPrograms, 'The answer has the settings of this program, too.'),
  url: optional.bounded(
    2000,
    'Where the program reaches svc. Default: the public address of the service, or the one at which it listens.',
    { examples: ['http://127.0.0.1:8000'] },
  ),
  allow_login: optional.flag(
    'The program logs in by itself, within ten minutes: it shows a link with a number, and gets its token when the number was given to `POST /relays/allow`. The answer has no token then. One program at a time.',
  ),
})
export type NewRelayInput = Static<typeof NewRelayInput>

export const Relay = Type.Object(
  {
    id: text('Id of its key.'),
    name: text('Its name.'),
    session: text('The session whose messages it gets.'),
    answers: oneOf(answers, 'What it may answer.'),
    created_at: integer('Unix milliseconds.'),
    polled_at: optional.integer(
      'Unix milliseconds: its last poll, at most some seconds off. Absent: none yet.',
    ),
    unread: optional.integer('Messages that it has not got, up to 10,000. Absent for a called program.'),
    answered: integer('What it has sent to the person who wrote last, since that message.'),
    refused: integer('Its sends that were refused.'),
    refused_at: optional.integer('Unix milliseconds: the last one.'),
    refusal: optional.text('Error code of the last one.'),
    doubled_at: optional.integer('Unix milliseconds: two programs polled with its token.'),
    login_until: optional.integer('Unix milliseconds: until then it may log in by itself.'),
    asks: optional(
      Type.Array(
        Type.Object({
          address: optional.text('Network address of who asks.'),
          until: integer('Unix milliseconds: the end of its code.'),
        }),
        { description: 'Who asks now to log in as this program.' },
      ),
    ),
  },
  { description: 'A program that speaks WeChat’s protocol to svc.' },
)
export type Relay = Static<typeof Relay>

export const AddedRelay = Type.Object({
  ...Relay.properties,
  token: optional.text('The token of the program. Shown only this once. Absent with `allow_login`.'),
  base_url: text('The address that stands in place of WeChat’s.'),
  cdn_url: text('The same for media.'),
  bot_id: text('The account id that the program takes.'),
  user_id: optional.text('The id of the person who scanned, if it is known.'),
  others: Type.Array(
    Type.Object({
      kind: oneOf(['agent', 'webhook', 'relay'], 'An agent, a webhook with replies, another program.'),
      name: optional.text('Its name; of a webhook its id. Absent for a caller with a key.'),
    }),
    { description: 'What else answers each message of the session; of several agents, one does.' },
  ),
  settings: optional(
    Type.Array(
      Type.Object({
        file: optional.text('The file that has the text. Absent: the program takes it elsewhere.'),
        text: text('What to put there.'),
      }),
      { description: 'Settings of the program that `for` names.' },
    ),
  ),
})
export type AddedRelay = Static<typeof AddedRelay>
