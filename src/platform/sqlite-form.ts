/** The number that a database file bears for the form of its tables, told without opening it to write. */
import { Buffer } from 'node:buffer'
import { open } from 'node:fs/promises'
import { statOf } from './files.ts'
import { openDatabase } from './sqlite.ts'

const magic = 'SQLite format 3\0'
/** Where the file's first page has `user_version`, and how long its head is. */
const formAt = 60
const headBytes = 100

/**
 * `PRAGMA user_version` of a file that may be another version's: opening it to write takes in what its -wal file
 * holds, even if only to refuse it then.
 *
 * @returns undefined when there is no such file, or none that can be read as a database: opening it tells why
 */
export async function formOf(path: string): Promise<number | undefined> {
  try {
    // What was committed last stands in the -wal file as long as there is one.
    if ((await statOf(`${path}-wal`))?.size) {
      const db = await openDatabase(path, { readonly: true })
      try {
        return Number(db.get`PRAGMA user_version`?.user_version)
      } finally {
        db.close()
      }
    }
    await using file = await open(path)
    const { buffer, bytesRead } = await file.read(Buffer.alloc(headBytes), 0, headBytes, 0)
    const isDatabase = bytesRead === headBytes && buffer.toString('latin1', 0, magic.length) === magic
    return isDatabase ? buffer.readUInt32BE(formAt) : undefined
  } catch {
    return undefined
  }
}
