import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { readdirSync, readlinkSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../../../src/platform/clock.ts'
import { silentLog } from '../../../src/platform/log.ts'
import { openDatabase } from '../../../src/platform/sqlite.ts'
import { migrate } from '../../../src/storage/sqlite/migrations.ts'
import { openSqliteStore, type SqliteStore } from '../../../src/storage/sqlite/store.ts'
import { codeOf, failure } from '../../support/failure.ts'
import { folderOfTest } from '../../support/folder.ts'
import { bot, insert, message } from '../support.ts'
import { openTestState } from './state/support.ts'
import {
  inOtherProcess,
  insertInto,
  openDirectory,
  openSqlite,
  openStore,
  startOnDirectory,
} from './support.ts'

const openAt = (path: string, busyMs?: number) =>
  openSqliteStore({ path, clock: systemClock, log: silentLog, maxAgeDays: 0, maxCount: 0, busyMs })

async function withFolder(work: (dir: string) => Promise<void>): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), 'svc-store-'))
  try {
    await work(dir)
  } finally {
    await chmod(dir, 0o700)
    await rm(dir, { recursive: true, force: true })
  }
}

test('files are private, whatever the umask', async () => {
  await using t = await openSqlite()
  await insert(t, [message('x')])
  for (const suffix of ['', '-wal', '-shm']) expect((await stat(t.path + suffix)).mode & 0o777).toBe(0o600)
})

test('a file that is not a database is rejected and left unchanged', async () => {
  await withFolder(async dir => {
    const path = join(dir, 'messages.db')
    const text = 'not a database, but somebody may want it back\n'.repeat(200)
    await writeFile(path, text)
    expect(await failure(openAt(path))).toMatchObject({ code: 'store_unavailable', hint: expect.any(String) })
    expect(await readFile(path, 'utf8')).toBe(text)
  })
})

test('a store of a newer version is rejected and left unchanged', async () => {
  await withFolder(async dir => {
    const path = join(dir, 'messages.db')
    const store = await openAt(path)
    await insertInto(store, [message('x')])
    await store.maintenance.close()
    const db = await openDatabase(path)
    db.exec('PRAGMA user_version = 999')
    db.close()
    const before = await readFile(path)
    expect(await codeOf(openAt(path))).toBe('store_unavailable')
    expect((await readFile(path)).equals(before)).toBe(true)
  })
})

test('a folder that does not exist, or is a file', async () => {
  await withFolder(async dir => {
    await writeFile(join(dir, 'file'), '')
    for (const path of [join(dir, 'none', 'messages.db'), join(dir, 'file', 'messages.db'), dir]) {
      expect(await failure(openAt(path))).toMatchObject({ code: 'store_unavailable' })
    }
  })
})

/** Eight processes open the storage at once, and each stores a message. */
async function insertByEight(dir: string): Promise<void> {
  const results = await Promise.allSettled(
    Array.from({ length: 8 }, (_, i) =>
      inOtherProcess(
        dir,
        `const one = { message_id: 'm${i}', derived_id: '', from_user: 'u', msg_type: 'TEXT', text: 't', timestamp: ${i}, timed: true, contentHash: 'h', raw: '{}' }
         console.log('stored', (await insert({ storage }, [one])).length)`,
      ),
    ),
  )
  const told = results.map(result => (result.status === 'fulfilled' ? result.value : String(result.reason)))
  expect(told).toEqual(Array(8).fill('stored 1\n'))
  const store = await openAt(join(dir, 'messages.db'))
  expect(await store.log.listAfter(0, { limit: 100 })).toHaveLength(8)
  await store.maintenance.close()
}

test('eight processes that create the store at once all get it', () => withFolder(insertByEight))

test('opening a store waits for a process that writes it before it is in WAL mode', async () => {
  await withFolder(async dir => {
    const path = join(dir, 'messages.db')
    const other = await openDatabase(path)
    migrate(other)
    other.exec('BEGIN IMMEDIATE')
    expect(await failure(openAt(path, 1))).toMatchObject({
      code: 'store_unavailable',
      hint: expect.any(String),
    })
    const opened = openAt(path)
    await systemClock.sleep(100)
    other.exec('COMMIT')
    other.close()
    const store = await opened
    expect(await insertInto(store, [message('x')])).toEqual([1])
    await store.maintenance.close()
  })
})

