import { describe, test } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pkg from '../../package.json' with { type: 'json' }
import { smoke } from '../../scripts/smoke.ts'

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url))
const modules = fileURLToPath(new URL('../../node_modules', import.meta.url))
const deno = [...new Bun.Glob('@deno/*/deno').scanSync(modules)].map(path => join(modules, path))[0]

const runtimes: Record<string, string[]> = {
  Bun: [process.execPath, main],
  // It has no binary for every machine that Bun runs on.
  ...(deno && { Deno: [deno, 'run', '-A', '--node-modules-dir=manual', main] }),
}

describe('the main job', () => {
  test.each(Object.keys(runtimes))(
    'on %s: a whole conversation, a restart, a kill -9, and everything is still there',
    async name => {
      const data = await mkdtemp(join(tmpdir(), 'svc-conversation-'))
      try {
        await smoke({ command: runtimes[name]!, data, version: pkg.version })
      } finally {
        await rm(data, { recursive: true, force: true })
      }
    },
    60_000,
  )
})
