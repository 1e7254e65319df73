/** The schedule of backups, with a clock of the tests and a stand-in for the process that makes one. */
import { expect, test } from 'bun:test'
import { existsSync, readdirSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { Backups } from '../../src/gateway/backups.ts'
import { SvcError } from '../../src/model/error.ts'
import { Bus } from '../../src/platform/runtime.ts'
import type { BackupStore } from '../../src/storage/backups.ts'
import { testClock } from '../support/clock.ts'
import { failure } from '../support/failure.ts'
import { folderOfTest } from '../support/folder.ts'
import { runtimeOf } from '../support/runtime.ts'
import { storeInMemory } from '../support/store-in-memory.ts'
import { until } from '../support/until.ts'

const hourMs = 3_600_000
const dayMs = 24 * hourMs

interface SetUp {
  store?: BackupStore
  folder?: string
  keep?: number
  polls?: boolean
}

/** A process with a schedule. */
function setUp({
  store = storeInMemory().backups,
  folder = folderOfTest(),
  keep = 7,
  polls = true,
}: SetUp = {}) {
  const { events } = storeInMemory()
  const clock = testClock({ runs: false })
  const bus = new Bus()
  const closing = new AbortController()
  const made: string[] = []
  const state = { polls, error: undefined as unknown, gate: Promise.resolve() as Promise<unknown> }
  const backups = new Backups(
    {
      backups: store,
      events,
      schedule: { folder, everyMs: dayMs, keep, isEncrypted: false },
      async make(path) {
        made.push(path)
        await state.gate
        if (state.error) throw state.error
        writeFileSync(path, 'copy', { flag: 'wx' })
        const backup = { path, created_at: clock.now(), size: 4, took_ms: 1 }
        await store.add(backup)
        return backup
      },
      isPolling: () => state.polls,
    },
    runtimeOf({ clock, bus, closing: closing.signal }),
  )
  return {
    backups,
    bus,
    clock,
    events,
    folder,
    made,
    state,
    store,
    files: () => readdirSync(folder).sort(),
    /** Waits until the schedule sleeps, for at most `mostMs`. */
    sleeps: (mostMs = hourMs) => until('it waits', 10_000, () => clock.sleeps(1, mostMs)),
    async close() {
      closing.abort(new SvcError('shutting_down', 'stops'))
      await backups.waitUntilClosed()
    },
  }
}

/** Moves time forward, and waits until the schedule has noticed. */
async function pass(t: ReturnType<typeof setUp>, ms: number): Promise<void> {
  t.clock.advance(ms)
  await t.sleeps()
}

test('the first one is made at the start, the next one when the newest is as old as the interval', async () => {
  const t = setUp()
  t.backups.start()
  await t.sleeps()
  expect(t.made).toHaveLength(1)
  expect(basename(t.made[0]!)).toMatch(/^svc-\d{8}T\d{6}Z\.tar$/)
  await pass(t, dayMs - 1000)
  expect(t.made).toHaveLength(1)
  t.clock.advance(1000)
  await until('the next one', 10_000, () => t.made.length === 2)
  await t.close()
})

test('after a restart a recent one counts, in a folder that is a link too', async () => {
  const folder = folderOfTest()
  const link = join(folderOfTest(), 'link')
  symlinkSync(folder, link)
  const first = setUp({ folder: link })
  await first.backups.make()
  await first.close()
  const t = setUp({ folder: link, store: first.store })
  t.backups.start()
  await t.sleeps()
  expect(t.made).toEqual([])
  // One in another folder does not count.
  const other = setUp({ store: first.store })
  other.backups.start()
  await other.sleeps()
  expect(other.made).toHaveLength(1)
  await Promise.all([t.close(), other.close()])
})

test('keeps seven, and touches no file that it did not make', async () => {
  const t = setUp()
  const foreign = ['svc-20010101T000000Z.tar', 'notes.txt']
  for (const name of foreign) writeFileSync(join(t.folder, name), 'not ours')
  for (let n = 0; n < 9; n++) {
    await t.backups.make()
    t.clock.advance(dayMs)
  }
  const own = t.made.map(path => basename(path)).slice(-7)
  expect(t.files()).toEqual([...own, ...foreign].sort())
  expect((await t.store.list()).map(({ path }) => basename(path))).toEqual(own.reverse())
})

test('one that somebody moved away is not made again, and is forgotten in time', async () => {
  const t = setUp({ keep: 2 })
  t.backups.start()
  await t.sleeps()
  rmSync(t.made[0]!)
  await pass(t, hourMs)
  expect(t.made).toHaveLength(1)
  for (let n = 0; n < 4; n++) {
    t.clock.advance(dayMs)
    await until('the next one', 10_000, () => t.made.length === n + 2)
    await t.sleeps()
    rmSync(t.made[n + 1]!)
  }
  expect((await t.store.list()).length).toBeLessThanOrEqual(3)
  await t.close()
})

test('only the polling process makes them; the one that takes over makes what is due', async () => {
  const store = storeInMemory().backups
  const folder = folderOfTest()
  const [poller, watcher, third] = [
    setUp({ store, folder }),
    setUp({ store, folder, polls: false }),
    setUp({ store, folder, polls: false }),
  ]
  const all = [poller, watcher, third]
  for (const one of all) one.backups.start()
  for (const one of all) await one.sleeps()
  expect(all.map(({ made }) => made.length)).toEqual([1, 0, 0])
  await poller.close()
  watcher.clock.advance(dayMs)
  third.clock.advance(dayMs)
  for (const one of [watcher, third]) await one.sleeps()
  expect(all.map(({ made }) => made.length)).toEqual([1, 0, 0])
  watcher.state.polls = true
  watcher.bus.notify('roleChanged', 'poller')
  await until('the next process makes one', 10_000, () => watcher.made.length === 1)
  expect(third.made).toEqual([])
  await Promise.all([watcher.close(), third.close()])
})

test('a failure is recorded, tried again an hour later, and forgotten with the next one that is made', async () => {
  const t = setUp()
  t.state.error = new SvcError('store_unavailable', 'the backup failed: the disk is full')
  t.backups.start()
  await t.sleeps()
  const { message: error } = t.state.error as SvcError
  const failed = { at: t.clock.now(), error }
  expect((await t.backups.status()).failure).toEqual(failed)
  const told = await t.events.listAfter('', { limit: 9, types: ['backup.failed'] })
  expect(told.events.map(({ data }) => data)).toEqual([{ folder: t.folder, ...failed }])
  t.bus.notify('roleChanged', 'poller')
  await t.sleeps()
  expect(t.made).toHaveLength(1)
  await pass(t, hourMs - 1000)
  expect(t.made).toHaveLength(1)
  t.clock.advance(1000)
  await until('the second try', 10_000, () => t.made.length === 2)
  await t.sleeps()
  t.state.error = undefined
  t.clock.advance(hourMs)
  await until('it is healed', 10_000, async () => (await t.backups.status()).newest)
  expect((await t.backups.status()).failure).toBeUndefined()
  await t.close()
})

test('what a killed process left goes an hour later, and not what another is writing', async () => {
  const t = setUp()
  const leftover = join(t.folder, 'svc-20010101T000000Z.tar.3f1c9a0b2d4e.tmp')
  writeFileSync(leftover, 'half')
  const seconds = t.clock.now() / 1000
  utimesSync(leftover, seconds, seconds)
  await t.backups.make()
  expect(existsSync(leftover)).toBe(true)
  t.clock.advance(hourMs + 1000)
  await t.backups.make()
  expect(existsSync(leftover)).toBe(false)
})

test('a folder that is missing is not made, and said to be missing', async () => {
  const folder = join(folderOfTest(), 'unmounted')
  const t = setUp({ folder })
  expect(await failure(t.backups.make())).toMatchObject({ code: 'store_unavailable' })
  expect(t.made).toEqual([])
  expect(existsSync(folder)).toBe(false)
  expect((await t.backups.status()).failure?.error).toContain(folder)
  await mkdir(folder)
  await t.backups.make()
  expect(await t.backups.status()).toMatchObject({ folder, every_ms: dayMs, keep: 7, newest: { size: 4 } })
  expect((await t.backups.status()).failure).toBeUndefined()
})

test('a clock that was years ahead neither stops the schedule nor keeps what it made then', async () => {
  const t = setUp({ keep: 2 })
  t.clock.step(3650 * dayMs)
  for (let n = 0; n < 2; n++) {
    await t.backups.make()
    t.clock.advance(dayMs)
  }
  t.clock.step(-3650 * dayMs)
  t.backups.start()
  await until('a new one', 10_000, () => t.made.length === 3)
  await t.sleeps()
  await pass(t, hourMs)
  expect(t.made).toHaveLength(3)
  expect(t.files()).toContain(basename(t.made[2]!))
  expect(t.files()).toHaveLength(2)
  await t.close()
})

test('two calls at once get the same backup; none is made when the service stops', async () => {
  const t = setUp()
  const { promise, resolve } = Promise.withResolvers<void>()
  t.state.gate = promise
  const calls = [t.backups.make(), t.backups.make()]
  resolve()
  const [one, two] = await Promise.all(calls)
  expect(one).toEqual(two!)
  expect(t.made).toHaveLength(1)
  t.state.error = new Error('killed')
  const last = failure(t.backups.make())
  await t.close()
  expect(await last).toMatchObject({ code: 'shutting_down' })
  expect((await t.backups.status()).failure).toBeUndefined()
})

test('without a folder a call is told how to get one', async () => {
  const { backups: known, events } = storeInMemory()
  const backups = new Backups(
    { backups: known, events, schedule: undefined, make: undefined, isPolling: () => true },
    runtimeOf({ clock: testClock() }),
  )
  expect(await failure(backups.make())).toMatchObject({
    code: 'invalid_arguments',
    hint: expect.stringContaining('--backup-to'),
  })
  expect(await backups.status()).toEqual({})
})
