/** The file of a backup: a tar, which may be encrypted. It is written and read as a stream. */
import { Buffer } from 'node:buffer'
import { type FileHandle, open } from 'node:fs/promises'
import { createTarDecoder, createTarPacker } from 'modern-tar'
import { streamOf } from '../ilink/progress.ts'
import { badArgument, SvcError } from '../model/error.ts'
import { keepStream } from '../platform/file-stream.ts'
import { errorCodeOf, readOnlyFlags, rejectNonFile } from '../platform/files.ts'
import type { FreeSpace } from '../platform/free-space.ts'
import { nodeCrypto } from '../platform/lazy-crypto.ts'
import { reasonOf } from '../platform/system-error.ts'
import type { ArchivedFile } from './manifest.ts'
import { ageMark, createDecrypt, encrypt, headerBytes, rejectOtherHeader } from './passphrase.ts'

const blockBytes = 256 * 1024
const privateFile = 0o600

/** Adds a file to the archive. The content must have that size. */
export type AddFile = (
  name: string,
  size: number,
  content: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
) => Promise<ArchivedFile>

/**
 * Writes a new archive, mode 0600. On any failure nothing of it stays.
 *
 * @param fill adds the files, one after the other
 * @returns its size in bytes, when it is on the disk
 * @throws SvcError `store_unavailable` for the disk; the error of `fill`
 */
export async function writeArchive(
  path: string,
  { passphrase, space }: { passphrase: string | undefined; space: FreeSpace },
  fill: (add: AddFile) => Promise<void>,
): Promise<number> {
  const { readable, controller } = createTarPacker()
  const body = passphrase === undefined ? readable : await encrypt(readable, passphrase)
  const written = keepStream(body, path, { digests: [], space, durable: true })
  // Otherwise `fill` would wait forever for a reader that is gone.
  written.catch(error => controller.error(error))
  const filled = fill(async (name, size, content) => {
    const hash = nodeCrypto().createHash('sha256')
    const entry = controller.add({ name, size, mode: privateFile, type: 'file' }).getWriter()
    entry.closed.catch(() => {})
    for await (const block of content) {
      hash.update(block)
      await entry.write(block)
    }
    await entry.close()
    return { name, size, sha256: hash.digest('hex') }
  })
  filled.then(
    () => controller.finalize(),
    error => controller.error(error),
  )
  const [cause, end] = await Promise.allSettled([filled, written])
  if (cause.status === 'rejected') throw cause.reason
  if (end.status === 'rejected') throw end.reason
  return end.value.size
}

/** A file in an archive that is being read. */
export interface ReadFile {
  name: string
  size: number
  /** Whether it is a plain file. */
  isFile: boolean
  body: ReadableStream<Uint8Array>
}

/** An archive that is open for reading. */
export interface OpenedArchive extends AsyncDisposable {
  /**
   * Reads the archive from its beginning, with each call again. Read the body of each file to its end before the next.
   *
   * @throws SvcError `invalid_arguments` for another passphrase; an error for `damageError`, also from a body
   */
  files(): AsyncGenerator<ReadFile>
}

const tarMark = { at: 257, text: 'ustar' }

/**
 * Opens an archive.
 *
 * @throws SvcError `invalid_arguments` if it cannot be read, or cannot be an archive for this passphrase
 */
export async function openArchive(path: string, passphrase: string | undefined): Promise<OpenedArchive> {
  const handle = await open(path, readOnlyFlags).catch(error => {
    throw badArgument('file', `${path} cannot be read: ${reasonOf(error)}`, { cause: error })
  })
  const close = () => handle.close()
  try {
    const info = await handle.stat()
    rejectNonFile(path, info)
    const { buffer } = await handle.read(Buffer.alloc(512), 0, 512, 0)
    const decrypt = chooseDecrypt(buffer.toString('latin1'), passphrase)
    const read = () => streamOf(blocksOf(handle, info.size), () => {})
    return { files: () => readFiles(read(), decrypt), [Symbol.asyncDispose]: close }
  } catch (error) {
    await close()
    throw error
  }
}

/** @returns undefined for an archive that is not encrypted */
function chooseDecrypt(head: string, passphrase: string | undefined) {
  if (head.startsWith(ageMark)) {
    rejectOtherHeader(head.slice(0, headerBytes))
    if (passphrase !== undefined) return createDecrypt(passphrase)
    throw badArgument('--passphrase-file', 'expected, because the backup is encrypted')
  }
  if (!head.startsWith(tarMark.text, tarMark.at))
    throw badArgument('file', 'it is not a backup of svc, or its beginning is damaged')
  if (passphrase === undefined) return undefined
  throw badArgument('--passphrase-file', 'the backup is not encrypted', {
    hint: 'If you know that this backup is yours, leave the passphrase out.',
  })
}

async function* readFiles(
  stored: ReadableStream<Uint8Array>,
  decrypt: ReturnType<typeof createDecrypt> | undefined,
): AsyncGenerator<ReadFile> {
  const plain = decrypt ? await decrypt(stored) : stored
  for await (const { header, body } of plain.pipeThrough(createTarDecoder({ strict: true })))
    yield { name: header.name, size: header.size, isFile: header.type === 'file', body }
}

/** Returns the error for an archive whose reading failed. Errors of svc and of the system stay as they are. */
export const damageError = (error: unknown): unknown =>
  error instanceof SvcError || errorCodeOf(error) !== undefined
    ? error
    : badArgument('file', `it is damaged or cut off (${reasonOf(error)})`, {
        hint: 'Nothing was restored. Use another backup.',
        cause: error,
      })

/** Reads an open file from its beginning. Each block has memory of its own, because the archive keeps some blocks. */
export async function* blocksOf(handle: FileHandle, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < size; ) {
    const block = Buffer.allocUnsafeSlow(Math.min(blockBytes, size - at))
    const { bytesRead } = await handle.read(block, 0, block.length, at)
    if (bytesRead === 0) return
    at += bytesRead
    yield block.subarray(0, bytesRead)
  }
}
