/**
 * A database of another program, read without leaving a trace beside it: SQLite would create or change -wal and -shm
 * files even for a reader. So the file and its -wal are copied to a private folder, and the copy is opened.
 */
import { copyFile, mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SvcError } from '../model/error.ts'
import { absentAs, refuseNoFile } from '../platform/files.ts'
import { openDatabase } from '../platform/sqlite.ts'

/**
 * Copies and opens the database at `path`, as it was at one moment.
 *
 * @returns undefined when there is none
 * @throws SvcError `store_unavailable` when the program writes all the time; the system's or the engine's error
 */
export async function snapshotOf(path: string) {
  if ((await stampOf(path)) === 'absent') return undefined
  // Made 0700: nobody else reads the chats meanwhile.
  const dir = await mkdtemp(join(tmpdir(), 'svc-migrate-'))
  const remove = () => rm(dir, { recursive: true, force: true }).catch(() => {})
  try {
    const copy = join(dir, 'messages.db')
    await copyStill(path, copy)
    const db = await openDatabase(copy)
    try {
      // What stands in the -wal goes into the file, so that nothing is looked up by name any more.
      db.exec('PRAGMA temp_store = MEMORY')
      db.exec('PRAGMA journal_mode = DELETE')
    } catch {
      // A damaged one is read as far as it goes.
    }
    // An open file needs no name, except on Windows; without one a killed process leaves nothing behind.
    await remove()
    return {
      db,
      async close() {
        db.close()
        await remove()
      },
    }
  } catch (error) {
    await remove()
    throw error
  }
}

/** Copies the file and its -wal. @throws SvcError `store_unavailable` when one of them changed meanwhile: the copy is torn */
async function copyStill(path: string, copy: string): Promise<void> {
  const state = async () => `${await stampOf(path)} ${await stampOf(`${path}-wal`)}`
  const before = await state()
  await copyFile(path, copy)
  await copyFile(`${path}-wal`, `${copy}-wal`).catch(absentAs(undefined))
  if ((await state()) === before) return
  throw new SvcError('store_unavailable', `${path} is being written to`, {
    hint: 'Stop the program that uses it, then try again.',
  })
}

const stampOf = (path: string): Promise<string> =>
  stat(path, { bigint: true }).then(info => {
    refuseNoFile(path, info)
    return `${info.ino}:${info.size}:${info.mtimeNs}`
  }, absentAs('absent'))
