/**
 * Texts that a client carries for svc: cursors, tickets, addresses of media. They are signed with the stored hash of the client's
 * secret: svc stores nothing, every node can check them, and they end with the key.
 */
import { Buffer } from 'node:buffer'
import { isSameHash } from '../access/secret.ts'
import { attempt, isObject } from '../platform/fields.ts'
import { nodeCrypto } from '../platform/lazy-crypto.ts'

type SignedKind = 'cursor' | 'ticket' | 'upload' | 'file' | 'media' | 'context'
export type Signed = Readonly<Record<string, unknown>>

const hmacOf = (hash: string, text: string): Buffer =>
  nodeCrypto().createHmac('sha256', hash).update(`relay ${text}`).digest()
const signatureOf = (hash: string, kind: SignedKind, body: string): string =>
  hmacOf(hash, `${kind} ${body}`).toString('base64url').slice(0, 22)

/** @param hash of the secret that the client shows */
export function sign(hash: string, kind: SignedKind, payload: Signed): string {
  const body = Buffer.from(JSON.stringify(payload)).toString('base64url')
  return `${body}.${signatureOf(hash, kind, body)}`
}

/** Returns what was signed; undefined for any other text. */
export function unsign(hash: string, kind: SignedKind, text: string): Signed | undefined {
  const [, body = '', signature = ''] = /^([\w-]+)\.([\w-]{22})$/.exec(text) ?? []
  if (!signature || !isSameHash(signature, signatureOf(hash, kind, body))) return undefined
  const value = attempt(() => JSON.parse(Buffer.from(body, 'base64url').toString()) as unknown)
  return isObject(value) ? value : undefined
}

/** The key with which a file is encrypted for one client, 16 bytes. WeChat's own key stays in svc. */
export const mediaKeyOf = (hash: string, message: string, item: number): Buffer =>
  hmacOf(hash, `key ${item} ${message}`).subarray(0, 16)
