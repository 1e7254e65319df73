/**
 * WeiLink's message log (`messages.db`, form 1 of its release 0.6.2), read from a copy in the order of time, each row as
 * the message that upstream would have sent.
 *
 * WeiLink keeps of a message its first item alone, as JSON of its own shape beside the columns; of a sent one the text.
 */

import { createHash } from 'node:crypto'
import { derivedId, summary } from '../ilink/decode.ts'
import { countOf, filledOf, idOf, objectOf, textOf, timeOf } from '../ilink/fields.ts'
import { parseLossless } from '../ilink/lossless.ts'
import { itemType, messageState, messageType, type WeixinMessage, type WireItem } from '../ilink/wire.ts'
import { isSvcError } from '../model/error.ts'
import type { MediaKind } from '../model/message.ts'
import { errorCodeOf } from '../platform/files.ts'
import type { Database, Row } from '../platform/sqlite.ts'
import type { PastMessage } from '../storage/messages.ts'
import { snapshotOf } from './snapshot.ts'
import type { Conversation, Findings, HistoryTally, SourceHistory } from './source.ts'

/** Rows read at a time. */
const pageRows = 500
/** The form of the log that is known. */
const knownForm = 1

/**
 * Opens the log.
 *
 * @returns undefined when it cannot be used at all, which is in `findings` then
 * @throws SvcError `store_unavailable` when WeiLink writes into it all the time
 */
export async function openWeiLinkHistory(
  path: string,
  findings: Findings,
): Promise<SourceHistory | undefined> {
  const unusable = (why: string) => {
    findings.problem(
      `messages.db ${why}: the history does not come over`,
      'The sessions do. sqlite3 with its command .recover may repair a damaged one, which can be moved later; nothing comes twice.',
    )
    return undefined
  }
  let snapshot: Awaited<ReturnType<typeof snapshotOf>>
  try {
    snapshot = await snapshotOf(path)
  } catch (error) {
    if (isSvcError(error)) throw error
    return unusable(`cannot be read (${errorCodeOf(error) ?? 'unknown reason'})`)
  }
  if (!snapshot) return undefined
  const { db, close } = snapshot
  try {
    const form = Number(db.get`PRAGMA user_version`?.user_version)
    const tables = db.all`SELECT name FROM sqlite_schema WHERE name = 'messages'`
    if (tables.length === 0) {
      await close()
      return form === 0 ? undefined : unusable('has no table of messages')
    }
    if (form > knownForm) {
      findings.warning(
        `messages.db has form ${form}, of a WeiLink newer than 0.6.2: what is new in it does not come over`,
      )
    }
    const rows = orderRows(db)
    return {
      rows,
      conversations: conversationsIn(db),
      read: (sessionOf, tally) => pages(db, sessionOf, tally),
      close,
    }
  } catch (error) {
    await close()
    return unusable(`is no database, or too damaged (${errorCodeOf(error) ?? 'unknown reason'})`)
  }
}

/** Notes the ids of all rows, in the order of time. @returns how many @throws the engine's error for a damaged file */
function orderRows(db: Database): number {
  db.exec('CREATE TEMP TABLE walk (nth INTEGER PRIMARY KEY, id INTEGER NOT NULL)')
  // Looking at the end of every row tells whether all of it can be read.
  db.exec(
    `INSERT INTO walk (id) SELECT id FROM messages NOT INDEXED WHERE ifnull(length(data), 0) >= 0
     ORDER BY CASE WHEN timestamp_ms > 0 THEN timestamp_ms ELSE stored_at * 1000 END, id`,
  )
  return Number(db.get`SELECT count(*) AS rows FROM walk`?.rows)
}

function conversationsIn(db: Database): Conversation[] {
  return db.all`SELECT m.bot_id, m.user_id, count(*) AS messages
    FROM walk w CROSS JOIN messages m ON m.id = w.id
    GROUP BY m.bot_id, m.user_id`.map(row => ({
    bot_id: String(row.bot_id),
    user_id: String(row.user_id),
    messages: Number(row.messages),
  }))
}

function* pages(
  db: Database,
  sessionOf: (botId: string) => string,
  tally: HistoryTally,
): Generator<PastMessage[]> {
  const equals = new Map<string, number>()
  for (let done = 0; ; done += pageRows) {
    const rows = db.all(
      `SELECT ${rowColumns} FROM walk w CROSS JOIN messages m ON m.id = w.id
         WHERE w.nth > ? AND w.nth <= ? ORDER BY w.nth`,
      done,
      done + pageRows,
    )
    if (rows.length === 0) return
    yield rows.map(row => pastOf(row, sessionOf, tally, equals))
  }
}

type Fields = Record<string, unknown>

const sentByBot = 2
const hexKey = /^[0-9a-f]{32}$/i

/** The columns that `pastOf` wants; ids as text, since they exceed 2^53. */
const rowColumns = `m.id, CAST(m.message_id AS TEXT) AS message_id, m.user_id, m.bot_id, m.msg_type, m.direction,
  m.text, CAST(m.timestamp_ms AS TEXT) AS timestamp_ms, m.data, CAST(m.stored_at * 1000 AS INTEGER) AS stored_ms`

/**
 * The message of a row; what it lacks is counted in `tally`.
 *
 * @param equals counts received messages without an id that are otherwise equal, over the whole log
 */
