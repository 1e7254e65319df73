/** A copy of a database: nothing runs on it until it is adopted, and then nothing goes on by itself. */
import { describe, expect, test } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { configFromValues } from '../../../src/config.ts'
import { examine } from '../../../src/doctor/examine.ts'
import { readStatus } from '../../../src/inspect/status-report.ts'
import { adoptStore } from '../../../src/migrate/store/adopt.ts'
import { systemClock } from '../../../src/platform/clock.ts'
import { silentLog } from '../../../src/platform/log.ts'
import { connectPg } from '../../../src/platform/postgres.ts'
import { constantSql, sql } from '../../../src/platform/sql.ts'
import { openPgStorage } from '../../../src/storage/postgres/open.ts'
import { listForeignParts } from '../../../src/storage/postgres/own-schema.ts'
import { newDatabase, secret } from '../../support/databases.ts'
import { codeOf, failure } from '../../support/failure.ts'
import { isPostgresThere, sharedPostgres } from '../../support/postgres.ts'
import { bot } from '../support.ts'
import { fillDirectory, move } from './copy-support.ts'

const open = (url: string) =>
  openPgStorage({ url, secret, clock: systemClock, log: silentLog, maxAgeDays: 0, maxCount: 0 })
const adopt = (url: string, more: { goesOn?: boolean; keepKeys?: boolean } = {}) =>
  adoptStore({ url, secret, clock: systemClock, goesOn: false, keepKeys: false, ...more })

/** What the error for a copy says. @param differs how it was made */
const copyError = (original: { url: string }, differs: 'server' | 'name' | 'database') => ({
  code: 'store_unavailable',
  details: {
    check: 'copy',
    original: new URL(original.url).pathname.slice(1),
    differs,
    command: 'svc store adopt',
  },
})

let nth = 0
/** A copy of a database, as a dump that was restored is one. */
async function copyOf(url: string): Promise<{ url: string; name: string } & AsyncDisposable> {
  const server = await sharedPostgres()
  const name = `copied${++nth}`
  await server.createDatabase(name, new URL(url).pathname.slice(1))
  return { name, url: server.url(name), [Symbol.asyncDispose]: () => server.dropDatabase(name) }
}

