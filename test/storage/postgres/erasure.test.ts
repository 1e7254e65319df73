/** What the files and the statistics of the database hold of a person who was erased. */
import { expect, test } from 'bun:test'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { connectPg } from '../../../src/platform/postgres.ts'
import { constantSql, sql } from '../../../src/platform/sql.ts'
import { isPostgresThere, sharedPostgres } from '../../support/postgres.ts'
import { insert, message, open, outgoing, sending } from '../support.ts'
import { openPostgres } from './support.ts'

const gone = 'o-rewritten@im.wechat'
const words = [gone, 'hush-hush', 'Zacharias']

test.skipIf(!isPostgresThere())(
  '--rewrite leaves nothing in the files of the tables',
  async () => {
    await using t = await openPostgres({}, { isNew: true, isOwner: true })
    const server = await sharedPostgres()
    const name = new URL(t.url).pathname.slice(1)
    const admin = await connectPg({ url: server.superUrl(name), name: 'tests', answerMs: 60_000 })
    const find = async () => {
      await admin.run(constantSql('CHECKPOINT'))
      const { oid } = await admin.one<{ oid: number }>(
        sql`SELECT oid::bigint AS oid FROM pg_database WHERE datname = ${name}`,
      )
      const data = join(server.dir, 'data')
      const own = (await readdir(join(data, 'base', String(oid)))).map(file =>
        join('base', String(oid), file),
      )
      // All other files of the server but the log, which the answer names. Other databases are of other tests.
      const others = await readdir(data, { recursive: true })
      const all = [...own, ...others.filter(file => !/^(base|pg_wal)\b/.test(file))]
      const files = await Promise.all(all.map(file => readFile(join(data, file)).catch(() => Buffer.of())))
      return words.filter(word => files.some(bytes => bytes.includes(word)))
    }
    /** What the planner knows, with what it knew of a table that is empty now. */
    const findInStatistics = async () => {
      await admin.run(constantSql('ANALYZE'))
      const known = await admin.all<{
        place: string
        samples: string
      }>(sql`SELECT tablename || '.' || attname AS place,
        concat_ws(' ', most_common_vals, histogram_bounds, most_common_elems) AS samples
        FROM pg_stats WHERE schemaname = 'svc'`)
      expect(known.map(({ place }) => place)).toContain('message.msg_type')
      const isOf = new RegExp(words.join('|'), 'i')
      return known.filter(({ samples }) => isOf.test(samples)).map(({ place }) => place)
    }
    for (let nth = 0; nth < 50; nth++) await insert(t, [message(`hush-hush ${nth}`, { from_user: gone })])
    await sending(t.store, 's', 'b', outgoing('hush-hush too', { client_id: 'c1', to_user: gone }), {
      rules: open,
    })
    await t.store.names.set('s', gone, 'Zacharias')
    await t.store.conversations.markRead('s', gone, 1)
    expect(await find()).toEqual(words)
    expect(await findInStatistics()).toEqual([])
    const { people } = t.store
    await people.erase(gone)
    await people.scrub()
    expect(await people.listRemains(false)).toHaveLength(2)
    await people.scrub(true)
    expect(await find()).toEqual([])
    expect(await findInStatistics()).toEqual([])
    expect(await people.listRemains(true)).toHaveLength(1)
    await using other = await openPostgres()
    const remains = await other.store.people.listRemains(true)
    expect(remains).toHaveLength(2)
    expect(remains[0]).toContain('owner')
    await other.store.people.scrub(true)
    admin.destroy()
  },
  60_000,
)
