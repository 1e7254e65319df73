/** A database on which svc cannot work is refused by the name of what is wrong: at the start, by doctor, by `/healthz`. */
import { afterAll, describe, expect, test } from 'bun:test'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { examineCluster } from '../../../src/doctor/cluster.ts'
import type { DoctorContext } from '../../../src/doctor/finding.ts'
import { systemClock } from '../../../src/platform/clock.ts'
import { silentLog } from '../../../src/platform/log.ts'
import { PgInspection } from '../../../src/storage/postgres/inspection.ts'
import { openPgStorage } from '../../../src/storage/postgres/open.ts'
import { freePort } from '../../support/port.ts'
import { isPostgresThere, sharedPostgres } from '../../support/postgres.ts'
import { asServer } from '../../support/postgres-program.ts'
import { until } from '../../support/until.ts'
import { openPostgres, secret } from './support.ts'

const open = (url: string) =>
  openPgStorage({ url, secret, clock: systemClock, log: silentLog, maxAgeDays: 0, maxCount: 0 })

/** Why a node does not start, and the checks of doctor that fail. */
async function lookAt(url: string): Promise<[string, string[]]> {
  const refused = await open(url).then(
    storage => storage.close().then(() => 'it starts'),
    error => `${error.code}: ${error.message} | ${error.hint}`,
  )
  const state = await new PgInspection(url).readCluster(systemClock)
  const context = { command: (words: string) => `svc ${words}` } as DoctorContext
  const errors = examineCluster(context, { state }).filter(({ severity }) => severity === 'error')
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
    const [refused, errors] = await lookAt(place.url)
    expect(refused).toMatch(new RegExp(`store_unavailable: .*${encoding}.*UTF8`))
    expect(errors).toEqual(['encoding'])
  })

  test('whose schema svc the role owns is enough; one where it may make nothing is refused', async () => {
    const place = await newPlace()
    expect(await lookAt(place.url)).toEqual([
      expect.stringMatching(/make its tables.*CREATE SCHEMA/),
      ['rights'],
    ])
    await place.say(`CREATE SCHEMA svc AUTHORIZATION ${place.name}`)
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
        const [what = '', table = ''] = right.split(/ .*svc\./)
        const named = new RegExp(`${what}.* ${table}`)
        expect(await storage.store.maintenance.checkWritable()).toMatchObject({
          code: 'store_unavailable',
          message: expect.stringMatching(named),
        })
        expect(await lookAt(place.url)).toEqual([expect.stringMatching(named), ['rights']])
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
    const looks: [string, string, string[]][] = [
      [`ALTER ROLE ${place.name} CONNECTION LIMIT 5`, '5 connections', ['connections']],
      [`ALTER ROLE ${place.name} CONNECTION LIMIT -1`, 'it starts', []],
      [`ALTER DATABASE ${place.name} CONNECTION LIMIT 9`, '9 connections', ['connections']],
      [`ALTER DATABASE ${place.name} CONNECTION LIMIT -1`, 'it starts', []],
      [`ALTER ROLE ${place.name} SET default_transaction_read_only = on`, 'read_only', ['writable']],
      [`ALTER ROLE ${place.name} RESET ALL`, 'it starts', []],
    ]
    for (const setting of [
      'search_path = public',
      'idle_session_timeout = 100',
      "default_transaction_isolation = 'serializable'",
    ])
      looks.push([`ALTER ROLE ${place.name} SET ${setting}`, 'it starts', []])
    for (const [change, said, errors] of looks) {
      await place.say(change)
      expect([change, ...(await lookAt(place.url))]).toEqual([change, expect.stringContaining(said), errors])
    }
  }, 30_000)

  test('that cannot be entered says why, and what to do', async () => {
    const place = await newPlace()
    const why = async (url = place.url) => (await lookAt(url).catch(error => [error.message]))[0]
    expect(await why(place.url.replace('secret', 'other'))).toContain('28P01')
    expect(await why(`${place.url}x`)).toContain('3D000')
    await place.say(`ALTER ROLE ${place.name} NOLOGIN`)
    expect(await why()).toContain('28000')
    await place.say(`ALTER ROLE ${place.name} LOGIN CONNECTION LIMIT 0`)
    expect(await why()).toContain('53300')
    await place.say(
      `ALTER ROLE ${place.name} CONNECTION LIMIT -1; REVOKE CONNECT ON DATABASE ${place.name} FROM PUBLIC`,
    )
    expect(await why()).toContain('42501')
  })
})

describe.skipIf(!isPostgresThere() || !Bun.which('pgbouncer'))('PgBouncer', () => {
  const ignoring = 'ignore_startup_parameters = options,statement_timeout,extra_float_digits'
  test.each([
    ['transaction', ''],
    ['transaction', ignoring],
  ])('in the mode %s is refused by its name %s', async (mode, more) => {
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
      let said = ''
      await until('it answers', 10_000, async () => {
        said = (await lookAt(url).catch(error => [`${error.message} ${error.hint}`]))[0]!
        return !said.includes('ECONNREFUSED')
      })
      expect(said).toContain('PgBouncer')
    } finally {
      child.kill('SIGKILL')
      await child.exited
    }
  })
})
