/** A process that is killed in the middle of a rename: folder, rows and default of the session stand under one name again. */
import { expect, test } from 'bun:test'
import { folderOfTest } from '../../../support/folder.ts'
import { bot, message } from '../../support.ts'
import { openDirectory, startOnDirectory } from '../support.ts'

/** Another process renames `s` to `x`, and is killed instead of, or after, one of its steps. */
async function killedRenaming(dir: string, step: 'intendRename' | 'renameSession', isDone: boolean) {
  const child = startOnDirectory(
    dir,
    `const { state } = storage
    const { ${step}: step } = store.maintenance
    store.maintenance.${step} = async (...args) => {
      if (${isDone}) await step(...args)
      process.kill(process.pid, 'SIGKILL')
    }
    await state.sessions.rename('s', 'x')`,
  )
  await child.exited
  expect(child.signalCode).toBe('SIGKILL')
}

test.each([
  ['before its folder has the new name', 'intendRename', true, 's'],
  ['between its folder and its rows', 'renameSession', false, 'x'],
  ['after its rows', 'renameSession', true, 'x'],
] as const)('killed %s', async (_when, step, isDone, name) => {
  const dir = folderOfTest()
  {
    await using before = await openDirectory(dir)
    await before.state.sessions.save('s', bot('b'))
    const own = { session: 's', bot_id: 'b@im.bot', direction: 'received' } as const
    await before.store.intake.add([{ ...message('hi'), ...own }])
  }
  await killedRenaming(dir, step, isDone)
  {
    await using after = await openDirectory(dir)
    const { sessions } = after.state
    expect((await sessions.list()).map(one => one.name)).toEqual([name])
    expect(await sessions.getDefaultName()).toBe(name)
    expect((await after.store.log.listAfter(0, { limit: 9 })).map(row => row.session)).toEqual([name])
    // Nothing is left of it: who is logged in under these names later keeps them.
    await sessions.remove(name)
    await sessions.save('s', bot('c'))
    await sessions.save('x', bot('d'))
  }
  await using last = await openDirectory(dir)
  expect((await last.state.sessions.list()).map(one => one.name).sort()).toEqual(['s', 'x'])
  expect((await last.store.log.listAfter(0, { limit: 9 })).map(row => row.session)).toEqual([name])
})
