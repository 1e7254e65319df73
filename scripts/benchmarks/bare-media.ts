/**
 * Baseline of `media`: `bare-media.ts <folder> <cdn>`, a server that streams the same bytes without
 * encryption, digests or limits. The bytes pass through the program, which any program that changes them
 * needs. With `native`, it passes the whole file or body on, which Bun then moves without showing the bytes.
 */
import { createReadStream } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { join } from 'node:path'
import process from 'node:process'

const [dir = '', cdn = ''] = process.argv.slice(2)
const kept = join(dir, 'kept')
let size = 0

async function save(body: ReadableStream<Uint8Array> | null, handle: FileHandle): Promise<void> {
  for await (const chunk of body ?? []) {
    for (let at = 0; at < chunk.byteLength; ) at += (await handle.write(chunk, at)).bytesWritten
  }
}

/** Yields the chunks one by one. */
async function* yieldChunks(chunks: AsyncIterable<Uint8Array> | null): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks ?? []) yield chunk
}

async function respond(request: Request): Promise<Response> {
  const { pathname, searchParams } = new URL(request.url)
  const native = searchParams.has('native')
  const from = `${cdn}/download?encrypted_query_param=${searchParams.get('size')}&plain=`
  switch (pathname) {
    case '/accept': {
      await using file = await open(kept, 'w')
      await save(request.body, file)
      size = Number(request.headers.get('content-length'))
      return new Response()
    }
    case '/send': {
      const file = createReadStream(kept, { highWaterMark: 1024 * 1024 })
      const body = native ? file : yieldChunks(file)
      const headers = { 'content-length': String(size) }
      const response = await fetch(`${cdn}/upload`, {
        method: 'PUT',
        body: body as unknown as BodyInit,
        headers,
      })
      return new Response(await response.text())
    }
    case '/download': {
      await using file = await open(join(dir, 'got'), 'w')
      await save((await fetch(from)).body, file)
      await file.sync()
      return new Response()
    }
    default: {
      const { body } = await fetch(from)
      return new Response(native ? body : (yieldChunks(body) as unknown as BodyInit))
    }
  }
}

const server: Bun.Server<undefined> = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  idleTimeout: 0,
  development: false,
  maxRequestBodySize: Number.MAX_SAFE_INTEGER,
  fetch: respond,
})
console.log(`ready ${server.url.origin}`)
