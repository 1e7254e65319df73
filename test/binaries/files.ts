/** What is in the files of a release: also in those that only other machines can run. */
import { expect, test } from 'bun:test'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { gunzipSync } from 'node:zlib'
import pkg from '../../package.json' with { type: 'json' }
import { commitLabel } from '../../scripts/build/commit.ts'
import { type Executable, readExecutable } from '../../scripts/build/executable.ts'
import type { Target } from '../../scripts/build/targets.ts'
import { ended } from '../support/ended.ts'

const root = resolve(import.meta.dir, '../..')
const source = (path: string) => readFileSync(join(root, path), 'utf8')

const commit = commitLabel()
/** What a build from here says of itself. */
const builtVersion = commit === undefined ? pkg.version : `${pkg.version}+${commit}`

/** Found as they are, or in the two bytes for each character that the runtime keeps some texts in. */
const insideOfAll: Record<string, string | Buffer> = {
  version: `{name:"svc",version:"${pkg.version}"`,
  'a language': source('locales/zh.json'),
  "the panel's icon": source('admin/icon.svg'),
  'the docs page': readFileSync(join(root, 'src/server/docs/scalar.js.br')),
  "the phone's page": source('src/sandbox/page/phone.html'),
  "the phone's script": source('src/sandbox/page/phone.js'),
  'a source map': 'src/cli/cli.ts',
}

const expected: Record<string, Partial<Executable>> = {
  'svc-linux-x64': { format: 'ELF', machine: 'x64', interpreter: '/lib64/ld-linux-x86-64.so.2' },
  'svc-linux-arm64-musl': { format: 'ELF', machine: 'arm64', interpreter: '/lib/ld-musl-aarch64.so.1' },
  'svc-darwin-x64': { format: 'Mach-O', machine: 'x64', oldestSystem: '13.0', signatureFits: true },
  'svc-darwin-arm64': { format: 'Mach-O', machine: 'arm64', oldestSystem: '13.0', signatureFits: true },
  // 3: a program of the console.
  'svc-windows-x64.exe': { format: 'PE', machine: 'x64', subsystem: 3 },
}

export function fileTests(release: string, targets: readonly Target[]): void {
  test('are the binaries, compressed too, the installer and the sums, which fit', async () => {
    const binaries = targets.flatMap(({ file }) => [file, `${file}.gz`])
    expect(readdirSync(release).sort()).toEqual(['SHA256SUMS', 'install.sh', ...binaries].sort())
    const checked = await ended(['sha256sum', '--strict', '--quiet', '-c', 'SHA256SUMS'], {
      cwd: release,
      env: { PATH: process.env.PATH! },
    })
    expect(checked).toEqual({ status: 0, stdout: '', stderr: '' })
    const named = readFileSync(join(release, 'SHA256SUMS'), 'utf8').matchAll(/ {2}(.+)$/gm)
    expect([...named].map(([, name]) => name)).toEqual(['install.sh', ...binaries].sort())
    const modes = readdirSync(release).map(name => [
      name,
      (statSync(join(release, name)).mode & 0o777).toString(8),
    ])
    expect(modes.filter(([name, mode]) => mode !== (/\.gz$|SUMS$/.test(name!) ? '644' : '755'))).toEqual([])
    expect(readFileSync(join(release, 'install.sh'), 'utf8')).toContain(`\nversion='${builtVersion}'\n`)
  })

  test('compressed ones hold the same, and neither a time nor a name', () => {
    const [{ file }] = targets as [Target]
    const packed = readFileSync(join(release, `${file}.gz`))
    // RFC 1952: four bytes of time at 4, flags at 3.
    expect([packed.readUInt8(3), packed.readUInt32LE(4)]).toEqual([0, 0])
    expect(gunzipSync(packed).equals(readFileSync(join(release, file)))).toBe(true)
  })

  for (const { file } of targets) {
    test(`${file} is a program for its machine, with everything inside`, () => {
      const content = readFileSync(join(release, file))
      const { payload, ...header } = readExecutable(content)
      expect(header).toEqual(expected[file] as Omit<Executable, 'payload'>)
      const missing = Object.entries(insideOfAll).filter(
        ([, text]) =>
          !payload.includes(text) && (typeof text !== 'string' || !payload.includes(text, 0, 'utf16le')),
      )
      expect(missing.map(([name]) => name)).toEqual([])
    })
  }

  test('one byte of a signed program changed, its signature does not fit', () => {
    const content = readFileSync(join(release, 'svc-darwin-arm64'))
    content.writeUInt8(content.readUInt8(50_000_000) ^ 1, 50_000_000)
    expect(readExecutable(content).signatureFits).toBe(false)
  })

  test('Windows is told a name, a version and a description', () => {
    const content = readFileSync(join(release, 'svc-windows-x64.exe'))
    const table = content.lastIndexOf(Buffer.from('ProductName', 'utf16le'))
    const told = content.toString('utf16le', table - 1000 - (table % 2), table + 1000)
    for (const [key, value] of [
      ['ProductName', pkg.name],
      ['FileVersion', pkg.version],
      ['FileDescription', pkg.description],
    ]) {
      expect(told).toMatch(new RegExp(`${key}\0+${RegExp.escape(value!)}\0`))
    }
  })
}
