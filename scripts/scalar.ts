/**
 * `bun scripts/scalar.ts`: takes the program of the docs page from npm anew, into `src/server/docs/scalar.js.br`.
 *
 * Scalar as a dependency would bring 266 packages and 330 MB along; of its package the page needs this one file. For
 * another version change the two lines below; what depends on the version stands in `src/server/docs/page.js`.
 */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { brotliCompressSync, constants } from 'node:zlib'

const version = '1.72.1'
const sha512 = 'XpEJ0rfc/cXbCrR+iC4kK0o/WwX2dTtGQbT049OlPKAHD6IMIFdTeGz2r+M27P2EDWKyUITRm/NzlP8z2pw/Ow=='

const outfile = resolve(import.meta.dirname, '../src/server/docs/scalar.js.br')
const notice = `/*! @scalar/api-reference ${version} | MIT License | Copyright (c) 2023-present Scalar | https://github.com/scalar/scalar */`

function run(folder: string, ...command: string[]): void {
  const { success } = Bun.spawnSync(command, { cwd: folder, stdout: 'ignore', stderr: 'inherit' })
  if (!success) throw new Error(`${command.join(' ')} failed`)
}

const folder = await mkdtemp(join(tmpdir(), 'svc-scalar-'))
try {
  run(folder, 'npm', 'pack', '--silent', `@scalar/api-reference@${version}`)
  const tarball = join(folder, `scalar-api-reference-${version}.tgz`)
  const found = new Bun.CryptoHasher('sha512').update(await readFile(tarball)).digest('base64')
  if (found !== sha512) throw new Error(`the package is another one: its sha512 is ${found}`)
  run(folder, 'tar', 'xzf', tarball, 'package/dist/browser/standalone.js')
  const script = await readFile(join(folder, 'package/dist/browser/standalone.js'), 'utf8')
  // The map is not here, and a browser would ask for it.
  const text = `${notice}\n${script.replace(/\n\/\/# sourceMappingURL=.*\s*$/, '\n')}`
  const params = { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY }
  await writeFile(outfile, brotliCompressSync(text, { params }))
} finally {
  await rm(folder, { recursive: true, force: true })
}
console.log(`${outfile} (${(Bun.file(outfile).size / 1e6).toFixed(2)} MB)`)
