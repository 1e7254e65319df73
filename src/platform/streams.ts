/** Streams of bytes. */

/** Makes a stream that reads nothing ahead. */
export const streamOnDemand = (source: UnderlyingDefaultSource<Uint8Array>): ReadableStream<Uint8Array> =>
  new ReadableStream(source, { highWaterMark: 0 })

/** Returns blocks as a stream. TypeScript does not know `ReadableStream.from`. */
export const streamOf = (blocks: AsyncIterable<Uint8Array>): ReadableStream<Uint8Array> =>
  (ReadableStream as unknown as { from(source: AsyncIterable<Uint8Array>): ReadableStream<Uint8Array> }).from(
    blocks,
  )
