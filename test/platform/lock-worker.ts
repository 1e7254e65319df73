/**
 * A process of its own for the lock tests: `lock-worker.ts <lock file> <job> [kind]`.
 *
 * - count <file> <turns>: adds 1 to the number in the file that many times, each under the lock
 * - hold: takes the lock, says "held", and lives on (with a child of its own) until killed
 * - block <file>: takes the lock, does nothing at all until there is such a file, and says how it stands then and when
 *   it has made sure; with `unlock` it gives the lock back instead, and says whether it can take it again; with
 *   `touch` it falls asleep between a look at the lock folder and the touch that follows
 * - stand still: tries for a lock folder whose holder, in this process too, touches it by the clock of yesterday; all
 *   stands still for 3 s just before the touch that comes next; says whether it was taken
 * - crowd <count> <file>: once there is such a file, tries for so many locks at nearly the same time, their files
 *   numbered from 0 on; says which it got, and keeps them until killed
 * - try: says whether the lock can be taken
 */
import { existsSync, mkdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs'
import { openLock } from '../../src/platform/lock.ts'
import { stopwatch } from '../support/stopwatch.ts'
import { until } from '../support/until.ts'

const [path = '', job, ...rest] = process.argv.slice(2)
const lock = await openLock(path, process.env.LOCK_KIND === 'lockfile' ? { kind: 'lockfile' } : {})

if (job === 'count') {
  const [file = '', turns] = rest
  let longestMs = 0
  for (let i = 0; i < Number(turns); i++) {
    using watch = stopwatch()
    await lock.run(async () => {
      longestMs = Math.max(longestMs, watch.ms)
      const count = Number(readFileSync(file, 'utf8'))
      await new Promise(resolve => setTimeout(resolve, 1))
      writeFileSync(file, String(count + 1))
    })
  }
  console.log(JSON.stringify({ longestMs }))
  await lock.close()
} else if (job === 'hold') {
  const taken = await lock.tryLock()
  // The child must not keep the lock alive when this process dies; it ends when its input does.
  const child = Bun.spawn(['cat'], { stdin: 'pipe', stdout: 'ignore' })
  console.log(JSON.stringify({ taken, child: child.pid }))
  setInterval(() => {}, 1000)
} else if (job === 'block') {
  // The first time of a folder is the next full second: at the beginning of one that is furthest away.
  await until('a second begins', 30_000, () => Date.now() % 1000 < 50)
  console.log(JSON.stringify({ taken: await lock.tryLock() }))
  const [goOn = '', more] = rest
  const never = new Int32Array(new SharedArrayBuffer(4))
  if (more === 'touch') {
    // Both timers are due when this one ends, the lock's first; what its look has found comes after the two.
    setTimeout(() => Atomics.wait(never, 0, 0, 50), 1970)
    await new Promise(resolve => setTimeout(resolve, 2000))
  }
  for (let tries = 0; tries < 600 && !existsSync(goOn); tries++) Atomics.wait(never, 0, 0, 100)
  using watch = stopwatch()
  let lostAfterMs: number | undefined
  lock.lost.addEventListener('abort', () => {
    lostAfterMs = watch.ms
  })
  const atOnce = lock.isReallyHeld
  if (more === 'unlock') await lock.unlock()
  else await until('how it stands is known', 30_000, () => lock.lost.aborted || lock.isReallyHeld)
  await new Promise(resolve => setTimeout(resolve, 1000))
  const again = more === 'unlock' ? await lock.tryLock() : undefined
  console.log(JSON.stringify({ atOnce, later: lock.isReallyHeld, lostAfterMs, again }))
  await lock.close()
} else if (job === 'crowd') {
  const [count, begin = ''] = rest
  const numbers = Array.from({ length: Number(count) }, (_, n) => n)
  const locks = await Promise.all(numbers.map(n => openLock(`${path}${n}`)))
  console.log('"ready"')
  await until('it begins', 30_000, () => existsSync(begin))
  const taken = locks.map(async lock => {
    await new Promise(resolve => setTimeout(resolve, Math.random() * 40))
    return lock.tryLock()
  })
  console.log(JSON.stringify(await Promise.all(taken)))
  setInterval(() => {}, 1000)
} else if (job === 'stand still') {
  const yesterday = () => new Date(Date.now() - 24 * 3_600_000)
  const touch = () => utimesSync(`${path}.lock`, yesterday(), yesterday())
  mkdirSync(`${path}.lock`)
  touch()
  setTimeout(() => {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3000)
    // The holder is the last one to wake.
    setTimeout(touch, 100)
  }, 1800)
  console.log(JSON.stringify({ taken: await lock.tryLock() }))
  await lock.close()
} else {
  console.log(JSON.stringify({ taken: await lock.tryLock() }))
  await lock.close()
}
