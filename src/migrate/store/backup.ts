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
import { connectPg } from '../../platform/postgres.ts'
import { sql } from '../../platform/sql.ts'
import type { KnownBackup } from '../../storage/backups.ts'
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
    await noteBackup(url, backup)
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
async function noteBackup(url: string, { created_at, path, size, took_ms }: KnownBackup): Promise<void> {
  const connection = await connectPg({ url, name: 'svc backup', answerMs: 8000 })
  try {
    await connection.run(sql`INSERT INTO backup (path, created_at, size, took_ms)
      VALUES (${path}, ${created_at}, ${size}, ${took_ms}) ON CONFLICT (path) DO UPDATE SET
      created_at = excluded.created_at, size = excluded.size, took_ms = excluded.took_ms`)
  } finally {
    connection.destroy()
  }
}
