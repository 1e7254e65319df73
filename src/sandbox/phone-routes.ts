/** Every action of the phone as an HTTP call with its arguments. GET /phone/api is made from this table. */
import { type Static, type TObject, type TProperties, Type } from '@sinclair/typebox'
import { createBadJsonError } from '../model/bad-json.ts'
import { badArgument, SvcError } from '../model/error.ts'
import { MediaKind } from '../model/message.ts'
import { between, closed, oneOf, optional, text, withDescription } from '../model/shapes.ts'
import { coerceStrings, parse } from '../operations/parse.ts'
import type { JsonSchema } from '../operations/schema.ts'
import { createMediaItem, createTextItem, quoteForms, quoteOf } from './compose.ts'
import { formatChat, listMessageViews, toLoginView, toStateView } from './phone-view.ts'
import { Switches } from './switches.ts'
import { type Fields, fieldsOf, parseWire, toWire } from './wire.ts'
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
  run(asked: PhoneRequest, world: World): unknown
}

const textArgument = (description: string) => optional.text(description)
const countArgument = (description: string) => optional(Type.Integer({ minimum: 0, description }))
const senderArguments = {
  from: textArgument("user id; default the phone's first user"),
  to: textArgument('bot id; default the bot of that user'),
}
const quoteArguments = {
  quote: textArgument('message_id to quote'),
  how: optional.oneOf(quoteForms, 'form of the quote; default by the switch'),
  part: textArgument('for partial: the words quoted'),
}
const loginArgument = { qrcode: textArgument('key or link of the QR code; default the newest that fits') }
const limitArgument = (description: string) => between(0, 100_000, description, { default: 100 })

type Run<P extends TProperties> = (args: Static<TObject<P>>, world: World, asked: PhoneRequest) => unknown
const defineGet = <P extends TProperties>(path: string, what: string, args: P, run: Run<P>): PhoneRoute => {
  const schema = closed(args)
  return {
    method: 'GET',
    path: `/phone/${path}`,
    what,
    args: Object.fromEntries(Object.entries(args).map(([name, schema]) => [name, describeArgument(schema)])),
    run: (asked, world) =>
      run(parse(schema, coerceStrings(schema, dropEmpty(args, asked.fields))), world, asked),
  }
}
const definePost = <P extends TProperties>(...route: Parameters<typeof defineGet<P>>): PhoneRoute => ({
  ...defineGet(...route),
  method: 'POST',
})

const describeArgument = ({ enum: values, description }: JsonSchema) =>
  [values?.join(' | '), description].filter(Boolean).join('; ')

