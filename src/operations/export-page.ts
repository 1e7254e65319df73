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
import { isMoment } from '../platform/format.ts'
import { nodeCrypto } from '../platform/lazy-crypto.ts'
import { SentOrder } from '../send/sent-order.ts'
import { ExportedMedia } from './export-media.ts'
import style from './export-page.css' with { type: 'text' }
import type { Reader } from './export-texts.ts'

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
  reader: Reader,
  signal: AbortSignal,
): AsyncGenerator<string, void> {
  const conversations = await findConversations(source, source.history.walk(filter, signal))
  yield renderStart(reader, conversations)
  yield renderHeader(filter, source.clock.now(), conversations, reader)
  const media = new ExportedMedia({ media: source.media, signal })
  for (const [nth, conversation] of conversations.entries()) {
    const { session, user } = conversation
    const head = renderHead(conversation, nth, conversations.length > 1, reader)
    yield `<section class="talk" id="c${nth}" aria-labelledby="h${nth}">\n${head}`
    yield* renderDays(source.history.walk({ ...filter, session, user }, signal), media, reader)
    yield '</section>\n'
  }
  yield `</main>\n${renderFooter(media, reader)}</body>\n</html>\n`
}

const policy = `default-src 'none'; style-src 'sha256-${nodeCrypto().createHash('sha256').update(style).digest('base64')}'; img-src data:; media-src data:; base-uri 'none'; form-action 'none'`

/** One conversation is called by its contact. */
const titleOf = ({ t }: Reader, [first, ...others]: readonly FoundConversation[]): string =>
  first && others.length === 0 ? oneLine(first.name ?? shortIdOf(first.user)) : t('title')

const renderStart = (reader: Reader, conversations: readonly FoundConversation[]) => `<!doctype html>
<html lang="${reader.language}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>${titleOf(reader, conversations)}</title>
<style>${style}</style>
</head>
<body${conversations.length > 1 ? '' : ' class="single"'}>
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

/** Addresses in plain ASCII, so that they lead where they seem to lead. */
const addresses = /(https?:\/\/[!#-&(-;=?-~]*[\w/#=&%+~-])(?!(?!\p{Script=Han})\p{L})/iu

/** Makes a text of several lines safe, with links. */
const renderText = (text: string): string =>
  text
    .split(addresses)
    .map((part, nth) => {
      const safe = escapeHtml(part)
      return nth % 2 === 1 ? `<a href="${safe}" rel="noopener noreferrer">${safe}</a>` : safe
    })
    .join('')

/** Makes a name safe: also shows what changes the direction of a text, or cannot be seen. */
const oneLine = (text: string): string => escapeHtml(escapeControls(text))

/** Renders a time, which may be anything that WeChat sent. */
const renderTime = (at: number, format: Intl.DateTimeFormat): string =>
  isMoment(at) ? `<time datetime="${new Date(at).toISOString()}">${format.format(at)}</time>` : '–'

function renderHeader(
  { since, until }: WalkFilter,
  now: number,
  conversations: readonly FoundConversation[],
  reader: Reader,
): string {
  const { t, at, date, zone } = reader
  const facts = [
    t('messages', { n: conversations.reduce((sum, { count }) => sum + count, 0) }),
    ...(conversations.length > 1 ? [t('talks', { n: conversations.length })] : []),
    ...(since === undefined ? [] : [t('since', { at: at(since, date) })]),
    ...(until === undefined ? [] : [t('until', { at: at(until, date) })]),
    t('exported', { at: at(now, date) }),
    t('zone', { zone }),
  ]
  return `<header class="top" id="top">
