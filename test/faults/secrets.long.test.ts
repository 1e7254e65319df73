import { expect, test } from 'bun:test'
import { cpSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createSealer, noSealer } from '../../src/platform/sealing.ts'
import { reseal } from '../../src/storage/sqlite/reseal.ts'
import { openSealer, readSecretState } from '../../src/storage/sqlite/secret-state.ts'
import { contentOf, filesWith, fillDirectory, mark } from '../storage/sqlite/secret-directory.ts'
import { codeOf } from '../support/failure.ts'
import { folderOfTest } from '../support/folder.ts'
import { canTrace, killAtChanges } from '../support/tracing.ts'
import { runOnce } from './support/program.ts'

const secrets = ['first', 'second'].map(name => `${name}-key-of-the-walk-0123456789abcdefghij`) as [
  string,
  string,
]
const sealers = secrets.map(createSealer)

test.skipIf(!canTrace).each([
  { what: 'on', from: undefined, to: 0 },
  { what: 'rotate', from: 0, to: 1 },
  { what: 'off', from: 0, to: undefined },
])(
  'svc secrets $what, killed at each system call that changes the disk: carried on by the same command, and nothing is lost (skipped without strace)',
  async ({ what, from, to }) => {
    const home = folderOfTest()
    const [origin, dir] = [join(home, 'origin'), join(home, 'data')]
    const files = secrets.map((secret, nth) => {
      const path = join(home, `key-${nth}`)
      writeFileSync(path, `${secret}\n`)
      return path
    }) as [string, string]
    const sealerOf = (nth: number | undefined) => (nth === undefined ? noSealer : sealers[nth]!)
    const keys = { from: sealerOf(from), to: sealerOf(to) }
    mkdirSync(origin, { mode: 0o700 })
    await fillDirectory(origin, 20)
    const before = await contentOf(origin)
    if (from !== undefined) await reseal(origin, async () => ({ from: noSealer, to: keys.from }))
    const flags = [
      '--secret-key-file',
      files[from ?? to ?? 0]!,
      ...(what === 'rotate' ? ['--new-secret-key-file', files[1]] : []),
    ]
    const command = ['secrets', what, ...flags, '-d', dir]
    const seen = { plain: 0, unfinished: 0, done: 0 }
    await killAtChanges({ home, dense: 40 }, async (run, at) => {
      rmSync(dir, { recursive: true, force: true })
      cpSync(origin, dir, { recursive: true })
      await run(command)
      const state = await readSecretState(dir)
      if ('from' in state) {
        seen.unfinished += 1
        for (const secret of [undefined, ...secrets])
          expect(await codeOf(openSealer(dir, secret))).toBe('store_unavailable')
      } else seen[state.key === (keys.to.keyId ?? null) ? 'done' : 'plain'] += 1
      expect([at, await runOnce(command)]).toEqual([at, expect.objectContaining({ status: 0 })])
      if (to !== undefined) expect([at, await filesWith(dir, mark)]).toEqual([at, []])
      if (to !== undefined) await reseal(dir, async () => ({ from: keys.to, to: noSealer }))
      expect([at, await contentOf(dir)]).toEqual([at, before])
    })
    expect(seen.unfinished).toBeGreaterThan(10)
    console.log(`svc secrets ${what}: ${JSON.stringify(seen)}`)
  },
  900_000,
)
