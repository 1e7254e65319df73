/**
 * Media encryption: AES-128-ECB with PKCS7, no IV (protocol notes 4.1), as streams in bounded memory.
 * WebCrypto has no ECB, so this uses node:crypto. On chunks of 64 KiB it does 8 GB/s, far faster than any
 * network.
 */
import { Buffer } from 'node:buffer'
import process from 'node:process'
import { SvcError } from '../model/error.ts'
import { nodeCrypto, randomBytes } from '../platform/lazy-crypto.ts'
import { freeBuffer } from '../platform/memory.ts'

const hexKey = /^[0-9a-f]{32}$/i

/**
 * Parses a key in any of upstream's forms: 32 hex characters, base64 of 16 bytes, base64 of 32 hex
 * characters.
 *
 * @returns the 16 bytes of the key
 * @throws SvcError `upstream_error` when it has none of these forms; the message does not contain the key
 */
export function parseAesKey(encoded: string): Buffer {
  const text = encoded.trim()
  if (hexKey.test(text)) return Buffer.from(text, 'hex')
  const bytes = Buffer.from(text, 'base64')
  if (bytes.length === 16) return bytes
  const inner = bytes.toString('latin1')
  if (hexKey.test(inner)) return Buffer.from(inner, 'hex')
  throw new SvcError('upstream_error', 'The media key has none of the known forms', {
    hint: 'Ask the user to send it again.',
  })
}

/** Returns 16 random bytes as 32 lower-case hex characters: for media keys and for `filekey`. */
export const randomHexKey = (): string => randomBytes(16).toString('hex')

/** Returns form B, base64 of the 32 hex characters: the only one that WeChat accepts in outgoing messages. */
export const keyB64OfHex = (hex: string): string => Buffer.from(hex, 'latin1').toString('base64')

/** Returns the ciphertext bytes for `size` plaintext bytes. PKCS7 always adds 1 to 16. */
export const paddedSizeOf = (size: number): number => Math.floor(size / 16) * 16 + 16

export type ByteSource = AsyncIterable<Uint8Array> | Iterable<Uint8Array>

/** Chunks are joined up to this many bytes: a call of the cipher costs more than encrypting 1 KiB. */
const joinedBytes = 128 * 1024

/**
 * Encrypts a source. Under Bun each chunk is valid only until the next one is requested. Fails when the
 * source fails.
 */
export async function* encryptStream(source: ByteSource, key: Buffer): AsyncGenerator<Uint8Array> {
  const cipher = nodeCrypto().createCipheriv('aes-128-ecb', key, null)
  for await (const chunk of joinChunks(source)) {
    const out = cipher.update(chunk)
    if (out.length === 0) continue
    yield out
    // Bun has copied the chunk by now. The fetch of Node and of Deno requests the next chunk before it sends
    // this one.
    if (process.versions.bun) freeBuffer(out)
  }
  yield cipher.final()
}

/**
 * Decrypts a source, one chunk late: media that fits in one chunk is returned only after the padding is
 * checked. A chunk that fills its whole buffer, as network chunks do, is freed once it is read: that saves
 * half of the stream's memory.
 *
 * @throws SvcError `upstream_error` at the end when the ciphertext is cut off, or when the padding shows a
 *   wrong key
 */
export async function* decryptStream(source: ByteSource, key: Buffer): AsyncGenerator<Uint8Array> {
  const decipher = nodeCrypto().createDecipheriv('aes-128-ecb', key, null)
  let size = 0
  let pending: Uint8Array | undefined
  for await (const chunk of joinChunks(source, { own: true })) {
    size += chunk.length
    const out = decipher.update(chunk)
    if (pending && pending.length > 0) yield pending
    pending = out
  }
  let last: Uint8Array
  try {
    last = decipher.final()
  } catch (cause) {
    const detail =
      size === 0 || size % 16 !== 0
        ? 'The media ended early: its encrypted size is not a multiple of 16 bytes'
        : 'The media cannot be decrypted: wrong key or damaged data'
    throw new SvcError('upstream_error', detail, { cause })
  }
  if (pending && pending.length > 0) yield pending
  if (last.length > 0) yield last
}

/**
 * Joins small chunks and passes large ones on, in order. All joined chunks share one buffer: each is valid
 * only until the next one is requested.
 */
async function* joinChunks(source: ByteSource, { own = false } = {}): AsyncGenerator<Uint8Array> {
  const joined = Buffer.allocUnsafe(joinedBytes)
  let filled = 0
  for await (const chunk of source) {
    if (filled > 0 && filled + chunk.length > joined.length) {
      yield joined.subarray(0, filled)
      filled = 0
    }
    if (chunk.length > joined.length) {
      yield chunk
    } else {
      joined.set(chunk, filled)
      filled += chunk.length
    }
    if (own && chunk.length === chunk.buffer.byteLength) freeBuffer(chunk)
  }
  if (filled > 0) yield joined.subarray(0, filled)
}
