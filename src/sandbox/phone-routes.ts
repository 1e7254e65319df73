/** Every action of the phone as an HTTP call: one table, from which GET /phone/api is made too. */
import { SvcError } from '../model/error.ts'
import { mediaItem, type QuoteForm, quoteOf, textItem } from './compose.ts'
import { faultEndpoints, faultKinds } from './faults.ts'
import type { MediaKind } from './media.ts'
import type { PhoneArgs } from './phone-args.ts'
import { chatText } from './phone-chat.ts'
import { seenLogin, seenMessages, seenState } from './phone-view.ts'
import { type SwitchName, switchTable } from './switches.ts'
import type { Fields } from './wire-text.ts'
import type { World } from './world.ts'

/** One call of the phone. */
export interface PhoneRoute {
  method: 'GET' | 'POST' | 'DELETE'
  path: string
  what: string
  /** Argument → meaning; query or JSON body alike. */
  args: Record<string, string>
  /** A text is answered as plain text, anything else as JSON. */
  run(args: PhoneArgs, world: World): unknown
}

const mediaKinds = ['image', 'voice', 'file', 'video'] as const
const quoteForms = ['id', 'partial', 'full', 'type0', 'type8'] as const
const repeats = ['same_id', 'new_id', 'new_token'] as const
const fromTo = {
  from: "user id; default the phone's first user",
  to: 'bot id; default the bot of that user',
}
const quoting = {
  quote: 'message_id to quote',
  how: `form of the quote: ${quoteForms.join(', ')}; default by the switch`,
  part: 'for partial: the words quoted',
}
const which = { qrcode: 'key or link of the QR code; default the newest that fits' }

