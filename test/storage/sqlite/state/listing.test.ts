import { beforeEach, expect, setSystemTime, test } from 'bun:test'
import { mkdir, rename, rmdir, stat, unlink, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createFolderReader, createTextReader } from '../../../../src/platform/json-file.ts'
import { TickCache } from '../../../../src/storage/sqlite/state/tick-cache.ts'
import { folderOfTest } from '../../../support/folder.ts'
import { until } from '../../../support/until.ts'

let dir: string
beforeEach(() => {
  dir = folderOfTest()
})

/** Reads as somebody does for whom the folder has not changed for so long that its listing may be kept. */
async function readLater(folders: () => readonly string[]): Promise<readonly string[]> {
  // A change after this is another tick of the file system's clock.
  const probe = join(folderOfTest(), 'probe')
  const { mtimeMs } = await stat(dir)
  await until('another tick', 30_000, async () => {
    await writeFile(probe, '')
    return (await stat(probe)).mtimeMs > mtimeMs
  })
  setSystemTime(Date.now() + 10_000)
  try {
    return folders()
  } finally {
    setSystemTime()
  }
}

test('a created, removed or renamed folder is visible immediately, also with a cached listing', async () => {
  const folders = createFolderReader(dir, () => true)
  await mkdir(join(dir, 'a'))
  await writeFile(join(dir, 'file'), '')
  const kept = await readLater(folders)
  expect(kept).toEqual(['a'])
  expect(folders()).toBe(kept)
  await mkdir(join(dir, 'b'))
  expect([...folders()].sort()).toEqual(['a', 'b'])
  await readLater(folders)
  await rename(join(dir, 'b'), join(dir, 'c'))
  expect([...folders()].sort()).toEqual(['a', 'c'])
  await readLater(folders)
  await rmdir(join(dir, 'a'))
  expect(folders()).toEqual(['c'])
})

test('a folder that has just changed is read each time: its time may not show the next change', async () => {
  const folders = createFolderReader(dir, () => true)
  const at = new Date()
  await mkdir(join(dir, 'a'))
  await utimes(dir, at, at)
  expect(folders()).toEqual(['a'])
  await mkdir(join(dir, 'b'))
  await utimes(dir, at, at)
  expect([...folders()].sort()).toEqual(['a', 'b'])
})

test('a small file is read in its current state: absent, present, replaced, removed', async () => {
  const path = join(dir, 'file')
  const file = createTextReader(path)
  expect(file()).toBeUndefined()
  await writeFile(path, 'one')
  expect(file()).toBe('one')
  expect(file()).toBe('one')
  await writeFile(`${path}.tmp`, 'two')
  await rename(`${path}.tmp`, path)
  expect(file()).toBe('two')
  await unlink(path)
  expect(file()).toBeUndefined()
})

test('one read serves one turn of the event loop; the next turn, and a call after a change, read again', async () => {
  const cache = new TickCache<number>()
  let looks = 0
  const look = () => cache.get('', () => ++looks)
  expect([look(), look()]).toEqual([1, 1])
  cache.forget()
  expect(look()).toBe(2)
  await new Promise(resolve => setTimeout(resolve, 0))
  await new Promise(resolve => setImmediate(resolve))
  expect(look()).toBe(3)
})

test('a failed read is not cached', () => {
  const cache = new TickCache<number>()
  expect(() =>
    cache.get('', () => {
      throw new Error('no')
    }),
  ).toThrow('no')
  expect(cache.get('', () => 7)).toBe(7)
})
