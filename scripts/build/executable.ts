/**
 * Reads the header of a program: enough of ELF, Mach-O and PE to check binaries that cannot run here. Offsets
 * are those of elf(5), Apple's loader.h and cs_blobs.h, and Microsoft's PE format.
 */
import { createHash } from 'node:crypto'

export interface Executable {
  format: 'ELF' | 'Mach-O' | 'PE'
  machine: string
  /** Bun's part: the program's own files and code. */
  payload: Buffer
  /** ELF: the loader that the system starts it with. */
  interpreter?: string
  /** Mach-O: the oldest macOS that it states. */
  oldestSystem?: string
  /** Mach-O: whether the signature matches every page; undefined without a signature. */
  signatureFits?: boolean
  /** PE: 3 means a console program. */
  subsystem?: number
}

/** @throws Error for a file that has none of the three formats, or that is shorter than its header states */
export function readExecutable(file: Buffer): Executable {
  if (file.readUInt32BE(0) === 0x7f454c46) return readElf(file)
  if (file.readUInt32LE(0) === 0xfeedfacf) return readMachO(file)
  if (file.toString('latin1', 0, 2) === 'MZ') return readPe(file)
  throw new Error(`no program: begins with ${file.subarray(0, 4).toString('hex')}`)
}

const nameAt = (file: Buffer, at: number, length: number) =>
  file.toString('latin1', at, at + length).replace(/\0.*$/s, '')

function partOf(file: Buffer, at: number, size: number): Buffer {
  if (at + size > file.length)
    throw new Error(`cut off: the header states ${at + size} bytes, the file has ${file.length}`)
  return file.subarray(at, at + size)
}

const machineIn = (names: Record<number, string>, code: number) => names[code] ?? `machine ${code}`

function readElf(file: Buffer): Executable {
  if (file.readUInt8(4) !== 2 || file.readUInt8(5) !== 1) throw new Error('not 64 bit, little endian')
  const word = (at: number) => Number(file.readBigUInt64LE(at))
  let interpreter: string | undefined
  for (let index = 0; index < file.readUInt16LE(56); index++) {
    const header = word(32) + index * file.readUInt16LE(54)
    if (file.readUInt32LE(header) === 3) interpreter = nameAt(file, word(header + 8), word(header + 32))
  }
  const sections = Array.from({ length: file.readUInt16LE(60) }, (_, index) => {
    const header = word(40) + index * file.readUInt16LE(58)
    return { name: file.readUInt32LE(header), at: word(header + 24), size: word(header + 32) }
  })
  const names = sections[file.readUInt16LE(62)]!.at
  const own = sections.find(({ name }) => nameAt(file, names + name, 8) === '.bun')
  if (!own) throw new Error('no section .bun')
  return {
    format: 'ELF',
    machine: machineIn({ 62: 'x64', 183: 'arm64' }, file.readUInt16LE(18)),
    interpreter,
    payload: partOf(file, own.at, own.size),
  }
}

function readMachO(file: Buffer): Executable {
  const found: Executable = {
    format: 'Mach-O',
    machine: machineIn({ 16777223: 'x64', 16777228: 'arm64' }, file.readUInt32LE(4)),
    payload: Buffer.alloc(0),
  }
  let command = 32
  for (let index = 0; index < file.readUInt32LE(16); index++) {
    const kind = file.readUInt32LE(command)
    // LC_SEGMENT_64, LC_CODE_SIGNATURE, LC_BUILD_VERSION
    if (kind === 0x19 && nameAt(file, command + 8, 16) === '__BUN') {
      const at = Number(file.readBigUInt64LE(command + 40))
      found.payload = partOf(file, at, Number(file.readBigUInt64LE(command + 48)))
    } else if (kind === 0x1d) {
      const at = file.readUInt32LE(command + 8)
      found.signatureFits = signatureFits(file, partOf(file, at, file.readUInt32LE(command + 12)), at)
    } else if (kind === 0x32) {
      found.oldestSystem = `${file.readUInt16LE(command + 14)}.${file.readUInt8(command + 13)}`
    }
    command += file.readUInt32LE(command + 4)
  }
  if (found.payload.length === 0) throw new Error('no segment __BUN')
  return found
}

/**
 * Checks the signature as the system does before it maps a page: the code directory holds the hash of each
 * page.
 */
function signatureFits(file: Buffer, blob: Buffer, signedUpTo: number): boolean {
  if (blob.readUInt32BE(0) !== 0xfade0cc0) return false
  for (let index = 0; index < blob.readUInt32BE(8); index++) {
    if (blob.readUInt32BE(12 + index * 8) !== 0) continue
    const directory = blob.subarray(blob.readUInt32BE(16 + index * 8))
    const hashes = directory.readUInt32BE(16)
    const pages = directory.readUInt32BE(28)
    const signed = directory.readUInt32BE(32)
    const [hashSize, hashType, pageShift] = [
      directory.readUInt8(36),
      directory.readUInt8(37),
      directory.readUInt8(39),
    ]
    const pageSize = 2 ** pageShift
    // 2 is SHA-256. Only the signature itself may be outside the signed part.
    if (directory.readUInt32BE(0) !== 0xfade0c02 || hashType !== 2 || hashSize !== 32) return false
    if (signed !== signedUpTo || pages !== Math.ceil(signed / pageSize)) return false
    for (let page = 0; page < pages; page++) {
      const content = file.subarray(page * pageSize, Math.min((page + 1) * pageSize, signed))
      const hash = directory.subarray(hashes + page * hashSize, hashes + (page + 1) * hashSize)
      if (!createHash('sha256').update(content).digest().equals(hash)) return false
    }
    return true
  }
  return false
}

function readPe(file: Buffer): Executable {
  const header = file.readUInt32LE(0x3c)
  if (file.readUInt32BE(header) !== 0x50450000) throw new Error('no PE header')
  const optional = header + 24
  const sections = optional + file.readUInt16LE(header + 20)
  const own = Array.from({ length: file.readUInt16LE(header + 6) }, (_, index) => sections + index * 40).find(
    at => nameAt(file, at, 8) === '.bun',
  )
  if (own === undefined) throw new Error('no section .bun')
  return {
    format: 'PE',
    machine: machineIn({ 34404: 'x64', 43620: 'arm64' }, file.readUInt16LE(header + 4)),
    subsystem: file.readUInt16LE(optional + 68),
    payload: partOf(file, file.readUInt32LE(own + 20), file.readUInt32LE(own + 16)),
  }
}
