import { expect, test } from 'bun:test'
import { statfs } from 'node:fs/promises'
import { FreeSpace } from '../../src/platform/free-space.ts'
import { failure } from '../support/failure.ts'
import { folderOfTest } from '../support/folder.ts'

const gib = 1024 ** 3

test('a file is refused where too little would be left, before it is written and as it grows', async () => {
  const dir = folderOfTest()
  const { bavail, bsize } = await statfs(dir)
  // The machine writes elsewhere meanwhile: what is asked for here is far larger than that.
  const space = new FreeSpace(dir, Math.max(0, bavail * bsize - 2 * gib))
  const full = { code: 'store_unavailable' }
  expect(await space.isLow()).toBe(false)
  expect(await failure(space.startCheck(dir, 4 * gib))).toMatchObject(full)
  const room = await space.startCheck(dir, 1.5 * gib)
  await room(gib)
  const none = new FreeSpace(dir, Number.MAX_SAFE_INTEGER)
  expect(await none.isLow()).toBe(true)
  expect(await failure(none.startCheck(dir))).toMatchObject(full)
})
