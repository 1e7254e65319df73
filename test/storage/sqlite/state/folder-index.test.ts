/** Session records kept between looks, with more sessions than are looked at each time; changed by another process too. */
import { expect, spyOn, test } from 'bun:test'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { FolderIndex } from '../../../../src/storage/sqlite/state/folder-index.ts'
import { until } from '../../../support/until.ts'
import { bot } from '../../support.ts'
import { inOther, openTestState, type TestState } from './support.ts'

async function withSeventy(): Promise<TestState> {
  const t = await openTestState()
  for (let i = 0; i < 70; i++) {
    await mkdir(join(t.dir, `s${i}`), { mode: 0o700 })
    await writeFile(join(t.dir, `s${i}`, 'token.json'), JSON.stringify(bot(`b${i}`)), { mode: 0o600 })
  }
  return t
}

const names = async (t: TestState) => (await t.sessions.list()).map(({ name }) => name).sort()
const tokenOf = async (t: TestState, wanted: string) =>
  (await t.sessions.list()).find(({ name }) => name === wanted)?.bot?.token

/** What another process does; when this resolves it has exited. */
async function elsewhere(t: TestState, body: string): Promise<void> {
  expect(await inOther(t.dir, body).exited).toBe(0)
}

test('with 70 sessions, logins, renames and logouts of another process become visible, by name immediately', async () => {
  await using t = await withSeventy()
  expect(await names(t)).toHaveLength(70)

  const login = JSON.stringify(bot('new'))
  await elsewhere(t, `await sessions.save('new', ${login})`)
  expect((await t.sessions.get('new'))?.bot).toEqual(bot('new'))
  await until('the new session is listed', 5000, async () => (await names(t)).includes('new'))

  // The folder stays as it is: nothing but the file tells.
  const again = bot('b7', { token: 'b7@im.bot:again' })
  await elsewhere(t, `await sessions.save('s7', ${JSON.stringify(again)})`)
  expect((await t.sessions.get('s7'))?.bot).toEqual(again)
  await until('the new login is listed', 5000, async () => (await tokenOf(t, 's7')) === again.token)

  await elsewhere(t, `await sessions.rename('s7', 'z7')`)
  expect(await t.sessions.get('s7')).toBeUndefined()
  // Who looked for it in vain may know its new name at once.
  expect(await names(t)).not.toContain('s7')
  expect(await tokenOf(t, 'z7')).toBe(again.token)

  // A file of somebody else keeps the folder, so that again only the session's own file tells.
  await writeFile(join(t.dir, 's8', 'notes'), 'mine')
  await elsewhere(t, `await sessions.remove('s8'); await sessions.remove('s9')`)
  expect(await t.sessions.get('s8')).toBeUndefined()
  await until('the logged out ones are gone', 5000, async () => {
    const left = await names(t)
    return !left.includes('s8') && !left.includes('s9')
  })
  expect(await names(t)).toHaveLength(69)
}, 120_000)

test('with 70 sessions, changes of this process are visible immediately', async () => {
  await using t = await withSeventy()
  await names(t)
  await t.sessions.save('s1', bot('b1', { token: 'b1@im.bot:again' }))
  expect(await tokenOf(t, 's1')).toBe('b1@im.bot:again')
  await t.sessions.rename('s1', 'z1')
  expect(await tokenOf(t, 'z1')).toBe('b1@im.bot:again')
  await t.sessions.remove('z1')
  expect(await names(t)).toHaveLength(69)
})

function rollOf(folders: string[], records: Map<string, { bot: number }>) {
  const told: number[] = []
  const read = async (folder: string) => records.get(folder)
  const roll = new FolderIndex<{ bot: number }>({
    folders: () => [...folders],
    read,
    onChange: ({ bot }) => told.push(bot),
    isSame: (one, other) => one?.bot === other?.bot,
    few: 0,
  })
  const list = async () => {
    await roll.refresh()
    return roll.list().map(({ bot }) => bot)
  }
  return { roll, told, list }
}

test('results of a background read are listed, also if a change of this process is read at the same time', async () => {
  const records = new Map([
    ['a', { bot: 1 }],
    ['b', { bot: 1 }],
  ])
  const { list, roll, told } = rollOf(['a', 'b'], records)
  let now = performance.now()
  using _time = spyOn(performance, 'now').mockImplementation(() => now)
  await list()
  // Old enough for a look in the background, not yet for one that is waited for.
  now += 900
  records.set('a', { bot: 2 })
  records.set('b', { bot: 2 })
  roll.markChanged('b')
  await list()
  await new Promise(resolve => setImmediate(resolve))
  expect(await list()).toEqual([2, 2])
  expect(told).toEqual([1, 1, 2, 2])
})

test('changes since a revision include removals; changes of this process cause no listing of the folder', async () => {
  const folders = ['a']
  const records = new Map([
    ['a', { bot: 1 }],
    ['b', { bot: 2 }],
  ])
  let listings = 0
  const { list, roll } = rollOf(folders, records)
  const now = performance.now()
  using _time = spyOn(performance, 'now').mockImplementation(() => now)
  await list()
  const first = roll.listChangedSince()
  expect([...first.changed.keys()]).toEqual(['a'])
  await list()
  expect(roll.listChangedSince(first.revision)).toEqual({ revision: first.revision, changed: new Map() })
  using _listing = spyOn(folders, Symbol.iterator).mockImplementation(() => {
    listings++
    return [][Symbol.iterator]()
  })
  roll.markChanged('b')
  expect(await list()).toEqual([1, 2])
  expect(roll.alike('b')).toEqual(['b'])
  const second = roll.listChangedSince(first.revision)
  expect([...second.changed]).toEqual([['b', { bot: 2 }]])
  records.delete('b')
  roll.markChanged('b')
  expect(await list()).toEqual([1])
  expect([...roll.listChangedSince(second.revision).changed]).toEqual([['b', undefined]])
  expect([...roll.listChangedSince(first.revision).changed]).toEqual([['b', undefined]])
  expect(listings).toBe(0)
})

test('of several changes of a session only the newest is returned, for any revision', async () => {
  const records = new Map([['a', { bot: 0 }]])
  const { list, roll } = rollOf(['a'], records)
  await list()
  const began = roll.listChangedSince().revision
  for (let bot = 1; bot <= 1000; bot++) {
    records.set('a', { bot })
    roll.markChanged('a')
    await list()
  }
  for (const revision of [undefined, began, began + 500])
    expect([...roll.listChangedSince(revision).changed]).toEqual([['a', { bot: 1000 }]])
})
