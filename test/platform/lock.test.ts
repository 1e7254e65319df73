import { afterEach, expect, test } from 'bun:test'
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { isSvcError } from '../../src/model/error.ts'
import { type FileLock, openLock } from '../../src/platform/lock.ts'
import { failure } from '../support/failure.ts'
import { folderOfFile } from '../support/folder.ts'
import { until } from '../support/until.ts'

const folder = folderOfFile()
const opened: FileLock[] = []
afterEach(async () => {
  for (const lock of opened.splice(0)) await lock.close()
})
let files = 0
const newPath = () => join(folder, `lock-${files++}`)
async function open(path: string, options?: Parameters<typeof openLock>[1]) {
  const lock = await openLock(path, options)
  opened.push(lock)
  return lock
}
const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => 'done',
    error => (isSvcError(error) ? error.code : error),
  )

function worker(path: string, args: string[], env: Record<string, string> = {}) {
  const child = Bun.spawn([process.execPath, join(import.meta.dir, 'lock-worker.ts'), path, ...args], {
    env: { ...process.env, ...env },
    stdout: 'pipe',
  })
  const lines = child.stdout.pipeThrough(new TextDecoderStream()).getReader()
  return { child, said: async () => JSON.parse((await lines.read()).value ?? 'null') }
}

test('two openings of one lock file exclude each other, and the file stays', async () => {
  const path = newPath()
  const [one, other] = [await open(path), await open(path)]
  expect(await one.tryLock()).toBe(true)
  expect([one.held, other.held]).toEqual([true, false])
  expect(await other.tryLock()).toBe(false)
  await one.unlock()
  expect(await other.tryLock()).toBe(true)
  await other.close()
  expect(await one.tryLock()).toBe(true)
  expect(statSync(path).mode & 0o777).toBe(0o600)
  expect(readFileSync(path, 'utf8')).toStartWith(`flock\ntaken by process ${process.pid} at `)
})

test('calls of one process are served in their order', async () => {
  const lock = await open(newPath())
  const order: number[] = []
  await Promise.all(
    Array.from({ length: 50 }, (_, i) =>
      lock.run(async () => {
        await new Promise(resolve => setImmediate(resolve))
        order.push(i)
      }),
    ),
  )
  expect(order).toEqual(Array.from({ length: 50 }, (_, i) => i))
  expect(lock.held).toBe(false)
})

test('a failing piece of work gives the lock back', async () => {
  const lock = await open(newPath())
  const failed = lock.run(async () => {
    throw new Error('work')
  })
  expect(await failed.catch(error => error.message)).toBe('work')
  expect(await lock.run(async () => 'next')).toBe('next')
})

test('waiting ends at its time limit and says who holds the lock', async () => {
  const path = newPath()
  const [holder, waiter] = [await open(path), await open(path)]
  await holder.lock()
  const error = await waiter.lock({ timeoutMs: 30 }).catch(error => error)
  expect(isSvcError(error, 'store_unavailable')).toBe(true)
  expect(error.message).toContain(`process ${process.pid}`)
  // The same inside one process, where the queue is waited in.
  expect(await codeOf(holder.lock({ timeoutMs: 30 }))).toBe('store_unavailable')
  await holder.unlock()
  await waiter.lock({ timeoutMs: 1000 })
})

test('closing refuses who waits and whoever comes', async () => {
  const path = newPath()
  const [holder, lock] = [await open(path), await open(path)]
  await holder.lock()
  const waiting = [codeOf(lock.lock()), codeOf(lock.lock())]
  await lock.close()
  expect(await Promise.all(waiting)).toEqual(['shutting_down', 'shutting_down'])
  expect(await codeOf(lock.lock())).toBe('shutting_down')
  expect(await codeOf(lock.tryLock())).toBe('shutting_down')
})

test('four processes count without a loss, and none waits long', async () => {
  const path = newPath()
  const counter = join(folder, 'counter')
  writeFileSync(counter, '0')
  const workers = Array.from({ length: 4 }, () => worker(path, ['count', counter, '60']))
  const results = await Promise.all(workers.map(({ said }) => said()))
  expect(readFileSync(counter, 'utf8')).toBe('240')
  for (const { longestMs } of results) expect(longestMs).toBeLessThan(3000)
})

test('a holder killed with -9 frees the lock, though a child of it lives on', async () => {
  const path = newPath()
  const holder = worker(path, ['hold'])
  const { taken, child } = await holder.said()
  expect(taken).toBe(true)
  const lock = await open(path)
  expect(await lock.tryLock()).toBe(false)
  process.kill(child, 'SIGSTOP')
  holder.child.kill('SIGKILL')
  await holder.child.exited
  await lock.lock({ timeoutMs: 1000 })
  process.kill(child, 'SIGKILL')
})

