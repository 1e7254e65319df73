/**
 * Streams of large buffers outrun the garbage collector: how much may pile up follows the machine's memory, and on one
 * of 24 GiB a streamed file of 1 GiB grew the process by up to 90 MB. The runtime's setting for it is read at the start
 * of the process alone, so whoever streams says here how much went by. One collection takes 2 to 6 ms.
 */

const everyBytes = 32 * 1024 * 1024

interface BunRuntime {
  gc?: (now: boolean) => unknown
}

/** A counter for one stream: call it with the size of each buffer that is done with. */
export function streamedBytes(): (bytes: number) => void {
  const { gc } = (globalThis as { Bun?: BunRuntime }).Bun ?? {}
  let passed = 0
  return bytes => {
    passed += bytes
    if (passed < everyBytes) return
    passed = 0
    gc?.(true)
  }
}
