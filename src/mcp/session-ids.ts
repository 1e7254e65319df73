/**
 * Ids of sessions that live through a restart: each carries what its client said when it opened the session, signed with a
 * key of the data directory and bound to the caller, so that any process of the directory can open the session again and
 * nobody else can use or make one.
 */
import { Buffer } from 'node:buffer'
import type { InitializeRequest } from '@modelcontextprotocol/server'
import { nodeCrypto, randomBytes } from '../platform/lazy-crypto.ts'

type Said = InitializeRequest['params']

/** Characters of a name or a version. */
const longest = 64
const longestId = 4096

/** What only its holder can make or read: an id is nothing without the same `caller`. */
export class SessionIds {
  readonly #key: string

  /** @param key kept secret; ids of another key are nobody's */
  constructor(key: string) {
    this.#key = key
  }

  make(said: Said, caller: string): string {
    const body = Buffer.from(
      JSON.stringify({ id: randomBytes(12).toString('base64url'), ...shortened(said) }),
    )
    const text = body.toString('base64url')
    return `${text}.${this.#signature(text, caller)}`
  }

  /** What the client said when it opened the session; `undefined` for an id that is not ours, or not this caller's. */
  read(id: string, caller: string): Said | undefined {
    const [text = '', signature = '', more] = id.length > longestId ? [] : id.split('.')
    if (more !== undefined || !this.#isSigned(text, signature, caller)) return undefined
    const { id: _id, ...said } = JSON.parse(Buffer.from(text, 'base64url').toString('utf8'))
    return said
  }

  #isSigned(text: string, signature: string, caller: string): boolean {
    const own = Buffer.from(this.#signature(text, caller))
    const given = Buffer.from(signature)
    return given.length === own.length && nodeCrypto().timingSafeEqual(given, own)
  }

  #signature(text: string, caller: string): string {
    const hash = nodeCrypto().createHmac('sha256', this.#key)
    return hash.update(`mcp session\n${text}\n${caller}`).digest('base64url')
  }
}

/** What the server acts on, in few bytes: it travels with each request. */
function shortened({ protocolVersion, clientInfo, capabilities }: Said): Said {
  const { elicitation, roots, sampling } = capabilities
  return {
    protocolVersion: protocolVersion.slice(0, longest),
    clientInfo: { name: clientInfo.name.slice(0, longest), version: clientInfo.version.slice(0, longest) },
    capabilities: {
      ...(elicitation && {
        elicitation: { ...(elicitation.form && { form: {} }), ...(elicitation.url && { url: {} }) },
      }),
      ...(roots && { roots: {} }),
      ...(sampling && { sampling: {} }),
    },
  }
}
