/** Reports how many bytes of a transfer have passed. */
import type { Call } from '../model/call.ts'

/** The same bytes; `progress` is told how many have been taken. */
export async function* counted(
  chunks: AsyncIterable<Uint8Array>,
  what: string,
  total: number | undefined,
  progress: NonNullable<Call['progress']>,
): AsyncGenerator<Uint8Array> {
  const step = (done: number) => progress({ what, done, total })
  let done = 0
  step(0)
  for await (const chunk of chunks) {
    yield chunk
    done += chunk.length
    step(done)
  }
}
