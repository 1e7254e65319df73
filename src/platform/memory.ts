/**
 * Streams of large buffers outrun the garbage collector: how much may pile up follows the machine's memory, and on one
 * of 24 GiB a streamed file of 1 GiB grew the process by up to 90 MB. The runtime's setting for it is read at the start
 * of the process alone, so a stream reports here how much went by, or gives back each buffer that is nobody else's.
 *
 * Mostly it is collected only. `Bun.gc(true)` hands the freed memory to the system too, which gives it back page by page
 * for the very next blocks: done each time, that was a third of the time that sending a file took. Never done, the
 * process stays 10 MB larger.
 */
import process from 'node:process'

const everyBytes = 28 * 1024 * 1024
/** So many collections come to one that hands back. */
const handedBack = 4

interface BunRuntime {
  gc(now: boolean): unknown
}
interface BunEngine {
  fullGC(): unknown
}

/** A counter for one stream: call it with the size of each buffer that is done with. */
export function streamedBytes(): (bytes: number) => void {
  const { Bun } = globalThis as { Bun?: BunRuntime }
  const engine = process.getBuiltinModule('bun:jsc') as BunEngine | undefined
  let passed = 0
  let collected = 0
  return bytes => {
    passed += bytes
    if (passed < everyBytes) return
    passed = 0
    if (++collected % handedBack === 0) Bun?.gc(true)
    else engine?.fullGC()
  }
}

/** Smaller ones may lie in a pool with others. */
const pooledBytes = 8192

/**
 * Gives back at once what a buffer holds that nobody else has, so that no collection need look for it. Empty from then on.
 */
export function release({ buffer, byteLength }: Uint8Array): void {
  if (byteLength > pooledBytes && buffer instanceof ArrayBuffer) buffer.transfer(0)
}
