/**
 * Media encryption: AES-128-ECB with PKCS7, no IV (protocol notes 4.1), as streams in bounded memory.
 * WebCrypto has no ECB, hence node:crypto; on 64 KiB chunks it is far faster than any network (8 GB/s).
 */
import { Buffer } from 'node:buffer'
import process from 'node:process'
import { SvcError } from '../model/error.ts'
import { nodeCrypto, randomBytes } from '../platform/lazy-crypto.ts'
import { release } from '../platform/memory.ts'

const hexKey = /^[0-9a-f]{32}$/i

/**
 * The 16 key bytes behind any of upstream's spellings: 32 hex characters, base64 of 16 bytes, base64 of 32 hex characters.
 *
 * @throws SvcError `upstream_error` when it is none of them; the text does not carry the key
 */
export function parseAesKey(spelled: string): Buffer {
  const text = spelled.trim()
  if (hexKey.test(text)) return Buffer.from(text, 'hex')
  const bytes = Buffer.from(text, 'base64')
  if (bytes.length === 16) return bytes
  const inner = bytes.toString('latin1')
  if (hexKey.test(inner)) return Buffer.from(inner, 'hex')
  throw new SvcError('upstream_error', 'The media key is in none of the known spellings', {
    hint: 'Ask the user to send it again.',
  })
}

/** 16 random bytes as 32 lower-case hex characters: for media keys and for `filekey`. */
export const randomHexKey = (): string => randomBytes(16).toString('hex')

/** Spelling B, base64 of the 32 hex characters: the only one WeChat accepts in outgoing messages. */
export const keyB64OfHex = (hex: string): string => Buffer.from(hex, 'latin1').toString('base64')

/** Ciphertext bytes of `size` plaintext bytes: PKCS7 always adds 1 to 16. */
export const paddedSize = (size: number): number => Math.floor(size / 16) * 16 + 16

export type ByteSource = AsyncIterable<Uint8Array> | Iterable<Uint8Array>

/** Chunks are joined to up to this many bytes: a call into the cipher costs more than 1 KiB of its work. */
const joinedBytes = 128 * 1024

/** The ciphertext of a plaintext source. Under Bun what is given is valid until the next is asked for; a failing source fails it. */
export async function* encryptStream(source: ByteSource, key: Buffer): AsyncGenerator<Uint8Array> {
  const cipher = nodeCrypto().createCipheriv('aes-128-ecb', key, null)
  for await (const chunk of gathered(source)) {
    const out = cipher.update(chunk)
    if (out.length === 0) continue
    yield out
    // Bun has copied it by then; the fetch of Node, and of Deno, asks for the next before it sends this one.
    if (process.versions.bun) release(out)
  }
  yield cipher.final()
}

/**
 * The plaintext of a ciphertext source, a chunk behind it: of what fits in one chunk nothing is given before all is checked.
 * A chunk that fills its buffer is given back once it is read, as those of the network do: half of what the stream costs.
 *
 * @throws SvcError `upstream_error` at the end when the ciphertext is cut, or the padding shows another key
 */
export async function* decryptStream(source: ByteSource, key: Buffer): AsyncGenerator<Uint8Array> {
  const decipher = nodeCrypto().createDecipheriv('aes-128-ecb', key, null)
  let size = 0
  let held: Uint8Array | undefined
  for await (const chunk of gathered(source, { own: true })) {
    size += chunk.length
    const out = decipher.update(chunk)
    if (held && held.length > 0) yield held
    held = out
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
  if (held && held.length > 0) yield held
  if (last.length > 0) yield last
}

/**
 * Small chunks joined, large ones as they are; order kept. All are joined in the same buffer: what is given is valid until
 * the next is asked for.
 */
async function* gathered(source: ByteSource, { own = false } = {}): AsyncGenerator<Uint8Array> {
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
    if (own && chunk.length === chunk.buffer.byteLength) release(chunk)
  }
  if (filled > 0) yield joined.subarray(0, filled)
}
