/**
 * A file about to be sent, held open from the moment it was judged: what is measured, hashed and uploaded is one and
 * the same file, whatever happens to its name meanwhile.
 */
import { Buffer } from 'node:buffer'
import { constants } from 'node:fs'
import { type FileHandle, open, stat } from 'node:fs/promises'
import { badArgument, SvcError } from '../model/error.ts'
import type { SteadyFile } from '../model/media.ts'
import { empty, tooLarge } from './file-stream.ts'
import { readOnly } from './files.ts'
import { changedAt, settledAfterMs } from './json-file.ts'
import { nodeCrypto } from './lazy-crypto.ts'
import { reasonOf } from './system-error.ts'

/** A file of ours or of the caller's, open for reading. */
export interface OpenedFile {
  handle: FileHandle
  size: number
  mtimeNs: bigint
  /** Of the inode: a time of the file that was put back shows here. */
  ctimeNs: bigint
  /** It had not changed for so long when it was opened that the next change shows in its times. */
  settled: boolean
}

/** A read is a way through the thread pool: 700 MB/s in blocks of 128 KiB, 980 so. */
const blockBytes = 512 * 1024
const noFollow = constants.O_NOFOLLOW ?? 0

/**
 * Opens a regular file.
 *
 * @param judged when given, the real path of the file, or its refusal. It is asked again once the file is open: a link
 *   that is swapped in between the look and the opening leads nowhere
 * @param singleLink refuse a file with other names besides: where those lie, no path tells
 * @throws SvcError `invalid_arguments`, `payload_too_large`, `forbidden` (hard links), and what `judged` throws
 */
export async function openRegular(
  path: string,
  options: { judged?: () => Promise<string>; singleLink?: boolean; maxBytes: number },
): Promise<OpenedFile> {
  const { judged, singleLink, maxBytes } = options
  const real = judged ? await judged() : path
  const unreadable = unreadableAs(real)
  // Looking first: opening a device may do something.
  if (!(await stat(real).catch(unreadable)).isFile()) throw notRegular()
  const handle = await open(real, judged ? readOnly | noFollow : readOnly).catch(unreadable)
  try {
    const info = await handle.stat({ bigint: true })
    if (judged) {
      const now = await stat(await judged(), { bigint: true }).catch(unreadable)
      if (now.ino !== info.ino || now.dev !== info.dev) throw changed()
    }
    if (!info.isFile()) throw notRegular()
    if (singleLink && info.nlink > 1n) throw hardLinked()
    if (info.size > maxBytes) throw tooLarge(maxBytes)
    if (info.size === 0n) throw empty()
    const { mtimeNs, ctimeNs } = info
    const times = { mtimeMs: Number(mtimeNs) / 1e6, ctimeMs: Number(ctimeNs) / 1e6 }
    const settled = Date.now() - changedAt(times) > settledAfterMs
    return { handle, size: Number(info.size), mtimeNs, ctimeNs, settled }
  } catch (error) {
    await handle.close()
    throw error
  }
}

/** The digest of an opened file, lower-case hex. @throws the signal's reason; SvcError when the file shrank */
export async function md5Of({ handle, size }: OpenedFile, signal?: AbortSignal): Promise<string> {
  const hash = nodeCrypto().createHash('md5')
  for await (const block of blocksOf(handle, size)) {
    signal?.throwIfAborted()
    hash.update(block)
  }
  return hash.digest('hex')
}

/**
 * An opened file to be read.
 *
 * @param md5 of one that others may write to; without it the file lies in a folder of svc's own
 * @param remove of one that goes as it is released
 */
export function steadyFile(
  opened: OpenedFile,
  { md5, remove }: { md5?: string; remove?: () => Promise<void> } = {},
): SteadyFile {
  const { handle, size, mtimeNs, ctimeNs, settled } = opened
  return {
    size,
    read: () => blocksOf(handle, size),
    async unchanged() {
      const now = await handle.stat({ bigint: true })
      if (now.mtimeNs !== mtimeNs || now.size !== BigInt(size)) throw changed()
      // Times may be put back, and stand still between two changes: then the bytes tell. Nobody else writes to ours.
      const doubtful = md5 !== undefined && (now.ctimeNs !== ctimeNs || !settled)
      if (doubtful && (await md5Of(opened)) !== md5) throw changed()
    },
    async release() {
      await handle.close().catch(() => {})
      await remove?.()
    },
  }
}

/**
 * The first `size` bytes in two buffers that are filled in turns: fresh ones pile up faster than they are collected,
 * which a gigabyte shows. The next block is read while the reader works on the last one.
 */
async function* blocksOf(handle: FileHandle, size: number): AsyncGenerator<Uint8Array> {
  const blocks = [0, 1].map(() => Buffer.allocUnsafe(Math.min(size, blockBytes)))
  const fill = async (at: number) => {
    const block = blocks[Math.floor(at / blockBytes) % 2]!.subarray(0, size - at)
    for (let filled = 0; filled < block.length; ) {
      const { bytesRead } = await handle.read(block, filled, block.length - filled, at + filled)
      if (bytesRead === 0) throw changed()
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
        // Told when its turn comes.
        next.catch(() => {})
      }
      yield block
    }
  } finally {
    // The file is not to be closed under a read.
    await next.catch(() => {})
  }
}

const changed = () => badArgument('media', 'the file changed while it was read')

const notRegular = () => badArgument('media.path', 'it is a folder or a device, not a file')

const hardLinked = () =>
  new SvcError('forbidden', 'the file has more than one hard link, and may lie elsewhere too', {
    field: 'media.path',
    hint: 'Copy the file and name the copy.',
  })

const unreadableAs =
  (path: string) =>
  (error: unknown): never => {
    throw badArgument('media.path', `${JSON.stringify(path)} cannot be read: ${reasonOf(error)}`, {
      cause: error,
    })
  }
