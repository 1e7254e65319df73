/**
 * `bun scripts/scalar.ts`: fetches the program of the docs page from npm into `src/server/docs/scalar.js.br`, and what is
 * inside it, with its licences, into `scripts/releasing/licenses/scalar.json`.
 *
 * As a dependency, Scalar would bring 266 packages and 330 MB, but the page needs only this one file. To use
 * another version, change the three lines below; `src/server/docs/page.js` also depends on the version.
 */
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { brotliCompressSync, constants } from 'node:zlib'
import { type Part, readPart } from './releasing/contents.ts'

export const version = '1.72.1'
/** Sums of npm's package, and of the unpacked content of the file here. */
export const packageSha512 =
  'XpEJ0rfc/cXbCrR+iC4kK0o/WwX2dTtGQbT049OlPKAHD6IMIFdTeGz2r+M27P2EDWKyUITRm/NzlP8z2pw/Ow=='
export const contentSha512 =
  'XOyThw3dp2pOoU+GBsvSRFdBx4bqwolxTHpXKV5kBJgacoCmk3L8XHRmsHN45Z4/GjbCJVjZ7wzks98zMUarPg=='

export const outfile = resolve(import.meta.dirname, '../src/server/docs/scalar.js.br')
const insideFile = join(import.meta.dirname, 'releasing/licenses/scalar.json')
const notice = `/*! @scalar/api-reference ${version} | MIT License | Copyright (c) 2023-present Scalar | https://github.com/scalar/scalar */`

export const sha512 = (bytes: string | Uint8Array): string =>
  new Bun.CryptoHasher('sha512').update(bytes).digest('base64')

/** Fetches a package with npm. @throws Error when that fails or takes more than two minutes */
export function fetchFromNpm(): Promise<Uint8Array<ArrayBuffer>> {
  return packFromNpm([`@scalar/api-reference@${version}`], async folder => {
    const [file = ''] = await readdir(folder)
    return new Uint8Array(await readFile(join(folder, file)))
  })
}

/** Fetches packages with npm into a folder, which is removed after their use. */
async function packFromNpm<T>(specs: readonly string[], use: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-scalar-'))
  try {
    const command = ['npm', 'pack', '--silent', '--ignore-scripts', ...specs]
    const options = { cwd: folder, timeout: 120_000 }
    const { success } = Bun.spawnSync(command, { ...options, stdout: 'ignore', stderr: 'inherit' })
    if (!success) throw new Error(`npm pack ${specs[0]} failed`)
    return await use(folder)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Returns the packages inside the program, as the source map names them: `name@1.2.3`. */
async function listInside(tarball: Uint8Array<ArrayBuffer>): Promise<string[]> {
  const files = await new Bun.Archive(tarball).files()
  const { sources } = JSON.parse(await files.get('package/dist/browser/standalone.js.map')!.text())
  const place = /node_modules\/\.pnpm\/([^/]+)\/node_modules\/((?:@[^/]+\/)?[^/]+)/
  const found = (sources as string[]).flatMap(source => {
    const [, folder = '', name] = place.exec(source) ?? []
    return name ? [`${name}@${folder.slice(name.length + 1).split('_')[0]}`] : []
  })
  return [...new Set(found)].sort()
}

const readInside = (specs: readonly string[]): Promise<Part[]> =>
  packFromNpm(specs, async folder => {
    const parts: Part[] = []
    for (const file of (await readdir(folder)).sort()) {
      const unpacked = join(folder, file.replace(/\.tgz$/, ''))
      await new Bun.Archive(new Uint8Array(await readFile(join(folder, file)))).extract(unpacked)
      parts.push(await readPart(join(unpacked, 'package')))
    }
    const missing = specs.filter(spec => !parts.some(({ name, version }) => spec === `${name}@${version}`))
    if (missing.length > 0) throw new Error(`npm sent no ${missing.join(', ')}`)
    return parts
  })

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
  const tarball = await fetchFromNpm()
  const text = await readProgram(tarball)
  await writeFile(insideFile, `${JSON.stringify(await readInside(await listInside(tarball)), null, 2)}\n`)
  const params = { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY }
  await writeFile(outfile, brotliCompressSync(text, { params }))
  console.log(
    `${outfile} (${(Bun.file(outfile).size / 1e6).toFixed(2)} MB); its content has the sha512 ${sha512(text)}`,
  )
}
