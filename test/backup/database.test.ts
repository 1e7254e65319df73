/** A backup of a store on PostgreSQL, which is restored into a data directory. */
import { expect, test } from 'bun:test'
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { restoreBackup } from '../../src/backup/restore.ts'
import { configFromValues } from '../../src/config.ts'
import { backUpDatabase } from '../../src/migrate/store/backup.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { openLock } from '../../src/platform/lock.ts'
import { silentLog } from '../../src/platform/log.ts'
import { openStorage } from '../../src/storage/sqlite/open.ts'
import { openPostgres } from '../storage/postgres/support.ts'
import { bot } from '../storage/support.ts'
import { secret } from '../support/databases.ts'
import { failure } from '../support/failure.ts'
import { isPostgresThere } from '../support/postgres.ts'

test.skipIf(!isPostgresThere())(
  'a store on PostgreSQL is backed up while nodes use it, and stays in use',
  async () => {
    const folder = await mkdtemp(join(tmpdir(), 'svc-backup-'))
    try {
      await using t = await openPostgres()
      const { sessions } = t.storage.state
      await sessions.save('work', bot('work'))
      const path = join(folder, 'svc.tar')
      const config = { keepFreeBytes: 0, storeUrl: t.url, secretKey: secret }
      const options = { path, config, clock: systemClock, passphrase: undefined, force: false }
      for (const name of ['.svc-backup-dead', '.svc-backup-alive']) {
        await mkdir(join(folder, name, 'data'), { recursive: true })
        await writeFile(join(folder, name, 'data', 'messages.db'), 'of a copy')
      }
      await (await openLock(join(folder, '.svc-backup-dead', '.backup.lock'))).close()
      await using held = await openLock(join(folder, '.svc-backup-alive', '.backup.lock'))
      await held.tryLock()
      const line = { at: 5, principal: 'owner', operation: 'backup', subject: path, outcome: 'done' }
      const made = await backUpDatabase({ ...options, line })
      expect(await t.store.backups.list()).toEqual([made])
      expect((await readdir(folder)).sort()).toEqual(['.svc-backup-alive', 'svc.tar'])
      expect(await failure(backUpDatabase(options))).toMatchObject({ code: 'invalid_arguments' })
      expect(await t.store.audit.list({ limit: 5 })).toMatchObject([line])
      // The store is as open as before.
      await sessions.save('later', bot('later'))

      const dir = join(folder, 'restored')
      const restored = configFromValues({ basePath: dir })
      await restoreBackup({
        path,
        config: restored,
        clock: systemClock,
        passphrase: undefined,
        keepKeys: true,
      })
      await using storage = {
        ...(await openStorage({
          dir,
          secret,
          clock: systemClock,
          log: silentLog,
          maxAgeDays: 0,
          maxCount: 0,
        })),
        async [Symbol.asyncDispose]() {
          await this.close()
        },
      }
      expect((await storage.state.sessions.list()).map(({ bot }) => [bot?.bot_id, bot?.token])).toEqual([
        [bot('work').bot_id, bot('work').token],
      ])
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  },
  60_000,
)
