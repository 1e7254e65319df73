/** What svc knows about backups. */
import { sql } from '../../platform/sql.ts'
import type { BackupFailure, BackupStore, KnownBackup } from '../backups.ts'
import { type Noun, type NounContext, readAll, readFirst, write } from '../routine.ts'

export const createBackups = ({ dialect }: Pick<NounContext, 'dialect'>): Noun<BackupStore> => ({
  verbs: {
    list: () =>
      readAll<KnownBackup>(
        sql`SELECT path, created_at, size, took_ms FROM backup ORDER BY created_at DESC, path`,
      ),

    *add({ path, created_at, size, took_ms }) {
      yield* write(
        sql`DELETE FROM backup_failure`,
        sql`INSERT INTO backup (path, created_at, size, took_ms) VALUES (${path}, ${created_at}, ${size}, ${took_ms})
          ON CONFLICT (path) DO UPDATE
            SET created_at = excluded.created_at, size = excluded.size, took_ms = excluded.took_ms`,
      )
    },

    *remove(paths) {
      yield* write(sql`DELETE FROM backup WHERE ${dialect.isOneOf(sql`path`, paths)}`)
    },

    getFailure: () => readFirst<BackupFailure>(sql`SELECT at, error FROM backup_failure`),

    *fail({ at, error }) {
      yield* write(
        sql`DELETE FROM backup_failure`,
        sql`INSERT INTO backup_failure (at, error) VALUES (${at}, ${error})`,
      )
    },
  },
  modes: { list: 'plain', getFailure: 'plain', add: 'write', remove: 'write', fail: 'write' },
})
