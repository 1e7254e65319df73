/**
 * A process of its own for the lock tests: `lock-worker.ts <lock file> <job> [kind]`.
 *
 * - count <file> <turns>: adds 1 to the number in the file that many times, each under the lock
 * - hold: takes the lock, says "held", and lives on (with a child of its own) until killed
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
} else {
  console.log(JSON.stringify({ taken: await lock.tryLock() }))
  await lock.close()
}
