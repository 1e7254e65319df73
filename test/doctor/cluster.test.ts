/** What doctor and status say about a store on PostgreSQL. */
import { describe, expect, test } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { formatStatus } from '../../src/cli/commands/status.ts'
import { configFromValues } from '../../src/config.ts'
import { examine } from '../../src/doctor/examine.ts'
import { readStatus } from '../../src/inspect/status-report.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { silentLog } from '../../src/platform/log.ts'
import { connectPg } from '../../src/platform/postgres.ts'
import { constantSql } from '../../src/platform/sql.ts'
import { openPgStorage } from '../../src/storage/postgres/open.ts'
import { bot } from '../storage/support.ts'
import { newDatabase, secret } from '../support/databases.ts'
import { isPostgresThere } from '../support/postgres.ts'
import { until } from '../support/until.ts'

/** A database, and what is said of it. */
async function shared() {
  const database = await newDatabase()
  const basePath = await mkdtemp(join(tmpdir(), 'svc-cluster-'))
  const options = { secret, clock: systemClock, log: silentLog, maxAgeDays: 0, maxCount: 0 }
  return {
    url: database.url,
    open: (name: string, version = '1') => openPgStorage({ ...options, url: database.url, name, version }),
    async look(values: { storeUrl?: string; secretKey?: string } = {}) {
      const given = { basePath, storeUrl: database.url, secretKey: secret, upstreamUrl: 'http://127.0.0.1:9' }
      const config = configFromValues({ ...given, cdnUrl: given.upstreamUrl, port: 0, ...values })
      const { findings } = await examine({ config, version: '1', deadlineMs: 1000 })
      return findings
        .filter(
          ({ check, subject }) => check === 'secrets' || ['cluster', 'store', 'locks'].includes(subject),
        )
        .map(({ check, severity, subject, what }) => `${subject}/${check} ${severity}: ${what}`)
    },
    status: (storeUrl = database.url) => readStatus({ basePath, storeUrl, version: '1' }),
    async [Symbol.asyncDispose]() {
      await database[Symbol.asyncDispose]()
      await rm(basePath, { recursive: true, force: true })
    },
  }
}

describe.skipIf(!isPostgresThere())('a store on PostgreSQL', () => {
  test('the database, the nodes and what each polls are shown; nothing is written', async () => {
    await using t = await shared()
    const a = await t.open('a')
    const b = await t.open('b', '2')
    try {
      expect(await t.look()).toContain('cluster/node note: no node polls')
      await a.state.sessions.save('work', bot('work'))
      b.node.setUrl('http://b.example')
      const before = await t.look()
      expect(before.join('\n')).toContain('cluster/node error: no node polls')
      const lease = await a.leases.join()
      await until('the account is polled', 10_000, async () => {
        await lease?.listOwned()
        return (await a.node.list()).some(node => node.accounts === 1)
      })
      await until('the address is shown', 10_000, async () => (await a.node.list()).length === 2)
      const found = await t.look()
      expect(found.join('\n')).toMatch(/^cluster\/database ok: PostgreSQL \d+.* at 127\.0\.0\.1:\d+\/t\d+, /m)
      const lines = [
        'directory/secrets ok: secrets are encrypted with the key',
        'store/integrity ok: the store has 0 messages',
        'store/backup note: svc cannot see the backups of the database',
        'cluster/clock ok: ',
        'cluster/connections ok: ',
        'cluster/synchronous warning: synchronous_standby_names is empty',
        'cluster/standbys note: the role of svc may not see',
        'cluster/node ok: a polls 1 session, svc 1',
        'cluster/node note: if this only node dies',
        'cluster/versions note: the nodes run different versions: 1 on a; 2 on b',
        'cluster/durable ok: ',
        'cluster/search ok: ',
      ]
      for (const line of lines) expect(found.filter(one => one.startsWith(line))).toHaveLength(1)
      await a.store.backups.add({ path: '/b/svc.tar', created_at: Date.now(), size: 9, took_ms: 1 })
      expect(await t.look()).toContainEqual(
        expect.stringMatching(/^store\/backup ok: .*: \/b\/svc\.tar, 9 B$/),
      )
      const status = await t.status()
      expect(status).toMatchObject({
        polling: { active: true },
        session_count: 1,
        sessions: [{ name: 'work', status: 'connected', is_default: true }],
        cluster: {
          nodes: [
            { name: 'a', polls: true, sessions: ['work'] },
            { name: 'b', url: 'http://b.example' },
          ],
        },
        trouble: [],
      })
      const text = formatStatus(status)
      expect(text).toContain('1 node polls')
      expect(text).toContain('b, svc 2, does not poll, http://b.example')
      expect(`${text}${JSON.stringify(status)}${found.join()}`).not.toContain(`:${new URL(t.url).password}@`)
    } finally {
      await b.close()
      await a.close()
    }
  }, 60_000)

  test('a transaction that blocks others is named; another secret key, and a database that is away, are said', async () => {
    await using t = await shared()
    const storage = await t.open('a')
    const blocker = await connectPg({ url: t.url, name: 'report', answerMs: 60_000 })
    try {
      await blocker.run(constantSql('BEGIN'))
      await blocker.run(constantSql('LOCK TABLE svc.audit IN ACCESS EXCLUSIVE MODE'))
      const waiting = storage.store.audit.list({ limit: 1 }).catch(error => error)
      const named =
        /^cluster\/blocked error: process \d+ of the database \(report, role svc\) has held a lock/m
      await until('it is named', 10_000, async () => named.test((await t.look()).join('\n')))
      await blocker.run(constantSql('ROLLBACK'))
      expect(await waiting).toEqual([])
      expect((await t.look({ secretKey: `${secret}x` })).join('\n')).toMatch(
        /directory\/secrets error: .* the given key is/,
      )
      const away = await t.look({ storeUrl: 'postgres://svc:hidden@127.0.0.1:9/svc' })
      expect(away.filter(line => line.includes(' error: '))).toEqual([
        expect.stringMatching(/^cluster\/database error: .*127\.0\.0\.1:9\/svc/),
      ])
      const status = await t.status('postgres://svc:hidden@127.0.0.1:9/svc')
      expect(status).toMatchObject({
        ok: false,
        trouble: [expect.stringMatching(/^store: .*127\.0\.0\.1:9\/svc/)],
      })
    } finally {
      blocker.destroy()
      await storage.close()
    }
  }, 60_000)
})
