/**
 * Stores for files that outlive the call that brought them: uploads, which wait for the send that names them,
 * and files of queued messages. Each kind has its own store with its own rules, which are given when it is
 * opened. With `lifeMs` a file expires; without it a file stays until it is discarded. Every process that
 * shares the store can open what another process stored.
 *
 * Each method rejects with SvcError `store_unavailable` if the store does not work, or has no space for the
 * file.
 */
import { SvcError } from '../model/error.ts'
import type { SteadyFile } from '../model/media.ts'
import { shares } from '../model/shares.ts'

export interface MediaStore {
  /**
   * Stores a stream. When this resolves the file is complete, and durable if it does not expire. On any error
   * nothing of it stays, and the stream is cancelled.
   *
   * @param id a UUID in lower case, or a UUID followed by `.queued`, that was never used
   * @throws SvcError `payload_too_large`; `invalid_arguments` if the stream is empty; `rate_limited` if the
   *   store has too many files or bytes, or its owners have their share of them; the signal's reason; the error of the stream
   */
  put(id: string, body: ReadableStream<Uint8Array>, options: PutOptions): Promise<StoredFile>

  /** @returns undefined for a file that is missing, incomplete or expired */
  open(id: string): Promise<OpenedStoredFile | undefined>

  /**
   * Marks a file as used: from now on it may be removed when its space is needed. Only this process remembers
   * that. No effect on a file that does not expire.
   */
  markServed(id: string): void

  /** Removes files; a missing file is no error. Never rejects: a file that cannot be removed is logged. */
  discard(ids: readonly string[]): Promise<void>

  /**
   * Removes files that a crash left incomplete an hour ago or earlier, and expired files. Also removes files
   * without an expiry that are older than an hour and not in `needed` (all such files if it is absent).
   */
  sweep(needed?: ReadonlySet<string>): Promise<void>

  /** Removes the complete files with a note for which `isOver` returns true. */
  removeWhere(isOver: (note: OpenedStoredFile['note'], file: NotedFile) => Promise<boolean>): Promise<void>
}

export interface NotedFile {
  readonly id: string
  /** Unix ms. */
  readonly stored_at: number
}

export interface MediaRules {
  /** How long a file stays, in ms. */
  lifeMs?: number
  /** Capacity: number of files, their bytes together, and the bytes of the largest file that is allowed. */
  room?: { files: number; bytes: number; largest: number }
}

const dayMs = 24 * 60 * 60_000
/** All uploads together may be this many times as large as the largest allowed file. */
const quotaTimes = 4

/** Returns the rules for uploads, by the bytes of the largest one. */
export const uploadRulesOf = (largest: number): MediaRules => ({
  lifeMs: dayMs,
  room: { files: shares.uploads.most, bytes: largest * quotaTimes, largest },
})

/** @param waitMs until when there may be room */
export const noRoomError = (waitMs: number): SvcError =>
  new SvcError('rate_limited', 'no room for another upload: too many or too large ones wait', {
    hint: 'Send the uploads that wait: that makes room. Or call again after retry_after seconds.',
    retryAfter: Math.max(10, Math.ceil(waitMs / 1000)),
  })

export interface PutOptions {
  /** Maximum number of bytes, if it is known before they come. */
  size?: number
  /** More bytes are rejected. */
  maxBytes?: number
  /** Digest to compute while storing, in addition to MD5. */
  digest?: 'sha256'
  signal: AbortSignal
  /** Stored with a file that expires. */
  note?: Readonly<Record<string, unknown>>
  /** Owners, as `by` of the notes has them, who together have no more of the capacity than they leave free. */
  sharing?: readonly string[] | undefined
}

export interface StoredFile {
  size: number
  /** Digests in lower-case hex. */
  md5: string
  sha256?: string
  /** Unix ms. */
  expires_at?: number
}

export interface OpenedStoredFile extends SteadyFile {
  /** The note as it was stored, and the MD5, of a file that expires. */
  note: Readonly<Record<string, unknown>>
  md5?: string
}

/** The media stores. */
export interface MediaStores {
  readonly uploads: MediaStore
  /** Files of messages that wait in the outbox. */
  readonly queued: MediaStore
}
