/** The SQLite engine for its own tests: its storage, the message store by itself, and other processes beside them. */
import { onTestFinished } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Clock, systemClock } from '../../../src/platform/clock.ts'
import { createLog, silentLog } from '../../../src/platform/log.ts'
import { createSealer, noSealer } from '../../../src/platform/sealing.ts'
import { openDatabase } from '../../../src/platform/sqlite.ts'
import type { ReceivedMessage } from '../../../src/storage/messages.ts'
import { openStorage } from '../../../src/storage/sqlite/open.ts'
import { writeSecretState } from '../../../src/storage/sqlite/secret-state.ts'
import { openSqliteStore, type SqliteStore, type StoreOptions } from '../../../src/storage/sqlite/store.ts'
import { folderOfTest } from '../../support/folder.ts'
import { type Opened, type Place, testClock } from '../support.ts'

type Options = Partial<Omit<StoreOptions, 'path'>>

interface InDirectory {
  readonly dir: string
  /** Of the message store. */
  readonly path: string
}

async function inDirectory(options: Options) {
  const dir = await mkdtemp(join(tmpdir(), 'svc-store-'))
  const lines: string[] = []
  const log = createLog('DEBUG', line => void lines.push(line))
  const clock = testClock()
  return {
    own: { dir, path: join(dir, 'messages.db'), lines, clock },
    options: { clock, log, maxAgeDays: 0, maxCount: 0, ...options },
    remove: () => rm(dir, { recursive: true, force: true }),
  }
}

/** A storage on a directory of its own, encrypted if a secret key is given; its ids go on after `after`. */
export async function openSqlite(
  { after = 0, ...more }: Options & { after?: number } = {},
  secret?: string,
): Promise<Opened & InDirectory> {
  const { own, options, remove } = await inDirectory(more)
  const { keyId: key } = secret === undefined ? noSealer : createSealer(secret)
  if (key !== undefined) await writeSecretState(own.dir, { key })
  const open = () => openStorage({ dir: own.dir, secret, ...options })
  const test: Opened & InDirectory = {
    ...own,
    storage: await open(),
    get store() {
      return test.storage.store
    },
    async reopen() {
      await test.storage.close()
      test.storage = await open()
    },
    id: nth => after + nth,
    async continueAfter(id) {
      await test.storage.close()
      const db = await openDatabase(own.path)
      db.exec('DELETE FROM sqlite_sequence')
      const tables = db.all<{ name: string }>`SELECT name FROM sqlite_schema WHERE sql LIKE '%AUTOINCREMENT%'`
      for (const { name } of tables) db.run`INSERT INTO sqlite_sequence VALUES (${name}, ${id})`
      db.close()
      test.storage = await open()
    },
    async dump() {
      const db = await openDatabase(own.path)
      const tables = db.all<{ name: string }>`SELECT name FROM sqlite_schema WHERE type = 'table'`
      const rows = tables.map(({ name }) => [name, db.all(`SELECT * FROM "${name}"`)])
      db.close()
      return JSON.stringify(rows)
    },
    async query(statement) {
      const db = await openDatabase(own.path)
      const rows = db.all(statement)
      db.close()
      return rows
    },
    async second() {
      const storage = await openStorage({ dir: own.dir, secret, ...options, log: silentLog })
      return { storage, store: storage.store, [Symbol.asyncDispose]: () => storage.close() }
    },
    async [Symbol.asyncDispose]() {
      await test.storage.close()
      await remove()
    },
  }
  if (after > 0) await test.continueAfter(after)
  return test
}

export interface TestStore extends InDirectory, Pick<Opened, 'clock' | 'lines'>, AsyncDisposable {
  store: SqliteStore
  /** Closes and opens the file again, as a restarted service does. */
  reopen(): Promise<void>
}

/** The message store by itself, without sessions. */
export async function openStore(more: Options = {}): Promise<TestStore> {
  const { own, options, remove } = await inDirectory(more)
  const open = () => openSqliteStore({ path: own.path, ...options })
  const test: TestStore = {
    ...own,
    store: await open(),
    async reopen() {
      await test.store.maintenance.close()
      test.store = await open()
    },
    async [Symbol.asyncDispose]() {
      await test.store.maintenance.close()
      await remove()
    },
  }
  return test
}

/** Stores received messages in the message store alone. @returns their row ids */
export const insertInto = (
  { intake }: SqliteStore,
  messages: readonly ReceivedMessage[],
  session = 's',
  bot = 'b',
) => intake.insertReceived(session, bot, messages)

/** The storage of a directory, closed at the end of its block. */
export async function openDirectory(dir: string, clock: Clock = systemClock) {
  const storage = await openStorage({ dir, clock, log: silentLog, maxAgeDays: 0, maxCount: 0 })
  return Object.assign(storage, { [Symbol.asyncDispose]: () => storage.close() })
}

const urlOf = (file: string) => JSON.stringify(fileURLToPath(new URL(`../../../${file}`, import.meta.url)))

/**
 * Another process that runs `body`, with these names at hand, each by the file below `src/` that it comes from. It ends with the
 * test at the latest.
 */
export function startProcess(
  names: Readonly<Record<string, string>>,
  body: string,
  stderr: 'inherit' | 'pipe' = 'inherit',
) {
  const imports = Object.entries(names).map(
    ([name, file]) => `const { ${name} } = await import(${urlOf(`src/${file}`)})\n`,
  )
  const command = [process.execPath, '-e', imports.join('') + body]
  const child = Bun.spawn(command, { stdout: 'pipe', stderr, stdin: 'pipe' })
  onTestFinished(() => child.kill('SIGKILL'))
  return child
}

/**
 * One that has the storage of a directory at hand, by the clock of the system, its `store`, `insert` of the tests, and `hold`,
 * which does not end.
 */
export const startOnDirectory = (dir: string, body: string, stderr?: 'inherit' | 'pipe') =>
  startProcess(
    { openStorage: 'storage/sqlite/open.ts', systemClock: 'platform/clock.ts', silentLog: 'platform/log.ts' },
    `const options = { dir: ${JSON.stringify(dir)}, clock: systemClock, log: silentLog, maxAgeDays: 0, maxCount: 0 }
    const storage = await openStorage(options)
    const { store } = storage
    const { insert } = await import(${urlOf('test/storage/support.ts')})
    const hold = () => new Promise(() => setTimeout(() => process.exit(9), 30_000))
    ${body}`,
    stderr,
  )

/** A directory of its own. */
export function directoryOfTest(): Place {
  const dir = folderOfTest()
  // Their locks are free.
  const noticeDeaths = async () => {}
  return { open: () => openDirectory(dir), start: body => startOnDirectory(dir, body), noticeDeaths }
}

/**
 * Runs `body` in a second process on the directory, which is closed at its end, or killed when it says `ready`; its stdout.
 *
 * @throws Error with the exit status and the stderr of a process that fails
 */
export async function inOtherProcess(dir: string, body: string, kill?: NodeJS.Signals): Promise<string> {
  const child = startOnDirectory(dir, `${body}\nawait storage.close()`, 'pipe')
  const stderr = new Response(child.stderr).text()
  const reader = child.stdout.getReader()
  let text = ''
  for (;;) {
    const { done, value } = await reader.read()
    if (done) break
    text += new TextDecoder().decode(value)
    if (kill && text.includes('ready')) child.kill(kill)
  }
  await child.exited
  const { exitCode, signalCode } = child
  if (kill ? signalCode === kill : exitCode === 0) return text
  throw new Error(
    `the other process ended with ${signalCode ?? `status ${exitCode}`} after '${text}':\n${await stderr}`,
  )
}
