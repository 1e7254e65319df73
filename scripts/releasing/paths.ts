/** Checks that no file of a release names a folder of the person who built it. */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'

/** Yields the bytes, and what is inside if they are compressed, an archive or the bundle with its packed files. */
async function* openAll(name: string, bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes
  if (name.endsWith('.br')) yield brotliDecompressSync(bytes)
  if (name.endsWith('.gz')) yield gunzipSync(bytes)
  if (name.endsWith('.tgz')) {
    const files = await new Bun.Archive(new Uint8Array(bytes)).files()
    for (const [inner, file] of files) yield* openAll(inner, Buffer.from(await file.arrayBuffer()))
  }
  if (name === 'svc.mjs') {
    for (const [, packed] of bytes.toString('latin1').matchAll(/["']([\w+/]{1000,}={0,2})["']/g))
      yield brotliDecompressSync(Buffer.from(packed!, 'base64'))
  }
}

/** @throws Error that names a file which holds one of these paths */
export async function expectNoPaths(folder: string, paths: readonly string[]): Promise<void> {
  // Bun keeps some texts with two bytes for each character.
  const forms = paths.flatMap(path => [Buffer.from(path), Buffer.from(path, 'utf16le')])
  for (const name of await readdir(folder)) {
    for await (const content of openAll(name, await readFile(join(folder, name)))) {
      const found = forms.findIndex(form => content.includes(form))
      if (found >= 0)
        throw new Error(`${name} holds the path ${paths[found >> 1]} of the machine that built it`)
    }
  }
}
