import { describe, expect, test } from 'bun:test'
import { existsSync, mkdirSync, readdirSync, utimesSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { type FileLock, openLock } from '../../src/platform/lock.ts'
import { folderOfFile } from '../support/folder.ts'
import { stopwatch } from '../support/stopwatch.ts'

const folder = folderOfFile()
let files = 0
const newPath = () => join(folder, `lock-${files++}`)
const dayMs = 24 * 3_600_000

function worker(path: string, kind: string, ...args: string[]) {
  const child = Bun.spawn([process.execPath, join(import.meta.dir, 'lock-worker.ts'), path, ...args], {
    env: { ...process.env, LOCK_KIND: kind },
    stdout: 'pipe',
  })
  const lines = child.stdout.pipeThrough(new TextDecoderStream()).getReader()
  return { child, said: async () => JSON.parse((await lines.read()).value ?? 'null') }
}

/**
 * Tries as a watcher does.
 *
 * @param withinMs as this process lives
 * @returns ms by the clock until it was taken; undefined when it was not in time
 */
async function takenAfter(lock: FileLock, withinMs: number): Promise<number | undefined> {
  const began = performance.now()
  using watch = stopwatch()
  while (watch.ms < withinMs) {
    if (await lock.tryLock()) return performance.now() - began
    await Bun.sleep(500)
  }
  return undefined
}

// Each waits for seconds, by the real clock of real files: side by side.
describe.concurrent('locks', () => {
  test('a lock folder whose holder was killed with -9 is taken within 10 s, not before it is surely nobody’s', async () => {
    const path = newPath()
    const holder = worker(path, 'lockfile', 'hold')
    const { taken, child } = await holder.said()
    expect(taken).toBe(true)
    await using lock = await opened(path)
    holder.child.kill('SIGKILL')
    await holder.child.exited
    process.kill(child, 'SIGKILL')
    const after = await takenAfter(lock.lock, 10_000)
    expect(after).toBeGreaterThan(3000)
    expect(existsSync(`${path}.lock`)).toBe(true)
  })

  test('a lock folder whose holder was blocked for too long is another’s: the holder does nothing more, and hears of it', async () => {
    const path = newPath()
    const goOn = newPath()
    const holder = worker(path, 'lockfile', 'block', goOn)
    expect(await holder.said()).toEqual({ taken: true })
    await using lock = await opened(path)
    expect(await takenAfter(lock.lock, 10_000)).toBeDefined()
    writeFileSync(goOn, '')
    const { atOnce, later, lostAfterMs } = await holder.said()
    expect({ atOnce, later }).toEqual({ atOnce: false, later: false })
    expect(lostAfterMs).toBeLessThan(500)
    await holder.child.exited
    // What the other one holds was not taken down by the one who lost it.
    expect(lock.lock.isReallyHeld).toBe(true)
    expect(existsSync(`${path}.lock`)).toBe(true)
  })

  for (const [act, what] of [
    ['touch', 'not touched by a holder who wakes up and was about to'],
    ['unlock', 'not taken down by a holder who wakes up and gives it back'],
  ] as const)
    test(`a lock folder that became another’s is ${what}`, async () => {
      const path = newPath()
      const goOn = newPath()
      const holder = worker(path, 'lockfile', 'block', goOn, act)
      expect(await holder.said()).toEqual({ taken: true })
      await using lock = await opened(path)
      expect(await takenAfter(lock.lock, 15_000)).toBeDefined()
      writeFileSync(goOn, '')
      const { atOnce, later } = await holder.said()
      if (act === 'touch') expect({ atOnce, later }).toEqual({ atOnce: false, later: false })
      else await holder.child.exited
      expect(existsSync(`${path}.lock`)).toBe(true)
      expect(lock.lock.isReallyHeld).toBe(true)
    })

  test('a lock folder whose holder was blocked while nobody wanted it is still his, once he has made sure', async () => {
    const goOn = newPath()
    const holder = worker(newPath(), 'lockfile', 'block', goOn)
    expect(await holder.said()).toEqual({ taken: true })
    await Bun.sleep(9000)
    writeFileSync(goOn, '')
    expect(await holder.said()).toEqual({ atOnce: false, later: true })
    await holder.child.exited
  })

  test('a lock folder whose holder was blocked while nobody wanted it is free once he gives it back', async () => {
    const goOn = newPath()
    const holder = worker(newPath(), 'lockfile', 'block', goOn, 'unlock')
    expect(await holder.said()).toEqual({ taken: true })
    // It may be another's by now, and its time looks younger than that.
    await Bun.sleep(8300)
    writeFileSync(goOn, '')
    expect(await holder.said()).toMatchObject({ atOnce: false, again: true })
    await holder.child.exited
  })

  test('a lock folder that a crash left long ago is taken by whoever tries once', async () => {
    const path = newPath()
    await using lock = await opened(path)
    mkdirSync(`${path}.lock`)
    utimesSync(`${path}.lock`, new Date(), new Date(Date.now() - 60_000))
    expect(await lock.lock.tryLock()).toBe(true)
  })

  test('lock folders that a crash left, and several want at once, are taken by one each', async () => {
    const path = `${newPath()}-`
    const count = 300
    for (let n = 0; n < count; n++) {
      writeFileSync(`${path}${n}`, 'lockfile\n')
      mkdirSync(`${path}${n}.lock`)
      utimesSync(`${path}${n}.lock`, new Date(), new Date(Date.now() - 60_000))
    }
    const begin = newPath()
    const crowd = [1, 2, 3, 4, 5, 6].map(() => worker(path, 'lockfile', 'crowd', String(count), begin))
    try {
      for (const { said } of crowd) expect(await said()).toBe('ready')
      writeFileSync(begin, '')
      const taken: boolean[][] = await Promise.all(crowd.map(({ said }) => said()))
      const takers = Array.from({ length: count }, (_, n) => taken.filter(one => one[n]).length)
      expect(takers).toEqual(Array(count).fill(1))
      // Nothing is left of the old ones.
      const left = readdirSync(folder).filter(
        name => name.startsWith(basename(path)) && name.includes('.lock.'),
      )
      expect(left).toEqual([])
    } finally {
      for (const { child } of crowd) child.kill('SIGKILL')
    }
  })

  test('a lock folder whose clearing away was cut short by a crash, too, is taken', async () => {
    const path = newPath()
    await using lock = await opened(path)
    mkdirSync(`${path}.lock`)
    mkdirSync(`${path}.lock.clearing`)
    expect(await takenAfter(lock.lock, 20_000)).toBeDefined()
    expect(existsSync(`${path}.lock.clearing`)).toBe(false)
  })

  test('a lock folder is not taken from a live holder when the clock is set a day forward', async () => {
    const path = newPath()
    await using lock = await opened(path)
    mkdirSync(`${path}.lock`)
    // A holder whose touches look a day old by the clock of today.
    const touch = () => utimesSync(`${path}.lock`, new Date(), new Date(Date.now() - dayMs))
    touch()
    const touching = setInterval(touch, 2000)
    try {
      expect(await takenAfter(lock.lock, 9500)).toBeUndefined()
    } finally {
      clearInterval(touching)
    }
    expect(await takenAfter(lock.lock, 10_000)).toBeDefined()
  })

  test('a lock folder is not taken from a live holder when the machine stood still, whatever the clock says', async () => {
    const all = worker(newPath(), 'lockfile', 'stand still')
    expect(await all.said()).toEqual({ taken: false })
    await all.child.exited
  })

  test('the lock folder of a dead holder is taken within 10 s though the clock was set a day back', async () => {
    const path = newPath()
    await using lock = await opened(path)
    mkdirSync(`${path}.lock`)
    utimesSync(`${path}.lock`, new Date(), new Date(Date.now() + dayMs))
    expect(await takenAfter(lock.lock, 10_000)).toBeGreaterThan(7000)
  })

  test('with the kernel’s lock a holder that is blocked for long loses nothing', async () => {
    const path = newPath()
    const goOn = newPath()
    const holder = worker(path, 'flock', 'block', goOn)
    expect(await holder.said()).toEqual({ taken: true })
    const lock = await openLock(path)
    expect(await takenAfter(lock, 11_000)).toBeUndefined()
    writeFileSync(goOn, '')
    expect(await holder.said()).toEqual({ atOnce: true, later: true })
    await holder.child.exited
    expect(await lock.tryLock()).toBe(true)
    await lock.close()
  })
})

async function opened(path: string) {
  const lock = await openLock(path, { kind: 'lockfile' })
  return { lock, [Symbol.asyncDispose]: () => lock.close() }
}
