/** Erasing the rest of a person: copies of the store that backups make, and contexts that were imported. */
import { expect, test } from 'bun:test'
import { existsSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { dataFiles } from '../../../src/model/data-files.ts'
import { openLock } from '../../../src/platform/lock.ts'
import { until } from '../../support/until.ts'
import { openSqlite, openStore } from './support.ts'

test('the store is scrubbed when a backup that began before has ended, and no copy is left', async () => {
  await using t = await openSqlite()
  const copy = join(t.dir, 'messages.db.0123456789ab.tmp')
  writeFileSync(copy, 'a person')
  const backup = await openLock(join(t.dir, dataFiles.backupLock))
  expect(await backup.tryLock()).toBe(true)
  const ended: string[] = []
  const scrubbed = t.store.people.scrub().then(() => ended.push('scrub'))
  await until('the store is rewritten', 30_000, () => statSync(`${t.path}-wal`).size === 0)
  // The backup still needs its copy.
  expect(existsSync(copy)).toBe(true)
  ended.push('backup')
  await backup.close()
  await scrubbed
  expect(ended).toEqual(['backup', 'scrub'])
  expect(existsSync(copy)).toBe(false)
})

test('an imported context with the id in lower case is erased, and a user with such an id stays', async () => {
  await using t = await openStore()
  const { contexts, people } = t.store
  const imported = { token: 'imported', used: 0, first_seen: 0 }
  const heard = { ...imported, received_at: 1_800_000_000_000 }
  await contexts.save('s', new Map([['o-gone@im.wechat', imported]]))
  await contexts.save('s', new Map([['o-other@im.wechat', heard]]))
  for (const user of ['o-Gone@im.wechat', 'o-Other@im.wechat']) await people.erase(user)
  expect([...(await contexts.list('s')).keys()]).toEqual(['o-other@im.wechat'])
})
