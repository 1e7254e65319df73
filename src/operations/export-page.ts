/**
 * The page of an export: one HTML document without scripts, which loads nothing. It is made piece by piece,
 * conversation by conversation, so its size needs no memory.
 *
 * All texts, names and file names come from people. Each one goes through `escapeHtml` or `oneLine`, and is isolated
 * from the direction of the text around it. The policy of the document allows only its own style and pictures in it.
 */
import type { Gateway } from '../gateway/gateway-api.ts'
import type { WalkFilter } from '../gateway/history.ts'
import { hueOf, initialsOf, shortIdOf } from '../model/avatar.ts'
import type { Message, MessageItem, QuotedMessage } from '../model/message.ts'
import { formatCaller } from '../model/principal.ts'
import { sessionKeyOf } from '../model/session.ts'
import { escapeControls } from '../platform/escape-controls.ts'
import { formatCount, isMoment } from '../platform/format.ts'
import { nodeCrypto } from '../platform/lazy-crypto.ts'
import { ExportedMedia } from './export-media.ts'
import style from './export-page.css' with { type: 'text' }

/** A conversation in the range of the export. */
interface FoundConversation {
  session: string
  user: string
  name?: string | undefined
  count: number
  /** Unix ms. */
  last: number
  /** Whether each message was refused: no such user may exist. */
  refused: boolean
}

type Source = Pick<Gateway, 'clock' | 'conversations' | 'history' | 'media'>

/** Yields the page. @throws SvcError `store_unavailable`; the signal's reason */
export async function* renderPage(
  source: Source,
  filter: WalkFilter,
  signal: AbortSignal,
): AsyncGenerator<string, void> {
  yield pageStart
  const conversations = await findConversations(source, source.history.walk(filter, signal))
  yield renderHeader(filter, source.clock.now(), conversations)
  const media = new ExportedMedia(source.media, signal)
  for (const [nth, conversation] of conversations.entries()) {
    const { session, user } = conversation
    yield `<section class="chat" id="c${nth}" aria-labelledby="h${nth}">\n${renderHead(conversation, nth)}`
    yield* renderDays(source.history.walk({ ...filter, session, user }, signal), media)
    yield '</section>\n'
  }
  yield `</main>\n${renderFooter(media)}</body>\n</html>\n`
}

const policy = `default-src 'none'; style-src 'sha256-${nodeCrypto().createHash('sha256').update(style).digest('base64')}'; img-src data:; media-src data:; base-uri 'none'; form-action 'none'`

const pageStart = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>Messages</title>
<style>${style}</style>
</head>
<body>
`

/** Returns the user of the conversation. */
const userOf = ({ direction, from_user, to_user }: Message): string =>
  direction === 'received' ? from_user : to_user

/** Finds the conversations that the panel lists too, the one with the newest message first. */
async function findConversations(
  { conversations }: Pick<Source, 'conversations'>,
  pages: AsyncIterable<Message[]>,
): Promise<FoundConversation[]> {
  const found = new Map<string, FoundConversation>()
  for await (const messages of pages)
    for (const message of messages) {
      const { session, status, timestamp, user_name: name } = message
      const user = userOf(message)
      const key = JSON.stringify([sessionKeyOf(session), user])
      const { count = 0, refused = true } = found.get(key) ?? {}
      found.delete(key)
      const isRefused = refused && status === 'refused'
      found.set(key, { session, user, name, count: count + 1, last: timestamp, refused: isRefused })
    }
  for (const [key, { refused, session, user }] of found)
    if (refused && (await conversations.list({ session, user_id: user })).length === 0) found.delete(key)
  return [...found.values()].reverse()
}

/** Makes a text of several lines safe. HTML has no control characters, so these become a sign. */
const escapeHtml = (text: string): string =>
  text
    // biome-ignore lint/suspicious/noControlCharactersInRegex: the expression replaces control characters
    .replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/g, '\ufffd')
    .replace(/[&<>"']/g, character => `&#${character.charCodeAt(0)};`)

/** Makes a name safe: also shows what changes the direction of a text, or cannot be seen. */
const oneLine = (text: string): string => escapeHtml(escapeControls(text))

