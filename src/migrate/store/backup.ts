/** Makes a backup of a store on PostgreSQL that is restored into a data directory, and needs no database. */
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { makeBackup, rejectTaken } from '../../backup/make.ts'
import type { Config } from '../../config.ts'
import { dataFiles } from '../../model/data-files.ts'
import type { Clock } from '../../platform/clock.ts'
import { openLock } from '../../platform/lock.ts'
import { inspectLock } from '../../platform/lock-look.ts'
import { silentLog } from '../../platform/log.ts'
import type { NewAuditLine } from '../../storage/audit.ts'
import type { KnownBackup } from '../../storage/backups.ts'
import { createBackups } from '../../storage/nouns/backups.ts'
import { PgDatabase } from '../../storage/postgres/database.ts'
import { addAuditLine, createRunner, postgresDialect } from '../../storage/postgres/routines.ts'
import { copyStore } from './copy.ts'
import { openDirectoryTarget } from './directory-side.ts'
import { openPgSnapshot } from './postgres-side.ts'

interface DatabaseBackupOptions {
  /** Absolute path of the new file. */
  path: string
  config: Pick<Config, 'keepFreeBytes'> & { storeUrl: string; secretKey: string }
  clock: Clock
  passphrase: string | undefined
  force: boolean
  /** Line of the audit log. */
  line?: NewAuditLine | undefined
}

/** Begins the names of the folders of copies. */
const copyPrefix = '.svc-backup-'

/**
 * Copies the store, as it is at one moment, into a temporary data directory beside the new file, and makes a backup of
 * that. Nodes may run.
 *
 * @throws SvcError those of `makeBackup`
 */
export async function backUpDatabase(options: DatabaseBackupOptions): Promise<KnownBackup> {
  const { clock, config, force, passphrase, path } = options
  const { keepFreeBytes, secretKey: secret, storeUrl: url } = config
  const began = clock.monotonic()
  await rejectTaken(path, force)
  await sweepCopies(dirname(path))
  const folder = await mkdtemp(join(dirname(path), copyPrefix))
  try {
    await using lock = await openLock(join(folder, dataFiles.backupLock))
    await lock.tryLock()
    const dir = join(folder, 'data')
    const place = { basePath: dir, mediaRoot: join(dir, 'media'), keepFreeBytes }
    {
      await using source = await openPgSnapshot({ url, secret, clock, log: silentLog })
      await using target = await openDirectoryTarget({ ...place, dir, secret, clock }, source)
      await copyStore(source, target, { onProgress() {} })
    }
    const made = await makeBackup({ path, config: place, clock, passphrase, force })
    const backup = { ...made, took_ms: Math.round(clock.monotonic() - began) }
    await noteBackup(options, backup)
    return backup
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Removes the copies of processes that died: each process locks its own. */
async function sweepCopies(folder: string): Promise<void> {
  for (const name of (await readdir(folder)).filter(name => name.startsWith(copyPrefix))) {
    const path = join(folder, name)
    const lock = await inspectLock(join(path, dataFiles.backupLock)).catch(() => undefined)
    if (lock?.held === false) await rm(path, { recursive: true, force: true })
  }
}

/** Lets `svc backups` show it. */
async function noteBackup(
  { clock, config, line }: DatabaseBackupOptions,
  backup: KnownBackup,
): Promise<void> {
  await using db = new PgDatabase({ url: config.storeUrl, clock, log: silentLog, node: crypto.randomUUID() })
  await createRunner(db)('write', () => createBackups({ dialect: postgresDialect }).verbs.add(backup))
  if (line) await addAuditLine(db, line)
}
