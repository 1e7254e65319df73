/** Digests, ciphers and random bytes without `node:crypto` at the start: with the streams that it loads it is 5 ms of it. */
import { Buffer } from 'node:buffer'
import process from 'node:process'

type NodeCrypto = typeof import('node:crypto')

/** `node:crypto`, loaded on use. */
export const nodeCrypto = (): NodeCrypto => process.getBuiltinModule('node:crypto')

export const randomBytes = (size: number): Buffer =>
  Buffer.from(crypto.getRandomValues(new Uint8Array(size)).buffer)
