/** Writes streams into files, in folders of svc. */
import { Buffer } from 'node:buffer'
import { type FileHandle, open, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { badArgument, SvcError } from '../model/error.ts'
import { ensurePrivateDir } from './files.ts'
import type { FreeSpace, SpaceCheck } from './free-space.ts'
import { nodeCrypto } from './lazy-crypto.ts'
import { createByteCounter } from './memory.ts'
import { rejectLink } from './own-names.ts'
import { storeErrorOf } from './system-error.ts'

type Digest = 'md5' | 'sha256'

export interface WrittenFile {
  size: number
  /** Lower-case hex. */
  digests: Partial<Record<Digest, string>>
}

export interface KeepOptions {
  /** Computed while writing: each digest costs more than the writing. */
  digests: readonly Digest[]
  /** Free space of the disk: a file that would leave too little is rejected. */
  space: FreeSpace
  /** Expected size in bytes, at most, where it is known. */
  size?: number
  /** A longer stream is rejected. */
  maxBytes?: number
  signal?: AbortSignal
  /** Called with the number of bytes received so far. */
  progress?: (size: number) => void
  /** Whether the file is on the disk when the promise resolves. */
  durable?: boolean
  /**
   * Whether the source of the stream already counts its bytes for the garbage collector. Counting twice frees
   * nothing.
   */
  isCounted?: boolean
}

/**
 * Returns a folder of svc in the media root, and creates it if it is absent.
 *
 * @throws SvcError `store_unavailable`
 */
export async function mediaFolder(
  mediaRoot: string,
  name: 'uploads' | 'downloads' | 'outbox',
): Promise<string> {
  const folder = join(mediaRoot, name)
  try {
    if (name !== 'downloads') await rejectLink(folder)
    await ensurePrivateDir(folder, { parents: false })
  } catch (error) {
    throw diskError(error)
  }
  return folder
}

/** Half-written files of dead processes are older than this: no writer pauses longer between two blocks. */
export const staleFileMs = 60 * 60_000
/** Names of files that are not complete yet. */
export const unfinishedName = /^\..+\.[0-9a-f]{8}\.part$|\.tmp$/

/**
 * Writes a stream into a new file, 0600, and computes its digests. On any failure it removes the file and
 * cancels the stream.
 *
 * @throws SvcError `payload_too_large`, `store_unavailable` (disk); the signal's reason; the stream's error
 */
export async function keepStream(
  body: ReadableStream<Uint8Array>,
  path: string,
  options: KeepOptions,
): Promise<WrittenFile> {
  const { signal } = options
  const reader = body.getReader()
  // Without this a silent sender would block the read.
  const abort = () => void reader.cancel(signal?.reason).catch(() => {})
  signal?.addEventListener('abort', abort, { once: true })
  let handle: FileHandle | undefined
  try {
    signal?.throwIfAborted()
    const room = await options.space.startCheck(dirname(path), options.size)
    handle = await open(path, 'wx', 0o600)
    const written = await drain(reader, handle, { ...options, room })
    if (options.durable) await handle.sync()
    await handle.close()
    return written
  } catch (error) {
    await reader.cancel(error).catch(() => {})
    await handle?.close().catch(() => {})
    // A file that was there before must stay.
    if (handle) await rm(path, { force: true })
    throw diskError(error)
  } finally {
    signal?.removeEventListener('abort', abort)
  }
}

/**
 * Chunks are written in blocks of at least this size, because each write goes through the thread pool. Most
 * chunks of incoming media are larger, and are written without a copy.
 */
const blockBytes = 128 * 1024

async function drain(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  handle: FileHandle,
  {
    digests,
    maxBytes = Number.POSITIVE_INFINITY,
    signal,
    room,
    progress,
    isCounted,
  }: KeepOptions & { room: SpaceCheck },
): Promise<WrittenFile> {
  const hashes = digests.map(name => [name, nodeCrypto().createHash(name)] as const)
  const passed = isCounted ? undefined : createByteCounter()
  let size = 0
  let held: Uint8Array[] = []
  let heldBytes = 0
  let writing: Promise<void> = Promise.resolve()
  const write = async () => {
    const only = held[0]
    const block = held.length === 1 && only ? only : Buffer.concat(held, heldBytes)
    held = []
    heldBytes = 0
    // The previous block is written while this one is hashed.
    for (const [, hash] of hashes) hash.update(block)
    await writing
    writing = writeBlock(handle, block)
    // The next await throws the error.
    writing.catch(() => {})
  }
  try {
    for (;;) {
      const { done, value } = await reader.read()
      // An aborted stream ends like a complete one.
      signal?.throwIfAborted()
      if (done) break
      passed?.(value.byteLength)
      size += value.byteLength
      if (size > maxBytes) throw tooLargeError(maxBytes)
      await room(size)
      held.push(value)
      heldBytes += value.byteLength
      if (heldBytes >= blockBytes) await write()
      progress?.(size)
    }
    if (heldBytes > 0) await write()
    await writing
  } finally {
    // The file must not be closed during a write.
    await writing.catch(() => {})
  }
  return { size, digests: Object.fromEntries(hashes.map(([name, hash]) => [name, hash.digest('hex')])) }
}

async function writeBlock(handle: FileHandle, block: Uint8Array): Promise<void> {
  for (let at = 0; at < block.byteLength; ) at += (await handle.write(block, at)).bytesWritten
}

export const tooLargeError = (limit: number): SvcError =>
  new SvcError('payload_too_large', `larger than ${limit} bytes`, { field: 'media' })

export const emptyFileError = (): SvcError => badArgument('media', 'the file is empty')

/** Maps a failure of the disk to an SvcError. */
export const diskError = (error: unknown): unknown => storeErrorOf(error, 'the file cannot be written')
