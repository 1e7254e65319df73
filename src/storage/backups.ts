/** What svc knows about the backups of the store. The rules for every method are in `store.ts`. */

/** A backup that was made. */
export interface KnownBackup {
  /** Absolute path of the file. It may have been moved or removed since. */
  path: string
  /** Unix ms. */
  created_at: number
  /** Bytes. */
  size: number
  took_ms: number
}

/** The last backup by schedule failed. */
export interface BackupFailure {
  /** Unix ms. */
  at: number
  error: string
}

export interface BackupStore {
  /** Returns the known backups, the newest first. */
  list(): Promise<KnownBackup[]>

  /** Adds a backup, or replaces the one with the same path, and forgets the last failure. */
  add(backup: KnownBackup): Promise<void>

  /** Forgets backups whose files are gone. */
  remove(paths: readonly string[]): Promise<void>

  /** Returns the last failure, if no backup was added since. */
  getFailure(): Promise<BackupFailure | undefined>

  /** Records a failure in place of the last one. */
  fail(failure: BackupFailure): Promise<void>
}
