/**
 * Bytes of media for the page. Fetched a few at a time, since a browser keeps only six lines to one host and the live
 * events hold one; kept while there is room, since the service asks WeChat anew each time.
 */
import { ApiError, bytesOf } from '../api.ts'

export interface Blobbed {
  url: string
  type: string
  size: number
}

const roomBytes = 64_000_000
const atOnce = 3

interface Entry {
  promise: Promise<Blobbed>
  users: number
  done?: Blobbed
}

// By row: the message id of a sent one changes when WeChat has taken it.
const keyOf = (row: number, item: number) => `${row} ${item}`
const entries = new Map<string, Entry>()
const waiting: (() => void)[] = []
let running = 0

const turn = (): Promise<void> | undefined => {
  if (running < atOnce) {
    running++
    return undefined
  }
  return new Promise(resolve => waiting.push(resolve))
}

const turnOver = (): void => {
  const next = waiting.pop()
  if (next) next()
  else running--
}

/** Lets go of what nobody looks at, the oldest first, until there is room. */
function makeRoom(): void {
  let bytes = 0
  for (const { done } of entries.values()) bytes += done?.size ?? 0
  for (const [key, { done, users }] of entries) {
    if (bytes <= roomBytes) return
    if (!done || users > 0) continue
    URL.revokeObjectURL(done.url)
    entries.delete(key)
    bytes -= done.size
  }
}

/**
 * The bytes of one piece of media as an address that this page may show. Whoever asks gives it back by `release`.
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
      await turn()
      try {
        // Nobody looks any more: whoever comes next asks again.
        if (own.users === 0) throw new DOMException('', 'AbortError')
        const blob = await bytesOf(url, onProgress)
        own.done = { url: URL.createObjectURL(blob), type: blob.type, size: blob.size }
        return own.done
      } catch (error) {
        entries.delete(key)
        // It broke off on its way.
        throw error instanceof TypeError ? new ApiError(502, { code: 'upstream_error' }) : error
      } finally {
        turnOver()
        makeRoom()
      }
    })()
    own.promise.catch(() => {})
    entry = own
  }
  entry.users++
  // The one that was looked at last goes last.
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

/** Whether the bytes are here, or on their way. */
export const isHeld = (row: number, item: number): boolean => entries.has(keyOf(row, item))

/** A file of this page, shown as the media of a row before WeChat has it, and after. */
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

/** The shape that a picture turned out to have, so that its place is right the next time. */
export const knownShape = (row: number, item: number): Shape | undefined => shapes.get(keyOf(row, item))
export const learnShape = (row: number, item: number, shape: Shape): void =>
  void shapes.set(keyOf(row, item), shape)
