/** Every action of the phone as an HTTP call: one table, from which GET /phone/api is made too. */
import { SvcError } from '../model/error.ts'
import { mediaItem, type QuoteForm, quoteOf, textItem } from './compose.ts'
import type { MediaKind } from './media.ts'
import type { PhoneArgs } from './phone-args.ts'
import { chatText } from './phone-chat.ts'
import { seenLogin, seenMessages, seenState } from './phone-view.ts'
import { type SwitchName, switchTable } from './switches.ts'
import type { Fields } from './wire-text.ts'
import type { World } from './world.ts'

/** One call of the phone. */
export interface PhoneRoute {
  method: 'GET' | 'POST'
  path: string
  what: string
  /** Argument → meaning; query or JSON body alike. */
  args: Record<string, string>
  /** The names of arguments are data, which the call checks itself. */
  takesAny?: boolean
  /** A text is answered as plain text, anything else as JSON. */
  run(args: PhoneArgs, world: World): unknown
}

const mediaKinds = ['image', 'voice', 'file', 'video'] as const
const quoteForms = ['id', 'partial', 'full', 'type0', 'type8'] as const
const repeats = ['same_id', 'new_id', 'new_token'] as const
const fromTo = { from: "user id; default the phone's first user", to: 'bot id; default the bot of that user' }
const quoting = {
  quote: 'message_id to quote',
  how: `form of the quote: ${quoteForms.join(', ')}; default by the switch`,
  part: 'for partial: the words quoted',
}
const which = { qrcode: 'key or link of the QR code; default the newest that fits' }

type Run = PhoneRoute['run']
const get = (path: string, what: string, args: PhoneRoute['args'], run: Run): PhoneRoute => ({
  method: 'GET',
  path: `/phone/${path}`,
  what,
  args,
  run,
})
const post: typeof get = (...given) => ({ ...get(...given), method: 'POST' })

/** The newest so many messages. */
const newest = (args: PhoneArgs) => Math.min(args.count('limit') ?? 100, 100_000)

