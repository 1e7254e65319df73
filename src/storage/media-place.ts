/**
 * Files that outlive the call that brought them: uploads that wait for the send that names them, and files that wait with
 * their message. Each kind has a place of its own, with rules that are given as it opens: a file has a time where there is a
 * `lifeMs`, and else stays until it is discarded. What one process has put there, all that share the place can open.
 *
 * A verb rejects with SvcError `store_unavailable` where the place does not work, or has no room for the file.
 */
import type { SteadyFile } from '../model/media.ts'

export interface MediaPlace {
  /**
   * Takes a stream in. It is there as a whole when this resolves, and durable if it has no time; whatever goes wrong,
   * nothing of it stays, and the stream is cancelled.
   *
   * @param id a UUID in lower case, or one with `.queued` behind it, that was never used
   * @throws SvcError `payload_too_large`; `invalid_arguments` when nothing comes; `rate_limited` when too many or too large
   *   ones are there; the signal's reason; what the stream fails with
   */
  put(id: string, body: ReadableStream<Uint8Array>, options: PutOptions): Promise<Placed>

  /** @returns undefined for what is not there, is not whole, or whose time is over */
  open(id: string): Promise<PlacedFile | undefined>

  /** It has served: from now on it goes when its room is needed. Noted in this process alone; of a file without a time not at all. */
  served(id: string): void

  /** Removes files; not being there is no error. Never rejects: what cannot be removed is told of in the log. */
  discard(ids: readonly string[]): Promise<void>

  /**
   * Removes what a crash left half written an hour ago or earlier, and files whose time is over; of files without a time those
   * older than an hour that `needed` does not name, which is all of them if it is absent.
   */
  sweep(needed?: ReadonlySet<string>): Promise<void>
}

export interface MediaRules {
  /** How long a file stays, in ms. */
  lifeMs?: number
  /** How many files, of how many bytes together, may be there, and the bytes of the largest that is allowed. */
  room?: { files: number; bytes: number; largest: number }
}

export interface PutOptions {
  /** Bytes at most, where that is known before they come. */
  size?: number
  /** More are refused. */
  maxBytes?: number
  /** Taken as it goes, beside MD5. */
  digest?: 'sha256'
  signal: AbortSignal
  /** Kept with a file that has a time. */
  note?: Readonly<Record<string, unknown>>
}

export interface Placed {
  size: number
  /** Digests in lower-case hex. */
  md5: string
  sha256?: string
  /** Unix ms. */
  expires_at?: number
}

export interface PlacedFile extends SteadyFile {
  /** Of a file with a time: as it was put, and its MD5. */
  note: Readonly<Record<string, unknown>>
  md5?: string
}

/** The places there are. */
export interface MediaPlaces {
  readonly uploads: MediaPlace
  /** What waits in the outbox. */
  readonly kept: MediaPlace
}