function pastOf(
  row: Row,
  sessionOf: (botId: string) => string,
  tally: HistoryTally,
  equals: Map<string, number>,
): PastMessage {
  const stored = storedForm(row.data)
  if (!stored) tally.damaged += 1
  const sent = Number(row.direction) === sentByBot
  const user = textOf(row.user_id) ?? ''
  const bot_id = textOf(row.bot_id) ?? ''
  const at = timeOf(row.timestamp_ms) ?? 0
  const storedAt = countOf(row.stored_ms) ?? 0
  const id =
    idOf(stored?.message_id) ?? (/^\d+$/.test(String(row.message_id)) ? idOf(row.message_id) : undefined)
  const form = stored ?? { msg_type: row.msg_type, text: row.text }
  const items = itemsOf(form, textOf(row.text))
  if (stored && !sent && items.length === 0) tally.empty += 1
  if (stored && isMediaLost(items[0])) tally.mediaLost += 1
  tally[sent ? 'sent' : 'received'] += 1

  const context_token = filledOf(form.context_token)
  const message: WeixinMessage = sent
    ? {
        from_user_id: '',
        to_user_id: user,
        message_type: messageType.bot,
        message_state: messageState.finish,
        item_list: items,
      }
    : {
        message_id: id,
        from_user_id: user,
        to_user_id: bot_id,
        ...(at > 0 && { create_time_ms: at }),
        message_type: messageType.user,
        message_state: messageState.finish,
        item_list: items,
        context_token,
      }
  const { msg_type, text, timed, contentHash } = summary(message, 0)
  return {
    session: sessionOf(bot_id),
    bot_id,
    direction: sent ? 'sent' : 'received',
    message_id: id,
    derived_id: id === undefined ? (sent ? sentId(row) : countedId(derivedId(message), equals)) : '',
    from_user: user,
    msg_type,
    text,
    timestamp: at || storedAt,
    timed,
    contentHash,
    raw: JSON.stringify(message),
  }
}

function storedForm(data: unknown): Fields | undefined {
  if (typeof data !== 'string') return undefined
  try {
    const form = objectOf(parseLossless(data))
    return form && Object.keys(form).length > 0 ? form : undefined
  } catch {
    return undefined
  }
}

/** Sent messages have no id of upstream's. The same row of the same log is the same message, whenever it is read. */
function sentId(row: Row): string {
  const { id, bot_id, user_id, timestamp_ms, text } = row
  const hash = createHash('sha256').update(JSON.stringify([id, bot_id, user_id, timestamp_ms, text]))
  return `weilink-${hash.digest('hex').slice(0, 24)}`
}

function countedId(derived: string, equals: Map<string, number>): string {
  const ordinal = (equals.get(derived) ?? 0) + 1
  equals.set(derived, ordinal)
  return ordinal === 1 ? derived : `${derived}-${ordinal}`
}

/** The one item that was kept, with what it quotes; none when nothing of it was. */
function itemsOf(form: Fields, columnText: string | undefined): WireItem[] {
  const item = itemOf(form, columnText)
  const quoted = objectOf(form.ref_msg)
  const inner = quoted && itemOf(quoted, undefined)
  if (!inner) return item ? [item] : []
  return [{ ...(item ?? { type: itemType.none }), ref_msg: { message_item: inner } }]
}

function itemOf(form: Fields, columnText: string | undefined): WireItem | undefined {
  const [image, voice, file, video] = [form.image, form.voice, form.file, form.video].map(objectOf)
  if (image) return mediaItem('image', imageOf(image))
  if (voice) return mediaItem('voice', voice)
  if (file) {
    const { file_size, ...rest } = file
    return mediaItem('file', { ...rest, len: countOf(file_size)?.toString() })
  }
  if (video) return mediaItem('video', video)
  const text = textOf(form.text) ?? columnText
  if (text !== undefined) return { type: itemType.text, text_item: { text } }
  // WeiLink calls a text what it does not know, and what has no item at all.
  const type = countOf(form.msg_type)
  return type === undefined || type <= itemType.text || type > itemType.video ? undefined : { type }
}

/** WeiLink keeps an image's own key, which is hex, in the place of the reference's. */
function imageOf(image: Fields): Fields {
  const { aes_key, ...media } = objectOf(image.media) ?? {}
  const key = filledOf(aes_key)
  if (key === undefined || !hexKey.test(key)) return image
  return { ...image, media, aeskey: key }
}

/** WeiLink's names are upstream's but for a file's size. */
const mediaItem = (kind: MediaKind, payload: Fields): WireItem => ({
  type: itemType[kind],
  [`${kind}_item`]: stated({ ...payload, media: stated(objectOf(payload.media) ?? {}) }),
})

/** Without what WeiLink fills in for what upstream did not say: '' and 0. */
const stated = (fields: Fields): Fields =>
  Object.fromEntries(
    Object.entries(fields).filter(
      ([, value]) => value !== undefined && value !== null && value !== '' && value !== 0,
    ),
  )

function isMediaLost(item: WireItem | undefined): boolean {
  const payload = objectOf(item?.image_item ?? item?.voice_item ?? item?.file_item ?? item?.video_item)
  const media = objectOf(payload?.media)
  const isMedia = item?.type !== undefined && item.type >= itemType.image && item.type <= itemType.video
  return isMedia && !filledOf(media?.encrypt_query_param) && !filledOf(media?.full_url)
}
