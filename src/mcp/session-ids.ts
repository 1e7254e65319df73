/**
 * Ids of MCP sessions that survive a restart. An id contains the parameters of the client's `initialize`
 * request. It is signed with a key of the data directory and bound to the caller. So every process of the
 * directory can open the session again, and no other caller can use or forge an id.
 */
import { Buffer } from 'node:buffer'
import type { InitializeRequest } from '@modelcontextprotocol/server'
import { nodeCrypto, randomBytes } from '../platform/lazy-crypto.ts'

type InitializeParams = InitializeRequest['params']

/** Maximum length of a name or a version, in characters. */
const maxNameLength = 64
const maxIdLength = 4096

/** Creates and reads session ids. */
export class SessionIds {
  readonly #key: string

  /** @param key secret of the data directory; ids that were signed with another key are invalid */
  constructor(key: string) {
    this.#key = key
  }

  create(params: InitializeParams, caller: string): string {
    const body = Buffer.from(
      JSON.stringify({ id: randomBytes(12).toString('base64url'), ...shorten(params) }),
    )
    const text = body.toString('base64url')
    return `${text}.${this.#signature(text, caller)}`
  }

  /**
   * Returns the `initialize` parameters in an id; undefined if the id is invalid or belongs to another
   * caller.
   */
  read(id: string, caller: string): InitializeParams | undefined {
    const [text = '', signature = '', more] = id.length > maxIdLength ? [] : id.split('.')
    if (more !== undefined || !this.#isSigned(text, signature, caller)) return undefined
    const { id: _id, ...params } = JSON.parse(Buffer.from(text, 'base64url').toString('utf8'))
    return params
  }

  #isSigned(text: string, signature: string, caller: string): boolean {
    const expected = Buffer.from(this.#signature(text, caller))
    const actual = Buffer.from(signature)
    return actual.length === expected.length && nodeCrypto().timingSafeEqual(actual, expected)
  }

  #signature(text: string, caller: string): string {
    const hash = nodeCrypto().createHmac('sha256', this.#key)
    return hash.update(`mcp session\n${text}\n${caller}`).digest('base64url')
  }
}

/** Keeps only the parameters that the server uses, since the id is sent with each request. */
function shorten({ protocolVersion, clientInfo, capabilities }: InitializeParams): InitializeParams {
  const { elicitation, roots, sampling } = capabilities
  return {
    protocolVersion: protocolVersion.slice(0, maxNameLength),
    clientInfo: {
      name: clientInfo.name.slice(0, maxNameLength),
      version: clientInfo.version.slice(0, maxNameLength),
    },
    capabilities: {
      ...(elicitation && {
        elicitation: { ...(elicitation.form && { form: {} }), ...(elicitation.url && { url: {} }) },
      }),
      ...(roots && { roots: {} }),
      ...(sampling && { sampling: {} }),
    },
  }
}
