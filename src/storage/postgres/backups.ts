/** What svc knows about backups, on PostgreSQL. */
import { sql } from '../../platform/postgres.ts'
import type { BackupFailure, BackupStore, KnownBackup } from '../backups.ts'
import { PgPart } from './part.ts'

export class PgBackups extends PgPart implements BackupStore {
  list(): Promise<KnownBackup[]> {
    return this.db.all<KnownBackup>(
      sql`SELECT path, created_at, size, took_ms FROM backup ORDER BY created_at DESC, path`,
    )
  }

  async add({ path, created_at, size, took_ms }: KnownBackup): Promise<void> {
    await this.durably(() =>
      this.db.script([
        sql`DELETE FROM backup_failure`,
        sql`INSERT INTO backup (path, created_at, size, took_ms) VALUES (${path}, ${created_at}, ${size}, ${took_ms})
          ON CONFLICT (path) DO UPDATE SET created_at = excluded.created_at, size = excluded.size,
            took_ms = excluded.took_ms`,
      ]),
    )
  }

  async remove(paths: readonly string[]): Promise<void> {
    await this.durably(() => this.db.run(sql`DELETE FROM backup WHERE path = ANY (${paths}::text[])`))
  }

  getFailure(): Promise<BackupFailure | undefined> {
    return this.db.get<BackupFailure>(sql`SELECT at, error FROM backup_failure ORDER BY at DESC LIMIT 1`)
  }

  async fail({ at, error }: BackupFailure): Promise<void> {
    await this.durably(() =>
      this.db.script([
        sql`DELETE FROM backup_failure`,
        sql`INSERT INTO backup_failure (at, error) VALUES (${at}, ${error})`,
      ]),
    )
  }
}
