/**
 * WeiLink's message log (`messages.db`, schema 1 of its release 0.6.2), read from a copy in the order of
 * time. Each row becomes the message that WeChat would have sent.
 *
 * WeiLink stores only the first item of a received message, as JSON of its own form beside the columns, and
 * only the text of a sent message.
 */

import { createHash } from 'node:crypto'
import { derivedIdOf, summaryOf } from '../ilink/decode.ts'
import { countOf, filledOf, idOf, objectOf, textOf, timeOf } from '../ilink/fields.ts'
import { itemType, messageState, messageType, type WeixinMessage, type WireItem } from '../ilink/wire.ts'
import { isSvcError } from '../model/error.ts'
import type { MediaKind } from '../model/message.ts'
import { attempt } from '../platform/fields.ts'
import { errorCodeOf } from '../platform/files.ts'
import { parseLossless } from '../platform/lossless.ts'
import type { Database, Row } from '../platform/sqlite.ts'
import type { ImportedMessage } from '../storage/messages.ts'
import { openSnapshot } from './snapshot.ts'
import type { HistoryTally, MoveFindings, PastConversation, SourceHistory } from './source.ts'

/** Rows per page. */
const pageRows = 500
/** The newest schema version that this code knows. */
const knownVersion = 1

/**
 * Copies WeiLink's message log, and opens the copy.
 *
 * @returns undefined if there is no log, or if it cannot be used. In the second case `findings` gets the
 *   reason.
 * @throws SvcError `store_unavailable` if WeiLink writes while the log is copied
 */
export async function openWeiLinkHistory(
  path: string,
  findings: MoveFindings,
): Promise<SourceHistory | undefined> {
  const unusable = (why: string) => {
    findings.addProblem(
      `messages.db ${why}: the history is not moved`,
      'The sessions are moved. sqlite3 with its command .recover may repair a damaged file; then move again, and nothing is moved twice.',
    )
    return undefined
  }
  let snapshot: Awaited<ReturnType<typeof openSnapshot>>
  try {
    snapshot = await openSnapshot(path)
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
    if (form > knownVersion) {
      findings.addWarning(
        `messages.db has form ${form}, of a WeiLink newer than 0.6.2: its new kinds of data are not moved`,
      )
    }
    const rows = orderRows(db)
    return {
      rows,
      conversations: listConversations(db),
      read: (sessionOf, tally) => readPages(db, sessionOf, tally),
      close,
    }
  } catch (error) {
    await close()
    return unusable(`is no database, or too damaged (${errorCodeOf(error) ?? 'unknown reason'})`)
  }
}

/**
 * Stores the ids of all rows in the order of time. Returns their number.
 *
 * @throws the engine's error for a damaged file
 */
function orderRows(db: Database): number {
  db.exec('CREATE TEMP TABLE walk (nth INTEGER PRIMARY KEY, id INTEGER NOT NULL)')
  // `length(data)` reads each row to its end, which shows whether all rows can be read.
  db.exec(
    `INSERT INTO walk (id) SELECT id FROM messages NOT INDEXED WHERE ifnull(length(data), 0) >= 0
     ORDER BY CASE WHEN timestamp_ms > 0 THEN timestamp_ms ELSE stored_at * 1000 END, id`,
  )
  return Number(db.get`SELECT count(*) AS rows FROM walk`?.rows)
}

function listConversations(db: Database): PastConversation[] {
  return db.all`SELECT m.bot_id, m.user_id, count(*) AS messages
    FROM walk w CROSS JOIN messages m ON m.id = w.id
    GROUP BY m.bot_id, m.user_id`.map(row => ({
    bot_id: String(row.bot_id),
    user_id: String(row.user_id),
    messages: Number(row.messages),
  }))
}

function* readPages(
  db: Database,
  sessionOf: (botId: string) => string,
  tally: HistoryTally,
): Generator<ImportedMessage[]> {
  const equals = new Map<string, number>()
  for (let done = 0; ; done += pageRows) {
    const rows = db.all(
      `SELECT ${rowColumns} FROM walk w CROSS JOIN messages m ON m.id = w.id
         WHERE w.nth > ? AND w.nth <= ? ORDER BY w.nth`,
      done,
      done + pageRows,
    )
    if (rows.length === 0) return
    yield rows.map(row => toPastMessage(row, sessionOf, tally, equals))
  }
}

type Fields = Record<string, unknown>

const sentByBot = 2
const hexKey = /^[0-9a-f]{32}$/i

