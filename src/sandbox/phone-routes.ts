/** Every action of the phone as an HTTP call with its arguments. GET /phone/api is made from this table. */
import { type Static, type TObject, type TProperties, Type } from '@sinclair/typebox'
import { badJson } from '../model/bad-json.ts'
import { badArgument, SvcError } from '../model/error.ts'
import { MediaKind } from '../model/message.ts'
import { between, closed, flag, oneOf, optional, text, told } from '../model/shapes.ts'
import { parse, spelled } from '../operations/parse.ts'
import type { JsonSchema } from '../operations/schema.ts'
import { mediaItem, quoteForms, quoteOf, textItem } from './compose.ts'
import { chatText, seenLogin, seenMessages, seenState } from './phone-view.ts'
import { Switches } from './switches.ts'
import { type Fields, fieldsOf, fromWire, toWire } from './wire.ts'
import type { World } from './world.ts'

/** One call of the phone. */
interface PhoneRoute {
  method: 'GET' | 'POST'
  path: string
  what: string
  /** Meaning of each argument, which comes in the query or in the JSON body. */
  args: Record<string, string>
  /**
   * Runs the call. A string is answered as plain text, any other value as JSON.
   *
   * @throws SvcError `invalid_arguments`
   */
  run(asked: Asked, world: World): unknown
}

const word = (description: string) => optional(text(description))
const number = (description: string) => optional(Type.Integer({ minimum: 0, description }))
const fromTo = {
  from: word("user id; default the phone's first user"),
  to: word('bot id; default the bot of that user'),
}
const quoting = {
  quote: word('message_id to quote'),
  how: optional(oneOf(quoteForms, 'form of the quote; default by the switch')),
  part: word('for partial: the words quoted'),
}
const which = { qrcode: word('key or link of the QR code; default the newest that fits') }
const limit = (description: string) => between(0, 100_000, description, { default: 100 })

type Run<P extends TProperties> = (args: Static<TObject<P>>, world: World, asked: Asked) => unknown
const get = <P extends TProperties>(path: string, what: string, args: P, run: Run<P>): PhoneRoute => {
  const schema = closed(args)
  return {
    method: 'GET',
    path: `/phone/${path}`,
    what,
    args: Object.fromEntries(Object.entries(args).map(([name, schema]) => [name, meaning(schema)])),
    run: (asked, world) => run(parse(schema, spelled(schema, filled(args, asked.fields))), world, asked),
  }
}
const post = <P extends TProperties>(...route: Parameters<typeof get<P>>): PhoneRoute => ({
  ...get(...route),
  method: 'POST',
})

const meaning = ({ enum: values, description }: JsonSchema) =>
  [values?.join(' | '), description].filter(Boolean).join('; ')

