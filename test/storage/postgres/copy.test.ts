import { describe, expect, test } from 'bun:test'
import { existsSync, readdirSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { connectPg } from '../../../src/platform/postgres.ts'
import { sealedWith } from '../../../src/platform/sealing.ts'
import { constantSql } from '../../../src/platform/sql.ts'
import { newDatabase, secret } from '../../support/databases.ts'
import { ended } from '../../support/ended.ts'
import { failure } from '../../support/failure.ts'
import { folderOfTest } from '../../support/folder.ts'
import { isPostgresThere } from '../../support/postgres.ts'
import { svcProgram } from '../../support/svc-program.ts'
import {
  dumpDatabase,
  dumpDirectory,
  fillDirectory,
  goOn,
  mediaOf,
  move,
  openAt,
  openAtUrl,
  queuedFile,
  readState,
  uploadId,
} from './copy-support.ts'

const ask = async <T extends object>(url: string, text: string): Promise<T[]> => {
  const connection = await connectPg({ url, name: 'tests', answerMs: 60_000 })
  try {
    return await connection.all<T>(constantSql(text))
  } finally {
    connection.destroy()
  }
}

describe.skipIf(!isPostgresThere())('svc store copy', () => {
  test('there and back everything is the same, and each source refuses to open', async () => {
    const [dir, back] = [join(folderOfTest(), 'first'), join(folderOfTest(), 'back')]
    await fillDirectory(dir)
    const before = await openAt(dir)
    const state = await readState(before)
    await before.close()
    const rows = dumpDirectory(dir)
    await using database = await newDatabase()
    const { url } = database
    const place = url.replace(/\/\/.*@/, '//')

    const there = await move(dir, url)
    expect(there).toMatchObject({ from: dir, to: place, sessions: 2, files: 2, damaged: [] })
    expect(there.rows.message).toBe(rows.message!.length)
    expect(await dumpDatabase(url)).toEqual(rows)
    expect(await failure(openAt(dir))).toMatchObject({
      code: 'store_unavailable',
      message: expect.stringMatching(new RegExp(`${dir} .*${place}$`)),
    })
    const [{ raw = '' } = {}] = await ask<{ raw: string }>(
      url,
      `SELECT raw FROM svc.message WHERE raw LIKE '%context_token%'`,
    )
    expect(sealedWith(JSON.parse(raw).context_token)).toBeDefined()

    const shared = await openAtUrl(url)
    expect(await readState(shared)).toEqual(state)
    await goOn(shared, 'cursor 1', 'cursor 2')
    const onward = await readState(shared)
    await shared.close()

    await move(back, url, true)
    const after = await openAt(back, true)
    expect(await readState(after)).toEqual(onward)
    await goOn(after, 'cursor 2', 'cursor 3')
    await after.close()
    for (const [store, id, content] of [
      ['queued', queuedFile, 'hello'],
      ['uploads', uploadId, 'upload'],
    ] as const) {
      const file = await mediaOf(back)[store].open(id)
      expect(Buffer.concat(await Array.fromAsync(file!.read())).toString()).toBe(content)
      await file!.release()
    }
    const [moved] = await ask<{ moved_to: string }>(url, 'SELECT moved_to FROM svc.meta')
    expect(moved).toEqual({ moved_to: back })

    // Its secrets are encrypted now.
    const rowsOfBack = dumpDirectory(back)
    await using second = await newDatabase()
    await move(back, second.url)
    expect(await dumpDatabase(second.url)).toEqual(rowsOfBack)
  })

  test('a store that a process uses is not copied', async () => {
    const dir = join(folderOfTest(), 'first')
    await fillDirectory(dir)
    await using database = await newDatabase()
    const storage = await openAt(dir)
    expect(await failure(move(dir, database.url))).toMatchObject({ code: 'store_unavailable' })
    await storage.close()
    await ask(
      database.url,
      `INSERT INTO svc.node (id, name, version, lease_until)
      VALUES ('n', 'host-2', '1', clock_timestamp() + interval '1 hour')`,
    )
    expect(await failure(move(dir, database.url))).toMatchObject({
      code: 'store_unavailable',
      hint: expect.stringContaining('host-2'),
    })
    await ask(database.url, 'DELETE FROM svc.node')
    expect(await move(dir, database.url)).toMatchObject({ sessions: 2 })
  })

  test('no node joins while the store is copied, nor after it was moved', async () => {
    await using database = await newDatabase()
    const join = `INSERT INTO svc.node (id, name, version, lease_until) VALUES ('n', 'n', '1', clock_timestamp() + interval '1 hour')`
    for (const set of ['copying', 'moved_to']) {
      await ask(database.url, `UPDATE svc.meta SET ${set} = '{}'`)
      expect(await failure(ask(database.url, join))).toMatchObject({ code: '55006' })
      await ask(database.url, `UPDATE svc.meta SET ${set} = NULL`)
    }
    await ask(database.url, join)
  })

  test('a target that is not empty stays as it is', async () => {
    const [dir, other] = [join(folderOfTest(), 'first'), folderOfTest()]
    await fillDirectory(dir)
    await using database = await newDatabase()
    await using used = await newDatabase()
    await ask(used.url, `INSERT INTO svc.consumer VALUES ('c', 0, 0)`)
    expect(await failure(move(dir, used.url))).toMatchObject({ code: 'invalid_arguments' })
    await move(dir, database.url)
    writeFileSync(join(other, 'notes.txt'), 'mine')
    expect(await failure(move(other, database.url, true))).toMatchObject({ code: 'invalid_arguments' })
    expect(readdirSync(other)).toEqual(['notes.txt'])
    expect(await failure(move(dir, database.url))).toMatchObject({ code: 'store_unavailable' })
    // Only what a killed copy was writing.
    renameSync(join(other, 'notes.txt'), join(other, '.restoring.0123456789ab.tmp'))
    expect(await move(other, database.url, true)).toMatchObject({ sessions: 2 })
  })

  test.each(['copying', 'verified', 'marked'])(
    'a copy that was killed when it was %s is carried on',
    async at => {
      const [dir, back] = [join(folderOfTest(), 'first'), join(folderOfTest(), 'back')]
      await fillDirectory(dir)
      const rows = dumpDirectory(dir)
      await using database = await newDatabase()
      const { url } = database
      await move(dir, url)
      // As it was before the last steps.
      await ask(
        url,
        `UPDATE svc.meta SET copying = '${JSON.stringify({ from: dir, verified: at !== 'copying' })}'`,
      )
      if (at === 'copying') await ask(url, 'DELETE FROM svc.message WHERE id > 300')
      expect(await failure(move(back, url, true))).toMatchObject({ code: 'store_unavailable' })
      if (at !== 'marked') {
        const mark = join(dir, '.restoring')
        expect(existsSync(mark)).toBe(true)
        await Bun.file(mark).delete()
      }
      expect(await move(dir, url)).toMatchObject({ sessions: 2 })
      expect(await dumpDatabase(url)).toEqual(rows)
      expect(await ask(url, 'SELECT copying FROM svc.meta')).toEqual([{ copying: undefined } as never])
    },
  )

  test('the command refuses an address, says what is missing, and moves', async () => {
    const folder = folderOfTest()
    const dir = join(folder, 'first')
    await fillDirectory(dir)
    await using database = await newDatabase()
    const key = join(folder, 'key')
    writeFileSync(key, `${secret}\n`, { mode: 0o600 })
    const run = (args: readonly string[], env: Record<string, string> = {}) =>
      ended([...svcProgram, 'store', 'copy', ...args], {
        cwd: folder,
        env: { PATH: process.env.PATH ?? '', HOME: folder, ...env },
      })
    const address = await run([dir, database.url])
    expect(address.status).toBe(2)
    expect(address.stderr).toContain('expected the word postgres')
    expect(address.stderr).not.toContain(database.url)
    expect((await run([dir, 'postgres'])).stderr).toContain('--store-url-file')
    expect((await run([dir, join(folder, 'other')])).stderr).toContain('svc backup')
    const env = { SVC_STORE_URL: database.url }
    expect((await run([dir, 'postgres'], env)).stderr).toContain('--secret-key-file')
    const done = await run([dir, 'postgres', '--secret-key-file', key, '--json'], env)
    expect({ status: done.status, stderr: done.stderr }).toEqual({ status: 0, stderr: '' })
    expect(JSON.parse(done.stdout)).toMatchObject({ from: dir, sessions: 2, files: 2, damaged: [] })
    const again = await run([dir, 'postgres', '--secret-key-file', key], env)
    expect(again.status).toBe(1)
    expect(again.stderr).toContain(`was moved to ${database.url.replace(/\/\/.*@/, '//')}`)
  })
})
