/** Loads `node:crypto` at its first use: with the streams that it needs it takes 5 ms of a start. */
import { Buffer } from 'node:buffer'
import process from 'node:process'

type NodeCrypto = typeof import('node:crypto')

export const nodeCrypto = (): NodeCrypto => process.getBuiltinModule('node:crypto')

export const randomBytes = (size: number): Buffer =>
  Buffer.from(crypto.getRandomValues(new Uint8Array(size)).buffer)
