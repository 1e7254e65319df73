/** What was written just before the server crashed, or a standby took over. */
import { describe, expect, test } from 'bun:test'
import { systemClock } from '../../../src/platform/clock.ts'
import { silentLog } from '../../../src/platform/log.ts'
import { connectPg } from '../../../src/platform/postgres.ts'
import { sql } from '../../../src/platform/sql.ts'
import { PgDatabase } from '../../../src/storage/postgres/database.ts'
import { migrate } from '../../../src/storage/postgres/migrate.ts'
import { failure } from '../../support/failure.ts'
import { isPostgresThere, startPostgres } from '../../support/postgres.ts'
import { insert, message } from '../support.ts'
import { openPostgres } from './support.ts'

describe.skipIf(!isPostgresThere())('PostgreSQL', () => {
  test('a barrier after a crash does not confirm what was lost by it', async () => {
    await using server = await startPostgres()
    await server.createDatabase('svc')
    const url = server.url('svc')
    const db = new PgDatabase({ url, clock: systemClock, log: silentLog, node: 'n' })
    await migrate(db, { log: silentLog, keys: undefined })
    const write = (name: string) => db.run(sql`INSERT INTO consumer VALUES (${name}, 1, 1)`)
    await db.barrier()
    const since = db.serverRun
    const writer = await server.psql(`SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'`)
    process.kill(Number(writer), 'SIGSTOP')
    await write('lost')
    const touch = () => db.one<{ at: number }>(sql`SELECT touch_sessions('{}') AS at`)
    const lost = await touch()
    await server.kill()
    await server.start()

    expect(await failure(db.barrier())).toMatchObject({ code: 'store_unavailable' })
    expect(await failure(db.barrier(since))).toMatchObject({ code: 'store_unavailable' })
    await write('kept')
    // Nodes that have seen a revision that was lost miss no later one.
    expect((await touch()).at).toBeGreaterThan(lost.at + 1)
    await db.barrier()
    expect(await db.all(sql`SELECT name FROM consumer`)).toEqual([{ name: 'kept' }])
    // An orderly stop loses nothing.
    await write('kept too')
    await server.stop('fast')
    await server.start()
    await db.barrier()
    await db.close()
  }, 60_000)

  test('a store that is closed while it connects to a server that has restarted ends quietly', async () => {
    await using server = await startPostgres()
    await server.createDatabase('svc')
    const db = new PgDatabase({ url: server.url('svc'), clock: systemClock, log: silentLog, node: 'a' })
    await migrate(db, { log: silentLog, keys: undefined })
    await db.barrier()
    await server.kill()
    await server.start()
    const waiting = failure(db.barrier())
    await db.close()
    expect(await waiting).toMatchObject({ code: 'shutting_down' })
  }, 60_000)

  test('the ids that are skipped when a standby takes over do not count as rows', async () => {
    await using t = await openPostgres({ maxCount: 4 })
    const { backlog, consumers, intake, log, maintenance } = t.store
    const all = async () => (await log.listAfter(0, { limit: 100 })).map(({ text }) => text)
    const connection = await connectPg({ url: t.url, name: 'test', answerMs: 8000 })
    await consumers.claim('reader', { limit: 1 })
    await insert(t, [message('1'), message('2')])
    for (const text of ['3', '4']) {
      await connection.run(sql`UPDATE meta SET timeline = 'of another server'`)
      await insert(t, [message(text)])
    }
    connection.destroy()
    await maintenance.prune()
    expect(await all()).toEqual(['1', '2', '3', '4'])
    expect(await intake.count()).toBe(4)
    expect(await backlog.listLags(10)).toMatchObject([{ consumer: 'reader', messages: 4 }])
    expect(await backlog.countEvents('')).toBe(4)
    await insert(t, [message('5'), message('6'), message('7')])
    await maintenance.prune()
    expect(await all()).toEqual(['4', '5', '6', '7'])
    expect(await intake.count()).toBe(4)
  })
})
