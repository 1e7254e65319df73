/** What svc knows about backups, in SQLite. */
import type { Database } from '../../platform/sqlite.ts'
import type { BackupFailure, KnownBackup } from '../backups.ts'

export class SqliteBackups {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  list(): KnownBackup[] {
    return this.#db
      .all<KnownBackup>`SELECT path, created_at, size, took_ms FROM backup ORDER BY created_at DESC, path`
  }

  add({ path, created_at, size, took_ms }: KnownBackup): void {
    this.#db.run`DELETE FROM backup_failure`
    this.#db.run`INSERT OR REPLACE INTO backup (path, created_at, size, took_ms)
      VALUES (${path}, ${created_at}, ${size}, ${took_ms})`
  }

  remove(paths: readonly string[]): void {
    this.#db.run`DELETE FROM backup WHERE path IN (SELECT value FROM json_each(${JSON.stringify(paths)}))`
  }

  getFailure(): BackupFailure | undefined {
    return this.#db.get<BackupFailure>`SELECT at, error FROM backup_failure`
  }

  fail({ at, error }: BackupFailure): void {
    this.#db.run`DELETE FROM backup_failure`
    this.#db.run`INSERT INTO backup_failure (at, error) VALUES (${at}, ${error})`
  }
}
