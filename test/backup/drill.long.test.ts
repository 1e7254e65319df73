/** The drill on every runtime, and the program age. */
import { expect, test } from 'bun:test'
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isHalfWritten } from '../../src/model/data-files.ts'
import { deno, denoEnv, denoOrNone, denoRun } from '../support/deno.ts'
import { ended } from '../support/ended.ts'
import { folderOfTest } from '../support/folder.ts'
import { canTrace, killAtChanges } from '../support/tracing.ts'
import { backUp, drill, lived, passphrase, run, usual } from './drill.ts'

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url))

test.skipIf(!deno)(
  `the drill on ${denoOrNone}`,
  () => drill({ command: denoRun(main), env: denoEnv }),
  120_000,
)

test.skipIf(!Bun.which('age') || !Bun.which('script'))(
  'the program age opens an encrypted backup',
  async () => {
    const folder = folderOfTest()
    await (await lived(usual, join(folder)))[Symbol.asyncDispose]()
    writeFileSync(join(folder, 'phrase'), passphrase, { mode: 0o600 })
    const at = ['-d', folder, '--passphrase-file', join(folder, 'phrase')]
    await backUp(usual, folder, ['svc.tar.age', ...at])
    // age reads the passphrase from a terminal only.
    const typed = { cwd: folder, env: { PATH: process.env.PATH ?? '' }, stdin: `${passphrase}\n` }
    await ended(['script', '-qec', 'age -d -o svc.tar svc.tar.age', '/dev/null'], typed)
    await run(usual, ['restore', 'svc.tar', '-d', join(folder, 'copy'), '--sandbox'], folder)
    expect(readdirSync(join(folder, 'copy'))).toContain('messages.db')
  },
)

/** A data directory that has been used, with a file that takes several writes, and a backup of it. */
async function backedUp() {
  const folder = folderOfTest()
  const dir = join(folder, 'data')
  mkdirSync(dir, { mode: 0o700 })
  await (await lived(usual, dir))[Symbol.asyncDispose]()
  mkdirSync(join(dir, 'sandbox/media'), { recursive: true })
  writeFileSync(join(dir, 'sandbox/media/large'), crypto.getRandomValues(new Uint8Array(65_536)).toString())
  await backUp(usual, folder, ['good.tar', '-d', dir])
  return { folder, dir }
}

test.skipIf(!canTrace)(
  'a backup that is killed at any step leaves no file, or a good one (skipped without strace)',
  async () => {
    const { folder, dir } = await backedUp()
    const [path, target] = [join(folder, 'killed.tar'), join(folder, 'target')]
    const killed = await killAtChanges({ home: folder, dense: 8 }, async (backingUp, at) => {
      if ((await backingUp(['backup', path, '-d', dir])) || existsSync(path)) {
        const restored = await run(usual, ['restore', path, '-d', target, '--sandbox'], folder)
        expect([at, restored]).toEqual([at, expect.objectContaining({ status: 0 })])
        rmSync(target, { recursive: true })
      }
      for (const name of readdirSync(folder).filter(name => name.startsWith('killed.tar')))
        rmSync(join(folder, name))
    })
    console.log(`svc backup was killed at ${killed} steps`)
    expect(killed).toBeGreaterThan(20)
    await backUp(usual, folder, ['last.tar', '-d', dir])
    // No copy of the store is left; what a killed process left of other files, the service removes.
    expect(readdirSync(dir).filter(name => name.startsWith('messages.db.'))).toEqual([])
  },
  600_000,
)

test.skipIf(!canTrace)(
  'a restore that is killed at any step leaves nothing that counts as done, and runs again (skipped without strace)',
  async () => {
    const { folder } = await backedUp()
    const target = join(folder, 'target')
    const restore = ['restore', 'good.tar', '-d', target, '--sandbox']
    const stages = new Set<string>()
    const killed = await killAtChanges({ home: folder, dense: 8 }, async (restoring, at) => {
      rmSync(target, { recursive: true, force: true })
      const isDone = await restoring(restore)
      const names = existsSync(target) ? readdirSync(target) : []
      const isBegun = names.includes('.restoring')
      const stage = isBegun ? 'begun' : names.includes('messages.db') ? 'complete' : 'nothing'
      stages.add(stage)
      if (isDone) expect([at, stage]).toEqual([at, 'complete'])
      if (stage === 'nothing') expect([at, names.filter(name => !isHalfWritten(name))]).toEqual([at, []])
      if (isBegun) {
        const early = await run(usual, ['sessions', '-d', target, '--sandbox'], folder)
        expect([at, early]).toEqual([at, expect.objectContaining({ status: 1 })])
      }
      if (stage !== 'complete') {
        const again = await run(usual, restore, folder)
        expect([at, again]).toEqual([at, expect.objectContaining({ status: 0 })])
      }
      const { stdout } = await run(usual, ['sessions', '-d', target, '--sandbox'], folder)
      expect(stdout).toContain('work')
    })
    console.log(`svc restore was killed at ${killed} steps`)
    expect([...stages].sort()).toEqual(['begun', 'complete', 'nothing'])
  },
  600_000,
)
