/**
 * Streams of large buffers outrun the garbage collector. How much piles up depends on the machine's memory:
 * with 24 GiB, a streamed file of 1 GiB grew the process by up to 90 MB. The runtime reads its own setting
 * for this only at the start of the process. So a stream reports here how many bytes passed, or frees each
 * buffer that it alone uses.
 *
 * Most collections only collect. `Bun.gc(true)` also returns the freed memory to the system, which gives it
 * back page by page for the very next blocks. Done on each collection, that took a third of the time of
 * sending a file. Never done, the process stays 10 MB larger.
 */
import process from 'node:process'

const collectEveryBytes = 28 * 1024 * 1024
/** One in this many collections also returns the memory to the system. */
const collectionsPerReturn = 4

interface BunRuntime {
  gc(now: boolean): unknown
}
interface BunEngine {
  fullGC(): unknown
}

/** Makes a counter for one stream. Call it with the size in bytes of each buffer that is no longer used. */
export function createByteCounter(): (bytes: number) => void {
  const { Bun } = globalThis as { Bun?: BunRuntime }
  const engine = process.getBuiltinModule('bun:jsc') as BunEngine | undefined
  let passed = 0
  let collected = 0
  return bytes => {
    passed += bytes
    if (passed < collectEveryBytes) return
    passed = 0
    if (++collected % collectionsPerReturn === 0) Bun?.gc(true)
    else engine?.fullGC()
  }
}

/** Smaller buffers may share a pool with others. */
const pooledBytes = 8192

/**
 * Frees the memory of a buffer that has no other user, so the collector need not look for it. The buffer
 * becomes empty.
 */
export function freeBuffer({ buffer, byteLength }: Uint8Array): void {
  if (byteLength > pooledBytes && buffer instanceof ArrayBuffer) buffer.transfer(0)
}
