/**
 * Encrypts single values that are stored among others: AES-256-GCM, bound to the place where the value stands, so
 * that a value copied to another row or column does not open.
 */
import { Buffer } from 'node:buffer'
import { SvcError, type SvcErrorOptions } from '../model/error.ts'
import { nodeCrypto, randomBytes } from './lazy-crypto.ts'

/** Where a sealed value stands. The names stay the same for as long as the value stands there. */
export interface SealedPlace {
  readonly table: string
  readonly column: string
  /** Key of the row. */
  readonly key: string
}

/** Seals and opens values. Without a secret key both return the value unchanged. */
export interface Sealer {
  /** Id of the secret key; undefined: there is none. */
  readonly keyId: string | undefined
  seal(value: string, place: SealedPlace): string
  /**
   * Opens a sealed value. A value that is not sealed is returned unchanged.
   *
   * @throws SvcError `store_unavailable` for a value that was sealed with another key, at another place, or damaged
   */
  open(value: string, place: SealedPlace): string
  /** Derives a secret for one use, as `deriveSecret` does. Without a secret key anybody can derive it. */
  derive(use: string): string
}

const prefix = 'svc-sealed'
const form = new RegExp(`^${prefix}:([0-9a-f]{16}):([A-Za-z0-9_-]+)$`)
const ivBytes = 12
const tagBytes = 16
/** Values that are kept, to seal and open the same one again: a file of contexts is written with each batch. */
const maxKept = 2000

/** Returns the id of the key with which a value was sealed; undefined for a value that is not sealed. */
export const sealedWith = (value: string): string | undefined => form.exec(value)?.[1]

/** Whether a value begins like a sealed one. Cheaper than `sealedWith`, for files with many values. */
export const looksSealed = (value: string): boolean => value.startsWith(`${prefix}:`)

/** A sealer for directories without a secret key. */
export const noSealer: Sealer = {
  keyId: undefined,
  derive: use => deriveSecret('', use),
  seal: value => value,
  open(value, place) {
    if (sealedWith(value) !== undefined) throw sealedError(place, 'is encrypted, and there is no secret key')
    return value
  },
}

/** Leaves values as they are, sealed or not: for work on a store that needs none of its secrets. */
export const untouched: Sealer = { ...noSealer, open: value => value }

/** Derives a secret from the secret key, for one use: the same in every process that has the key. */
export const deriveSecret = (secret: string, use: string): string =>
  derive(secret, use, 32).toString('base64url')

const derive = (secret: string, use: string, bytes: number): Buffer =>
  Buffer.from(nodeCrypto().hkdfSync('sha256', secret, '', `svc ${use}`, bytes))

/** Creates a sealer with a secret key. @param secret text of the key, at least 32 random characters */
export function createSealer(secret: string): Sealer {
  const { createCipheriv, createDecipheriv } = nodeCrypto()
  const key = derive(secret, 'secrets', 32)
  const keyId = derive(secret, 'id of the secret key', 8).toString('hex')
  /** Sealed values by place and value, and values by place and sealed value; the oldest first. */
  const kept = new Map<string, string>()
  const keep = (question: string, answer: string) => {
    kept.set(question, answer)
    const [oldest] = kept.keys()
    if (kept.size > maxKept && oldest !== undefined) kept.delete(oldest)
    return answer
  }
  return {
    keyId,
    derive: use => deriveSecret(secret, use),
    seal(value, place) {
      const question = `${nameOf(place)}\0${value}`
      const known = kept.get(question)
      if (known !== undefined) return known
      const iv = randomBytes(ivBytes)
      const cipher = createCipheriv('aes-256-gcm', key, iv).setAAD(Buffer.from(nameOf(place)))
      const bytes = Buffer.concat([iv, cipher.update(value, 'utf8'), cipher.final(), cipher.getAuthTag()])
      const sealed = `${prefix}:${keyId}:${bytes.toString('base64url')}`
      keep(`${nameOf(place)}\0${sealed}`, value)
      return keep(question, sealed)
    },
    open(sealed, place) {
      const [, id, text = ''] = form.exec(sealed) ?? []
      if (id === undefined) return sealed
      if (id !== keyId)
        throw sealedError(place, 'was encrypted with another secret key', { details: { secret_key_id: id } })
      const question = `${nameOf(place)}\0${sealed}`
      const known = kept.get(question)
      if (known !== undefined) return known
      const bytes = Buffer.from(text, 'base64url')
      try {
        const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, ivBytes))
        decipher.setAAD(Buffer.from(nameOf(place))).setAuthTag(bytes.subarray(-tagBytes))
        const value = Buffer.concat([decipher.update(bytes.subarray(ivBytes, -tagBytes)), decipher.final()])
        return keep(question, value.toString('utf8'))
      } catch (cause) {
        throw sealedError(place, 'is damaged, or was moved from another place', { cause })
      }
    },
  }
}

/** A sealer with a second key, while the key changes: it opens what either has sealed. */
export interface KeyRing extends Sealer {
  readonly keyId: string
  /** Ids of the keys, first of the one that seals. */
  readonly keyIds: readonly string[]
  /** Seals with this key from now on. @returns false if it has no such key */
  sealWith(keyId: string): boolean
}

/** @param second another key, which only opens until `sealWith` chooses it */
export function createKeyRing(secret: string, second?: string): KeyRing {
  const keys = [secret, second].flatMap(text =>
    text === undefined ? [] : [createSealer(text)],
  ) as (Sealer & {
    keyId: string
  })[]
  let current = keys[0]!
  return {
    get keyId() {
      return current.keyId
    },
    get keyIds() {
      return [...new Set([current, ...keys].map(({ keyId }) => keyId))]
    },
    sealWith(keyId) {
      const found = keys.find(key => key.keyId === keyId)
      current = found ?? current
      return found !== undefined
    },
    derive: use => current.derive(use),
    seal: (value, place) => current.seal(value, place),
    open(value, place) {
      const id = sealedWith(value)
      return (keys.find(({ keyId }) => keyId === id) ?? current).open(value, place)
    },
  }
}

const nameOf = ({ table, column, key }: SealedPlace): string => [table, column, key].join('\0')

const sealedError = ({ table, column }: SealedPlace, why: string, more: SvcErrorOptions = {}) =>
  new SvcError('store_unavailable', `a secret in ${table} (${column}) ${why}`, {
    hint: 'Start svc with the secret key of this data directory: --secret-key-file or SVC_SECRET_KEY.',
    ...more,
  })
