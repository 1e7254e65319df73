/**
 * A process of its own for the lock tests: `lock-worker.ts <lock file> <job> [kind]`.
 *
 * - count <file> <turns>: adds 1 to the number in the file that many times, each under the lock
 * - hold: takes the lock, says "held", and lives on (with a child of its own) until killed
 * - block <ms>: takes the lock, does nothing at all for that long, and says how it stands then and a second
 *   later; with `unlock` it gives the lock back in between
 * - try: says whether the lock can be taken
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { openLock } from '../../src/platform/lock.ts'

const [path = '', job, ...rest] = process.argv.slice(2)
const lock = await openLock(path, process.env.LOCK_KIND === 'lockfile' ? { kind: 'lockfile' } : {})

if (job === 'count') {
  const [file = '', turns] = rest
  let longestMs = 0
  for (let i = 0; i < Number(turns); i++) {
    const asked = performance.now()
    await lock.run(async () => {
      longestMs = Math.max(longestMs, performance.now() - asked)
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
  console.log(JSON.stringify({ taken: await lock.tryLock() }))
  let lostAfterMs: number | undefined
  let wokeAt = 0
  lock.lost.addEventListener('abort', () => {
    lostAfterMs = performance.now() - wokeAt
  })
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, Number(rest[0]))
  wokeAt = performance.now()
  const atOnce = lock.sure
  if (rest[1] === 'unlock') await lock.unlock()
  await new Promise(resolve => setTimeout(resolve, 1000))
  console.log(JSON.stringify({ atOnce, later: lock.sure, lostAfterMs }))
  await lock.close()
} else {
  console.log(JSON.stringify({ taken: await lock.tryLock() }))
  await lock.close()
}
