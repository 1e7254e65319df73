/**
 * The wire format: uint64 ids are bare numbers on the wire and strings inside, since a JavaScript number is
 * inexact above 2^53. Also makes identifiers that look like WeChat's (protocol notes 1.4).
 */

import { randomBytes, randomInt } from 'node:crypto'
import { isObject } from '../platform/fields.ts'

const idKey = '"(message_id|msg_id|svr_id)"'
const bareId = new RegExp(`${idKey}\\s*:\\s*(\\d{16,})`, 'g')
// Inside a JSON string every quote is escaped, so a text that contains "message_id":"1" never matches.
const quotedId = new RegExp(`${idKey}:"(\\d{1,20})"`, 'g')

/**
 * Parses JSON text; long ids become strings.
 *
 * @throws SyntaxError
 */
export const parseWire = (text: string): unknown => JSON.parse(text.replace(bareId, '"$1":"$2"'))

/** Formats a value as JSON text; ids that consist of digits become bare integers. */
export const toWire = (value: unknown): string => JSON.stringify(value).replace(quotedId, '"$1":$2')

/** A JSON object whose fields are not checked yet. */
export type Fields = Record<string, unknown>
/** Returns the value if it is an object, else an empty object. */
export const fieldsOf = (value: unknown): Fields => (isObject(value) ? value : {})
/** Returns the value if it is a string, else an empty string. */
export const textOf = (value: unknown): string => (typeof value === 'string' ? value : '')

const base64 = (bytes: number) => randomBytes(bytes).toString('base64')
const base64url = (bytes: number) => randomBytes(bytes).toString('base64url')

/** Creates a user id. Its letter case is significant. */
export const newUserId = () => `o9cq80${base64url(17).slice(0, 22)}@im.wechat`
/** Creates a bot id of twelve hex digits; each login makes a new one. */
export const newBotId = () => `${randomBytes(6).toString('hex')}@im.bot`
/** Creates a bot token: the bot id, a colon, a secret. */
export const newBotToken = (botId: string) => `${botId}:${randomBytes(20).toString('hex')}`
/** Creates the key by which a client polls a login. */
export const newQrcode = () => randomBytes(16).toString('hex')
/** Returns the text that the QR code encodes: a link, like WeChat's. */
export const qrcodeUrl = (qrcode: string) =>
  `https://liteapp.weixin.qq.com/q/7GiQu1?qrcode=${qrcode}&bot_type=3`
/** Creates a context token that begins like WeChat's. */
export const newContextToken = () => `AARzJWAFAAABAAAAAAAp${base64(60)}`
/** Creates an opaque typing ticket; each pair of user and bot has one. */
export const newTypingTicket = () => base64(48)
/**
 * Creates an opaque parameter in base64. It may contain slashes and plus signs, so that clients must encode
 * it.
 */
export const newMediaParam = () => `${base64(72)}`
/** Creates the id of a piece, which is also its file name on disk. */
export const newMediaId = () => randomBytes(8).toString('hex')
/** Creates four random digits. */
export const newVerifyCode = () => String(randomInt(10_000)).padStart(4, '0')

/**
 * Returns a message id between 2^53 and 2^63, like WeChat's. Ids rise: the high bits are the time, the low
 * bits the `seq`.
 */
export const messageIdOf = (atMs: number, seq: number) =>
  ((BigInt(atMs) << 22n) | BigInt(seq & 0x3f_ffff)).toString()
