/** The drill on every runtime, and the program age. */
import { expect, test } from 'bun:test'
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { deno, denoEnv, denoOrNone, denoRun } from '../support/deno.ts'
import { ended } from '../support/ended.ts'
import { end, family } from '../support/family.ts'
import { folderOfTest } from '../support/folder.ts'
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
    writeFileSync(join(folder, 'phrase'), passphrase)
    const at = ['-d', folder, '--passphrase-file', join(folder, 'phrase')]
    await backUp(usual, folder, ['svc.tar.age', ...at])
    // age reads the passphrase from a terminal only.
    const typed = { cwd: folder, env: { PATH: process.env.PATH ?? '' }, stdin: `${passphrase}\n` }
    await ended(['script', '-qec', 'age -d -o svc.tar svc.tar.age', '/dev/null'], typed)
    await run(usual, ['restore', 'svc.tar', '-d', join(folder, 'copy'), '--sandbox'], folder)
    expect(readdirSync(join(folder, 'copy'))).toContain('messages.db')
  },
)

test('backups and restores that are killed at any moment leave nothing that counts as done', async () => {
  const folder = folderOfTest()
  const dir = join(folder, 'data')
  mkdirSync(dir, { mode: 0o700 })
  await (await lived(usual, dir))[Symbol.asyncDispose]()
  mkdirSync(join(dir, 'sandbox/media'), { recursive: true })
  writeFileSync(
    join(dir, 'sandbox/media/large'),
    crypto.getRandomValues(new Uint8Array(65_536)).toString().repeat(200),
  )
  const killed = async (args: readonly string[], afterMs: number) => {
    const env = { PATH: process.env.PATH ?? '', HOME: folder }
    const child = Bun.spawn([...usual.command, ...args], {
      cwd: folder,
      env,
      stdout: 'ignore',
      stderr: 'ignore',
    })
    await Promise.race([child.exited, Bun.sleep(afterMs)])
    for (const pid of family(child.pid)) end(pid, 'SIGKILL')
    await child.exited
    return child.exitCode === 0
  }
  await backUp(usual, folder, ['good.tar', '-d', dir])
  const restore = (target: string, file = 'good.tar') => [
    'restore',
    file,
    '-d',
    join(folder, target),
    '--sandbox',
  ]
  const stages = new Set<string>()
  for (let ms = 40; ms < 2000; ms += 40) {
    const done = await killed(['backup', `${ms}.tar`, '-d', dir], ms)
    if (existsSync(join(folder, `${ms}.tar`))) {
      expect((await run(usual, restore(`of-${ms}`, `${ms}.tar`), folder)).status).toBe(0)
      rmSync(join(folder, `of-${ms}`), { recursive: true })
    }
    for (const name of readdirSync(folder).filter(name => name.startsWith(`${ms}.tar`)))
      rmSync(join(folder, name))

    const restored = await killed(restore('target'), ms)
    const names = existsSync(join(folder, 'target')) ? readdirSync(join(folder, 'target')) : []
    const state = names.includes('.restoring')
      ? 'begun'
      : names.includes('messages.db')
        ? 'complete'
        : 'nothing'
    stages.add(state)
    if (restored) expect(state).toBe('complete')
    if (state === 'nothing') expect(names).toEqual([])
    if (state === 'begun') {
      const { status, stderr } = await run(
        usual,
        ['sessions', '-d', join(folder, 'target'), '--sandbox'],
        folder,
      )
      expect([status, stderr]).toEqual([1, expect.stringContaining('restore')])
    }
    if (state !== 'complete') expect((await run(usual, restore('target'), folder)).status).toBe(0)
    const { stdout } = await run(usual, ['sessions', '-d', join(folder, 'target'), '--sandbox'], folder)
    expect(stdout).toContain('work')
    rmSync(join(folder, 'target'), { recursive: true })
    if (done && restored) break
  }
  expect(stages).toContain('begun')
  await backUp(usual, folder, ['last.tar', '-d', dir])
  expect(readdirSync(dir).filter(name => name.endsWith('.tmp'))).toEqual([])
}, 300_000)
