/**
 * Encrypts backups with a passphrase in the format of age (https://age-encryption.org/v1), which the program `age`
 * reads too. The key is derived here: the library would block the event loop for it, and accepts a header of any
 * length and cost.
 */
import { Buffer } from 'node:buffer'
import { createReadStream } from 'node:fs'
import { chacha20poly1305 } from '@noble/ciphers/chacha.js'
import { Decrypter, Encrypter, type Identity, type Recipient, Stanza } from 'age-encryption'
import { badArgument } from '../model/error.ts'
import { nodeCrypto, randomBytes } from '../platform/lazy-crypto.ts'
import { reasonOf } from '../platform/system-error.ts'

const kind = 'scrypt'
/** Binary logarithm of the cost of a guess: 256 MiB of memory and about a second. */
const usualCost = 18
const minCharacters = 12
const maxFileBytes = 4096

/** What the header of an encrypted backup begins with. */
export const ageMark = 'age-encryption.org/v1\n'
/** The whole header of a file that is encrypted with one passphrase. */
const headerForm = /^-> scrypt [\w+/]{22} ([1-9]\d?)\n[\w+/]{43}\n--- [\w+/]{43}\n/
/** More bytes than such a header has. */
export const headerBytes = 256

/**
 * Reads the file of `--passphrase-file`. A line end at its end does not count.
 *
 * @throws SvcError `invalid_arguments`
 */
export async function readPassphrase(path: string): Promise<string> {
  const blocks: Uint8Array[] = []
  try {
    // The file may be a pipe.
    for await (const block of createReadStream(path, { end: maxFileBytes })) blocks.push(block)
  } catch (error) {
    throw badArgument('--passphrase-file', `${path} cannot be read: ${reasonOf(error)}`, {
      hint: 'Name a file that this user may read.',
      cause: error,
    })
  }
  const bytes = Buffer.concat(blocks)
  const text = bytes.toString('utf8').replace(/\r?\n$/, '')
  if (bytes.length <= maxFileBytes && text.length >= minCharacters) return text
  throw badArgument(
    '--passphrase-file',
    `expected a passphrase of ${minCharacters} to ${maxFileBytes} bytes in ${path}`,
    { hint: 'head -c 32 /dev/urandom | base64 prints one.' },
  )
}

/** Encrypts a stream. */
export function encrypt(
  body: ReadableStream<Uint8Array>,
  passphrase: string,
): Promise<ReadableStream<Uint8Array>> {
  const recipient: Recipient = {
    async wrapFileKey(fileKey) {
      const salt = randomBytes(16)
      const cipher = await cipherOf(passphrase, salt, usualCost)
      return [new Stanza([kind, toBase64(salt), String(usualCost)], cipher.encrypt(fileKey))]
    },
  }
  const encrypter = new Encrypter()
  encrypter.addRecipient(recipient)
  return encrypter.encrypt(body)
}

/**
 * Checks the header of an encrypted file.
 *
 * @param text the beginning of the file, `headerBytes` long
 * @throws SvcError `invalid_arguments` for a file that was not encrypted with one passphrase at the usual cost
 */
export function rejectOtherHeader(text: string): void {
  const [, found] = headerForm.exec(text.slice(ageMark.length)) ?? []
  if (text.startsWith(ageMark) && Number(found) <= usualCost) return
  throw badArgument('file', 'it is damaged, or svc did not encrypt it', {
    hint: 'If another program encrypted it, decrypt it with age, and restore the result.',
  })
}

/** Makes a function that decrypts a stream, more than once: the key is derived once. */
export function createDecrypt(passphrase: string) {
  const keys = new Map<string, Promise<ReturnType<typeof chacha20poly1305>>>()
  const identity: Identity = {
    async unwrapFileKey([stanza]) {
      const [, salt = '', found] = stanza?.args ?? []
      const cipher = keys.get(salt) ?? cipherOf(passphrase, Buffer.from(salt, 'base64'), Number(found))
      keys.set(salt, cipher)
      try {
        return (await cipher).decrypt(stanza?.body ?? new Uint8Array())
      } catch (cause) {
        throw badArgument('--passphrase-file', 'the passphrase is not the one of this backup', { cause })
      }
    },
  }
  const decrypter = new Decrypter()
  decrypter.addIdentity(identity)
  return (body: ReadableStream<Uint8Array>): Promise<ReadableStream<Uint8Array>> => decrypter.decrypt(body)
}

/** Returns the cipher for the key of the file, by the rules of age for a passphrase. */
async function cipherOf(passphrase: string, salt: Uint8Array, cost: number) {
  const { scrypt } = nodeCrypto()
  const labelled = Buffer.concat([Buffer.from('age-encryption.org/v1/scrypt'), salt])
  const key = await new Promise<Uint8Array>((resolve, reject) =>
    scrypt(passphrase, labelled, 32, { N: 2 ** cost, r: 8, p: 1, maxmem: 2 ** (cost + 11) }, (error, key) =>
      error ? reject(error) : resolve(key),
    ),
  )
  return chacha20poly1305(key, new Uint8Array(12))
}

const toBase64 = (bytes: Buffer): string => bytes.toString('base64').replace(/=+$/, '')
