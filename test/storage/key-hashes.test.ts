/** With a secret key, whoever can write into the table of keys makes no key that counts, on both engines. */
import { Database } from 'bun:sqlite'
import { describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { connectPg } from '../../src/platform/postgres.ts'
import { createSealer } from '../../src/platform/sealing.ts'
import { constantSql } from '../../src/platform/sql.ts'
import { writeSecretState } from '../../src/storage/sqlite/secret-state.ts'
import type { Storage } from '../../src/storage/storage.ts'
import { newDatabase, secret } from '../support/databases.ts'
import { folderOfTest } from '../support/folder.ts'
import { isPostgresThere } from '../support/postgres.ts'
import { openAt, openAtUrl } from './postgres/copy-support.ts'

const hash = 'ab'.repeat(32)
const theirs = 'cd'.repeat(32)
const key = (id: string) =>
  ({
    id,
    name: id,
    hash,
    grant: { rights: ['recv'] },
    can: ['read'],
    made_by: 'owner',
    created_at: 1,
  }) as const

async function check(storage: Storage, change: (statement: string) => Promise<void>): Promise<void> {
  const { keys } = storage.store
  await keys.add(key('mine'))
  await keys.add(key('other'))
  await keys.rotate('mine', theirs, 1e15)
  expect(await keys.get('mine')).toMatchObject({ hash: theirs, replaced: { hash } })
  // As svc itself stores it without a secret key; and the one of another row.
  await change(`INSERT INTO access_key (id, name, hash, "grant", can, made_by, created_at, revision)
    VALUES ('forged', 'forged', '${theirs}', '{}', '[]', 'owner', 1, 9)`)
  await change(
    `UPDATE access_key SET hash = (SELECT hash FROM access_key WHERE id = 'mine') WHERE id = 'other'`,
  )
  await change(`UPDATE access_key SET replaced_hash = '${theirs}', replaced_until = 1e15 WHERE id = 'other'`)
  const all = await keys.list()
  expect(all.map(({ id }) => id).sort()).toEqual(['forged', 'mine', 'other'])
  for (const id of ['forged', 'other']) {
    const found = await keys.get(id)
    const hashes = [found!.hash, found!.replaced?.hash ?? found!.hash]
    for (const one of hashes) expect(one).not.toMatch(/[0-9a-f]/)
    // The comparison wants the same length.
    for (const one of hashes) expect(one.length).toBe(hash.length)
  }
  expect((await keys.get('mine'))?.hash).toBe(theirs)
  // A row that cannot be read stops no revocation.
  expect((await keys.revoke('forged', 5)).length).toBe(1)
}

test('in a data directory with a secret key', async () => {
  const dir = folderOfTest()
  await writeSecretState(dir, { key: createSealer(secret).keyId ?? null })
  const storage = await openAt(dir, true)
  const path = join(dir, 'messages.db')
  await check(storage, async statement => {
    using db = new Database(path)
    db.run(statement)
  })
  await storage.close()
})

describe.skipIf(!isPostgresThere())('on PostgreSQL', () => {
  test('a row that its administrator adds', async () => {
    await using database = await newDatabase()
    const storage = await openAtUrl(database.url)
    const connection = await connectPg({ url: database.url, name: 'test', answerMs: 10_000 })
    await check(storage, async statement => void (await connection.run(constantSql(statement))))
    connection.destroy()
    await storage.close()
  })
})
