/**
 * A file to be sent, kept open from the moment its path was checked. So the file that is measured, hashed and
 * uploaded is always the same one, whatever happens to its name.
 */
import { Buffer } from 'node:buffer'
import { constants } from 'node:fs'
import { type FileHandle, open, stat } from 'node:fs/promises'
import { badArgument, SvcError } from '../model/error.ts'
import type { SteadyFile } from '../model/media.ts'
import { openFileBelow } from './below.ts'
import { emptyFileError, tooLargeError } from './file-stream.ts'
import { readOnlyFlags } from './files.ts'
import { lastChangeOf, stableAfterMs } from './json-file.ts'
import { nodeCrypto } from './lazy-crypto.ts'
import { reasonOf } from './system-error.ts'

/** A file of svc or of a caller, open for reading. */
export interface OpenedFile {
  handle: FileHandle
  size: number
  mtimeNs: bigint
  /** Change time of the inode. It shows when the file's mtime was set back. */
  ctimeNs: bigint
  /**
   * Whether the file was unchanged for long enough when opened, so that the next change is visible in its
   * times.
   */
  isStable: boolean
}

/** Each read goes through the thread pool: 700 MB/s in blocks of 128 KiB, 980 MB/s in blocks of this size. */
const blockBytes = 512 * 1024
const noFollow = constants.O_NOFOLLOW ?? 0

/**
 * Opens a regular file.
 *
 * @param options.checkPath returns the real path of the file, or throws if it is not allowed. It is called
 *   again once the file is open, so a link that is swapped in after the check has no effect
 * @param options.below a folder in which the file must lie; no link there is followed
 * @param options.singleLink rejects a file that has other hard links, because no path shows where those are
 * @throws SvcError `invalid_arguments`, `payload_too_large`, `forbidden` (hard links), and what `checkPath`
 *   throws
 */
export async function openRegularFile(
  path: string,
  options: {
    checkPath?: () => Promise<string>
    below?: string | undefined
    singleLink?: boolean
    maxBytes: number
  },
): Promise<OpenedFile> {
  const { below, checkPath, singleLink, maxBytes } = options
  const real = checkPath ? await checkPath() : path
  const unreadable = createReadErrorHandler(real)
  // Checked first: opening a device may have an effect.
  if (!(await stat(real).catch(unreadable)).isFile()) throw notRegularError()
  const opening =
    below === undefined
      ? open(real, checkPath ? readOnlyFlags | noFollow : readOnlyFlags)
      : openFileBelow(below, path).then(opened => opened.handle)
  const handle = await opening.catch(unreadable)
  try {
    const info = await handle.stat({ bigint: true })
    if (checkPath) {
      const now = await stat(await checkPath(), { bigint: true }).catch(unreadable)
      if (now.ino !== info.ino || now.dev !== info.dev) throw fileChangedError()
    }
    if (!info.isFile()) throw notRegularError()
    if (singleLink && info.nlink > 1n) throw hardLinkError()
    if (info.size > maxBytes) throw tooLargeError(maxBytes)
    if (info.size === 0n) throw emptyFileError()
    const { mtimeNs, ctimeNs } = info
    const times = { mtimeMs: Number(mtimeNs) / 1e6, ctimeMs: Number(ctimeNs) / 1e6 }
    const isOld = Date.now() - lastChangeOf(times) > stableAfterMs
    return { handle, size: Number(info.size), mtimeNs, ctimeNs, isStable: isOld }
  } catch (error) {
    await handle.close()
    throw error
  }
}

/**
 * Returns the MD5 of an opened file, lower-case hex.
 *
 * @throws the signal's reason; SvcError when the file shrank
 */
export async function md5Of({ handle, size }: OpenedFile, signal?: AbortSignal): Promise<string> {
  const hash = nodeCrypto().createHash('md5')
  for await (const block of blocksOf(handle, size)) {
    signal?.throwIfAborted()
    hash.update(block)
  }
  return hash.digest('hex')
}

/**
 * Makes a `SteadyFile` of an opened file.
 *
 * @param md5 its MD5, if others may write to it. Leave it out for a file in a folder of svc
 * @param remove removes the file when it is released
 */
export function createSteadyFile(
  opened: OpenedFile,
  { md5, remove }: { md5?: string; remove?: () => Promise<void> } = {},
): SteadyFile {
  const { handle, size, mtimeNs, ctimeNs, isStable } = opened
  return {
    size,
    read: () => blocksOf(handle, size),
    async checkUnchanged() {
      const now = await handle.stat({ bigint: true })
      if (now.mtimeNs !== mtimeNs || now.size !== BigInt(size)) throw fileChangedError()
      // Times may be set back, and may be equal after two changes: then compare the bytes. Only svc writes to
      // its own files.
      const doubtful = md5 !== undefined && (now.ctimeNs !== ctimeNs || !isStable)
      if (doubtful && (await md5Of(opened)) !== md5) throw fileChangedError()
    },
    async release() {
      await handle.close().catch(() => {})
      await remove?.()
    },
  }
}

/**
 * Reads the first `size` bytes into two buffers, filled alternately. New buffers would pile up faster than
 * they are collected; a file of 1 GB shows it. The next block is read while the caller works on the last one.
 */
async function* blocksOf(handle: FileHandle, size: number): AsyncGenerator<Uint8Array> {
  const blocks = [0, 1].map(() => Buffer.allocUnsafe(Math.min(size, blockBytes)))
  const fill = async (at: number) => {
    const block = blocks[Math.floor(at / blockBytes) % 2]!.subarray(0, size - at)
    for (let filled = 0; filled < block.length; ) {
      const { bytesRead } = await handle.read(block, filled, block.length - filled, at + filled)
      if (bytesRead === 0) throw fileChangedError()
      filled += bytesRead
    }
    return block
  }
  let next = fill(0)
  try {
    for (let at = 0; at < size; at += blockBytes) {
      const block = await next
      if (at + blockBytes < size) {
        next = fill(at + blockBytes)
        // Its error is thrown when the block is awaited.
        next.catch(() => {})
      }
      yield block
    }
  } finally {
    // The file must not be closed during a read.
    await next.catch(() => {})
  }
}

const fileChangedError = () => badArgument('media', 'the file changed while it was read')

const notRegularError = () => badArgument('media.path', 'it is a folder or a device, not a file')

const hardLinkError = () =>
  new SvcError('forbidden', 'the file has more than one hard link, and may lie elsewhere too', {
    field: 'media.path',
    hint: 'Copy the file and name the copy.',
  })

const createReadErrorHandler =
  (path: string) =>
  (error: unknown): never => {
    throw badArgument('media.path', `${JSON.stringify(path)} cannot be read: ${reasonOf(error)}`, {
      cause: error,
    })
  }
