/** What the phone displays: the simulated WeChat as its users see it. */
import type { MediaKind } from '../model/message.ts'
import { attempt, isObject } from '../platform/fields.ts'
import type { Core } from './core.ts'
import type { SandboxLogin } from './logins.ts'
import type { MediaPiece } from './media.ts'
import { type Fields, fieldsOf, parseWire, textOf } from './wire.ts'
import type { World } from './world.ts'

/** An item as its user sees it. */
interface ItemView {
  kind: 'text' | MediaKind | 'unknown'
  text?: string
  /** Id for GET /phone/media/{media_id}; absent if the CDN does not know the piece. */
  media_id?: string
  file_name?: string
  /** Bytes after decryption. */
  size?: number
  transcript?: string
  playtime_ms?: number
}

/** A message as its user sees it. */
export interface MessageView {
  seq: number
  message_id: string
  from: 'user' | 'bot'
  user_id: string
  bot_id: string
  /** Unix milliseconds. */
  at: number
  items: ItemView[]
  quote?: { message_id?: string; text: string }
  /** False if WeChat accepted the message but its user does not see it; `why` gives the reason. */
  shown: boolean
  why?: string
  client_id?: string
}

const itemKinds: Record<number, MediaKind> = { 2: 'image', 3: 'voice', 4: 'file', 5: 'video' }

/**
 * Returns the newest `limit` messages after `after` and before `before`, oldest first; only those of `user`
 * and `bot`, and what `from` wrote, if given.
 */
export function listMessageViews(
  world: World,
  options: {
    user?: string
    bot?: string
    from?: 'bot' | 'user'
    after?: number
    before?: number
    limit: number
  },
): MessageView[] {
  const rows = world.core.db.all(
    `SELECT * FROM message WHERE ${options.user ? 'user_id = ?' : '? IS NULL'}
       AND ${options.bot ? 'bot_id = ?' : '? IS NULL'} AND ${options.from ? "(direction = 'out') = ?" : '? IS NULL'}
       AND seq > ? AND seq < ? ORDER BY seq DESC LIMIT ?`,
    options.user,
    options.bot,
    options.from && Number(options.from === 'bot'),
    options.after ?? 0,
    options.before ?? Number.MAX_SAFE_INTEGER,
    options.limit,
  )
  return rows.reverse().map(row => {
    const message = parseMessage(String(row.wire))
    const items = itemsOf(message)
    const quote = items.map(item => fieldsOf(item.ref_msg)).find(ref => Object.keys(ref).length > 0)
    return {
      seq: Number(row.seq),
      message_id: String(row.message_id),
      from: row.direction === 'out' ? 'bot' : 'user',
      user_id: String(row.user_id),
      bot_id: String(row.bot_id),
      at: Number(row.at),
      items: items.map(item => toItemView(world, item)),
      ...(quote && { quote: toQuoteView(world.core, quote) }),
      shown: row.shown === 1,
      ...(row.note !== undefined && { why: String(row.note) }),
      ...(row.client_id !== undefined && { client_id: String(row.client_id) }),
    }
  })
}

function toItemView(world: World, item: Fields): ItemView {
  const text = fieldsOf(item.text_item).text
  if (typeof text === 'string') return { kind: 'text', text }
  const kind = itemKinds[Number(item.type)]
  if (!kind) return { kind: 'unknown' }
  const piece = world.media.findForItem(item)
  const voice = fieldsOf(item.voice_item)
  return {
    kind,
    ...(piece && { media_id: piece.id, size: piece.raw_size }),
    ...fileNameField(item, piece),
    ...(typeof voice.text === 'string' && { transcript: voice.text }),
    ...(typeof voice.playtime === 'number' && { playtime_ms: voice.playtime }),
  }
}

function fileNameField(item: Fields, piece: MediaPiece | undefined): { file_name?: string } {
  const name = textOf(fieldsOf(item.file_item).file_name) || (piece?.name ?? '')
  return name ? { file_name: name } : {}
}

