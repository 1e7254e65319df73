/**
 * Signs a program for macOS, which kills a program whose signature does not match its pages. Bun signs arm64
 * binaries. In x64 binaries it leaves its own signature, which no longer matches. So x64 binaries are
 * signed here, ad hoc as a linker does: with the hashes of all pages and without a certificate. Layout:
 * Apple's loader.h and cs_blobs.h.
 */
import { createHash } from 'node:crypto'

const machO = 0xfeedfacf
const segment = 0x19
const codeSignature = 0x1d
const pageSize = 4096
const hashSize = 32
const blobStart = 20
const directoryStart = 88

/** @returns the program with a matching signature; unchanged when it is not Mach-O */
export function signProgram(program: Buffer, identifier: string): Buffer {
  if (program.readUInt32LE(0) !== machO) return program
  const { signature, text, linkEdit } = findLoadCommands(program)
  const codeLimit = program.readUInt32LE(signature + 8)
  const pages = Math.ceil(codeLimit / pageSize)
  const hashes = directoryStart + identifier.length + 1
  const length = blobStart + hashes + pages * hashSize

  // The load commands that describe the signature are signed too, so they are set first.
  const code = Buffer.from(program.subarray(0, codeLimit))
  code.writeUInt32LE(length, signature + 12)
  const linkEditSize = codeLimit + length - Number(code.readBigUInt64LE(linkEdit + 40))
  code.writeBigUInt64LE(BigInt(Math.ceil(linkEditSize / 0x4000) * 0x4000), linkEdit + 32)
  code.writeBigUInt64LE(BigInt(linkEditSize), linkEdit + 48)

  const blob = Buffer.alloc(length)
  const words = (at: number, ...values: number[]) => {
    for (const [index, value] of values.entries()) blob.writeUInt32BE(value, at + index * 4)
  }
  // The signature has one part: the code directory.
  words(0, 0xfade0cc0, length, 1, 0, blobStart)
  // Version, the flags "ad hoc" and "by a linker", offsets of hashes and name, number of pages, signed
  // length.
  words(
    blobStart,
    0xfade0c02,
    length - blobStart,
    0x20400,
    0x20002,
    hashes,
    directoryStart,
    0,
    pages,
    codeLimit,
  )
  // SHA-256, and the page size as a power of two.
  blob.set([hashSize, 2, 0, Math.log2(pageSize)], blobStart + 36)
  // The range of the code, and that it is a main program.
  blob.writeBigUInt64BE(code.readBigUInt64LE(text + 40), blobStart + 64)
  blob.writeBigUInt64BE(code.readBigUInt64LE(text + 48), blobStart + 72)
  blob.writeBigUInt64BE(1n, blobStart + 80)
  blob.write(identifier, blobStart + directoryStart, 'latin1')
  for (let page = 0; page < pages; page++) {
    const content = code.subarray(page * pageSize, (page + 1) * pageSize)
    blob.set(createHash('sha256').update(content).digest(), blobStart + hashes + page * hashSize)
  }
  return Buffer.concat([code, blob])
}

/**
 * Returns the offsets of the load commands for the signature, the code, and the segment that holds the
 * signature.
 */
function findLoadCommands(program: Buffer): { signature: number; text: number; linkEdit: number } {
  const found = new Map<string, number>()
  let at = 32
  for (let index = 0; index < program.readUInt32LE(16); index++) {
    const kind = program.readUInt32LE(at)
    if (kind === codeSignature) found.set('signature', at)
    if (kind === segment) found.set(program.toString('latin1', at + 8, at + 24).replace(/\0+$/, ''), at)
    at += program.readUInt32LE(at + 4)
  }
  const [signature, text, linkEdit] = ['signature', '__TEXT', '__LINKEDIT'].map(name => found.get(name))
  if (signature === undefined || text === undefined || linkEdit === undefined) {
    throw new Error('The program for macOS has no place for a signature.')
  }
  return { signature, text, linkEdit }
}