/** Every call that answers JSON or plain text. */
export const phoneRoutes: readonly PhoneRoute[] = [
  get('state', 'Users, bots, QR codes, switches, time', {}, (_args, world) => seenState(world)),
  post(
    'scan',
    'Scan a QR code',
    {
      ...which,
      user: word('who scans; default the first user'),
      confirm: optional(flag('true: also confirm the login')),
      verify_code: word('digits to ask for at this login'),
    },
    (args, { logins }) => seenLogin(logins.scan(args)),
  ),
  post('confirm', 'Agree to the scanned login', which, ({ qrcode }, { logins }) =>
    seenLogin(logins.confirm(qrcode)),
  ),
  post(
    'expire',
    "Let a QR code expire now; with bot: let that bot's token expire (-14)",
    { ...which, bot: word('bot id') },
    ({ qrcode, bot }, { logins, people }) => {
      if (bot === undefined) return seenLogin(logins.expire(qrcode))
      if (!people.bot(bot)) throw new SvcError('not_found', 'no such bot', { field: 'bot' })
      people.expire(bot)
      return { bot_id: bot, live: false }
    },
  ),
  post(
    'verify',
    'Ask for digits at this login; the answer shows what the phone shows',
    { ...which, code: word('the digits; random by default') },
    (args, { logins }) => seenLogin(logins.verify(args)),
  ),
  post(
    'say',
    'The user writes to the bot',
    { text: text('the words'), ...fromTo, ...quoting, message_id: word('an id of your own (uint64)') },
    ({ text, from, to, message_id, ...quote }, world) => {
      const item = { ...textItem(text), ...quoteIn(quote, world) }
      return world.inbox.say(from, to, [item], message_id === undefined ? {} : { message_id })
    },
  ),
  post(
    'media',
    'The user sends the request body as a picture, voice, file or video',
    {
      kind: { ...told(MediaKind, 'default file'), default: 'file' },
      name: word('file name'),
      ...fromTo,
      ...quoting,
      transcript: word('text of a voice'),
      playtime_ms: number('length of a voice or video'),
      width: number('width of a picture or video'),
      height: number('height of a picture or video'),
    },
    async ({ kind, name, from, to, ...args }, world, { body, origin }) => {
      const quote = quoteIn(args, world)
      const piece = await world.media.add(kind, name, body)
      const item = mediaItem(world.core, piece, { ...args, origin })
      const entry = world.inbox.say(from, to, [{ ...item, ...quote }])
      return { ...entry, media_id: piece.id, size: piece.raw_size, md5: piece.md5 }
    },
  ),
  post(
    'raw',
    'Put exactly this WeixinMessage in the queue of a bot',
    {
      message: optional(
        Type.Object({}, { additionalProperties: Type.Unknown(), description: 'the message' }),
      ),
      message_json: word('or its JSON text, sent as it stands'),
      to: word('bot id; default to_user_id'),
    },
    ({ message, message_json, to }, { inbox }) => {
      if (!message && message_json === undefined) throw badArgument('message', 'missing')
      return inbox.raw(message_json ?? toWire(message), to)
    },
  ),
  post(
    'repeat',
    'Send a message of the user once more, as upstream is known to do',
    {
      seq: Type.Integer({ description: 'seq of the message' }),
      how: oneOf(['same_id', 'new_id', 'new_token'], 'default same_id', { default: 'same_id' }),
    },
    ({ seq, how }, { inbox }) => inbox.repeat(seq, how),
  ),
  post(
    'bulk',
    'A backlog of many texts at once',
    {
      count: between(0, 1_000_000, 'how many (1000)', { default: 1000 }),
      text: Type.String({ description: '{n} becomes 1, 2, 3 …', default: 'message {n}' }),
      ...fromTo,
    },
    ({ from, to, count, text }, { inbox }) => inbox.bulk(from, to, count, text),
  ),
  get(
    'messages',
    'The conversations as the users see them, oldest first',
    {
      user: word('only of this user'),
      bot: word('only with this bot'),
      from: optional(oneOf(['bot', 'user'])),
      after: number('seq to start after'),
      before: number('seq to end before'),
      limit: limit('at most so many, the newest (100)'),
    },
    ({ from, ...which }, world) => {
      if (which.user !== undefined) world.people.named(which.user, 'user')
      const messages = seenMessages(world, which)
      return { messages: from ? messages.filter(message => message.from === from) : messages }
    },
  ),
  get(
    'chat',
    'The conversation of one user as plain lines, oldest first',
    {
      user: word('user id; default the first user'),
      limit: limit('at most so many messages, the newest (100)'),
    },
    (args, world) => chatText(world, args),
  ),
  post(
    'users',
    'A new user',
    { name: word('shown name'), id: word('an id of your own') },
    (args, { people }) => people.addUser(args),
  ),
  get('switches', 'How this WeChat behaves, and what each switch means', {}, (_args, { core }) => {
    const current: Readonly<Record<string, unknown>> = core.switches
    const rows: [string, JsonSchema][] = Object.entries(Switches.properties)
    return Object.fromEntries(
      rows.map(([name, { default: usual, enum: values, description: what }]) => [
        name,
        { value: current[name], default: usual, values, what },
      ]),
    )
  }),
  {
    method: 'POST',
    path: '/phone/switches',
    what: 'Change switches: {"quota": 0, "replay": "never"}',
    args: { '<switch>': 'its value', reset: 'true: set all to their defaults first' },
    run({ fields: { reset, ...changes } }, { core }) {
      if (String(reset) === 'true') core.resetSwitches()
      return core.setSwitches(changes)
    },
  },
  post(
    'clock',
    "Move the world's time forward",
    { advance_ms: number('milliseconds') },
    (args, { core }) => ({
      now: core.advance(args.advance_ms ?? 0),
    }),
  ),
  get('stats', 'Counters: requests, polls, sends, uploads', {}, (_args, { core }) => core.stats),
]

function quoteIn(
  { quote: id, how, part }: { quote?: string; how?: (typeof quoteForms)[number]; part?: string },
  { core }: World,
): { ref_msg?: Fields } {
  if (id === undefined) return {}
  return { ref_msg: quoteOf(core, id, how ?? (part ? 'partial' : core.switches.quote), part) }
}

const jsonBytesAtMost = 64 * 1024 * 1024

/** The input of a call. */
interface Asked {
  /** Arguments as they were sent. */
  readonly fields: Fields
  /** The raw request body, for media. */
  readonly body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>
  /** Address of the sandbox as the caller used it. */
  readonly origin: string
}

/**
 * Reads the input of a call from its query and body. curl needs no content type.
 *
 * @throws SvcError `bad_json`, `payload_too_large`; `unsupported_media_type` for a form where a file is
 * expected
 */
export async function readAsked(
  request: Request,
  { origin, searchParams }: URL,
  raw: boolean,
): Promise<Asked> {
  const query: Fields = Object.fromEntries(searchParams)
  const body = request.body ?? []
  if (raw && request.headers.get('content-type')?.startsWith('multipart/'))
    throw new SvcError('unsupported_media_type', 'the body is the file itself, not a form', {
      hint: 'With curl: --data-binary @FILE, in place of -F.',
    })
  if (raw || !request.body) return { fields: query, body, origin }
  if (Number(request.headers.get('content-length') ?? 0) > jsonBytesAtMost) {
    throw new SvcError('payload_too_large', 'the body is larger than 64 MiB', {
      hint: 'A file is the body of POST /phone/media, as it is.',
    })
  }
  const text = await request.text()
  return { fields: { ...query, ...(await parsed(text)) }, body: [], origin }
}

async function parsed(text: string): Promise<Fields> {
  if (!text.trim()) return {}
  // `curl -d` labels every body as a form; a body that begins with a brace is JSON.
  if (!/^\s*\{/.test(text)) return Object.fromEntries(new URLSearchParams(text.trim()))
  try {
    return fieldsOf(fromWire(text))
  } catch (cause) {
    throw await badJson('the body', text, cause)
  }
}

/**
 * Drops empty arguments. Unknown ones stay and are rejected later, such as the rest of a text that contains
 * `&`.
 */
const filled = (args: Readonly<Record<string, unknown>>, fields: Fields): Fields =>
  Object.fromEntries(Object.entries(fields).filter(([name, value]) => value !== '' || !(name in args)))
