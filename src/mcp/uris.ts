/** The addresses of the resources: how they are written, and how they are read back. */
import { sessionKey } from '../model/session.ts'
import { nameKey } from '../model/user-name.ts'
import { decodedUri } from '../platform/header.ts'

export const sessionsUri = 'svc://sessions'
export const inboxUri = 'svc://inbox'
export const everybodyUri = 'svc://users'

export const usersTemplate = 'svc://sessions/{session}/users'
export const conversationTemplate = 'svc://conversations/{session}/{user}'
export const mediaTemplate = 'svc://media/{message_id}/{item}'

export const usersUri = (session: string): string => `svc://sessions/${encodeURIComponent(session)}/users`

export const conversationUri = (session: string, user: string): string =>
  `svc://conversations/${encodeURIComponent(session)}/${encodeURIComponent(user)}`

export const mediaUri = (messageId: string, item: number): string =>
  `svc://media/${encodeURIComponent(messageId)}/${item}`

/** A part of an address as it was before it was percent-encoded; undefined when it is not well encoded. */
export const decodedPart = (part: string | readonly string[] | undefined): string | undefined =>
  typeof part === 'string' ? decodedUri(part) : undefined

/**
 * Our own spelling of an address whose news are announced. Clients may spell it in several ways: `@` and letters of
 * other scripts may stand as they are or percent-encoded. Undefined when nothing is announced for it.
 */
export function announcedUri(
  given: string,
  session = (name: string) => name,
  person = (user: string) => user,
): string | undefined {
  if (!URL.canParse(given)) return undefined
  const uri = new URL(given).toString()
  if (uri === sessionsUri || uri === inboxUri || uri === everybodyUri) return uri
  const [, ofUsers] = /^svc:\/\/sessions\/([^/?#]+)\/users$/.exec(uri) ?? []
  const [, ofTalk, peer] = /^svc:\/\/conversations\/([^/?#]+)\/([^/?#]+)$/.exec(uri) ?? []
  const [name, user] = [decodedPart(ofUsers ?? ofTalk), decodedPart(peer)]
  if (name === undefined) return undefined
  if (ofUsers !== undefined) return usersUri(session(name))
  return user === undefined ? undefined : conversationUri(session(name), person(user))
}

/** The same for all spellings, and for names of sessions and users in any case. */
export const announcedKey = (given: string): string | undefined =>
  announcedUri(given, sessionKey, user => (user.includes('@') ? user : nameKey(user)))

/** The ways in which a client is likely to write an address: as we do, as the URL standard does, and unencoded. */
export function spellings(uri: string): string[] {
  const bare = decodedPart(uri) ?? uri
  // Only where it still names the same: an encoded slash or per cent sign must stay encoded.
  return announcedUri(bare) === uri ? [...new Set([uri, new URL(bare).toString(), bare])] : [uri]
}
