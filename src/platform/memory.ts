/**
 * Streams of large buffers outrun the garbage collector: how much may pile up follows the machine's memory, and on one
 * of 24 GiB a streamed file of 1 GiB grew the process by up to 90 MB. The runtime's setting for it is read at the start
 * of the process alone, so whoever streams says here how much went by.
 *
 * Collecting is all that is asked for. `Bun.gc(true)` also hands the freed memory to the system, which gives it back
 * page by page for the very next blocks: of the time that sending a file took, that was a third.
 */
import process from 'node:process'

const everyBytes = 32 * 1024 * 1024

interface BunEngine {
  fullGC(): unknown
}

/** A counter for one stream: call it with the size of each buffer that is done with. */
export function streamedBytes(): (bytes: number) => void {
  const engine = process.getBuiltinModule('bun:jsc') as BunEngine | undefined
  let passed = 0
  return bytes => {
    passed += bytes
    if (passed < everyBytes) return
    passed = 0
    engine?.fullGC()
  }
}
