/** A database that misbehaves: what callers are told, how long they wait, and that svc recovers by itself. */
import { afterAll, beforeAll, describe, test } from 'bun:test'
import { join } from 'node:path'
import { connectPg, type PgConnection } from '../../src/platform/postgres.ts'
import { constantSql } from '../../src/platform/sql.ts'
import { clusterSecret } from '../support/cluster.ts'
import { folderOfTest } from '../support/folder.ts'
import { isPostgresThere } from '../support/postgres.ts'
import { startService } from '../support/service.ts'
import { until } from '../support/until.ts'
import { Trial } from './support/database-trial.ts'

describe.skipIf(!isPostgresThere())('a database that misbehaves', () => {
  let trial: Trial
  beforeAll(async () => {
    trial = await Trial.start()
  }, 240_000)
  afterAll(() => trial?.[Symbol.asyncDispose]())

  test('read-only', async () => {
    await trial.bear({
      begin: () => trial.admin(`ALTER DATABASE ${trial.name} SET default_transaction_read_only = on`),
      // Settings of a database are those of new connections.
      also: () => trial.endConnections(),
      said: /the database is read-only \(25006\)/,
      hint: /primary/,
      end: () => trial.admin(`ALTER DATABASE ${trial.name} RESET default_transaction_read_only`),
      endAlso: () => trial.endConnections(),
    })
  }, 240_000)

  test('another password', async () => {
    await trial.bear({
      begin: () => trial.admin(`ALTER ROLE svc PASSWORD 'another'`),
      also: () => trial.endConnections(),
      said: /the database rejects the user or the password \(28P01\)/,
      hint: /password/,
      end: () => trial.admin(`ALTER ROLE svc PASSWORD 'secret'`),
    })
  }, 240_000)

  test('another password: a node finds it in the file of the address', async () => {
    const file = join(folderOfTest(), 'store_url')
    const writeAddress = (password: string) => {
      const url = new URL(trial.cluster.postgres.url(trial.name))
      url.password = password
      return Bun.write(file, `${url.href}\n`)
    }
    await writeAddress('secret')
    await using node = await startService({
      sandbox: false,
      args: ['--store-url-file', file, '--log-level', 'ERROR'],
      env: { SVC_SECRET_KEY: clusterSecret },
    })
    const health = async () => (await fetch(`${node.url}/healthz`)).status
    try {
      await trial.admin(`ALTER ROLE svc PASSWORD 'an%other/1'`)
      await trial.endConnections()
      await until('the health says it', 60_000, async () => (await health()) === 503)
      await writeAddress('an%25other%2F1')
      await until('the node has recovered', 60_000, async () => (await health()) === 200)
    } finally {
      await trial.admin(`ALTER ROLE svc PASSWORD 'secret'`)
      await trial.endConnections()
    }
  }, 240_000)

  test('no connection left', async () => {
    await trial.bear({
      begin: () => trial.admin(`ALTER ROLE svc CONNECTION LIMIT 0`),
      also: () => trial.endConnections(),
      said: /the database has no connection left \(53300\)/,
      hint: /max_connections/,
      end: () => trial.admin(`ALTER ROLE svc CONNECTION LIMIT -1`),
    })
  }, 240_000)

  test('a query that hangs: another session keeps a lock', async () => {
    let blocker: PgConnection
    await trial.bear({
      async begin() {
        blocker = await connectPg({ url: trial.superUrl, name: 'blocker', answerMs: 60_000 })
        await blocker.run(constantSql('SET idle_in_transaction_session_timeout = 0'))
        await blocker.run(constantSql('BEGIN'))
        await blocker.run(constantSql('LOCK TABLE svc.durable, svc.outbox_lane IN ACCESS EXCLUSIVE MODE'))
      },
      said: /a lock in the database was not free in time|does not answer/,
      hint: /hangs|recovers/,
      end: async () => blocker.destroy(),
    })
  }, 240_000)

  test('a restart', async () => {
    await trial.bear({
      begin: () => trial.cluster.postgres.stop('fast'),
      said: /the database cannot be reached: the connection ended|the database is stopping/,
      hint: /recovers by itself/,
      end: () => trial.cluster.postgres.start(),
    })
  }, 240_000)
})