function toQuoteView(core: Core, ref: Fields): { message_id?: string; text: string } {
  const inside = fieldsOf(ref.message_item)
  const id = String(ref.svr_id ?? inside.msg_id ?? '')
  const partial = fieldsOf(ref.partial_text)
  if (textOf(partial.start)) {
    const [start, end] = [textOf(partial.start), textOf(partial.end)]
    return { message_id: id, text: start === end ? start : `${start}…${end}` }
  }
  const row = id && core.db.get`SELECT wire FROM message WHERE message_id = ${id} LIMIT 1`
  const item = row ? (itemsOf(parseMessage(String(row.wire)))[0] ?? {}) : inside
  const text = textOf(fieldsOf(item.text_item).text) || `[${itemKinds[Number(item.type)] ?? 'message'}]`
  return { ...(id && { message_id: id }), text }
}

// Tests inject messages of any form through `raw`; what cannot be parsed shows as an empty message.
const parseMessage = (wire: string): Fields => fieldsOf(attempt(() => parseWire(wire)))

const itemsOf = (message: Fields): Fields[] =>
  Array.isArray(message.item_list) ? message.item_list.filter(isObject) : []

/**
 * Returns a QR login as the phone displays it. The phone's screen shows the verify code, so it is no secret
 * here.
 */
export const toLoginView = (login: SandboxLogin) => ({
  qrcode: login.qrcode,
  url: login.url,
  status: login.status,
  created_at: login.created_at,
  expires_at: login.expires_at,
  ...(login.user_id && { user_id: login.user_id }),
  ...(login.bot_id && { bot_id: login.bot_id }),
  ...(login.status === 'need_verifycode' && { verify_code: login.verify_code }),
})

/** Returns how many messages of a bot its user has seen or can see. */
const countAnswers = ({ db }: Core, user: string, bot: string): number =>
  Number(
    db.get`SELECT count(*) AS answers FROM message
      WHERE user_id = ${user} AND bot_id = ${bot} AND direction = 'out' AND shown = 1`?.answers,
  )

/**
 * Returns GET /phone/state: users with their bots and typing, QR codes (newest first), switches, time.
 * Contains no token.
 */
export function toStateView(world: World) {
  const { core, people, logins } = world
  const now = core.now()
  const bots = people.listBots()
  return {
    now,
    ahead_ms: core.aheadMs,
    users: people.listUsers().map(user => ({
      id: user.id,
      name: user.name,
      bot_id: people.liveBotOf(user.id)?.id ?? null,
      peers: people.peersOf(user.id).map(peer => ({
        bot_id: peer.bot_id,
        live: bots.some(bot => bot.id === peer.bot_id && bot.live),
        typing: peer.typing_until > now,
        used: peer.used,
        window_closes_at:
          peer.last_inbound_at === undefined ? null : peer.last_inbound_at + core.switches.window_ms,
        last: listMessageViews(world, { user: user.id, bot: peer.bot_id, limit: 1 })[0] ?? null,
        answers: countAnswers(core, user.id, peer.bot_id),
      })),
    })),
    bots: bots.map(bot => ({ id: bot.id, user_id: bot.user_id, live: bot.live, started: bot.started })),
    logins: logins.list().map(toLoginView),
    switches: core.switches,
  }
}

/**
 * Formats a chat as text, oldest first, one line per item: `<name>: <text>` or `<name>: [image chart.png,
 * 628 bytes]`. A message that WeChat accepted but does not display is marked as such. The last line says if
 * the bot is typing.
 *
 * @throws SvcError `not_found` for an unknown user
 */
export function formatChat(world: World, options: { user?: string; limit: number }): string {
  const { core, people } = world
  const user = people.getUser(options.user, 'user')
  const lines = listMessageViews(world, { user: user.id, limit: options.limit }).flatMap(message => {
    const who = message.from === 'bot' ? 'bot' : user.name
    return message.items.map(
      item => `${who}: ${formatQuote(message)}${formatItem(item)}${formatHiddenNote(message)}`,
    )
  })
  if (people.peersOf(user.id).some(peer => peer.typing_until > core.now())) lines.push('bot is typing …')
  return lines.map(line => `${line}\n`).join('')
}

const formatQuote = ({ quote }: MessageView) => (quote ? `[on “${quote.text}”] ` : '')
const formatHiddenNote = ({ shown, why }: MessageView) =>
  shown ? '' : ` (not shown${why ? `: ${why}` : ''})`

function formatItem(item: ItemView): string {
  if (item.text !== undefined) return item.text
  const facts = [item.size === undefined ? '' : `${item.size} bytes`, item.transcript ?? '']
  return `[${[[item.kind, item.file_name].filter(Boolean).join(' '), ...facts].filter(Boolean).join(', ')}]`
}
