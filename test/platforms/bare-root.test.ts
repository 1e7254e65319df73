/** The binary where there is nothing else: no shell, no /etc, no device, only the C library that it is linked with. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readdirSync } from 'node:fs'
import pkg from '../../package.json' with { type: 'json' }
import { smoke } from '../../scripts/smoke.ts'
import { canMount } from '../faults/support/mounts.ts'
import { type Binary, buildBinary } from '../support/binary.ts'
import { librariesOf, makeRoot } from '../support/root.ts'

const can = canMount && Bun.which('unshare') !== null && Bun.which('ldd') !== null
const name = (text: string) => (can ? text : `${text} (skipped: needs root that may mount, unshare and ldd)`)

let binary: Binary
beforeAll(async () => {
  if (can) binary = await buildBinary()
}, 150_000)
afterAll(() => binary?.[Symbol.dispose]())

test.skipIf(!can)(
  name(
    'a whole conversation for an ordinary user, beside the loader and four libraries, where only /data can be written',
  ),
  async () => {
    using root = makeRoot()
    root.add('/svc', binary.path)
    for (const path of librariesOf(binary.path)) root.add(path)
    const files = readdirSync(root.dir, { recursive: true, withFileTypes: true }).filter(file =>
      file.isFile(),
    )
    const names = files.map(file => file.name.replace(/^ld-linux-.*/, 'the loader')).sort()
    expect(names).toEqual(['libc.so.6', 'libdl.so.2', 'libm.so.6', 'libpthread.so.0', 'svc', 'the loader'])
    await smoke({
      command: root.command('/svc', { user: 65532, readOnly: true }),
      data: root.data,
      dataInside: '/data',
      version: pkg.version,
    })
  },
  60_000,
)
