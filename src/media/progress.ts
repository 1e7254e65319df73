/** Bytes on their way, told to whoever wants to see how far they are. */
import type { Call } from '../model/call.ts'

/** The same bytes; `progress` is told how many have been taken. */
export async function* counted(
  chunks: AsyncIterable<Uint8Array>,
  what: string,
  total: number | undefined,
  progress: NonNullable<Call['progress']>,
): AsyncGenerator<Uint8Array> {
  const step = (done: number) => progress({ what, done, ...(total !== undefined && { total }) })
  let done = 0
  step(0)
  for await (const chunk of chunks) {
    yield chunk
    done += chunk.length
    step(done)
  }
}
