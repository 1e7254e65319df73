/** What stands on the wire: bare uint64 ids, which are strings inside, since a JavaScript number would bend everything above 2^53; and identifiers that look like the real ones (protocol notes 1.4). */

import { randomBytes, randomInt } from 'node:crypto'
import { isObject } from '../platform/fields.ts'

const idKey = '"(message_id|msg_id|svr_id)"'
const bareId = new RegExp(`${idKey}\\s*:\\s*(\\d{16,})`, 'g')
// Inside a JSON string every quote is escaped, so a text that mentions "message_id":"1" never matches.
const quotedId = new RegExp(`${idKey}:"(\\d{1,20})"`, 'g')

/** JSON text → value, long ids as strings. @throws SyntaxError */
export const fromWire = (text: string): unknown => JSON.parse(text.replace(bareId, '"$1":"$2"'))

/** Value → JSON text, ids that are digits as bare integers. */
export const toWire = (value: unknown): string => JSON.stringify(value).replace(quotedId, '"$1":$2')

/** A JSON object of which nothing is known yet. */
export type Fields = Record<string, unknown>
/** The object, or an empty one. */
export const fieldsOf = (value: unknown): Fields => (isObject(value) ? value : {})
/** The text, or an empty one. */
export const textOf = (value: unknown): string => (typeof value === 'string' ? value : '')

const base64 = (bytes: number) => randomBytes(bytes).toString('base64')
const base64url = (bytes: number) => randomBytes(bytes).toString('base64url')

/** Mixed case, and case matters. */
export const newUserId = () => `o9cq80${base64url(17).slice(0, 22)}@im.wechat`
/** Twelve hex digits; a login makes a new one each time. */
export const newBotId = () => `${randomBytes(6).toString('hex')}@im.bot`
/** The bot id, a colon, the secret. */
export const newBotToken = (botId: string) => `${botId}:${randomBytes(20).toString('hex')}`
/** The poll key of a login. */
export const newQrcode = () => randomBytes(16).toString('hex')
/** The text to be drawn as a QR code: a link, as the real one is. */
export const qrcodeUrl = (qrcode: string) =>
  `https://liteapp.weixin.qq.com/q/7GiQu1?qrcode=${qrcode}&bot_type=3`
/** Begins as the real ones do. */
export const newContextToken = () => `AARzJWAFAAABAAAAAAAp${base64(60)}`
/** Opaque; one per user and bot. */
export const newTypingTicket = () => base64(48)
/** Opaque base64, slashes and plus signs included, so that clients must encode it. */
export const newMediaParam = () => `${base64(72)}`
/** Names the file on disk, and the piece for the phone. */
export const newMediaId = () => randomBytes(8).toString('hex')
/** Four digits. */
export const newVerifyCode = () => String(randomInt(10_000)).padStart(4, '0')

/** Above 2^53 and below 2^63 like those seen, and rising: the time in front, the row behind. */
export const messageIdOf = (atMs: number, seq: number) =>
  ((BigInt(atMs) << 22n) | BigInt(seq & 0x3f_ffff)).toString()