test('processes that meet a new directory agree on one kind and leave one file', async () => {
  const dir = mkdtempSync(join(folder, 'new-'))
  const path = join(dir, '.data.lock')
  const locks = await Promise.all(Array.from({ length: 20 }, () => open(path)))
  expect((await Promise.all(locks.map(lock => lock.tryLock()))).filter(Boolean)).toHaveLength(1)
  expect(readdirSync(dir)).toEqual(['.data.lock'])
})

test('a kind that is recorded is the kind that is used; another one is refused', async () => {
  const path = newPath()
  const lock = await open(path, { kind: 'lockfile' })
  expect(await codeOf(openLock(path, { kind: 'flock' }))).toBe('store_unavailable')
  expect(await lock.tryLock()).toBe(true)
  // Not told which kind, the other process follows the file.
  const other = worker(path, ['try'])
  expect(await other.said()).toEqual({ taken: false })
  await lock.unlock()
  const later = worker(path, ['try'])
  expect(await later.said()).toEqual({ taken: true })
  const unknown = newPath()
  writeFileSync(unknown, 'quantum\n')
  const error = await openLock(unknown).catch(error => error)
  expect(isSvcError(error, 'store_unavailable')).toBe(true)
  expect(error.message).toContain('quantum')
})

test('with lock folders four processes count without a loss too', async () => {
  const path = newPath()
  const counter = join(folder, 'counter2')
  writeFileSync(counter, '0')
  const workers = Array.from({ length: 4 }, () =>
    worker(path, ['count', counter, '20'], { LOCK_KIND: 'lockfile' }),
  )
  await Promise.all(workers.map(({ said }) => said()))
  expect(readFileSync(counter, 'utf8')).toBe('80')
})

test('an empty lock file, left by a crash, is put to use', async () => {
  const path = newPath()
  writeFileSync(path, '')
  const lock = await open(path)
  expect(await lock.tryLock()).toBe(true)
  expect(readFileSync(path, 'utf8')).toStartWith('flock\n')
})

test('a lock whose file is removed is reported lost, and taken anew it excludes again', async () => {
  const path = newPath()
  const lock = await open(path, { checkEveryMs: 10 })
  await lock.lock()
  const { lost } = lock
  const heard = new Promise(resolve => lost.addEventListener('abort', resolve))
  unlinkSync(path)
  await heard
  expect(lock.held).toBe(false)
  await lock.lock()
  expect(lock.lost.aborted).toBe(false)
  const other = await open(path)
  expect(await other.tryLock()).toBe(false)
})

test('a file that was replaced before the lock is taken is noticed', async () => {
  const path = newPath()
  const stale = await open(path)
  unlinkSync(path)
  const fresh = await open(path)
  expect(await fresh.tryLock()).toBe(true)
  expect(await stale.tryLock()).toBe(false)
  await fresh.unlock()
  expect(await stale.tryLock()).toBe(true)
})

test('a file that was replaced by one of another kind is refused with what to do, not taken', async () => {
  const path = newPath()
  const lock = await open(path, { kind: 'flock' })
  for (const text of ['lockfile\n', '']) {
    unlinkSync(path)
    writeFileSync(path, text)
    for (const failed of [lock.tryLock(), lock.run(async () => {})].map(failure)) {
      expect(await failed).toMatchObject({
        code: 'store_unavailable',
        message: expect.stringContaining('was replaced'),
        hint: expect.stringContaining('start again'),
      })
    }
    expect(lock.held).toBe(false)
  }
})

test('who has lost the lock does not give back what the next one in this process has taken', async () => {
  const path = newPath()
  const lock = await open(path, { checkEveryMs: 10 })
  const [one, two] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const began = Promise.withResolvers<void>()
  const works = [
    lock.run(() => one.promise),
    lock.run(() => {
      began.resolve()
      return two.promise
    }),
  ]
  await until('held', 5000, () => lock.held)
  unlinkSync(path)
  await began.promise
  one.resolve()
  await works[0]
  expect(lock.held).toBe(true)
  const other = await open(path)
  expect(await other.tryLock()).toBe(false)
  two.resolve()
  await works[1]
  expect(await other.tryLock()).toBe(true)
})

test('a folder that cannot be entered for a while: the lock is not lost, and nobody is sure of it meanwhile', async () => {
  const place = join(folder, 'place')
  mkdirSync(place)
  const lock = await open(join(place, 'lock'), { kind: 'flock', checkEveryMs: 10 })
  await lock.lock()
  renameSync(place, `${place}-away`)
  symlinkSync(place, place)
  await until('it has looked', 30_000, () => !lock.isReallyHeld)
  expect([lock.held, lock.isReallyHeld, lock.lost.aborted]).toEqual([true, false, false])
  unlinkSync(place)
  renameSync(`${place}-away`, place)
  expect([lock.held, lock.isReallyHeld]).toEqual([true, true])
})
