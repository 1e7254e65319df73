/** Formats and parses the URIs of MCP resources. */
import { sessionKeyOf } from '../model/session.ts'
import { nameKeyOf } from '../model/user-name.ts'
import { decodeUri } from '../platform/header.ts'

export const sessionsUri = 'svc://sessions'
export const inboxUri = 'svc://inbox'
export const allUsersUri = 'svc://users'

export const usersTemplate = 'svc://sessions/{session}/users'
export const conversationTemplate = 'svc://conversations/{session}/{user}'
export const mediaTemplate = 'svc://media/{message_id}/{item}'

export const usersUri = (session: string): string => `svc://sessions/${encodeURIComponent(session)}/users`

export const conversationUri = (session: string, user: string): string =>
  `svc://conversations/${encodeURIComponent(session)}/${encodeURIComponent(user)}`

/** Whether a URI from `subscribableUri` is that of a conversation. */
export const isConversation = (uri: string): boolean => uri.startsWith('svc://conversations/')

export const mediaUri = (messageId: string, item: number): string =>
  `svc://media/${encodeURIComponent(messageId)}/${item}`

/** Decodes a percent-encoded part of a URI. Returns undefined if the encoding is invalid. */
export const decodePart = (part: string | readonly string[] | undefined): string | undefined =>
  typeof part === 'string' ? decodeUri(part) : undefined

/**
 * Returns svc's own spelling of a URI that clients can subscribe to, or undefined for other URIs. Clients may
 * spell it in several forms: `@` and letters outside ASCII may be percent-encoded or not.
 */
export function subscribableUri(
  text: string,
  session = (name: string) => name,
  person = (user: string) => user,
): string | undefined {
  if (!URL.canParse(text)) return undefined
  const uri = new URL(text).toString()
  if (uri === sessionsUri || uri === inboxUri || uri === allUsersUri) return uri
  const [, usersSession] = /^svc:\/\/sessions\/([^/?#]+)\/users$/.exec(uri) ?? []
  const [, conversationSession, peer] = /^svc:\/\/conversations\/([^/?#]+)\/([^/?#]+)$/.exec(uri) ?? []
  const name = decodePart(usersSession ?? conversationSession)
  const user = decodePart(peer)
  if (name === undefined) return undefined
  if (usersSession !== undefined) return usersUri(session(name))
  return user === undefined ? undefined : conversationUri(session(name), person(user))
}

/** Returns one key for all spellings of a URI. Names of sessions and users are compared without case. */
export const subscriptionKey = (uri: string): string | undefined =>
  subscribableUri(uri, sessionKeyOf, user => (user.includes('@') ? user : nameKeyOf(user)))

/**
 * Returns the spellings of a URI that clients use: svc's own, that of the URL standard, and the unencoded
 * one.
 */
export function spellingsOf(uri: string): string[] {
  const bare = decodePart(uri) ?? uri
  // Decoding must not change the meaning: an encoded slash or per cent sign must stay encoded.
  return subscribableUri(bare) === uri ? [...new Set([uri, new URL(bare).toString(), bare])] : [uri]
}
