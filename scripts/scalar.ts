/**
 * `bun scripts/scalar.ts`: fetches the program of the docs page from npm into `src/server/docs/scalar.js.br`.
 *
 * As a dependency, Scalar would bring 266 packages and 330 MB, but the page needs only this one file. To use
 * another version, change the three lines below; `src/server/docs/page.js` also depends on the version.
 */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { brotliCompressSync, constants } from 'node:zlib'

const version = '1.72.1'
/** Sums of npm's package, and of the unpacked content of the file here. */
const packageSha512 =
  'XpEJ0rfc/cXbCrR+iC4kK0o/WwX2dTtGQbT049OlPKAHD6IMIFdTeGz2r+M27P2EDWKyUITRm/NzlP8z2pw/Ow=='
export const contentSha512 =
  'XOyThw3dp2pOoU+GBsvSRFdBx4bqwolxTHpXKV5kBJgacoCmk3L8XHRmsHN45Z4/GjbCJVjZ7wzks98zMUarPg=='

export const outfile = resolve(import.meta.dirname, '../src/server/docs/scalar.js.br')
const notice = `/*! @scalar/api-reference ${version} | MIT License | Copyright (c) 2023-present Scalar | https://github.com/scalar/scalar */`

export const sha512 = (bytes: string | Uint8Array): string =>
  new Bun.CryptoHasher('sha512').update(bytes).digest('base64')

/** Fetches the package with npm. @throws Error when that fails or takes more than two minutes */
export async function fetchFromNpm(): Promise<Uint8Array<ArrayBuffer>> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-scalar-'))
  try {
    const command = ['npm', 'pack', '--silent', `@scalar/api-reference@${version}`]
    const options = { cwd: folder, timeout: 120_000 }
    const { success } = Bun.spawnSync(command, { ...options, stdout: 'ignore', stderr: 'inherit' })
    if (!success) throw new Error(`${command.join(' ')} failed`)
    return new Uint8Array(await readFile(join(folder, `scalar-api-reference-${version}.tgz`)))
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Returns the program in the package, in the form in which the file holds it. */
export async function readProgram(tarball: Uint8Array<ArrayBuffer>): Promise<string> {
  const found = sha512(tarball)
  if (found !== packageSha512) throw new Error(`this is another package: its sha512 is ${found}`)
  const files = await new Bun.Archive(tarball).files()
  const script = await files.get('package/dist/browser/standalone.js')!.text()
  // The source map is not here, but a browser would request it.
  return `${notice}\n${script.replace(/\n\/\/# sourceMappingURL=.*\s*$/, '\n')}`
}

if (import.meta.main) {
  const text = await readProgram(await fetchFromNpm())
  const params = { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY }
  await writeFile(outfile, brotliCompressSync(text, { params }))
  console.log(
    `${outfile} (${(Bun.file(outfile).size / 1e6).toFixed(2)} MB); its content has the sha512 ${sha512(text)}`,
  )
}
