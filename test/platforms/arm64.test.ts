/** The binary for arm64, on another processor: under emulation, with the C library of a Debian for arm64. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import pkg from '../../package.json' with { type: 'json' }
import { smoke } from '../../scripts/smoke.ts'
import { type Binary, buildBinary, canBuildFor } from '../support/binary.ts'

/** Where Debian's libc6-arm64-cross puts it. */
const system = '/usr/aarch64-linux-gnu'
const emulator = Bun.which('qemu-aarch64-static') ?? Bun.which('qemu-aarch64')
const target = 'bun-linux-arm64'
const can =
  process.arch !== 'arm64' &&
  emulator !== null &&
  existsSync(join(system, 'lib/libc.so.6')) &&
  (await canBuildFor(target))
const name = (text: string) =>
  can ? text : `${text} (skipped: needs qemu-user-static, libc6-arm64-cross and the runtime)`

let binary: Binary
beforeAll(async () => {
  if (can) binary = await buildBinary(target)
}, 150_000)
afterAll(() => binary?.[Symbol.dispose]())

test.skipIf(!can)(
  name('a whole conversation on arm64'),
  async () => {
    const data = join(binary.folder, 'data')
    await smoke({
      command: [emulator!, '-L', system, binary.path],
      data,
      version: pkg.version,
      patience: 5,
    })
    // The lock is the kernel's there too.
    expect(await readFile(join(data, '.data.lock'), 'utf8')).toStartWith('flock\n')
  },
  150_000,
)
