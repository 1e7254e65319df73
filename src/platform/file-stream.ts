/** Streams into files, in folders of ours. */
import { Buffer } from 'node:buffer'
import { type FileHandle, open, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { badArgument, SvcError } from '../model/error.ts'
import { ensurePrivateDir } from './files.ts'
import type { FreeSpace, Room } from './free-space.ts'
import { nodeCrypto } from './lazy-crypto.ts'
import { streamedBytes } from './memory.ts'
import { unavailable } from './system-error.ts'

export type Digest = 'md5' | 'sha256'

export interface Written {
  size: number
  /** Lower-case hex. */
  digests: Partial<Record<Digest, string>>
}

export interface KeepOptions {
  /** Taken as it goes: each costs more than the writing. */
  digests: readonly Digest[]
  /** Of the disk: the file is refused where it would leave too little. */
  space: FreeSpace
  /** Bytes to come, at most, where that is known. */
  size?: number
  /** More bytes than this are refused. */
  maxBytes?: number
  signal?: AbortSignal
  /** Told how many bytes have come. */
  progress?: (size: number) => void
  /** On the disk when this resolves. */
  durable?: boolean
  /** Whoever makes the stream tells `streamedBytes` of it already: to collect twice for the same bytes frees nothing. */
  collected?: boolean
}

/** A folder of ours in the media root, made when there is none. @throws SvcError `store_unavailable` */
export async function mediaFolder(
  mediaRoot: string,
  name: 'uploads' | 'downloads' | 'outbox',
): Promise<string> {
  const folder = join(mediaRoot, name)
  try {
    await ensurePrivateDir(folder, { parents: false })
  } catch (error) {
    throw diskError(error)
  }
  return folder
}

/** What a process that died left half written is older than this: nothing pauses longer between two blocks. */
export const staleMs = 60 * 60_000
/** Names that we give to what is not complete yet. */
export const unfinished = /^\..+\.[0-9a-f]{8}\.part$|\.tmp$/

/**
 * Writes a stream into a new file, 0600, hashing as it goes. Whatever goes wrong, nothing of it stays, and the stream
 * is cancelled.
 *
 * @throws SvcError `payload_too_large`, `store_unavailable` (disk); the signal's reason; what the stream fails with
 */
export async function keepStream(
  body: ReadableStream<Uint8Array>,
  path: string,
  options: KeepOptions,
): Promise<Written> {
  const { signal } = options
  const reader = body.getReader()
  // A sender that has fallen silent would keep us in the read.
  const abort = () => void reader.cancel(signal?.reason).catch(() => {})
  signal?.addEventListener('abort', abort, { once: true })
  let handle: FileHandle | undefined
  try {
    signal?.throwIfAborted()
    const room = await options.space.room(dirname(path), options.size)
    handle = await open(path, 'wx', 0o600)
    const written = await drain(reader, handle, { ...options, room })
    if (options.durable) await handle.sync()
    await handle.close()
    return written
  } catch (error) {
    await reader.cancel(error).catch(() => {})
    await handle?.close().catch(() => {})
    // Not ours to remove when it was there before.
    if (handle) await rm(path, { force: true })
    throw diskError(error)
  } finally {
    signal?.removeEventListener('abort', abort)
  }
}

/**
 * Chunks are written in blocks of at least this size: each write is a way through the thread pool. What media comes in is
 * mostly larger, and then it is not copied together first.
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
    collected,
  }: KeepOptions & { room: Room },
): Promise<Written> {
  const hashes = digests.map(name => [name, nodeCrypto().createHash(name)] as const)
  const passed = collected ? undefined : streamedBytes()
  let size = 0
  let held: Uint8Array[] = []
  let heldBytes = 0
  let writing: Promise<void> = Promise.resolve()
  const write = async () => {
    const only = held[0]
    const block = held.length === 1 && only ? only : Buffer.concat(held, heldBytes)
    held = []
    heldBytes = 0
    // While the block before is on its way to the disk.
    for (const [, hash] of hashes) hash.update(block)
    await writing
    writing = writeWhole(handle, block)
    // The next await throws it.
    writing.catch(() => {})
  }
  try {
    for (;;) {
      const { done, value } = await reader.read()
      // An aborted stream ends like one that is complete.
      signal?.throwIfAborted()
      if (done) break
      passed?.(value.byteLength)
      size += value.byteLength
      if (size > maxBytes) throw tooLarge(maxBytes)
      await room(size)
      held.push(value)
      heldBytes += value.byteLength
      if (heldBytes >= blockBytes) await write()
      progress?.(size)
    }
    if (heldBytes > 0) await write()
    await writing
  } finally {
    // The file is not to be closed under a write.
    await writing.catch(() => {})
  }
  return { size, digests: Object.fromEntries(hashes.map(([name, hash]) => [name, hash.digest('hex')])) }
}

async function writeWhole(handle: FileHandle, block: Uint8Array): Promise<void> {
  for (let at = 0; at < block.byteLength; ) at += (await handle.write(block, at)).bytesWritten
}

export const tooLarge = (limit: number): SvcError =>
  new SvcError('payload_too_large', `larger than ${limit} bytes`, { field: 'media' })

export const empty = (): SvcError => badArgument('media', 'the file is empty')

/** A failure of our own disk in the words of the catalogue. */
export const diskError = (error: unknown): unknown => unavailable(error, 'the file cannot be written')
