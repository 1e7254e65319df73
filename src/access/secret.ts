/** The form of keys: `svc_<id>_<secret>`. The store has only the hash of the secret. */
import { nodeCrypto, randomBytes } from '../platform/lazy-crypto.ts'

const keyForm = /^svc_([0-9a-z]{8})_([0-9a-f]{64})$/

/** Whether a bearer token has the form of a key, and so cannot be another token by mistake. */
export const hasKeyForm = (token: string): boolean => keyForm.test(token)

/** Returns the parts of a key; undefined if the text has another form. */
export function parseKey(text: string): { id: string; secret: string } | undefined {
  const [, id, secret] = keyForm.exec(text) ?? []
  return id === undefined || secret === undefined ? undefined : { id, secret }
}

const letters = 'abcdefghijklmnopqrstuvwxyz0123456789'
const createId = (): string => Array.from(randomBytes(8), byte => letters[byte % letters.length]).join('')

/** Makes a secret of 256 random bits, for a new key or for the one with this id. */
export function createSecret(id = createId()): { id: string; hash: string; key: string } {
  const secret = randomBytes(32).toString('hex')
  return { id, hash: hashOf(secret), key: `svc_${id}_${secret}` }
}

/** Returns the hash under which a secret is stored. */
export const hashOf = (secret: string): string => nodeCrypto().hash('sha256', secret, 'hex')

const encoder = new TextEncoder()
/** Compares two hashes in constant time. */
export const isSameHash = (a: string, b: string): boolean =>
  nodeCrypto().timingSafeEqual(encoder.encode(a), encoder.encode(b))
