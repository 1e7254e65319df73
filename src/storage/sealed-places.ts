/**
 * The places of secrets in a data directory. Each function here changes the secrets of one place: `Sealer.seal`
 * and `Sealer.open` are such changes, and `svc secrets` makes others.
 */
import { dataFiles } from '../model/data-files.ts'
import type { UserContext } from '../model/session.ts'
import type { JsonObject } from '../platform/json-file.ts'
import type { SealedPlace } from '../platform/sealing.ts'

/** Changes one secret: seals it, opens it, or seals it with another key. */
export type SecretChange = (value: string, place: SealedPlace) => string

/** Returns the fields of a token.json with a changed token. */
export function mapToken(fields: JsonObject, change: SecretChange): JsonObject {
  const { bot_id, token } = fields
  if (typeof bot_id !== 'string' || typeof token !== 'string' || token === '') return fields
  return { ...fields, token: change(token, { table: dataFiles.token, column: 'token', key: bot_id }) }
}

/**
 * Changes a context token. In contexts.json and in all columns it stands in the same place, so that it can move
 * between them as it is. The same user may be written in lower case (protocol notes 5.6).
 */
export const mapContextToken = (token: string, user: string, change: SecretChange): string =>
  token === '' ? token : change(token, { table: 'context', column: 'token', key: user.toLowerCase() })

/** Returns the context with a changed token; the same object if nothing changes. */
export function mapContext(context: UserContext, user: string, change: SecretChange): UserContext {
  if (context.token === undefined) return context
  const token = mapContextToken(context.token, user, change)
  return token === context.token ? context : { ...context, token }
}

/** Changes the fields of a contexts.json. A bare text is a token too, as WeiLink writes it. */
export const mapContexts = (fields: JsonObject, change: SecretChange): JsonObject =>
  Object.fromEntries(
    Object.entries(fields).map(([user, value]) => {
      if (typeof value === 'string') return [user, mapContextToken(value, user, change)]
      const { token } = (value ?? {}) as { token?: unknown }
      return typeof token === 'string'
        ? [user, { ...(value as object), token: mapContextToken(token, user, change) }]
        : [user, value]
    }),
  )

/** A member of a JSON object, up to its value; and the value, as it is written. */
const tokenInJson = /("context_token"\s*:\s*")([^"\\]*(?:\\.[^"\\]*)*)(?=")/g

/**
 * Changes each context token in the raw JSON of a received message. The rest of the text stays as it is, with
 * its long integers.
 */
export const mapRaw = (raw: string, messageId: string, change: SecretChange): string =>
  raw.includes('"context_token"')
    ? raw.replace(tokenInJson, (all, before: string, token: string) =>
        token === '' ? all : before + change(token, { table: 'message', column: 'raw', key: messageId }),
      )
    : raw

/** Returns what changes a column of an endpoint. */
export const mapWebhook =
  (column: 'headers' | 'secrets' | 'link_key') =>
  (value: string, id: string, change: SecretChange): string =>
    change(value, { table: 'webhook', column, key: id })

export const mapTopicSecret = (secret: string, name: string, change: SecretChange): string =>
  change(secret, { table: 'topic', column: 'secret', key: name })

/** The hash of the secret of a key. It moves to `replaced_hash` as it is. */
export const mapKeyHash = (hash: string, id: string, change: SecretChange): string =>
  change(hash, { table: 'access_key', column: 'hash', key: id })

/** Changes the QR code of a login: who scans it becomes the bot of the session. */
export const mapLoginCode = (code: string, id: string, change: SecretChange): string =>
  change(code, { table: 'login_flow', column: 'qr', key: id })

/**
 * Changes a file that is one secret; or a damaged file, which may contain some. White space around it stays, and
 * so does its place when it is set aside.
 *
 * @param name of the file, without its folder
 */
export function mapSecretFile(text: string, name: string, change: SecretChange): string {
  const secret = text.trim()
  if (secret === '') return text
  const place = { table: name.replace(/\.corrupt-\d+$/, ''), column: 'file', key: '' }
  return text.replace(secret, () => change(secret, place))
}