test('while another process blocks writing: store_unavailable, afterwards it works again', async () => {
  await using t = await openSqlite({ busyMs: 100 })
  const batch = [message('a'), message('b')]
  const child = startOnDirectory(
    t.dir,
    `const { openDatabase } = await import(${JSON.stringify(new URL('../../../src/platform/sqlite.ts', import.meta.url).pathname)})
     const db = await openDatabase(${JSON.stringify(t.path)})
     db.exec('BEGIN IMMEDIATE'); console.log('ready')
     for await (const _ of process.stdin) break
     db.exec('ROLLBACK'); console.log('done'); process.exit(0)`,
  )
  const reader = child.stdout.getReader()
  try {
    await reader.read()
    expect(await t.store.maintenance.checkWritable()).toBeUndefined()
    expect(await failure(insert(t, batch))).toEqual(
      expect.objectContaining({ code: 'store_unavailable', hint: expect.any(String) }),
    )
    // Reading goes on.
    expect(await t.store.log.getHead()).toBe(0)
    child.stdin.write('go\n')
    child.stdin.flush()
    await child.exited
    expect(await insert(t, batch)).toEqual([1, 2])
    expect(await t.store.maintenance.checkWritable()).toBeUndefined()
  } finally {
    child.kill('SIGKILL')
    await child.exited
  }
})

test('a bug in svc is not reported as store_unavailable', async () => {
  await using t = await openSqlite()
  const broken = message('x', { raw: undefined as unknown as string })
  expect(await failure(insert(t, [broken]))).toEqual(
    expect.not.objectContaining({ code: 'store_unavailable' }),
  )
  expect(await insert(t, [message('y')])).toEqual([1])
})

test('a full disk: no partial write, an error in the service state, and recovery without a restart', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'svc-full-'))
  const mounted = Bun.spawnSync(['mount', '-t', 'tmpfs', '-o', 'size=3m', 'tmpfs', dir]).exitCode === 0
  let store: SqliteStore | undefined
  try {
    if (!mounted) return
    const path = join(dir, 'messages.db')
    store = await openAt(path)
    const raw = JSON.stringify({ filler: 'x'.repeat(4000) })
    const stored: string[] = []
    let failed: unknown
    for (let i = 0; i < 1000 && !failed; i++) {
      const batch = Array.from({ length: 10 }, () => message('满 full', { raw }))
      try {
        await insertInto(store, batch)
        stored.push(...batch.map(one => one.message_id!))
      } catch (error) {
        failed = error
      }
    }
    expect(failed).toMatchObject({ code: 'store_unavailable', hint: expect.any(String) })
    const before = (await store.log.listAfter(0, { limit: 10_000 })).map(row => row.message_id)
    expect(before).toEqual(stored)
    // Every last page of it: a small write may still find room where the failed one has left off.
    const filler = join(dir, 'filler')
    await writeFile(filler, Buffer.alloc(4_000_000)).catch(() => {})
    let probes = 0
    while (!(await store.maintenance.checkWritable()) && probes < 5000) probes++
    expect(await store.maintenance.checkWritable()).toMatchObject({
      code: 'store_unavailable',
      hint: expect.any(String),
    })
    expect((await store.log.listAfter(0, { limit: 10_000 })).map(row => row.message_id)).toEqual(stored)
    await rm(filler)
    expect(Bun.spawnSync(['mount', '-o', 'remount,size=30m', dir]).exitCode).toBe(0)
    expect(await store.maintenance.checkWritable()).toBeUndefined()
    const more = Array.from({ length: 10 }, () => message('满 full', { raw }))
    await insertInto(store, more)
    expect(await store.log.listAfter(0, { limit: 10_000 })).toHaveLength(stored.length + 10)
    expect((await store.log.search({ text_contains: '满', limit: 1, offset: 0 })).total).toBe(
      stored.length + 10,
    )
    await store.maintenance.close()
    store = undefined
    const db = await openDatabase(path)
    expect(db.get`PRAGMA integrity_check`).toEqual({ integrity_check: 'ok' })
    db.exec("INSERT INTO gram (gram) VALUES ('integrity-check')")
    db.close()
  } finally {
    await store?.maintenance.close()
    if (mounted) Bun.spawnSync(['umount', '--lazy', dir])
    await rm(dir, { recursive: true, force: true })
  }
})

