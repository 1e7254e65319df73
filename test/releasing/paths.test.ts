/** A path of the builder's is found wherever it is in the files of a release. */
import { expect, test } from 'bun:test'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { expectNoPaths } from '../../scripts/releasing/paths.ts'
import { failure } from '../support/failure.ts'
import { folderOfFile } from '../support/folder.ts'

const folder = folderOfFile()
const path = '/home/builder/svc'
const text = `${'x'.repeat(2000)}${path}/src/main.ts`
const archive = (files: Record<string, string | Uint8Array>) =>
  new Bun.Archive(files, { compress: 'gzip' }).bytes()
const bundle = (content: string) => {
  const random = Array.from({ length: 60 }, () => crypto.randomUUID()).join('')
  return `export const files={"a":"${brotliCompressSync(content + random).toString('base64')}"}`
}

test.each<[string, string | Uint8Array]>([
  ['svc', text],
  ['svc-windows-x64.exe', Buffer.from(text, 'utf16le')],
  ['svc-linux-x64.gz', gzipSync(text)],
  ['svc-1.0.0.tgz', await archive({ 'package/lib/a.js': text })],
  ['svc-1.0.1.tgz', await archive({ 'package/dist/a.js.br': brotliCompressSync(text) })],
  ['svc-1.0.2.tgz', await archive({ 'package/dist/a.js.gz': gzipSync(text) })],
  ['svc.mjs', bundle(text)],
])('%s with it is refused', async (name, content) => {
  const release = join(folder, name)
  await mkdir(release)
  await writeFile(join(release, name), content)
  expect((await failure(expectNoPaths(release, ['/elsewhere', path]))).message).toBe(
    `${name} holds the path ${path} of the machine that built it`,
  )
  await expectNoPaths(release, ['/elsewhere'])
})
