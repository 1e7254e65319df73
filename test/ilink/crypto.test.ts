import { describe, expect, test } from 'bun:test'
import { createCipheriv, randomBytes } from 'node:crypto'
import {
  decryptStream,
  encryptStream,
  keyB64OfHex,
  paddedSizeOf,
  parseAesKey,
  randomHexKey,
} from '../../src/ilink/crypto.ts'
import { isSvcError } from '../../src/model/error.ts'
import { failure } from '../support/failure.ts'

const hex = '000102030405060708090a0b0c0d0e0f'

async function all(source: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  for await (const chunk of source) chunks.push(Buffer.from(chunk))
  return Buffer.concat(chunks)
}

/** The bytes in pieces of the given sizes, over and over. */
async function* pieces(bytes: Uint8Array, sizes: number[]): AsyncGenerator<Uint8Array> {
  for (let at = 0, turn = 0; at < bytes.length; turn++) {
    const size = sizes[turn % sizes.length] ?? 1
    yield bytes.subarray(at, at + size)
    at += size
  }
}

describe('parseAesKey', () => {
  const spellings: [name: string, text: string][] = [
    ['32 hex characters', hex],
    ['32 upper-case hex characters', hex.toUpperCase()],
    ['base64 of 16 bytes', Buffer.from(hex, 'hex').toString('base64')],
    ['base64 of 32 hex characters', Buffer.from(hex).toString('base64')],
    ['surrounding spaces', ` ${hex}\n`],
  ]
  for (const [name, text] of spellings) {
    test(name, () => expect(parseAesKey(text).toString('hex')).toBe(hex))
  }

  for (const text of ['', 'short', 'z'.repeat(32), randomBytes(24).toString('base64'), hex.slice(2)]) {
    test(`refuses ${JSON.stringify(text)} without repeating it`, () => {
      try {
        parseAesKey(text)
        expect.unreachable()
      } catch (error) {
        expect(isSvcError(error, 'upstream_error')).toBe(true)
        if (text) expect(String(error)).not.toContain(text)
      }
    })
  }

  test('outgoing keys are base64 of the hex characters', () => {
    const key = randomHexKey()
    expect(key).toMatch(/^[0-9a-f]{32}$/)
    expect(Buffer.from(keyB64OfHex(key), 'base64').toString()).toBe(key)
    expect(parseAesKey(keyB64OfHex(key)).toString('hex')).toBe(key)
  })
})

describe('encryptStream and decryptStream', () => {
  test('the FIPS-197 vector', async () => {
    const plain = Buffer.from('00112233445566778899aabbccddeeff', 'hex')
    const cipher = await all(encryptStream([plain], parseAesKey(hex)))
    expect(cipher.subarray(0, 16).toString('hex')).toBe('69c4e0d86a7b0430d8cdb78070b4c55a')
    expect(cipher.length).toBe(32)
  })

  const sizes = [0, 1, 15, 16, 17, 4096, 65_535, 65_536, 65_537, 300_000]
  for (const size of sizes) {
    test(`${size} bytes in uneven pieces, there and back`, async () => {
      const key = randomBytes(16)
      const plain = randomBytes(size)
      const cipher = await all(encryptStream(pieces(plain, [1, 7000, 3, 70_000]), key))
      const whole = createCipheriv('aes-128-ecb', key, null)
      expect(cipher.equals(Buffer.concat([whole.update(plain), whole.final()]))).toBe(true)
      expect(cipher.length).toBe(paddedSizeOf(size))
      expect((await all(decryptStream(pieces(cipher, [5, 80_000, 11]), key))).equals(plain)).toBe(true)
    })
  }

  test('many small chunks are gathered into large ones', async () => {
    const counted: number[] = []
    for await (const chunk of encryptStream(pieces(randomBytes(1_000_000), [1000]), randomBytes(16)))
      counted.push(chunk.length)
    expect(counted.length).toBeLessThan(20)
  })

  test('ciphertext is given back once the next is asked for', async () => {
    const given: Uint8Array[] = []
    const sizes: number[] = []
    for await (const chunk of encryptStream([randomBytes(500_000), randomBytes(500_000)], randomBytes(16))) {
      given.push(chunk)
      sizes.push(given.reduce((sum, { byteLength }) => sum + byteLength, 0))
    }
    expect(Math.max(...sizes)).toBeLessThan(600_000)
  })

  test('ciphertext that fills its buffer is given back once it is decrypted, a part of one is not', async () => {
    const key = randomBytes(16)
    const [whole, shared] = [new Uint8Array(300_000), new Uint8Array(300_000)]
    const cipher = createCipheriv('aes-128-ecb', key, null)
    whole.set(cipher.update(new Uint8Array(300_000)))
    shared.set(cipher.final())
    const plain = await all(decryptStream([whole, shared.subarray(0, 16)], key))
    expect([plain.length, whole.length, shared.length]).toEqual([300_000, 0, 300_000])
  })

  const damaged: [name: string, change: (cipher: Buffer) => Uint8Array, says: RegExp][] = [
    ['cut inside a block', cipher => cipher.subarray(0, -5), /ended early/],
    ['empty', () => Buffer.alloc(0), /ended early/],
    ['encrypted with another key', () => Buffer.alloc(32, 7), /wrong key or damaged/],
  ]
  for (const [name, change, says] of damaged) {
    test(`ciphertext that is ${name} fails with upstream_error`, async () => {
      const key = parseAesKey(hex)
      const cipher = await all(encryptStream([Buffer.from('some plain text of a few blocks length')], key))
      const failure = await all(decryptStream([change(cipher)], key)).catch(error => error)
      expect(isSvcError(failure, 'upstream_error')).toBe(true)
      expect(failure.message).toMatch(says)
    })
  }

  test('a failing source fails the stream with its own error', async () => {
    async function* broken() {
      yield Buffer.alloc(10)
      throw new Error('disk gone')
    }
    expect((await failure(all(encryptStream(broken(), parseAesKey(hex))))).message).toContain('disk gone')
  })
})