describe.skipIf(!isPostgresThere())('a copy of a database', () => {
  test('is refused by nodes, doctor and status until it is adopted, wherever it is', async () => {
    await using original = await newDatabase({ isNew: true })
    const first = await open(original.url)
    await first.state.sessions.save('work', bot('work'))
    await first.close()
    await using copy = await copyOf(original.url)
    const server = await sharedPostgres()
    expect(await failure(open(copy.url))).toMatchObject(copyError(original, 'database'))
    // A dump that was restored on another server.
    await server.psql(`UPDATE svc.meta SET home = regexp_replace(home, '^\\S+', '1')`, copy.name)
    expect(await failure(open(copy.url))).toMatchObject(copyError(original, 'server'))
    // One that was restored on a clone of the server, into a database with the same id and name.
    await server.psql(
      `UPDATE svc.meta SET home = regexp_replace(svc.home(), '^(\\S+ \\S+) \\S+', '\\1 1')`,
      copy.name,
    )
    expect(await failure(open(copy.url))).toMatchObject(copyError(copy, 'database'))
    const basePath = await mkdtemp(join(tmpdir(), 'svc-copy-'))
    try {
      const upstreamUrl = 'http://127.0.0.1:9'
      const given = {
        basePath,
        storeUrl: copy.url,
        secretKey: secret,
        upstreamUrl,
        cdnUrl: upstreamUrl,
        port: 0,
      }
      const { findings } = await examine({
        config: configFromValues(given),
        version: '1',
        deadlineMs: 30_000,
      })
      const found = findings.filter(({ check }) => check === 'copy')
      expect(found).toEqual([expect.objectContaining({ severity: 'error', subject: 'cluster' })])
      const statusOf = ({ url }: { url: string }) => readStatus({ basePath, storeUrl: url, version: '1' })
      expect(await statusOf(copy)).toMatchObject({ ok: false, unread: true, trouble: [expect.anything()] })
      const report = await statusOf(original)
      expect([report.unread, report.trouble]).toEqual([undefined, []])
    } finally {
      await rm(basePath, { recursive: true })
    }
    expect(await codeOf(adopt(original.url))).toBe('invalid_arguments')
    await adopt(copy.url)
    await (await open(copy.url)).close()
    // The original is not one.
    await (await open(original.url)).close()
  })

  test('is not used by a node that runs while the address leads to it, and is as soon as it is adopted', async () => {
    await using original = await newDatabase({ isNew: true })
    await using copy = await copyOf(original.url)
    let url = original.url
    const storage = await openPgStorage({
      url: () => url,
      secret,
      clock: systemClock,
      log: silentLog,
      maxAgeDays: 0,
      maxCount: 0,
    })
    try {
      await storage.state.sessions.save('work', bot('work'))
      url = copy.url
      await (await sharedPostgres()).psql(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${new URL(original.url).pathname.slice(1)}'`,
      )
      const { maintenance } = storage.store
      // The first call after a connection broke may only find that.
      await maintenance.checkWritable()
      expect(await maintenance.checkWritable()).toMatchObject(copyError(original, 'database'))
      expect(await failure(storage.state.sessions.save('more', bot('more')))).toMatchObject(
        copyError(original, 'database'),
      )
      await adopt(copy.url, { goesOn: true })
      await maintenance.checkWritable()
      expect(await maintenance.checkWritable()).toBeUndefined()
    } finally {
      await storage.close()
    }
  })

  test('with anything in its schema that svc does not make is refused, by name', async () => {
    await using original = await newDatabase({ isNew: true })
    await (await open(original.url)).close()
    await using copy = await copyOf(original.url)
    const server = await sharedPostgres()
    const undo = `CREATE FUNCTION svc.undo() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN new.revoked_at := NULL; RETURN new; END $$`
    const changes = [
      ['function svc.undo()', undo],
      [
        'trigger t of access_key',
        `${undo.replace('svc.undo', 'public.undo')};
        CREATE TRIGGER t BEFORE UPDATE ON svc.access_key FOR EACH ROW EXECUTE FUNCTION public.undo()`,
      ],
      ['rule keep', 'CREATE RULE keep AS ON UPDATE TO svc.access_key DO INSTEAD NOTHING'],
      ['policy p', 'CREATE POLICY p ON svc.access_key USING (false)'],
      ['table access_key', 'ALTER TABLE svc.access_key ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY'],
      ['table v', 'CREATE VIEW svc.v AS SELECT 1'],
      ['table m', 'CREATE MATERIALIZED VIEW svc.m AS SELECT 1'],
      ['table more', 'CREATE TABLE svc.more (a int)'],
      ['which inherits from access_key', 'CREATE TABLE public.child () INHERITS (svc.access_key)'],
      ['column access_key.more', 'ALTER TABLE svc.access_key ADD more text'],
      ['column access_key.revoked_at', 'ALTER TABLE svc.access_key ALTER revoked_at SET DEFAULT 1'],
      ['column access_key.name', 'ALTER TABLE svc.access_key ALTER name DROP NOT NULL'],
      ['constraint c of', 'ALTER TABLE svc.access_key ADD CONSTRAINT c CHECK (revoked_at IS NULL) NOT VALID'],
      ['constraint', 'CREATE TABLE public.other (id text REFERENCES svc.webhook (id))'],
      ['index one', 'CREATE UNIQUE INDEX one ON svc.access_key (hash)'],
      ['trigger', 'ALTER TABLE svc.outbox_lane DISABLE TRIGGER ALL'],
      [
        'function svc.home()',
        `CREATE OR REPLACE FUNCTION svc.home() RETURNS text LANGUAGE sql AS $$ SELECT 'x' $$`,
      ],
      ['function', 'DROP FUNCTION svc.expect CASCADE'],
      ['sequence access_key_nth_seq', 'ALTER SEQUENCE svc.access_key_nth_seq INCREMENT 2'],
      ['type svc.t', 'CREATE TYPE svc.t AS ENUM ()'],
      [
        'operator svc.=(text,text)',
        `CREATE FUNCTION svc.same(text, text) RETURNS boolean LANGUAGE sql AS $$ SELECT true $$;
        CREATE OPERATOR svc.= (LEFTARG = text, RIGHTARG = text, FUNCTION = svc.same)`,
      ],
      ['collation svc.c', 'CREATE COLLATION svc.c FROM "C"'],
    ] as const
    const connection = await connectPg({ url: server.superUrl(copy.name), name: 'test', answerMs: 60_000 })
    const statements = changes.map(([, statement]) => statement).join(';\n')
    await connection.run(constantSql(`BEGIN; SET LOCAL search_path = pg_catalog; ${statements}`))
    const different = (await listForeignParts(connection)).join('\n')
    connection.destroy()
    for (const [named] of changes) expect(different).toContain(named)
    await server.psql(`CREATE RULE keep AS ON UPDATE TO svc.access_key DO INSTEAD NOTHING`, copy.name)
    expect(await failure(adopt(copy.url))).toMatchObject({
      code: 'store_unavailable',
      details: { parts: ['rule keep of access_key'] },
    })
  }, 120_000)

  test('stands still afterwards as a restored backup does, or goes on if the original did not', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'svc-adopt-'))
    await using original = await newDatabase({ isNew: true })
    try {
      await fillDirectory(dir)
      await move(dir, original.url)
    } finally {
      await rm(dir, { recursive: true })
    }
    const counts = async (url: string) => {
      const connection = await connectPg({ url, name: 'test', answerMs: 10_000 })
      const found = await connection.one(sql`SELECT
        (SELECT count(*) FROM outbox WHERE mode = 'queue' AND ended_at IS NULL AND asked IS NULL) AS sends,
        (SELECT count(*) FROM webhook WHERE paused = 0 AND disabled IS NULL) AS webhooks,
        (SELECT count(*) FROM access_key WHERE revoked_at IS NULL) AS keys,
        (SELECT count(*) FROM agent_turn WHERE status IN ('waiting', 'running', 'answering')) AS turns,
        (SELECT count(*) FROM backup) AS backups,
        (SELECT count(*) FROM webhook, meta WHERE position NOT LIKE store_id || '-%') AS foreign`)
      connection.destroy()
      return found
    }
    const before = await counts(original.url)
    for (const what of ['sends', 'webhooks', 'keys', 'turns', 'backups'])
      expect(before[what]).toBeGreaterThan(0)
    await using still = await copyOf(original.url)
    const stands = await adopt(still.url)
    expect(await counts(still.url)).toEqual({
      sends: 0,
      webhooks: 0,
      keys: 0,
      turns: 0,
      backups: 0,
      foreign: before.foreign!,
    })
    expect(stands).toMatchObject({ webhooks: before.webhooks, keys: before.keys })
    await using going = await copyOf(original.url)
    expect(await adopt(going.url, { goesOn: true })).toMatchObject({ sends: 0, webhooks: 0, keys: 0 })
    expect(await counts(going.url)).toEqual(before)
  }, 30_000)
})