/** Every call with a JSON answer. */
export const phoneRoutes: PhoneRoute[] = [
  {
    method: 'GET',
    path: '/phone/state',
    what: 'Users, bots, QR codes, switches, faults, time',
    args: {},
    run: (_args, world) => seenState(world),
  },
  {
    method: 'POST',
    path: '/phone/scan',
    what: 'Scan a QR code',
    args: {
      ...which,
      user: 'who scans; default the first user',
      confirm: 'true: agree in the same breath',
      verify_code: 'digits to ask for at this login',
    },
    run: (args, world) =>
      seenLogin(
        world.logins.scan({
          qrcode: args.text('qrcode'),
          user: args.text('user'),
          confirm: args.flag('confirm'),
          verify_code: args.text('verify_code'),
        }),
      ),
  },
  {
    method: 'POST',
    path: '/phone/confirm',
    what: 'Agree to the scanned login',
    args: which,
    run: (args, world) => seenLogin(world.logins.confirm(args.text('qrcode'))),
  },
  {
    method: 'POST',
    path: '/phone/expire',
    what: "Let a QR code expire now; with bot: let that bot's token expire (-14)",
    args: { ...which, bot: 'bot id' },
    run(args, world) {
      const bot = args.text('bot')
      if (bot === undefined) return seenLogin(world.logins.expire(args.text('qrcode')))
      if (!world.people.bot(bot)) throw new SvcError('not_found', 'no such bot', { field: 'bot' })
      world.people.expire(bot)
      return { bot_id: bot, live: false }
    },
  },
  {
    method: 'POST',
    path: '/phone/verify',
    what: 'Ask for digits at this login; the answer shows what the phone shows',
    args: { ...which, code: 'the digits; random by default' },
    run: (args, world) =>
      seenLogin(world.logins.verify({ qrcode: args.text('qrcode'), code: args.text('code') })),
  },
  {
    method: 'POST',
    path: '/phone/say',
    what: 'The user writes to the bot',
    args: { text: 'the words', ...fromTo, ...quoting, message_id: 'an id of your own (uint64)' },
    run(args, world) {
      const item = { ...textItem(args.need('text')), ...quoteIn(args, world) }
      const id = args.text('message_id')
      return world.inbox.say(
        args.text('from'),
        args.text('to'),
        [item],
        id === undefined ? {} : { message_id: id },
      )
    },
  },
  {
    method: 'POST',
    path: '/phone/media',
    what: 'The user sends the request body as a picture, voice, file or video',
    args: {
      kind: mediaKinds.join(' | '),
      name: 'file name',
      ...fromTo,
      ...quoting,
      transcript: 'of a voice',
      playtime_ms: 'of a voice or video',
      width: 'of a picture or video',
      height: 'of a picture or video',
    },
    async run(args, world) {
      const kind = args.one<MediaKind>('kind', mediaKinds) ?? 'file'
      const quote = quoteIn(args, world)
      const piece = await world.media.add(kind, args.text('name') ?? null, args.body)
      const item = mediaItem(world.core, piece, {
        origin: args.origin,
        playtime_ms: args.count('playtime_ms'),
        transcript: args.text('transcript'),
        width: args.count('width'),
        height: args.count('height'),
      })
      const said = world.inbox.say(args.text('from'), args.text('to'), [{ ...item, ...quote }])
      return { ...said, media_id: piece.id, size: piece.raw_size, md5: piece.md5 }
    },
  },
  {
    method: 'POST',
    path: '/phone/raw',
    what: 'Put exactly this WeixinMessage in the queue of a bot',
    args: {
      message: 'the message',
      message_json: 'or its JSON text, sent as it stands',
      to: 'bot id; default to_user_id',
    },
    run: (args, world) => world.inbox.raw(args.text('message_json') ?? args.json('message'), args.text('to')),
  },
  {
    method: 'POST',
    path: '/phone/repeat',
    what: 'Send a message of the user once more, as upstream is known to do',
    args: { seq: 'of the message', how: repeats.join(' | ') },
    run: (args, world) => world.inbox.repeat(args.count('seq') ?? 0, args.one('how', repeats) ?? 'same_id'),
  },
  {
    method: 'POST',
    path: '/phone/bulk',
    what: 'A backlog of many texts at once',
    args: { count: 'how many', text: '{n} becomes 1, 2, 3 …', ...fromTo },
    run: (args, world) =>
      world.inbox.bulk(
        args.text('from'),
        args.text('to'),
        Math.min(args.count('count') ?? 1000, 1_000_000),
        args.text('text') ?? 'message {n}',
      ),
  },
  {
    method: 'GET',
    path: '/phone/messages',
    what: 'The conversations as the users see them, oldest first',
    args: {
      user: 'of this user alone',
      from: 'bot | user',
      after: 'seq to start after',
      before: 'seq to end before',
      limit: 'newest so many (100)',
    },
    run(args, world) {
      const from = args.one('from', ['bot', 'user'] as const)
      const messages = seenMessages(world, {
        user: args.text('user'),
        after: args.count('after'),
        before: args.count('before'),
        limit: Math.min(args.count('limit') ?? 100, 100_000),
      })
      return { messages: from ? messages.filter(message => message.from === from) : messages }
    },
  },
  {
    method: 'GET',
    path: '/phone/chat',
    what: 'The conversation of one user as plain lines, oldest first',
    args: { user: 'user id; default the first user', limit: 'newest so many messages (100)' },
    run: (args, world) =>
      chatText(world, {
        user: args.text('user'),
        limit: Math.min(args.count('limit') ?? 100, 100_000),
      }),
  },
  {
    method: 'POST',
    path: '/phone/users',
    what: 'A new user',
    args: { name: 'shown name', id: 'an id of your own' },
    run: (args, world) => world.people.addUser({ id: args.text('id'), name: args.text('name') }),
  },
  {
    method: 'GET',
    path: '/phone/switches',
    what: 'How this WeChat behaves, and what each switch means',
    args: {},
    run: (_args, { core }) =>
      Object.fromEntries(
        Object.entries(switchTable).map(([name, row]) => [
          name,
          { value: core.switches[name as SwitchName], ...row },
        ]),
      ),
  },
  {
    method: 'POST',
    path: '/phone/switches',
    what: 'Change switches: {"quota": 0, "replay": "never"}',
    args: { '<switch>': 'its value', reset: 'true: all to their defaults first' },
    run(args, { core }) {
      const { reset, ...changes } = args.all()
      if (reset === true || reset === 'true') core.resetSwitches()
      return core.setSwitches(changes)
    },
  },
  {
    method: 'GET',
    path: '/phone/faults',
    what: 'The faults set, the kinds there are',
    args: {},
    run: (_args, { faults }) => ({ faults: faults.list(), endpoints: faultEndpoints, kinds: faultKinds }),
  },
  {
    method: 'POST',
    path: '/phone/faults',
    what: 'Break something on purpose',
    args: {
      endpoint: 'getupdates, sendmessage, upload, …; * is any',
      kind: 'see GET /phone/faults',
      times: 'how often (1); 0 until deleted',
      rate: 'chance per request, 0–1',
      bot: 'only for this bot',
      after: 'true: the request takes effect first',
      delay_ms: 'for slow, ret and errcode',
      code: 'for ret and errcode',
      errmsg: 'for ret and errcode',
    },
    run(args, { faults, core }) {
      const fault = faults.add(args.all())
      // Polls that are held now were asked before the fault; the next ones meet it.
      core.changed()
      return fault
    },
  },
  {
    method: 'DELETE',
    path: '/phone/faults',
    what: 'Mend it again',
    args: { id: 'one of them', endpoint: 'those of an endpoint' },
    run: (args, { faults }) => ({
      removed: faults.clear({ id: args.text('id'), endpoint: args.text('endpoint') }),
    }),
  },
  {
    method: 'POST',
    path: '/phone/clock',
    what: "Move the world's time forward",
    args: { advance_ms: 'milliseconds' },
    run: (args, { core }) => ({ now: core.advance(args.count('advance_ms') ?? 0) }),
  },
  {
    method: 'GET',
    path: '/phone/stats',
    what: 'Counters: requests, polls, sends, uploads',
    args: {},
    run: (_args, { core }) => core.stats,
  },
]

function quoteIn(args: PhoneArgs, { core }: World): { ref_msg?: Fields } {
  const id = args.text('quote')
  if (id === undefined) return {}
  const form = args.one<QuoteForm>('how', quoteForms) ?? (args.text('part') ? 'partial' : core.switches.quote)
  return { ref_msg: quoteOf(core, id, form, args.text('part')) }
}