/** The columns that `toPastMessage` uses; ids as text, since they exceed 2^53. */
const rowColumns = `m.id, CAST(m.message_id AS TEXT) AS message_id, m.user_id, m.bot_id, m.msg_type, m.direction,
  m.text, CAST(m.timestamp_ms AS TEXT) AS timestamp_ms, m.data, CAST(m.stored_at * 1000 AS INTEGER) AS stored_ms`

/**
 * Converts a row to a message, and counts in `tally` what it lacks.
 *
 * @param equals counts equal received messages without an id, over the whole log
 */
function toPastMessage(
  row: Row,
  sessionOf: (botId: string) => string,
  tally: HistoryTally,
  equals: Map<string, number>,
): ImportedMessage {
  const stored = parseStored(row.data)
  if (!stored) tally.damaged += 1
  const sent = Number(row.direction) === sentByBot
  const user = textOf(row.user_id) ?? ''
  const bot_id = textOf(row.bot_id) ?? ''
  const storedAt = countOf(row.stored_ms) ?? 0
  const at = timeOf(row.timestamp_ms, storedAt) ?? 0
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
  const { msg_type, text, timed, contentHash } = summaryOf(message, at)
  return {
    session: sessionOf(bot_id),
    bot_id,
    direction: sent ? 'sent' : 'received',
    message_id: id,
    derived_id: id === undefined ? (sent ? sentIdOf(row) : countedIdOf(derivedIdOf(message), equals)) : '',
    from_user: user,
    msg_type,
    text,
    timestamp: at || storedAt,
    timed,
    contentHash,
    raw: JSON.stringify(message),
  }
}

function parseStored(data: unknown): Fields | undefined {
  const form = typeof data === 'string' ? objectOf(attempt(() => parseLossless(data))) : undefined
  return form && Object.keys(form).length > 0 ? form : undefined
}

/**
 * Returns an id for a sent message, which has none of WeChat's. It depends only on the row, so a second
 * move gives the same id.
 */
function sentIdOf(row: Row): string {
  const { id, bot_id, user_id, timestamp_ms, text } = row
  const hash = createHash('sha256').update(JSON.stringify([id, bot_id, user_id, timestamp_ms, text]))
  return `weilink-${hash.digest('hex').slice(0, 24)}`
}

function countedIdOf(derived: string, equals: Map<string, number>): string {
  const ordinal = (equals.get(derived) ?? 0) + 1
  equals.set(derived, ordinal)
  return ordinal === 1 ? derived : `${derived}-${ordinal}`
}

/** Returns the stored item with what it quotes; empty if nothing was stored. */
function itemsOf(form: Fields, columnText: string | undefined): WireItem[] {
  const item = itemOf(form, columnText)
  const quoted = objectOf(form.ref_msg)
  const inner = quoted && itemOf(quoted, undefined)
  if (!inner) return item ? [item] : []
  return [{ ...(item ?? { type: itemType.none }), ref_msg: { message_item: inner } }]
}

function itemOf(form: Fields, columnText: string | undefined): WireItem | undefined {
  const [image, voice, file, video] = [form.image, form.voice, form.file, form.video].map(objectOf)
  if (image) return toMediaItem('image', imageOf(image))
  if (voice) return toMediaItem('voice', voice)
  if (file) {
    const { file_size, ...rest } = file
    return toMediaItem('file', { ...rest, len: countOf(file_size)?.toString() })
  }
  if (video) return toMediaItem('video', video)
  const text = textOf(form.text) ?? columnText
  if (text !== undefined) return { type: itemType.text, text_item: { text } }
  // WeiLink calls both unknown content and a message without items a text.
  const type = countOf(form.msg_type)
  return type === undefined || type <= itemType.text || type > itemType.video ? undefined : { type }
}

/** WeiLink stores an image's own key, which is hex, in place of the key of the media reference. */
function imageOf(image: Fields): Fields {
  const { aes_key, ...media } = objectOf(image.media) ?? {}
  const key = filledOf(aes_key)
  if (key === undefined || !hexKey.test(key)) return image
  return { ...image, media, aeskey: key }
}

/** Builds an item. WeiLink's field names are WeChat's, except a file's size. */
const toMediaItem = (kind: MediaKind, payload: Fields): WireItem => ({
  type: itemType[kind],
  [`${kind}_item`]: dropUnset({ ...payload, media: dropUnset(objectOf(payload.media) ?? {}) }),
})

/** Drops '' and 0, which WeiLink writes for fields that WeChat did not send. */
const dropUnset = (fields: Fields): Fields =>
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
