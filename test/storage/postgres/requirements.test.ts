/** A database on which svc cannot work is refused by the name of what is wrong: at the start, by doctor, by `/healthz`. */
import { afterAll, describe, expect, test } from 'bun:test'
import { chmodSync, copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { examineCluster } from '../../../src/doctor/cluster.ts'
import type { DoctorContext } from '../../../src/doctor/finding.ts'
import { listFindings } from '../../../src/inspect/finding.ts'
import { SvcError } from '../../../src/model/error.ts'
import { systemClock } from '../../../src/platform/clock.ts'
import { silentLog } from '../../../src/platform/log.ts'
import { PgInspection } from '../../../src/storage/postgres/inspection.ts'
import { openPgStorage } from '../../../src/storage/postgres/open.ts'
import { secret } from '../../support/databases.ts'
import { folderOfTest } from '../../support/folder.ts'
import { freePort } from '../../support/port.ts'
import { isPostgresThere, sharedPostgres, startPostgres } from '../../support/postgres.ts'
import { asServer } from '../../support/postgres-program.ts'
import { until } from '../../support/until.ts'
import { fillDirectory, move } from './copy-support.ts'
import { openPostgres } from './support.ts'

const open = (url: string) =>
  openPgStorage({ url, secret, clock: systemClock, log: silentLog, maxAgeDays: 0, maxCount: 0 })

/** Returns the SQLSTATE, or the code of the system, with which the database cannot be entered. */
const stateOf = (error: unknown) => (error instanceof SvcError ? error.details?.state : undefined)

/** What the error for a fault carries. */
const faultOf = (check: string, details: object = {}) =>
  expect.objectContaining({ code: 'store_unavailable', details: { check, ...details } })

/** The error with which a node does not start, and the checks of doctor that fail. */
async function lookAt(url: string): Promise<[unknown, string[]]> {
  const refused = await open(url).then(
    storage => storage.close().then(() => 'it starts'),
    error => error,
  )
  const state = await new PgInspection(url).readCluster(systemClock)
  const context = {
    command: (words: string) => `svc ${words}`,
    sessions: { sessions: [] },
  } as unknown as DoctorContext
  const errors = listFindings(examineCluster(context, { state })).filter(
    ({ severity }) => severity === 'error',
  )
  return [refused, errors.map(({ check }) => check).filter(check => check !== 'node')]
}

let nth = 0
const made: string[] = []
afterAll(async () => {
  if (made.length === 0) return
  const server = await sharedPostgres()
  for (const name of made) await server.dropDatabase(name)
})

/** A new database and a role that may log in. @param more of CREATE DATABASE */
async function newPlace(more = '') {
  const server = await sharedPostgres()
  const name = `place${++nth}`
  made.push(name)
  await server.psql(
    `CREATE ROLE ${name} LOGIN PASSWORD 'secret'; CREATE DATABASE ${name} ${more} TEMPLATE template0`,
  )
  return {
    name,
    url: server.url(name).replace('//svc:', `//${name}:`),
    say: (statements: string) => server.psql(statements, name),
  }
}

describe.skipIf(!isPostgresThere())('a database on PostgreSQL', () => {
  test.each(['LATIN1', 'SQL_ASCII'])('with the encoding %s is refused', async encoding => {
    const place = await newPlace(`ENCODING '${encoding}' LOCALE 'C' LOCALE_PROVIDER libc`)
    await place.say(`ALTER DATABASE ${place.name} OWNER TO ${place.name}`)
    expect(await lookAt(place.url)).toEqual([faultOf('encoding', { encoding }), ['encoding']])
    // What the page and the error say.
    const other = await newPlace("ENCODING 'UTF8' LOCALE 'C'")
    await other.say(`ALTER DATABASE ${other.name} OWNER TO ${other.name}`)
    expect(await lookAt(other.url)).toEqual(['it starts', []])
  })

  test('whose schema svc the role owns is enough; one where it may make nothing is refused', async () => {
    const place = await newPlace()
    expect(await lookAt(place.url)).toEqual([
      faultOf('rights', { missing: ['CREATE ON SCHEMA svc'] }),
      ['rights'],
    ])
    await place.say(`CREATE SCHEMA svc AUTHORIZATION ${place.name}`)
    expect(await lookAt(place.url)).toEqual(['it starts', []])
  })

  test('a role that owns nothing but its schema: copies there and back, and erases', async () => {
    const place = await newPlace()
    await place.say(`REVOKE ALL ON DATABASE ${place.name} FROM PUBLIC; GRANT CONNECT ON DATABASE ${place.name} TO ${place.name};
      REVOKE ALL ON SCHEMA public FROM PUBLIC; CREATE SCHEMA svc AUTHORIZATION ${place.name}`)
    const [dir, back] = [join(folderOfTest(), 'first'), join(folderOfTest(), 'back')]
    await fillDirectory(dir)
    await move(dir, place.url)
    const storage = await open(place.url)
    await storage.store.people.erase('u@im.wechat')
    await storage.store.people.scrub(true)
    await storage.close()
    expect(await lookAt(place.url)).toEqual(['it starts', []])
    await move(back, place.url, true)
  }, 60_000)

  test('a role that owns nothing, with the rights that the page names', async () => {
    const [owner, place] = [await newPlace(), await newPlace()]
    const ofOwner = place.url.replace(`//${place.name}:`, `//${owner.name}:`)
    await place.say(`CREATE SCHEMA svc AUTHORIZATION ${owner.name}`)
    await (await open(ofOwner)).close()
    await place.say(`GRANT USAGE ON SCHEMA svc TO ${place.name};
      GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA svc TO ${place.name};
      GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA svc TO ${place.name};
      GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA svc TO ${place.name}`)
    expect(await lookAt(place.url)).toEqual(['it starts', []])
  })

  test('without a right on one table, sequence or function is refused, and a node that runs says so', async () => {
    const place = await newPlace()
    await place.say(`CREATE SCHEMA svc AUTHORIZATION ${place.name}`)
    const storage = await open(place.url)
    try {
      for (const right of [
        'INSERT ON svc.outbox',
        'USAGE ON SEQUENCE svc.touched',
        'EXECUTE ON FUNCTION svc.timeline',
      ]) {
        await place.say(`REVOKE ${right} FROM ${place.name}, PUBLIC`)
        const named = faultOf('rights', { missing: [right.replace(/(SEQUENCE )?svc\./, '')] })
        expect(await storage.store.maintenance.checkWritable()).toEqual(named)
        expect(await lookAt(place.url)).toEqual([named, ['rights']])
        await place.say(`GRANT ${right} TO ${place.name}`)
      }
      expect(await storage.store.maintenance.checkWritable()).toBeUndefined()
    } finally {
      await storage.close()
    }
  }, 30_000)

  test('with too few connections, or only for reading, is refused; other defaults of the role change nothing', async () => {
    const place = await newPlace()
    await place.say(`CREATE SCHEMA svc AUTHORIZATION ${place.name}`)
    const looks: [string, unknown, string[]][] = [
      [
        `ALTER ROLE ${place.name} CONNECTION LIMIT 5`,
        faultOf('connections', { connections: 5 }),
        ['connections'],
      ],
      [`ALTER ROLE ${place.name} CONNECTION LIMIT -1`, 'it starts', []],
      [
        `ALTER DATABASE ${place.name} CONNECTION LIMIT 9`,
        faultOf('connections', { connections: 9 }),
        ['connections'],
      ],
      [`ALTER DATABASE ${place.name} CONNECTION LIMIT -1`, 'it starts', []],
      [`ALTER ROLE ${place.name} SET default_transaction_read_only = on`, faultOf('writable'), ['writable']],
      [`ALTER ROLE ${place.name} RESET ALL`, 'it starts', []],
    ]
    for (const setting of [
      'search_path = public',
      'idle_session_timeout = 100',
      "default_transaction_isolation = 'serializable'",
    ])
      looks.push([`ALTER ROLE ${place.name} SET ${setting}`, 'it starts', []])
    for (const [change, refused, errors] of looks) {
      await place.say(change)
      expect([change, ...(await lookAt(place.url))]).toEqual([change, refused, errors])
    }
  }, 30_000)

  test('that cannot be entered says why, and what to do', async () => {
    const place = await newPlace()
    const why = async (url = place.url) => stateOf((await lookAt(url).catch(error => [error]))[0])
    expect(await why(place.url.replace('secret', 'other'))).toBe('28P01')
    expect(await why(`${place.url}x`)).toBe('3D000')
    await place.say(`ALTER ROLE ${place.name} NOLOGIN`)
    expect(await why()).toBe('28000')
    await place.say(`ALTER ROLE ${place.name} LOGIN CONNECTION LIMIT 0`)
    expect(await why()).toBe('53300')
    await place.say(
      `ALTER ROLE ${place.name} CONNECTION LIMIT -1; REVOKE CONNECT ON DATABASE ${place.name} FROM PUBLIC`,
    )
    expect(await why()).toBe('42501')
  })
})

test.skipIf(!isPostgresThere() || !Bun.which('openssl'))(
  'a certificate of a private authority: trusted with its file alone, and for its host alone',
  async () => {
    await using server = await startPostgres()
    const folder = folderOfTest()
    const run = (...words: string[]) =>
      expect(Bun.spawnSync(['openssl', ...words], { cwd: folder, stderr: 'pipe' }).exitCode).toBe(0)
    const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
    run(
      'req',
      '-x509',
      ...key,
      '-days',
      '2',
      '-subj',
      '/CN=Own authority',
      '-keyout',
      'ca.key',
      '-out',
      'ca.pem',
    )
    run('req', ...key, '-subj', '/CN=db', '-keyout', 'server.key', '-out', 'server.csr')
    writeFileSync(join(folder, 'names'), 'subjectAltName=IP:127.0.0.1')
    const issuer = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '2', '-extfile', 'names']
    run('x509', '-req', '-in', 'server.csr', ...issuer, '-out', 'server.crt')
    const data = join(server.dir, 'data')
    for (const name of ['server.key', 'server.crt']) {
      copyFileSync(join(folder, name), join(data, name))
      Bun.spawnSync(['chown', `--reference=${data}`, join(data, name)])
      chmodSync(join(data, name), 0o600)
    }
    await server.createDatabase('tls')
    await server.psql('ALTER SYSTEM SET ssl = on; SELECT pg_reload_conf()')
    const url = `${server.url('tls')}?sslmode=verify-full`
    const trusted = `${url}&sslrootcert=${join(folder, 'ca.pem')}`
    const why = (given: string) =>
      open(given).then(
        storage => storage.close().then(() => 'it starts'),
        error => error,
      )
    await until('TLS is on', 10_000, async () => (await why(trusted)) === 'it starts')
    expect(await why(url)).toMatchObject({
      hint: expect.stringContaining('sslrootcert='),
      details: { state: expect.stringMatching(/CERT|SIGNATURE|ISSUER/) },
    })
    expect(stateOf(await why(trusted.replace('127.0.0.1', 'localhost')))).toBe('ERR_TLS_CERT_ALTNAME_INVALID')
  },
  60_000,
)