<h1>${titleOf(reader, conversations)}</h1>
<p class="soft small">${escapeHtml(facts.join(' · '))}</p>
</header>
${conversations.length > 1 ? renderIndex(conversations, reader) : ''}<main>
${conversations.length === 0 ? `<p class="nothing soft">${t('none')}</p>\n` : ''}`
}

/** The list of conversations. */
function renderIndex(conversations: readonly FoundConversation[], { t, date }: Reader): string {
  const entries = conversations.map(
    (one, nth) =>
      `<li><a href="#c${nth}">${renderAvatar(one)}<span class="two"><span class="name foreign">${oneLine(one.name ?? shortIdOf(one.user))}</span><span class="soft small"><bdi>${oneLine(one.session)}</bdi> · ${t('messages', { n: one.count })} · ${renderTime(one.last, date)}</span></span></a></li>\n`,
  )
  return `<nav class="index" aria-label="${t('all')}">\n<ol>\n${entries.join('')}</ol>\n</nav>\n`
}

/** Renders the initials of a user on a colour of the id, as the panel does. */
const renderAvatar = ({ name, user }: FoundConversation): string =>
  `<span class="avatar hue-${hueOf(user)}" aria-hidden="true">${escapeHtml(initialsOf(user, name))}</span>`

const renderHead = (
  conversation: FoundConversation,
  nth: number,
  hasIndex: boolean,
  { t }: Reader,
): string => {
  const { count, name, session, user } = conversation
  return `<header class="chat-head">${renderAvatar(conversation)}<div class="two"><h2 class="foreign" id="h${nth}">${oneLine(name ?? shortIdOf(user))}</h2><p class="soft small"><span class="session-tag foreign">${oneLine(session)}</span> <bdi>${oneLine(user)}</bdi> · ${t('messages', { n: count })}</p></div>${hasIndex ? `<a class="up small" href="#top" title="${t('all')}"><span class="visually-hidden">${t('all')}</span><span aria-hidden="true">↑</span></a>` : ''}</header>
