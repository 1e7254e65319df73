/**
 * The binary for musl, in a root directory with musl's loader and a libstdc++ alone, as on Alpine. Debian has musl, but no
 * libstdc++ that was built for it. So what the binary uses of libstdc++ is linked from the archive that Debian has for
 * such cuts; the few names that it takes from glibc come from musl-libstdc++.c.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import pkg from '../../package.json' with { type: 'json' }
import { findTarget } from '../../scripts/build/targets.ts'
import { smoke } from '../../scripts/smoke.ts'
import { type Binary, buildBinary, canBuild } from '../support/binary.ts'
import { canContain, startIn } from '../support/container.ts'
import { makeRoot } from '../support/root.ts'

const loader = '/lib/ld-musl-x86_64.so.1'
const [archive] = new Bun.Glob('*/libstdc++_pic.a').scanSync({
  cwd: '/usr/lib/gcc/x86_64-linux-gnu',
  absolute: true,
})
const programs = ['gcc', 'nm', 'readelf']
const target = findTarget('bun-linux-x64-musl')
const can =
  canContain &&
  existsSync(loader) &&
  archive !== undefined &&
  programs.every(one => Bun.which(one)) &&
  (await canBuild([target]))
const name = (text: string) =>
  can
    ? text
    : `${text} (skipped: needs root that may mount, unshare and setpriv, gcc, musl, libstdc++-12-pic and the runtime)`

let binary: Binary
beforeAll(async () => {
  if (can) binary = await buildBinary(target)
}, 300_000)
afterAll(() => binary?.[Symbol.dispose]())

test.skipIf(!can)(name('a whole conversation on musl, beside its loader and libstdc++ alone'), async () => {
  using root = makeRoot()
  root.add(loader)
  root.add('/svc', binary.path)
  root.add('/usr/lib/libstdc++.so.6', linkLibrary())
  await smoke({
    command: startIn(root, ['/svc']),
    data: root.data,
    dataInside: '/data',
    version: pkg.version,
  })
  // musl has no libc.so.6; the lock is the kernel's all the same.
  expect(await readFile(join(root.data, '.data.lock'), 'utf8')).toStartWith('flock\n')
})

function linkLibrary(): string {
  const library = join(binary.folder, 'libstdc++.so.6')
  const part = (file: string) => output('gcc', `-print-file-name=${file}`).trim()
  const [own, first, last] = [
    join(import.meta.dir, 'musl-libstdc++.c'),
    part('crtbeginS.o'),
    part('crtendS.o'),
  ]
  output(
    'gcc',
    ...['-shared', '-fPIC', '-nostdlib', '-Wl,-soname,libstdc++.so.6', '-Wl,--gc-sections', '-o', library],
    ...[first, own, ...wanted().map(symbol => `-Wl,-u,${symbol}`), archive!, '-lgcc', '-lgcc_eh', last],
  )
  return library
}

/** What the binary needs and musl does not have. */
function wanted(): string[] {
  const needed = output('nm', '-D', '--undefined-only', binary.path).matchAll(/^ +U (\S+)$/gm)
  const copied = output('readelf', '-Wr', binary.path).matchAll(/_COPY +\S+ (\S+)/g)
  const there = new Set(
    [...output('nm', '-D', '--defined-only', loader).matchAll(/\S+$/gm)].map(([symbol]) => symbol),
  )
  return [...needed, ...copied].map(([, symbol = '']) => symbol).filter(symbol => !there.has(symbol))
}

function output(...command: string[]): string {
  const { exitCode, stdout, stderr } = Bun.spawnSync(command)
  if (exitCode === 0) return stdout.toString()
  throw new Error(`${command[0]} ended with ${exitCode}: ${stderr}`)
}