const dayFormat = new Intl.DateTimeFormat('en', { dateStyle: 'full' })
const dateFormat = new Intl.DateTimeFormat('en', { dateStyle: 'medium' })
const minuteFormat = new Intl.DateTimeFormat('en', { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' })
/** Formats a time, which may be anything that WeChat sent. */
const formatTime = (at: number, format: Intl.DateTimeFormat): string =>
  isMoment(at) ? format.format(at) : '–'

const renderTime = (at: number, format: Intl.DateTimeFormat): string =>
  isMoment(at) ? `<time datetime="${new Date(at).toISOString()}">${format.format(at)}</time>` : '–'

function renderHeader(
  { since, until }: WalkFilter,
  now: number,
  conversations: readonly FoundConversation[],
): string {
  const total = conversations.reduce((sum, { count }) => sum + count, 0)
  const { timeZone } = dayFormat.resolvedOptions()
  const range = [
    ...(since === undefined ? [] : [`from ${formatTime(since, dateFormat)}`]),
    ...(until === undefined ? [] : [`until ${formatTime(until, dateFormat)}`]),
  ]
  const amount = `${formatCount(total, 'message')} in ${formatCount(conversations.length, 'conversation')}`
  const entries = conversations.map(
    (one, nth) =>
      `<li><a href="#c${nth}">${renderAvatar(one)}<span class="two"><span class="name foreign">${oneLine(one.name ?? shortIdOf(one.user))}</span><span class="soft small"><bdi>${oneLine(one.session)}</bdi> · ${one.count.toLocaleString('en')} · ${renderTime(one.last, dateFormat)}</span></span></a></li>\n`,
  )
  return `<header class="top" id="top">
<h1>Messages</h1>
<p class="soft small">${[amount, ...range].join(', ')}. Exported on ${formatTime(now, dateFormat)}. Times are in ${escapeHtml(timeZone)}.</p>
</header>
<nav class="list" aria-label="Conversations">
<ol>
${entries.join('')}</ol>
</nav>
<main>
${conversations.length === 0 ? '<p class="empty soft">No messages match.</p>\n' : ''}`
}

/** Renders the initials of a user on a colour of the id, as the panel does. */
const renderAvatar = ({ name, user }: FoundConversation): string =>
  `<span class="avatar hue-${hueOf(user)}" aria-hidden="true">${escapeHtml(initialsOf(user, name))}</span>`

const renderHead = (conversation: FoundConversation, nth: number): string => {
  const { count, name, session, user } = conversation
  return `<header class="chat-head">${renderAvatar(conversation)}<div class="two"><h2 class="foreign" id="h${nth}">${oneLine(name ?? shortIdOf(user))}</h2><p class="soft small"><span class="session-tag foreign">${oneLine(session)}</span> <bdi>${oneLine(user)}</bdi> · ${formatCount(count, 'message')}</p></div><a class="back small" href="#top"><span class="words">All conversations </span><span aria-hidden="true">↑</span></a></header>
`
}

/** Renders the messages of a conversation with a heading for each day. */
async function* renderDays(
  pages: AsyncIterable<Message[]>,
  media: ExportedMedia,
): AsyncGenerator<string, void> {
  let day: string | undefined
  let direction: string | undefined
  for await (const messages of pages)
    for (const message of messages) {
      const now = formatTime(message.timestamp, dayFormat)
      if (now !== day) {
        yield `${day === undefined ? '' : '</div>\n'}<div class="of-day"><h3 class="day"><span>${now}</span></h3>\n`
        direction = undefined
      }
      yield* renderMessage(message, message.direction !== direction, media)
      day = now
      direction = message.direction
    }
  if (day !== undefined) yield '</div>\n'
}

async function* renderMessage(
  message: Message,
  isFirst: boolean,
  media: ExportedMedia,
): AsyncGenerator<string, void> {
  const { direction, from_user, group_id, items, ref_msg, timestamp } = message
  const isSent = direction === 'sent'
  const isPicture = items.length === 1 && /^(IMAGE|VIDEO)$/.test(items[0]!.kind) && !ref_msg
  const form = items.at(-1)?.kind === 'TEXT' ? ' flows' : isPicture ? ' bare' : ''
  yield `<article class="message ${isSent ? 'out' : 'in'}${isFirst ? ' first' : ''}"><div class="bubble${form}"><span class="visually-hidden">${isSent ? 'Sent:' : 'Received:'} </span>`
  if (group_id !== undefined && !isSent)
    yield `<span class="sender small foreign">${oneLine(shortIdOf(from_user))}</span>`
  if (ref_msg) yield renderQuote(ref_msg)
  if (items.length === 0) yield renderUnknown()
  let index = 0
  for (const item of items) {
    if (item.kind === 'TEXT')
      yield `<div class="text foreign" dir="auto">${escapeHtml(item.text ?? '')}</div>`
    else if (item.kind === 'UNKNOWN') yield renderUnknown()
    else yield* renderMedia(message, item, item.has_media ? index++ : undefined, media)
  }
  yield `<span class="meta">${renderTime(timestamp, minuteFormat)}</span></div>${renderNotes(message)}</article>\n`
}

const renderUnknown = () => '<p class="unknown soft">WeChat does not show this kind of message to bots.</p>'

/** Characters of a quoted text that are shown. */
const maxQuoted = 280

function renderQuote({ msg_type, partial, text }: QuotedMessage): string {
  const words = text || (msg_type ? kinds[msg_type] : 'A message that is not stored')
  const cut = words.length > maxQuoted ? `${words.slice(0, maxQuoted).toWellFormed()}…` : words
  return `<blockquote class="quote"><span class="visually-hidden">Reply to: </span><span class="foreign" dir="auto">${partial ? '… ' : ''}${escapeHtml(cut)}</span></blockquote>`
}

const kinds: Readonly<Record<MessageItem['kind'], string>> = {
  TEXT: 'Text',
  IMAGE: 'Picture',
  VOICE: 'Voice message',
  FILE: 'File',
  VIDEO: 'Video',
  UNKNOWN: 'Unknown message',
}

/** Notes below a sent message: what became of it, and who sent it. */
function renderNotes(message: Message): string {
  const { reason, sent_by = 'owner', sent_by_name, status = 'accepted' } = message
  const state = states[status]
  const text = reason === undefined ? state : `${state}: ${reason}`
  const note = state && `<p class="note small foreign ${status}">${oneLine(text)}</p>`
  const sender = oneLine(formatCaller(sent_by, sent_by_name))
  return sent_by === 'owner' ? note : `${note}<p class="by small soft">Sent by <bdi>${sender}</bdi></p>`
}

const states: Readonly<Record<NonNullable<Message['status']>, string>> = {
  queued: 'Waits to be sent',
  sending: 'Is being sent',
  accepted: '',
  suspect: 'WeChat accepted it without an id, so it may not have arrived',
  refused: 'Was not sent',
  unknown: 'No answer came, so it may have arrived',
}

/** Renders a picture, a video or a file, or says why it is not in the page. */
async function* renderMedia(
  { message_id }: Message,
  item: MessageItem,
  index: number | undefined,
  media: ExportedMedia,
): AsyncGenerator<string, void> {
  const { file_name, kind, transcript } = item
  const read = await media.read({ message_id, item: index, kind, size: item.size })
  const name = oneLine(file_name ?? kinds[kind])
  if ('reason' in read) {
    yield `<div class="piece missing">${sheet}<div><span class="name foreign">${name}</span><span class="small soft">${escapeHtml(read.reason)}</span></div></div>`
  } else if (read.shownAs === 'image') {
    yield `<img class="picture" alt="Picture"${sizeOf(item)} loading="lazy" src="data:${read.type};base64,`
    yield* read.base64()
    yield '">'
  } else if (read.shownAs === 'video') {
    yield `<video class="video" controls preload="metadata" aria-label="Video"${sizeOf(item)} src="data:${read.type};base64,`
    yield* read.base64()
    yield '"></video>'
  } else {
    yield `<div class="piece">${sheet}<div><span class="name foreign">${name}</span><a class="small" download="${oneLine(read.file_name)}" href="data:application/octet-stream;base64,`
    yield* read.base64()
    yield `">Save<span class="visually-hidden"> ${name}</span>, ${escapeHtml(read.sizeText)}</a></div></div>`
  }
  if (transcript) yield `<p class="transcript foreign" dir="auto">${escapeHtml(transcript)}</p>`
}

/** Returns attributes with the size in pixels, so that the page does not move when the picture is decoded. */
const sizeOf = ({ height = 0, width = 0 }: MessageItem): string =>
  width > 0 && height > 0 && width < 100_000 && height < 100_000 ? ` width="${width}" height="${height}"` : ''

const sheet =
  '<span class="sheet" aria-hidden="true"><svg width="20" height="20" viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="1.75" stroke-linejoin="round"><path d="M14 3H7a2 2 0 0 0-2 2v14a2 2 0 0 0 2 2h10a2 2 0 0 0 2-2V8z"/><path d="M14 3v5h5"/></svg></span>'

function renderFooter({ leftOut }: ExportedMedia): string {
  const lines = [...leftOut].map(
    ([reason, count]) => `<li>${formatCount(count, 'file')}: ${escapeHtml(reason)}</li>`,
  )
  const missing = lines.length > 0 ? `<h2>Not in this page</h2>\n<ul>${lines.join('')}</ul>\n` : ''
  return `<footer class="end small soft">\n${missing}<p>End of the export.</p>\n</footer>\n`
}
