/** The address of a database: what libpq says with it, and what is refused. */
import { describe, expect, test } from 'bun:test'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { withSecrets } from '../../src/config/secrets.ts'
import { readConfig } from '../../src/config.ts'
import { connectPg } from '../../src/platform/postgres.ts'
import { createPgPool } from '../../src/platform/postgres-pool.ts'
import { completePgUrl, PgUrlError, parsePgUrl } from '../../src/platform/postgres-url.ts'
import { sql } from '../../src/platform/sql.ts'
import { storeErrorOf } from '../../src/storage/postgres/errors.ts'
import { isPostgresThere, startPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'

const partsOf = (text: string) => {
  const { database, host, password, port, user } = parsePgUrl(text)
  return [user, password, host, port, database]
}
const errorOf = (text: string, env: Record<string, string> = {}) => {
  try {
    parsePgUrl(completePgUrl(text, env)).encryptions()
  } catch (error) {
    if (error instanceof PgUrlError) return `${error.message} | ${error.hint}`
    throw error
  }
  return undefined
}

test.each([
  ['postgres://svc:p@db.example/svc', ['svc', 'p', 'db.example', 5432, 'svc']],
  ['postgresql://svc:p@db.example:6000/svc', ['svc', 'p', 'db.example', 6000, 'svc']],
  ['postgres://a%40b:p%23%2F%25@db/my%20store', ['a@b', 'p#/%', 'db', 5432, 'my store']],
  ['postgres://svc:p@ss@db/svc', ['svc', 'p@ss', 'db', 5432, 'svc']],
  ['postgres://svc:p,q@db/svc', ['svc', 'p,q', 'db', 5432, 'svc']],
  ['postgres://[::1]:6000/svc', [undefined, undefined, '::1', 6000, 'svc']],
  ['postgres:///svc?host=/run/postgresql', [undefined, undefined, '/run/postgresql', 5432, 'svc']],
  ['postgres://svc:p@/svc?host=/run/postgresql&port=6000', ['svc', 'p', '/run/postgresql', 6000, 'svc']],
  ['postgres://svc:p@%2Frun%2Fpostgresql/svc', ['svc', 'p', '/run/postgresql', 5432, 'svc']],
])('%s is read as libpq reads it', (text, parts) => {
  expect(partsOf(text)).toEqual(parts as never)
})

test.each(['p#x', '12#3', 'a/b', '12/3', 'p?x', '12?3', 'p%zz', 'p,#x'])(
  'a password with %s in it is refused with the word that helps',
  password => {
    const said = errorOf(`postgres://svc:${password}@db.example:5432/svc`)
    expect(said).toContain('percent-encoded')
    expect(said).not.toContain(password)
    const given = () =>
      withSecrets(readConfig({}, { SVC_STORE_URL: `postgres://svc:${password}@db.example/svc` }))
    expect(given).toThrow(/SVC_STORE_URL/)
  },
)

test.each([
  ['postgres://svc:p@a,b/svc', /several hosts/],
  ['postgres://svc:p@a:1,b:2/svc', /several hosts/],
  ['postgres://svc:p@db', /names no database/],
  ['postgres:///svc', /names no host/],
  ['postgres://svc:p@db/svc?sslmode=bogus', /sslmode=bogus/],
  ['postgres://svc:p@db/svc?sslmode=no-verify', /sslmode=no-verify/],
  ['postgres://svc:p@db/svc?sslmode=Require', /sslmode=Require/],
  ['postgres://svc:p@db/svc?ssl=true', /ssl\b/],
  ['postgres://svc:p@db/svc?sslcrl=/crl.pem', /sslcrl/],
  ['postgres://svc:p@db/svc?channel_binding=require', /channel_binding=require/],
  ['postgres://svc:p@db/svc?target_session_attrs=standby', /target_session_attrs=standby/],
  ['postgres://svc:p@db/svc?options=-csearch_path%3Dx', /options/],
  ['postgres://svc:p@db/svc?password=hidden', /password/],
  ['postgres://svc:p@db/svc?sslmode=verify-ca', /verify-ca needs a file/],
  ['postgres://svc:p@db/svc?sslmode=require&sslrootcert=system', /require needs a file/],
  ['postgres://svc:p@db/svc?sslrootcert=/none.pem', /sslrootcert cannot be read.*none\.pem.*ENOENT/],
  ['postgres://svc:p@db/svc?sslcert=/none.pem', /sslkey/],
])('%s is refused by its name', (text, said) => {
  expect(errorOf(text)).toMatch(said)
  expect(errorOf(text)).not.toContain('hidden')
})

test('the variables of libpq count where the address says nothing', () => {
  const url = 'postgres://svc:p@db/svc'
  expect(errorOf(url, { PGSSLMODE: 'bogus' })).toContain('sslmode=bogus')
  expect(errorOf(`${url}?sslmode=require`, { PGSSLMODE: 'bogus' })).toBeUndefined()
  expect(parsePgUrl(completePgUrl(url, { PGSSLMODE: 'disable' })).encryptions()).toEqual([false])
  expect(errorOf(url, { PGCHANNELBINDING: 'require' })).toContain('channel_binding')
})

describe.skipIf(!isPostgresThere() || !Bun.which('openssl'))('a server with TLS', () => {
  test('each sslmode connects, encrypts and checks as libpq does', async () => {
    await using server = await startPostgres()
    const folder = mkdtempSync(join(tmpdir(), 'svc-tls-'))
    using _folder = { [Symbol.dispose]: () => rmSync(folder, { recursive: true }) }
    const certificate = (name: string) => {
      const [key, cert] = [join(folder, `${name}.key`), join(folder, `${name}.crt`)]
      const kind = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2']
      const subject = ['-subj', '/CN=db', '-addext', 'subjectAltName=IP:127.0.0.1']
      Bun.spawnSync(['openssl', 'req', '-x509', ...kind, ...subject, '-keyout', key, '-out', cert])
      return { key, cert }
    }
    const [own, other] = [certificate('own'), certificate('other')]
    chmodSync(folder, 0o755)
    const data = join(server.dir, 'data')
    for (const [from, to] of [
      [own.key, 'server.key'],
      [own.cert, 'server.crt'],
    ] as const) {
      Bun.spawnSync(['cp', from, join(data, to)])
      Bun.spawnSync(['chown', `--reference=${data}`, join(data, to)])
      chmodSync(join(data, to), 0o600)
    }
    await server.createDatabase('tls')
    const connect = async (search: string, host = '127.0.0.1') => {
      const url = `${server.url('tls').replace('127.0.0.1', host)}${search}`
      const pool = createPgPool({ url, name: 'test', answerMs: 8000 }, { usual: 1, prepared: 1 })
      const read = sql`SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()`
      try {
        const connection = await connectPg({ url, name: 'test', answerMs: 8000 })
        const { ssl } = await connection.one<{ ssl: boolean }>(read)
        connection.destroy()
        // A pool connects in the same way.
        expect(await pool.one<{ ssl: boolean }>(read)).toEqual({ ssl })
        return ssl ? 'encrypted' : 'plain'
      } catch (error) {
        return (storeErrorOf(error) as Error).message
      } finally {
        await pool.close()
      }
    }
    const modes = async () => {
      const found: Record<string, string> = {}
      for (const mode of ['disable', 'allow', 'prefer', 'require'])
        found[mode] = await connect(`?sslmode=${mode}`)
      return found
    }
    const [plain, encrypted] = ['plain', 'encrypted']
    const without = await modes()
    expect(without).toMatchObject({ disable: plain, allow: plain, prefer: plain })
    expect(without.require).toContain('offers no TLS')
    await server.psql('ALTER SYSTEM SET ssl = on; SELECT pg_reload_conf();')
    await until('TLS is on', 10_000, async () => (await connect('')) === encrypted)
    expect(await modes()).toEqual({ disable: plain, allow: plain, prefer: encrypted, require: encrypted })
    const [trusted, wrong] = [`&sslrootcert=${own.cert}`, `&sslrootcert=${other.cert}`]
    expect(await connect('?sslmode=verify-full')).toContain('is not trusted')
    expect(await connect(`?sslmode=verify-full${trusted}`)).toBe(encrypted)
    expect(await connect(`?sslmode=verify-full${trusted}`, 'localhost')).toContain('is not for this host')
    expect(await connect(`?sslmode=verify-ca${trusted}`, 'localhost')).toBe(encrypted)
    for (const mode of ['require', 'verify-ca', 'verify-full'])
      expect(await connect(`?sslmode=${mode}${wrong}`)).toContain('is not trusted')
    expect(await connect(`?sslmode=prefer${wrong}`)).toBe(plain)
    expect(await connect('', 'nowhere.invalid')).toContain('host of the database is not known')

    const rule = (kind: string) =>
      `host all postgres 127.0.0.1/32 trust\n${kind} all all 127.0.0.1/32 scram-sha-256\n`
    const access = join(data, 'pg_hba.conf')
    const letIn = async (kind: string, refused: string) => {
      writeFileSync(access, rule(kind))
      await server.psql('SELECT pg_reload_conf()')
      await until('the rules count', 10_000, async () =>
        (await connect(refused)).includes('let this user in'),
      )
    }
    await letIn('hostssl', '?sslmode=disable')
    expect(await modes()).toMatchObject({ allow: encrypted, prefer: encrypted, require: encrypted })
    await letIn('hostnossl', '?sslmode=require')
    expect(await modes()).toMatchObject({ disable: plain, allow: plain, prefer: plain })
  }, 60_000)
})
