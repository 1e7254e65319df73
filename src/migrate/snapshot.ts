/**
 * Reads a database of another program without changes beside it. SQLite creates or changes -wal and -shm
 * files even for a reader. So svc copies the file and its -wal to a private folder, and opens the copy.
 */
import { copyFile, mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SvcError } from '../model/error.ts'
import { rejectNonFile, returnIfAbsent } from '../platform/files.ts'
import { openDatabase } from '../platform/sqlite.ts'

/**
 * Copies and opens the database at `path` in its state of one moment.
 *
 * @returns undefined if there is no database
 * @throws SvcError `store_unavailable` if the program writes while it is copied; the system's or the
 * engine's error
 */
export async function openSnapshot(path: string) {
  if ((await readStamp(path)) === 'absent') return undefined
  // `mkdtemp` uses mode 0700: other users cannot read the messages.
  const dir = await mkdtemp(join(tmpdir(), 'svc-migrate-'))
  const remove = () => rm(dir, { recursive: true, force: true }).catch(() => {})
  try {
    const copy = join(dir, 'messages.db')
    await copyUnchanged(path, copy)
    const db = await openDatabase(copy)
    try {
      // Merges the -wal into the file; after that SQLite opens no file by name.
      db.exec('PRAGMA temp_store = MEMORY')
      db.exec('PRAGMA journal_mode = DELETE')
    } catch {
      // A damaged file is read as far as possible.
    }
    // Deletes the files now, so that a killed process leaves nothing. An open file needs no name; on
    // Windows `close` deletes it.
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

/**
 * Copies the file and its -wal.
 *
 * @throws SvcError `store_unavailable` if one of them changed during the copy
 */
async function copyUnchanged(path: string, copy: string): Promise<void> {
  const state = async () => `${await readStamp(path)} ${await readStamp(`${path}-wal`)}`
  const before = await state()
  await copyFile(path, copy)
  await copyFile(`${path}-wal`, `${copy}-wal`).catch(returnIfAbsent(undefined))
  if ((await state()) === before) return
  throw new SvcError('store_unavailable', `${path} is being written to`, {
    hint: 'Stop the program that uses it, then try again.',
  })
}

const readStamp = (path: string): Promise<string> =>
  stat(path, { bigint: true }).then(info => {
    rejectNonFile(path, info)
    return `${info.ino}:${info.size}:${info.mtimeNs}`
  }, returnIfAbsent('absent'))
