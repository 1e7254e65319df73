/**
 * Bytes of media for the page. Only a few are fetched at a time: a browser opens six connections to a host,
 * and the event stream holds one. They are cached, because the service downloads them from WeChat each time.
 */
import { ApiError, bytesOf } from '../api.ts'

export interface Blobbed {
  url: string
  type: string
  size: number
}

const cacheBytes = 64_000_000
const mostFetches = 3

interface Entry {
  promise: Promise<Blobbed>
  users: number
  done?: Blobbed
}

// By row id: the message id of a sent message changes when WeChat accepts it.
const keyOf = (row: number, item: number) => `${row} ${item}`
const entries = new Map<string, Entry>()
const waiting: (() => void)[] = []
let running = 0

/** Waits for a free slot to fetch in. */
const takeSlot = (): Promise<void> | undefined => {
  if (running < mostFetches) {
    running++
    return undefined
  }
  return new Promise(resolve => waiting.push(resolve))
}

const releaseSlot = (): void => {
  const next = waiting.pop()
  if (next) next()
  else running--
}

/** Frees media that is not on screen, the oldest first, until the cache is small enough. */
function makeRoom(): void {
  let bytes = 0
  for (const { done } of entries.values()) bytes += done?.size ?? 0
  for (const [key, { done, users }] of entries) {
    if (bytes <= cacheBytes) return
    if (!done || users > 0) continue
    URL.revokeObjectURL(done.url)
    entries.delete(key)
    bytes -= done.size
  }
}

/**
 * Gets media as an object URL. The caller must call `release` when it no longer needs it.
 *
 * @param onProgress bytes so far
 */
export function holdBlob(
  row: number,
  item: number,
  url: string,
  onProgress?: (bytes: number) => void,
): { promise: Promise<Blobbed>; ready: Blobbed | undefined; release(): void } {
  const key = keyOf(row, item)
  let entry = entries.get(key)
  if (!entry) {
    const own: Entry = { users: 0, promise: Promise.resolve(undefined as never) }
    own.promise = (async () => {
      await takeSlot()
      try {
        // All callers have released it; the next one fetches it again.
        if (own.users === 0) throw new DOMException('', 'AbortError')
        const blob = await bytesOf(url, onProgress)
        own.done = { url: URL.createObjectURL(blob), type: blob.type, size: blob.size }
        return own.done
      } catch (error) {
        entries.delete(key)
        // The download broke off.
        throw error instanceof TypeError ? new ApiError(502, { code: 'upstream_error' }) : error
      } finally {
        releaseSlot()
        makeRoom()
      }
    })()
    own.promise.catch(() => {})
    entry = own
  }
  entry.users++
  // The map is in order of use: the one used last is freed last.
  entries.delete(key)
  entries.set(key, entry)
  const held = entry
  let released = false
  return {
    promise: held.promise,
    ready: held.done,
    release() {
      if (released) return
      released = true
      held.users--
      makeRoom()
    },
  }
}

/** Whether the bytes are cached or being fetched. */
export const isHeld = (row: number, item: number): boolean => entries.has(keyOf(row, item))

/** Uses a file of this page as the media of a row, also before WeChat has it. */
export function seedBlob(row: number, item: number, file: File): void {
  if (entries.has(keyOf(row, item))) return
  const done = { url: URL.createObjectURL(file), type: file.type, size: file.size }
  entries.set(keyOf(row, item), { users: 0, done, promise: Promise.resolve(done) })
}

const shapes = new Map<string, Shape>()
export interface Shape {
  width: number
  height: number
}

/**
 * Returns the real size of a picture that was loaded before, so that the next time its box is right at
 * once.
 */
export const knownShape = (row: number, item: number): Shape | undefined => shapes.get(keyOf(row, item))
export const learnShape = (row: number, item: number, shape: Shape): void =>
  void shapes.set(keyOf(row, item), shape)