describe.skipIf(!isPostgresThere() || !Bun.which('pgbouncer'))('PgBouncer', () => {
  const ignoring = 'ignore_startup_parameters = options,statement_timeout,extra_float_digits'
  test.each([
    ['transaction', '', { state: '08P01' }],
    ['transaction', ignoring, { check: 'pooler' }],
    ['session', '', { state: '08P01' }],
    ['session', ignoring, { check: 'pooler' }],
    ['statement', ignoring, { check: 'pooler' }],
  ])('in the mode %s is refused by its name %s', async (mode, more, why) => {
    await using t = await openPostgres()
    const server = await sharedPostgres()
    const name = new URL(t.url).pathname.slice(1)
    const folder = mkdtempSync(join(tmpdir(), 'svc-pooler-'))
    using _folder = { [Symbol.dispose]: () => rmSync(folder, { recursive: true }) }
    const port = freePort()
    writeFileSync(join(folder, 'users'), '"svc" "secret"\n')
    writeFileSync(
      join(folder, 'ini'),
      `[databases]\n${name} = host=127.0.0.1 port=${server.port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = ${port}
auth_type = plain\nauth_file = ${folder}/users\npool_mode = ${mode}\nunix_socket_dir =\n${more}\n`,
    )
    chmodSync(folder, 0o755)
    const child = Bun.spawn(asServer(['pgbouncer', '-q', join(folder, 'ini')]), {
      stdout: 'ignore',
      stderr: 'ignore',
    })
    try {
      const url = `postgres://svc:secret@127.0.0.1:${port}/${name}`
      let refused: unknown
      await until('it answers', 10_000, async () => {
        refused = (await lookAt(url).catch(error => [error]))[0]
        return stateOf(refused) !== 'ECONNREFUSED'
      })
      expect(refused).toMatchObject({ details: why })
    } finally {
      child.kill('SIGKILL')
      await child.exited
    }
  })
})
