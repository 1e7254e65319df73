import { beforeEach, expect, test } from 'bun:test'
import { utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Heartbeat } from '../../../src/storage/sqlite/leases.ts'
import { testClock } from '../../support/clock.ts'
import { folderOfTest } from '../../support/folder.ts'

let path: string
beforeEach(async () => {
  path = join(folderOfTest(), 'lock')
  await writeFile(path, '')
})

/** Looks every second, as a watcher does. @returns after how many looks the poller counts as stalled */
async function looksUntilStalled(heartbeat: Heartbeat, clock: ReturnType<typeof testClock>): Promise<number> {
  for (let looks = 1; looks <= 60; looks++) {
    clock.advance(1000)
    if (await heartbeat.isStalled()) return looks
  }
  throw new Error('never')
}

test('a poller with heartbeats is alive whatever the clock is; without one for 15 s it is stalled', async () => {
  const clock = testClock()
  const heartbeat = new Heartbeat({ path, clock })
  for (const at of [1000, 2000, 1500, 4e9, 1]) {
    for (let looks = 0; looks < 5; looks++) {
      expect(await heartbeat.isStalled()).toBe(false)
      clock.advance(1000)
    }
    await utimes(path, at, at)
  }
  expect(await heartbeat.isStalled()).toBe(false)
  const looks = await looksUntilStalled(heartbeat, clock)
  expect(looks).toBeGreaterThanOrEqual(8)
  expect(looks).toBeLessThan(18)
  await utimes(path, 5, 5)
  expect(await heartbeat.isStalled()).toBe(false)
})

test('a gap between checks does not count as silence: the machine may have slept', async () => {
  const clock = testClock()
  const heartbeat = new Heartbeat({ path, clock })
  expect(await heartbeat.isStalled()).toBe(false)
  for (let times = 0; times < 4; times++) {
    clock.advance(60_000)
    expect(await heartbeat.isStalled()).toBe(false)
  }
  expect(await looksUntilStalled(heartbeat, clock)).toBeGreaterThan(3)
})