/** Every call that answers JSON or plain text. */
export const phoneRoutes: readonly PhoneRoute[] = [
  defineGet('state', 'Users, bots, QR codes, switches, time', {}, (_args, world) => toStateView(world)),
  definePost(
    'scan',
    'Scan a QR code',
    {
      ...loginArgument,
      user: textArgument('who scans; default the first user'),
      confirm: optional.flag('true: also confirm the login'),
      verify_code: textArgument('digits to ask for at this login'),
    },
    (args, { logins }) => toLoginView(logins.scan(args)),
  ),
  definePost('confirm', 'Agree to the scanned login', loginArgument, ({ qrcode }, { logins }) =>
    toLoginView(logins.confirm(qrcode)),
  ),
  definePost(
    'expire',
    "Let a QR code expire now; with bot: let that bot's token expire (-14)",
    { ...loginArgument, bot: textArgument('bot id') },
    ({ qrcode, bot }, { logins, people }) => {
      if (bot === undefined) return toLoginView(logins.expire(qrcode))
      if (!people.findBot(bot)) throw new SvcError('not_found', 'no such bot', { field: 'bot' })
      people.expire(bot)
      return { bot_id: bot, live: false }
    },
  ),
  definePost(
    'verify',
    'Ask for digits at this login; the answer shows what the phone shows',
    { ...loginArgument, code: textArgument('the digits; random by default') },
    (args, { logins }) => toLoginView(logins.verify(args)),
  ),
  definePost(
    'say',
    'The user writes to the bot',
    {
      text: text('the words'),
      ...senderArguments,
      ...quoteArguments,
      message_id: textArgument('an id of your own (uint64)'),
    },
    ({ text, from, to, message_id, ...quote }, world) => {
      const item = { ...createTextItem(text), ...readQuote(quote, world) }
      return world.inbox.addMessage(from, to, [item], message_id === undefined ? {} : { message_id })
    },
  ),
  definePost(
    'media',
    'The user sends the request body as a picture, voice, file or video',
    {
      kind: { ...withDescription(MediaKind, 'default file'), default: 'file' },
      name: textArgument('file name'),
      ...senderArguments,
      ...quoteArguments,
      transcript: textArgument('text of a voice'),
      playtime_ms: countArgument('length of a voice or video'),
      width: countArgument('width of a picture or video'),
      height: countArgument('height of a picture or video'),
    },
    async ({ kind, name, from, to, ...args }, world, { body, origin }) => {
      const quote = readQuote(args, world)
      const piece = await world.media.add(kind, name, body)
      const item = createMediaItem(world.core, piece, { ...args, origin })
      const entry = world.inbox.addMessage(from, to, [{ ...item, ...quote }])
      return { ...entry, media_id: piece.id, size: piece.raw_size, md5: piece.md5 }
    },
  ),
  definePost(
    'raw',
    'Put exactly this WeixinMessage in the queue of a bot',
    {
      message: optional(
        Type.Object({}, { additionalProperties: Type.Unknown(), description: 'the message' }),
      ),
      message_json: textArgument('or its JSON text, sent as it stands'),
      to: textArgument('bot id; default to_user_id'),
    },
    ({ message, message_json, to }, { inbox }) => {
      if (!message && message_json === undefined) throw badArgument('message', 'missing')
      return inbox.addRaw(message_json ?? toWire(message), to)
    },
  ),
  definePost(
    'repeat',
    'Send a message of the user once more, as upstream is known to do',
    {
      seq: Type.Integer({ description: 'seq of the message' }),
      how: oneOf(['same_id', 'new_id', 'new_token'], 'default same_id', { default: 'same_id' }),
    },
    ({ seq, how }, { inbox }) => inbox.repeat(seq, how),
  ),
  definePost(
    'bulk',
    'A backlog of many texts at once',
    {
      count: between(0, 1_000_000, 'how many (1000)', { default: 1000 }),
      text: Type.String({ description: '{n} becomes 1, 2, 3 …', default: 'message {n}' }),
      ...senderArguments,
    },
    ({ from, to, count, text }, { inbox }) => inbox.addMany(from, to, count, text),
  ),
  defineGet(
    'messages',
    'The conversations as the users see them, oldest first',
    {
      user: textArgument('only of this user'),
      bot: textArgument('only with this bot'),
      from: optional.oneOf(['bot', 'user']),
      after: countArgument('seq to start after'),
      before: countArgument('seq to end before'),
      limit: limitArgument('at most so many, the newest (100)'),
    },
    (which, world) => {
      if (which.user !== undefined) world.people.getUser(which.user, 'user')
      return { messages: listMessageViews(world, which) }
    },
  ),
  defineGet(
    'chat',
    'The conversation of one user as plain lines, oldest first',
    {
      user: textArgument('user id; default the first user'),
      limit: limitArgument('at most so many messages, the newest (100)'),
    },
    (args, world) => formatChat(world, args),
  ),
  definePost(
    'users',
    'A new user',
    { name: textArgument('shown name'), id: textArgument('an id of your own') },
    (args, { people }) => people.addUser(args),
  ),
  defineGet('switches', 'How this WeChat behaves, and what each switch means', {}, (_args, { core }) => {
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
  definePost(
    'clock',
    "Move the world's time forward",
    { advance_ms: countArgument('milliseconds') },
    (args, { core }) => ({
      now: core.advance(args.advance_ms ?? 0),
    }),
  ),
  defineGet('stats', 'Counters: requests, polls, sends, uploads', {}, (_args, { core }) => core.stats),
]

function readQuote(
  { quote: id, how, part }: { quote?: string; how?: (typeof quoteForms)[number]; part?: string },
  { core }: World,
): { ref_msg?: Fields } {
  if (id === undefined) return {}
  return { ref_msg: quoteOf(core, id, how ?? (part ? 'partial' : core.switches.quote), part) }
}

const maxJsonBytes = 64 * 1024 * 1024

/** The input of a call. */
interface PhoneRequest {
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
export async function readPhoneRequest(
  request: Request,
  { origin, searchParams }: URL,
  raw: boolean,
): Promise<PhoneRequest> {
  const query: Fields = Object.fromEntries(searchParams)
  const body = request.body ?? []
  if (raw && request.headers.get('content-type')?.startsWith('multipart/'))
    throw new SvcError('unsupported_media_type', 'the body is the file itself, not a form', {
      hint: 'With curl: --data-binary @FILE, in place of -F.',
    })
  if (raw || !request.body) return { fields: query, body, origin }
  if (Number(request.headers.get('content-length') ?? 0) > maxJsonBytes) {
    throw new SvcError('payload_too_large', 'the body is larger than 64 MiB', {
      hint: 'A file is the body of POST /phone/media, as it is.',
    })
  }
  const text = await request.text()
  return { fields: { ...query, ...(await parseFields(text)) }, body: [], origin }
}

async function parseFields(text: string): Promise<Fields> {
  if (!text.trim()) return {}
  // `curl -d` labels every body as a form; a body that begins with a brace is JSON.
  if (!/^\s*\{/.test(text)) return Object.fromEntries(new URLSearchParams(text.trim()))
  try {
    return fieldsOf(parseWire(text))
  } catch (cause) {
    throw await createBadJsonError('the body', text, cause)
  }
}

/**
 * Drops empty arguments. Unknown ones stay and are rejected later, such as the rest of a text that contains
 * `&`.
 */
const dropEmpty = (args: Readonly<Record<string, unknown>>, fields: Fields): Fields =>
  Object.fromEntries(Object.entries(fields).filter(([name, value]) => value !== '' || !(name in args)))
