/** Reads of one moment, under the data lock. */
import { expect, test } from 'bun:test'
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type FileLock, openLock } from '../../../../src/platform/lock.ts'
import { silentLog } from '../../../../src/platform/log.ts'
import { openState } from '../../../../src/storage/sqlite/state/state.ts'
import { failure } from '../../../support/failure.ts'
import { bot } from '../../support.ts'

/** Two processes on one directory. The first one gives up its waits for the lock after `patienceMs`. */
async function open(kind: 'flock' | 'lockfile' = 'flock', patienceMs = 30_000) {
  const dir = await mkdtemp(join(tmpdir(), 'svc-together-'))
  const path = join(dir, '.data.lock')
  const [lock, other] = [await openLock(path, { kind }), await openLock(path)]
  const holds = { count: 0 }
  const run: FileLock['run'] = (work, options) => {
    holds.count += 1
    return lock.run(work, { timeoutMs: patienceMs, ...options })
  }
  const state = openState({ dir, lock: { run }, log: silentLog })
  await mkdir(join(dir, 's'))
  await writeFile(join(dir, 's/token.json'), JSON.stringify(bot('b')))
  const close = async () => {
    await lock.close()
    await other.close()
    await rm(dir, { recursive: true })
  }
  return { dir, holds, lock, other, state, [Symbol.asyncDispose]: close }
}

for (const kind of ['flock', 'lockfile'] as const)
  test(`a read waits for the change of another process, and sees it whole: ${kind}`, async () => {
    await using t = await open(kind)
    expect((await t.state.sessions.get('s'))?.bot?.bot_id).toBe(bot('b').bot_id)
    await t.other.lock()
    const read = t.state.readTogether(() => t.state.sessions.get('s'))
    await writeFile(join(t.dir, 's/token.json'), JSON.stringify(bot('c')))
    await t.other.unlock()
    expect((await read)?.bot?.bot_id).toBe(bot('c').bot_id)
  })

test('a lock that stays held is an error after the patience, and nothing else waits', async () => {
  await using t = await open('flock', 50)
  await t.other.lock()
  const read = failure(t.state.readTogether(() => t.state.sessions.get('s')))
  expect((await t.state.sessions.list()).map(({ name }) => name)).toEqual(['s'])
  expect(await read).toMatchObject({ code: 'store_unavailable', retryAfter: 1 })
  await t.other.unlock()
  expect((await t.state.readTogether(() => t.state.sessions.get('s')))?.name).toBe('s')
})

test('reads that wait share the lock; one that fails fails alone', async () => {
  await using t = await open()
  await t.other.lock()
  const reads = Array.from({ length: 20 }, (_none, nth) =>
    t.state.readTogether(async () => {
      if (nth === 3) throw new Error('alone')
      return nth
    }),
  )
  await t.other.unlock()
  const settled = await Promise.allSettled(reads)
  expect(settled.flatMap(one => (one.status === 'rejected' ? one.reason.message : []))).toEqual(['alone'])
  expect(t.holds.count).toBe(1)
})

test('reads that are asked for one by one in a turn of the event loop share the lock', async () => {
  await using t = await open()
  const reads = Array.from({ length: 8 }, async () => {
    await new Promise(resolve => setImmediate(resolve))
    return await t.state.readTogether(() => t.state.sessions.get('s'))
  })
  expect((await Promise.all(reads)).map(found => found?.name)).toEqual(reads.map(() => 's'))
  expect(t.holds.count).toBe(1)
})

test('a damaged login does not wait for the lock that its reader holds', async () => {
  await using t = await open()
  await writeFile(join(t.dir, 's/token.json'), '{')
  expect(await t.state.readTogether(() => t.state.sessions.get('s'))).toEqual({ name: 's', damaged: true })
  expect(t.holds.count).toBe(1)
  await t.state.sessions.get('s')
  expect((await readdir(join(t.dir, 's'))).join()).toMatch(/^token\.json\.corrupt-/)
})