/** Every call with a JSON answer. */
export const phoneRoutes: PhoneRoute[] = [
  get('state', 'Users, bots, QR codes, switches, time', {}, (_args, world) => seenState(world)),
  post(
    'scan',
    'Scan a QR code',
    {
      ...which,
      user: 'who scans; default the first user',
      confirm: 'true: agree in the same breath',
      verify_code: 'digits to ask for at this login',
    },
    (args, { logins }) => {
      const [qrcode, user, code] = [args.text('qrcode'), args.text('user'), args.text('verify_code')]
      return seenLogin(logins.scan({ qrcode, user, confirm: args.flag('confirm'), verify_code: code }))
    },
  ),
  post('confirm', 'Agree to the scanned login', which, (args, { logins }) =>
    seenLogin(logins.confirm(args.text('qrcode'))),
  ),
  post(
    'expire',
    "Let a QR code expire now; with bot: let that bot's token expire (-14)",
    { ...which, bot: 'bot id' },
    (args, { logins, people }) => {
      const bot = args.text('bot')
      if (bot === undefined) return seenLogin(logins.expire(args.text('qrcode')))
      if (!people.bot(bot)) throw new SvcError('not_found', 'no such bot', { field: 'bot' })
      people.expire(bot)
      return { bot_id: bot, live: false }
    },
  ),
  post(
    'verify',
    'Ask for digits at this login; the answer shows what the phone shows',
    { ...which, code: 'the digits; random by default' },
    (args, { logins }) => seenLogin(logins.verify({ qrcode: args.text('qrcode'), code: args.text('code') })),
  ),
  post(
    'say',
    'The user writes to the bot',
    { text: 'the words', ...fromTo, ...quoting, message_id: 'an id of your own (uint64)' },
    (args, world) => {
      const item = { ...textItem(args.need('text')), ...quoteIn(args, world) }
      const id = args.text('message_id')
      return world.inbox.say(
        args.text('from'),
        args.text('to'),
        [item],
        id === undefined ? {} : { message_id: id },
      )
    },
  ),
  post(
    'media',
    'The user sends the request body as a picture, voice, file or video',
    {
      kind: mediaKinds.join(' | '),
      name: 'file name',
      ...fromTo,
      ...quoting,
      transcript: 'of a voice',
      playtime_ms: 'of a voice or video',
      width: 'of a picture or video',
      height: 'of a picture or video',
    },
    async (args, world) => {
      const kind = args.one<MediaKind>('kind', mediaKinds) ?? 'file'
      const quote = quoteIn(args, world)
      const piece = await world.media.add(kind, args.text('name') ?? null, args.body)
      const [width, height, playtime] = [args.count('width'), args.count('height'), args.count('playtime_ms')]
      const item = mediaItem(world.core, piece, {
        ...{ origin: args.origin, playtime_ms: playtime, transcript: args.text('transcript'), width, height },
      })
      const said = world.inbox.say(args.text('from'), args.text('to'), [{ ...item, ...quote }])
      return { ...said, media_id: piece.id, size: piece.raw_size, md5: piece.md5 }
    },
  ),
  post(
    'raw',
    'Put exactly this WeixinMessage in the queue of a bot',
    {
      message: 'the message',
      message_json: 'or its JSON text, sent as it stands',
      to: 'bot id; default to_user_id',
    },
    (args, { inbox }) => inbox.raw(args.text('message_json') ?? args.json('message'), args.text('to')),
  ),
  post(
    'repeat',
    'Send a message of the user once more, as upstream is known to do',
    { seq: 'of the message', how: repeats.join(' | ') },
    (args, { inbox }) => inbox.repeat(args.count('seq') ?? 0, args.one('how', repeats) ?? 'same_id'),
  ),
  post(
    'bulk',
    'A backlog of many texts at once',
    { count: 'how many', text: '{n} becomes 1, 2, 3 …', ...fromTo },
    (args, { inbox }) => {
      const [count, text] = [
        Math.min(args.count('count') ?? 1000, 1_000_000),
        args.text('text') ?? 'message {n}',
      ]
      return inbox.bulk(args.text('from'), args.text('to'), count, text)
    },
  ),
  get(
    'messages',
    'The conversations as the users see them, oldest first',
    {
      user: 'of this user alone',
      bot: 'with this bot alone',
      from: 'bot | user',
      after: 'seq to start after',
      before: 'seq to end before',
      limit: 'newest so many (100)',
    },
    (args, world) => {
      const from = args.one('from', ['bot', 'user'] as const)
      const [after, before] = [args.count('after'), args.count('before')]
      const user = args.text('user')
      if (user !== undefined) world.people.named(user, 'user')
      const which = { user, bot: args.text('bot'), after, before, limit: newest(args) }
      const messages = seenMessages(world, which)
      return { messages: from ? messages.filter(message => message.from === from) : messages }
    },
  ),
  get(
    'chat',
    'The conversation of one user as plain lines, oldest first',
    { user: 'user id; default the first user', limit: 'newest so many messages (100)' },
    (args, world) => chatText(world, { user: args.text('user'), limit: newest(args) }),
  ),
  post('users', 'A new user', { name: 'shown name', id: 'an id of your own' }, (args, { people }) =>
    people.addUser({ id: args.text('id'), name: args.text('name') }),
  ),
  get('switches', 'How this WeChat behaves, and what each switch means', {}, (_args, { core }) =>
    Object.fromEntries(
      Object.entries(switchTable).map(([name, row]) => [
        name,
        { value: core.switches[name as SwitchName], ...row },
      ]),
    ),
  ),
  {
    ...post(
      'switches',
      'Change switches: {"quota": 0, "replay": "never"}',
      { '<switch>': 'its value', reset: 'true: all to their defaults first' },
      (args, { core }) => {
        const { reset: _, ...changes } = args.all()
        if (args.flag('reset')) core.resetSwitches()
        return core.setSwitches(changes)
      },
    ),
    takesAny: true,
  },
  post('clock', "Move the world's time forward", { advance_ms: 'milliseconds' }, (args, { core }) => ({
    now: core.advance(args.count('advance_ms') ?? 0),
  })),
  get('stats', 'Counters: requests, polls, sends, uploads', {}, (_args, { core }) => core.stats),
]

function quoteIn(args: PhoneArgs, { core }: World): { ref_msg?: Fields } {
  const id = args.text('quote')
  if (id === undefined) return {}
  const form = args.one<QuoteForm>('how', quoteForms) ?? (args.text('part') ? 'partial' : core.switches.quote)
  return { ref_msg: quoteOf(core, id, form, args.text('part')) }
}
