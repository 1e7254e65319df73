/**
 * Baseline of `media`: `bare-media.ts <folder> <cdn>`, a server that streams the same bytes the same ways, with
 * nothing in between: no encryption, no digests, no limits.
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

async function answer(request: Request): Promise<Response> {
  const { pathname, searchParams } = new URL(request.url)
  const from = `${cdn}/download?encrypted_query_param=${searchParams.get('size')}&plain=`
  switch (pathname) {
    case '/accept': {
      await using file = await open(kept, 'w')
      await save(request.body, file)
      size = Number(request.headers.get('content-length'))
      return new Response()
    }
    case '/send': {
      const body = createReadStream(kept, { highWaterMark: 1024 * 1024 })
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
    default:
      return new Response((await fetch(from)).body)
  }
}

const server: Bun.Server<undefined> = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  idleTimeout: 0,
  development: false,
  maxRequestBodySize: Number.MAX_SAFE_INTEGER,
  fetch: answer,
})
console.log(`ready ${server.url.origin}`)
