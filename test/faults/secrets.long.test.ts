import { expect, test } from 'bun:test'
import { cpSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createSealer, noSealer } from '../../src/platform/sealing.ts'
import { reseal } from '../../src/storage/sqlite/reseal.ts'
import { openSealer, readSecretState } from '../../src/storage/sqlite/secret-state.ts'
import { contentOf, filesWith, fillDirectory, mark } from '../storage/sqlite/secret-directory.ts'
import { ended } from '../support/ended.ts'
import { codeOf } from '../support/failure.ts'
import { folderOfTest } from '../support/folder.ts'
import { svcProgram } from '../support/svc-program.ts'
import { runOnce } from './support/program.ts'
import { canTrace } from './support/tracing.ts'

/**
 * What changes the disk. Each group is walked on its own: strace counts the calls of each thread, and those of a
 * group come from one thread, or nearly so.
 */
const groups = [
  'pwrite64',
  'rename,renameat,renameat2,link,linkat',
  'fsync,fdatasync,ftruncate,unlink,unlinkat',
]
/** More than a run makes. */
const atMost = 1000

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
      ...(what === 'rotate' ? ['--new-key-file', files[1]] : []),
    ]
    const command = ['secrets', what, ...flags, '-d', dir]
    const seen = { plain: 0, unfinished: 0, done: 0 }
    /** @returns whether the command was killed */
    const round = async (calls: string, nth: number): Promise<boolean> => {
      rmSync(dir, { recursive: true, force: true })
      cpSync(origin, dir, { recursive: true })
      const inject = `inject=${calls}:signal=SIGKILL:when=${nth}`
      const traced = ['strace', '-f', '-o', '/dev/null', '-e', `trace=${calls}`, '-e', inject]
      const { status } = await ended([...traced, ...svcProgram, ...command], {
        cwd: '/',
        env: { PATH: process.env.PATH ?? '', HOME: home, UV_THREADPOOL_SIZE: '1' },
      })
      const state = await readSecretState(dir)
      if ('from' in state) {
        seen.unfinished += 1
        for (const secret of [undefined, ...secrets])
          expect(await codeOf(openSealer(dir, secret))).toBe('store_unavailable')
      } else seen[state.key === (keys.to.keyId ?? null) ? 'done' : 'plain'] += 1
      const at = `${calls} ${nth}`
      expect([at, await runOnce(command)]).toEqual([at, expect.objectContaining({ status: 0 })])
      if (to !== undefined) expect([at, await filesWith(dir, mark)]).toEqual([at, []])
      if (to !== undefined) await reseal(dir, async () => ({ from: keys.to, to: noSealer }))
      expect([at, await contentOf(dir)]).toEqual([at, before])
      return status !== 0
    }
    for (const calls of groups) {
      let nth = 1
      while (await round(calls, nth)) nth += 1 + Math.floor(nth / 40)
      expect(nth).toBeLessThan(atMost)
      console.log(`svc secrets ${what} survives ${calls} ${nth}`)
    }
    expect(seen.unfinished).toBeGreaterThan(10)
    console.log(`svc secrets ${what}: ${JSON.stringify(seen)}`)
  },
  900_000,
)