test('reads fail within a second after the file was removed; a failed check stops only writes', async () => {
  await withFolder(async parent => {
    const dir = join(parent, 'data')
    await mkdir(dir)
    const clock = { ...systemClock, ahead: 0, monotonic: () => performance.now() + clock.ahead }
    const store = await openSqliteStore({
      path: join(dir, 'messages.db'),
      clock,
      log: silentLog,
      maxAgeDays: 0,
      maxCount: 0,
    })
    try {
      await insertInto(store, [message('x')])
      const reads = async () => {
        clock.ahead += 1000
        return (await store.log.listAfter(0, { limit: 9 })).length
      }
      const gone = expect.objectContaining({ code: 'store_unavailable', hint: expect.any(String) })
      const aside = join(parent, 'aside')
      await rename(dir, aside)
      // A link to itself: no path leads through it.
      await symlink(dir, dir)
      expect(await reads()).toBe(1)
      expect(await failure(insertInto(store, [message('y')]))).toEqual(gone)
      await rm(dir)
      expect(reads).toThrow(gone)
      expect(await failure(store.log.search({ limit: 9, offset: 0 }))).toEqual(gone)
      await rename(aside, dir)
      expect(await reads()).toBe(1)
    } finally {
      await store.maintenance.close()
    }
  })
})

test('a storage that fails to open leaves nothing open, nor does one that was closed', async () => {
  const dir = folderOfTest()
  /** Files of the directory that this process has open. */
  const held = () =>
    readdirSync('/proc/self/fd').filter(fd => {
      try {
        return readlinkSync(`/proc/self/fd/${fd}`).startsWith(dir)
      } catch {
        return false
      }
    })
  await writeFile(join(dir, 'messages.db'), 'not a database, and as long as a header of one '.repeat(100))
  expect(await failure(openDirectory(dir))).toMatchObject({ code: 'store_unavailable' })
  if (process.platform === 'linux') expect(held()).toEqual([])
  await rm(join(dir, 'messages.db'))
  const storage = await openDirectory(dir)
  expect(await storage.leases.join()).toBeDefined()
  await storage.close()
  await storage.close()
  if (process.platform === 'linux') expect(held()).toEqual([])
})

test('if the rows of a session cannot be renamed, its folder is not renamed', async () => {
  await using t = await openStore()
  await using state = await openTestState({ rows: t.store })
  await state.sessions.save('s', bot('b'))
  await insertInto(t.store, [message('x')], 's', 'b@im.bot')
  using db = new Database(t.path)
  db.exec(`CREATE TRIGGER no BEFORE UPDATE OF name ON session BEGIN SELECT RAISE(ABORT, 'no'); END`)
  expect(await failure(state.sessions.rename('s', 'x'))).toBeInstanceOf(Error)
  expect((await state.sessions.list()).map(({ name }) => name)).toEqual(['s'])
  expect(await state.sessions.getDefaultName()).toBe('s')
  db.exec('DROP TRIGGER no')
  await state.sessions.rename('s', 'x')
  const sessionOf = async () => (await t.store.log.listAfter(0, { limit: 1 }))[0]?.session
  expect(await sessionOf()).toBe('x')
  expect(await state.sessions.getDefaultName()).toBe('x')
  // As a process leaves it that is killed in between: back and forth, and the two go together again.
  await rename(join(state.dir, 'x'), join(state.dir, 'y'))
  await state.sessions.rename('y', 'x')
  await state.sessions.rename('x', 'y')
  expect(await sessionOf()).toBe('y')
})
