/** A process that is killed in the middle of a rename: folder, rows and default of the session stand under one name again. */
import { expect, test } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { systemClock } from '../../../../src/platform/clock.ts'
import { silentLog } from '../../../../src/platform/log.ts'
import { openStorage } from '../../../../src/storage/sqlite/open.ts'
import { message } from '../../support.ts'
import { bot } from './support.ts'

const openAt = (dir: string) =>
  openStorage({ dir, clock: systemClock, log: silentLog, maxAgeDays: 0, maxCount: 0 })

/** Another process renames `s` to `x`, and is killed instead of, or after, one of its steps. */
async function killedRenaming(dir: string, step: 'intendRename' | 'renameSession', isDone: boolean) {
  const url = (name: string) =>
    JSON.stringify(fileURLToPath(new URL(`../../../../src/${name}`, import.meta.url)))
  const code = `
    const { openStorage } = await import(${url('storage/sqlite/open.ts')})
    const { systemClock } = await import(${url('platform/clock.ts')})
    const { silentLog } = await import(${url('platform/log.ts')})
    const options = { dir: ${JSON.stringify(dir)}, clock: systemClock, log: silentLog, maxAgeDays: 0, maxCount: 0 }
    const { state, store } = await openStorage(options)
    const { ${step}: step } = store.upkeep
    store.upkeep.${step} = async (...args) => {
      if (${isDone}) await step(...args)
      process.kill(process.pid, 'SIGKILL')
    }
    await state.sessions.rename('s', 'x')`
  const child = Bun.spawn([process.execPath, '-e', code], { stdout: 'inherit', stderr: 'inherit' })
  await child.exited
  expect(child.signalCode).toBe('SIGKILL')
}

test.each([
  ['before its folder has the new name', 'intendRename', true, 's'],
  ['between its folder and its rows', 'renameSession', false, 'x'],
  ['after its rows', 'renameSession', true, 'x'],
] as const)('killed %s', async (_when, step, isDone, name) => {
  const dir = await mkdtemp(join(tmpdir(), 'svc-rename-'))
  try {
    const before = await openAt(dir)
    await before.state.sessions.save('s', bot('b'))
    await before.store.intake.add([
      { ...message('hi'), session: 's', bot_id: 'b@im.bot', direction: 'received' },
    ])
    await before.close()
    await killedRenaming(dir, step, isDone)
    const after = await openAt(dir)
    try {
      const { sessions } = after.state
      expect((await sessions.list()).map(one => one.name)).toEqual([name])
      expect(await sessions.defaultName()).toBe(name)
      expect((await after.store.log.after(0, { limit: 9 })).map(row => row.session)).toEqual([name])
      // Nothing is left of it: who is logged in under these names later keeps them.
      await sessions.remove(name)
      await sessions.save('s', bot('c'))
      await sessions.save('x', bot('d'))
    } finally {
      await after.close()
    }
    const last = await openAt(dir)
    expect((await last.state.sessions.list()).map(one => one.name).sort()).toEqual(['s', 'x'])
    expect((await last.store.log.after(0, { limit: 9 })).map(row => row.session)).toEqual([name])
    await last.close()
  } finally {
    await rm(dir, { recursive: true, force: true })
  }
})
