/** Readers of the log on PostgreSQL: what the contract suite cannot see. */
import { describe, expect, test } from 'bun:test'
import { connectPg } from '../../../src/platform/postgres.ts'
import { sql } from '../../../src/platform/sql.ts'
import { isPostgresThere } from '../../support/postgres.ts'
import { insert, message } from '../support.ts'
import { openPostgres } from './support.ts'

describe.skipIf(!isPostgresThere())('readers on PostgreSQL', () => {
  test('a claim counts characters in UTF-16 code units, of new rows and of redelivered ones', async () => {
    await using t = await openPostgres()
    const { consumers } = t.store
    const raws = ['"plain"', '"你好"', '"😀😀"', '"😀你a"']
    let readers = 0
    for (const [nth, raw] of raws.entries()) {
      const session = `s${nth}`
      await insert(t, [message('1', { raw }), message('2', { raw }), message('3', { raw })], session)
      for (const [characters, rows] of [
        [1, 1],
        [raw.length * 2 - 1, 1],
        [raw.length * 2, 2],
        [raw.length * 3 - 1, 2],
        [raw.length * 3, 3],
      ] as const) {
        const reader = `k${readers++}/default`
        const wanted = { limit: 9, session, characters }
        const fresh = (await consumers.claim(reader, wanted))!
        await consumers.nack(fresh.lease)
        const again = (await consumers.claim(reader, wanted))!
        expect([raw, characters, fresh.rows.length, again.rows.length]).toEqual([raw, characters, rows, rows])
      }
    }
  })

  test('a call that finds nothing new neither writes nor locks', async () => {
    await using t = await openPostgres()
    const { acknowledgements, consumers } = t.store
    await insert(t, [message('1')])
    await insert(t, [message('2')], 'other')
    await consumers.ack((await consumers.claim('default', { limit: 9, session: 'other' }))!.lease)
    await consumers.claim('late', { limit: 9 })
    await acknowledgements.readAfter('acks', 0, { limit: 9 })
    const connection = await connectPg({ url: t.url, name: 'test', answerMs: 10_000 })
    // A row that was locked has another xmax.
    const readVersions = () =>
      connection.all(sql`SELECT name, xmin::text, xmax::text FROM consumer ORDER BY name`)
    const before = await readVersions()
    for (let round = 0; round < 3; round++) {
      expect(await consumers.claim('default', { limit: 9, session: 'other' })).toBeUndefined()
      expect(await consumers.claim('late', { limit: 9 })).toBeUndefined()
      expect((await acknowledgements.readAfter('acks', 0, { limit: 9 })).rows).toEqual([])
    }
    expect(await readVersions()).toEqual(before)
    expect(before).toHaveLength(3)
    connection.destroy()
  })

  test('pages of users are the same whether they wrote lately or long ago', async () => {
    await using t = await openPostgres()
    const users = Array.from({ length: 40 }, (_, nth) => `user ${nth}`)
    await insert(
      t,
      users.map(from_user => message('x', { from_user })),
    )
    // More messages of one user than are looked at for a page.
    for (let round = 0; round < 7; round++)
      await insert(
        t,
        Array.from({ length: 500 }, () => message('y', { from_user: 'busy' })),
      )
    const found: string[] = []
    for (let before: number | undefined; ; ) {
      const page = await t.store.conversations.listThreads({ limit: 7, before })
      found.push(...page.threads.map(({ user }) => user))
      before = page.before
      if (before === undefined) break
    }
    expect(found).toEqual(['busy', ...users.toReversed()])
  })
})
