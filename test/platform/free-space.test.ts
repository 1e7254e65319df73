import { expect, test } from 'bun:test'
import { mkdtemp, rm, statfs } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { FreeSpace } from '../../src/platform/free-space.ts'
import { failure } from '../support/failure.ts'

const gib = 1024 ** 3

test('room is set apart before anything is written, and given back; what was written counts as the disk has it', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'svc-space-'))
  try {
    const { bavail, bsize } = await statfs(dir)
    // The machine writes elsewhere meanwhile: what is asked for here is far larger than that.
    const space = new FreeSpace(dir, Math.max(0, bavail * bsize - 2 * gib))
    const full = { code: 'store_unavailable' }
    expect(await space.isLow()).toBe(false)
    expect(await failure(space.room(dir, 4 * gib))).toMatchObject(full)
    {
      using room = await space.room(dir, 1.5 * gib)
      expect(await failure(space.room(dir, gib))).toMatchObject(full)
      // One whose size is unknown gets it in steps.
      using unknown = await space.room(dir)
      await unknown.cover(1)
      expect(await failure(unknown.cover(gib))).toMatchObject(full)
      await room.cover(1.4 * gib)
      using _other = await space.room(dir, gib)
    }
    using _again = await space.room(dir, 1.5 * gib)
    expect(await new FreeSpace(dir, Number.MAX_SAFE_INTEGER).isLow()).toBe(true)
  } finally {
    await rm(dir, { recursive: true })
  }
})
