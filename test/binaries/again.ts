/** Building the same again, elsewhere; and not building what is not the same. */
import { expect, test } from 'bun:test'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join, resolve } from 'node:path'
import { commitLabel } from '../../scripts/build/commit.ts'
import { buildRelease } from '../../scripts/build/release.ts'
import { unpackRuntime } from '../../scripts/build/runtime.ts'
import { findTarget } from '../../scripts/build/targets.ts'
import { ended } from '../support/ended.ts'
import { failure } from '../support/failure.ts'

const root = resolve(import.meta.dir, '../..')

/**
 * The packages whose files are in the binary or the panel, or are imported by the build; those too of which a file is
 * imported and not needed in the end.
 */
async function packagesNeeded(): Promise<Set<string>> {
  const entrypoints = ['src/main.ts', 'admin/index.html', 'scripts/build.ts'].map(path => join(root, path))
  const { metafile } = await Bun.build({ entrypoints, root, target: 'bun', metafile: true })
  const paths = Object.entries(metafile!.inputs).flatMap(([path, { imports }]) => [
    path,
    ...imports.map(imported => imported.path),
  ])
  return new Set(paths.flatMap(path => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1] ?? []))
}

export function buildTests(release: string, folder: string): void {
  test('done from a copy elsewhere, by somebody else, it gives the same bytes', async () => {
    const copy = join(folder, 'a name with ünïcode', 'and more', 'copy')
    const shelf = existsSync('/dev/shm') ? '/dev/shm' : folder
    const elsewhere = mkdtempSync(join(shelf, 'svc-elsewhere-'))
    try {
      const tree = [
        'src',
        'admin',
        'locales',
        'scripts',
        'package.json',
        'tsconfig.json',
        'bunfig.toml',
        'bun.lock',
      ]
      const modules = [...(await packagesNeeded())].map(name => `node_modules/${name}`)
      expect(modules.length).toBeGreaterThan(20)
      for (const path of [...tree, ...modules])
        cpSync(join(root, path), join(copy, path), { recursive: true })
      // Another file system lists the files of the panel in another order.
      const built = await ended(
        [
          '/bin/sh',
          '-c',
          'umask 077 && exec "$@"',
          'sh',
          process.execPath,
          'scripts/build.ts',
          `--outfile=${elsewhere}/other`,
        ],
        {
          cwd: copy,
          env: {
            PATH: '/nowhere',
            // The copy is no repository.
            BUILD_COMMIT: commitLabel() ?? '',
            HOME: elsewhere,
            TMPDIR: elsewhere,
            TZ: 'Asia/Shanghai',
            LC_ALL: 'tr_TR.UTF-8',
          },
          withinMs: 60_000,
        },
      )
      expect(built).toMatchObject({ status: 0, stderr: '' })
      // Which also says that the binary of a release is the one that `bun run build` makes.
      expect(
        readFileSync(join(elsewhere, 'other')).equals(readFileSync(join(release, 'svc-linux-x64'))),
      ).toBe(true)
    } finally {
      rmSync(elsewhere, { recursive: true, force: true })
      rmSync(copy, { recursive: true, force: true })
    }
  })

  test('a runtime that is not the one in bun.lock is refused, kept or fetched, and nothing is left of it', async () => {
    const kept = join(folder, 'kept')
    const work = join(folder, 'work')
    mkdirSync(kept)
    mkdirSync(work)
    const lock = join(folder, 'bun.lock')
    const name = findTarget('bun-linux-x64').runtime
    const file = 'oven-bun-linux-x64-1.4.5.tgz'
    // One that was kept is looked at again: this one is not what it was, and with no npm there is no other.
    writeFileSync(join(kept, file), 'not it')
    expect((await failure(unpackRuntime(name, work, { kept, env: { PATH: '/nowhere' } }))).message).toContain(
      'needs npm',
    )
    // What npm brings is held against the sum in the lock file.
    const text = readFileSync(join(root, 'bun.lock'), 'utf8')
    const entry = new RegExp(`("${name}": \\[.*"sha512-)..`)
    writeFileSync(lock, text.replace(entry, '$1AA'))
    const bin = join(folder, 'npm')
    mkdirSync(bin)
    const real = join(root, '.bun/runtimes', file)
    writeFileSync(join(bin, 'npm'), `#!/bin/sh\n/bin/cp '${real}' .\n`, { mode: 0o755 })
    const env = { PATH: bin }
    expect((await failure(unpackRuntime(name, work, { lock, kept, env }))).message).toMatch(
      /is not the one in bun.lock:\n {2}expected sha512-AA/,
    )
    expect([readdirSync(kept), readdirSync(work)]).toEqual([[file], []])
    expect(readFileSync(join(kept, file), 'utf8')).toBe('not it')
    // The right one takes the place of the wrong one.
    await unpackRuntime(name, work, { kept, env })
    expect(readFileSync(join(kept, file)).equals(readFileSync(real))).toBe(true)
    expect([readdirSync(kept), readdirSync(work)]).toEqual([[file], ['bun']])
    rmSync(kept, { recursive: true })
    rmSync(work, { recursive: true })
  })

  test('a folder that holds something else is left alone, and a build that fails leaves the one before', async () => {
    const mine = join(folder, 'mine')
    mkdirSync(mine)
    writeFileSync(join(mine, 'letter.txt'), 'dear')
    const build = (outdir: string) =>
      buildRelease({ outdir, targets: [findTarget('bun-linux-x64')], url: "it's", print: () => {} })
    expect((await failure(build(mine))).message).toContain('letter.txt')
    expect(readdirSync(mine)).toEqual(['letter.txt'])
    writeFileSync(join(mine, 'SHA256SUMS'), '')
    // An address with a quote would be code in the installer.
    expect((await failure(build(mine))).message).toContain('--url')
    expect(readdirSync(mine).sort()).toEqual(['SHA256SUMS', 'letter.txt'])
    expect(readdirSync(folder).filter(name => name.startsWith('.'))).toEqual([])
  })
}