`
}

/** Yields messages as people read them. */
async function* inOrder(pages: AsyncIterable<Message[]>): AsyncGenerator<Message, void> {
  const order = new SentOrder<Message>()
  for await (const messages of pages) for (const message of messages) yield* order.take(message)
  yield* order.rest()
}

/** Renders the messages of a conversation with a heading for each day. */
async function* renderDays(
  pages: AsyncIterable<Message[]>,
  media: ExportedMedia,
  reader: Reader,
): AsyncGenerator<string, void> {
  let day: string | undefined
  let direction: string | undefined
  for await (const message of inOrder(pages)) {
    const now = reader.at(message.timestamp, reader.day)
    if (now !== day) {
      yield `${day === undefined ? '' : '</div>\n'}<div class="of-day"><h3 class="day"><span>${now}</span></h3>\n`
      direction = undefined
    }
    yield* renderMessage(message, message.direction !== direction, media, reader)
    day = now
    direction = message.direction
  }
  if (day !== undefined) yield '</div>\n'
}

async function* renderMessage(
  message: Message,
  isFirst: boolean,
  media: ExportedMedia,
  reader: Reader,
): AsyncGenerator<string, void> {
  const { t } = reader
  const { direction, from_user, group_id, items, ref_msg, timestamp } = message
  const isSent = direction === 'sent'
  const isPicture = items.length === 1 && /^(IMAGE|VIDEO)$/.test(items[0]!.kind) && !ref_msg
  const form = items.at(-1)?.kind === 'TEXT' ? ' flows' : isPicture ? ' bare' : ''
  yield `<article class="message ${isSent ? 'out' : 'in'}${isFirst ? ' first' : ''}"><div class="bubble${form}"><span class="visually-hidden">${t(isSent ? 'sent' : 'received')} </span>`
  if (group_id !== undefined && !isSent)
    yield `<span class="sender small foreign">${oneLine(shortIdOf(from_user))}</span>`
  if (ref_msg) yield renderQuote(ref_msg, reader)
  if (items.length === 0) yield renderUnknown(reader)
  let index = 0
  for (const item of items) {
    if (item.kind === 'TEXT')
      yield `<div class="text foreign" dir="auto">${renderText(item.text ?? '')}</div>`
    else if (item.kind === 'UNKNOWN') yield renderUnknown(reader)
    else yield* renderMedia(message, item, item.has_media ? index++ : undefined, media, reader)
  }
  yield `<span class="meta">${renderTime(timestamp, reader.minute)}</span></div>${renderNotes(message, reader)}</article>\n`
}

const renderUnknown = ({ t }: Reader) => `<p class="unknown soft">${t('unsupported')}</p>`

/** Characters of a quoted text that are shown. */
const maxQuoted = 280

function renderQuote({ msg_type, partial, text }: QuotedMessage, { t }: Reader): string {
  const words = text || t(msg_type ?? 'quote_gone')
  const cut = words.length > maxQuoted ? `${words.slice(0, maxQuoted).toWellFormed()}…` : words
  return `<blockquote class="quote"><span class="visually-hidden">${t('quote')} </span><span class="foreign" dir="auto">${partial ? '… ' : ''}${escapeHtml(cut)}</span></blockquote>`
}

/** Notes below a sent message: what became of it, and who sent it. */
function renderNotes(message: Message, { t }: Reader): string {
  const { reason, sent_by = 'owner', sent_by_name, status = 'accepted' } = message
  const state = t(status)
  const text = reason === undefined ? state : `${state}: ${reason}`
  const note = state && `<p class="note small foreign ${status}">${oneLine(text)}</p>`
  const sender = oneLine(formatCaller(sent_by, sent_by_name))
  return sent_by === 'owner'
    ? note
    : `${note}<p class="by small soft">${t('sent_by')} <bdi>${sender}</bdi></p>`
}

/** Renders a picture, a video or a file, or says why it is not in the page. */
async function* renderMedia(
  { message_id }: Message,
  item: MessageItem,
  index: number | undefined,
  media: ExportedMedia,
  { t }: Reader,
): AsyncGenerator<string, void> {
  const { file_name, kind, transcript } = item
  const read = await media.read({ message_id, item: index, kind, size: item.size })
  const name = oneLine(file_name ?? t(kind))
  if ('reason' in read) {
    yield `<div class="piece missing">${sheet}<div><span class="name foreign">${name}</span><span class="small soft">${t(read.reason)}</span></div></div>`
  } else if (read.shownAs === 'image') {
    yield `<img class="picture" alt="${t('IMAGE')}"${sizeOf(item)} loading="lazy" src="data:${read.type};base64,`
    yield* read.base64()
    yield '">'
  } else if (read.shownAs === 'video') {
    yield `<video class="video" controls preload="metadata" aria-label="${t('VIDEO')}"${sizeOf(item)} src="data:${read.type};base64,`
    yield* read.base64()
    yield '"></video>'
  } else {
    yield `<div class="piece">${sheet}<div><span class="name foreign">${name}</span><a class="small" download="${oneLine(read.file_name)}" href="data:application/octet-stream;base64,`
    yield* read.base64()
    yield `">${t('save')}<span class="visually-hidden"> ${name}</span> · ${escapeHtml(read.sizeText)}</a></div></div>`
  }
  if (transcript) yield `<p class="transcript foreign" dir="auto">${escapeHtml(transcript)}</p>`
}

/** Returns attributes with the size in pixels, so that the page does not move when the picture is decoded. */
const sizeOf = ({ height = 0, width = 0 }: MessageItem): string =>
  width > 0 && height > 0 && width < 100_000 && height < 100_000 ? ` width="${width}" height="${height}"` : ''

const sheet =
  '<span class="sheet" aria-hidden="true"><svg width="20" height="20" viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="1.75" stroke-linejoin="round"><path d="M14 3H7a2 2 0 0 0-2 2v14a2 2 0 0 0 2 2h10a2 2 0 0 0 2-2V8z"/><path d="M14 3v5h5"/></svg></span>'

function renderFooter({ leftOut }: ExportedMedia, { t }: Reader): string {
  const lines = [...leftOut].map(([reason, n]) => `<li>${t('files', { n, why: t(reason) })}</li>`)
  const missing = lines.length > 0 ? `<h2>${t('missing')}</h2>\n<ul>${lines.join('')}</ul>\n` : ''
  return `<footer class="end small soft">\n${missing}<p>${t('end')}</p>\n</footer>\n`
}
