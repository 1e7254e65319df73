/** The servers and the proxy that tests of PostgreSQL use. */
import { describe, expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer } from 'node:net'
import { join } from 'node:path'
import { Client } from 'pg'
import { failure } from './failure.ts'
import { end, family } from './family.ts'
import { freezingProxy } from './freezing-proxy.ts'
import { isPostgresThere, sharedPostgres, startPostgres } from './postgres.ts'
import { until } from './until.ts'

const withinMs = 30_000

/** Connects the driver; `await using` closes the connection. */
async function connected(url: string) {
  const client = new Client({ connectionString: url })
  // A server that goes away is no error of the test.
  client.on('error', () => {})
  await client.connect()
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.end() })
}

const isGone = (pid: number) => {
  try {
    // A process that has ended and was not waited for yet has no command line.
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8') === ''
  } catch {
    return true
  }
}

const isPending = (work: Promise<unknown>) => Bun.peek.status(work) === 'pending'

describe.skipIf(!isPostgresThere())('PostgreSQL', () => {
  test('is shared by the tests of a process, durable, and its databases belong to svc', async () => {
    const server = await sharedPostgres()
    expect(await sharedPostgres()).toBe(server)
    expect(await server.psql('SHOW fsync; SHOW synchronous_commit; SHOW full_page_writes')).toBe('on\non\non')
    await server.createDatabase('first')
    await server.psql('CREATE TABLE t AS SELECT 7 AS n', 'first')
    await server.createDatabase('copy', 'first')
    {
      await using client = await connected(server.url('copy'))
      await client.query('CREATE TABLE own (n int)')
      const { rows } = await client.query(
        'SELECT usename, usesuper FROM pg_user WHERE usename = current_user',
      )
      expect(rows).toEqual([{ usename: 'svc', usesuper: false }])
    }
    expect(await server.psql('SELECT n FROM t', 'copy')).toBe('7')
    const wrong = await failure(connected(server.url('copy').replace('secret', 'wrong')))
    expect(wrong.message).toContain('password authentication failed')
    for (const name of ['first', 'copy', 'unknown']) await server.dropDatabase(name)
    const failed = await failure(server.psql('SELECT 1; SELECT nothing'))
    expect(failed.message).toContain('"nothing" does not exist')
  })

  test('stands still, is killed, comes back with what was committed, and ends without a trace', async () => {
    const server = await startPostgres({ settings: { statement_timeout: '50s' } })
    const members = family(server.pid!)
    {
      await using ending = server
      await server.psql('CREATE TABLE t (n int)')
      await using client = await connected(server.superUrl('postgres'))
      await server.pause()
      const inserted = client.query('INSERT INTO t VALUES (1)')
      await using proxy = await freezingProxy(server.port)
      // The kernel accepts it, and the server does not answer yet.
      const late = connected(`postgres://postgres@127.0.0.1:${proxy.port}/postgres`)
      await until('a connection', withinMs, () => proxy.connections === 1)
      expect([isPending(inserted), isPending(late)]).toEqual([true, true])
      await server.resume()
      await inserted
      await (await late).end()
      await server.kill()
      expect([server.pid, members.every(isGone)]).toEqual([undefined, true])
      await ending.start()
      expect(await server.psql('SELECT n FROM t; SHOW statement_timeout')).toBe('1\n50s')
      await server.stop('fast')
      expect((await failure(server.psql('SELECT 1'))).message).toContain('refused')
      await server.start()
      members.push(...family(server.pid!))
      await server.pause()
    }
    expect([members.every(isGone), existsSync(server.dir)]).toEqual([true, false])
  })

  test('ends when the process that started it is killed', async () => {
    const program = `
      import { startPostgres } from ${JSON.stringify(join(import.meta.dir, 'postgres.ts'))}
      const { pid, dir } = await startPostgres()
      console.log(JSON.stringify({ pid, dir }))
      await new Promise(() => setInterval(() => {}, 1000))`
    const child = Bun.spawn([process.execPath, '-e', program], { stdin: 'ignore', stdout: 'pipe' })
    const { value } = await child.stdout.getReader().read()
    const { pid, dir } = JSON.parse(new TextDecoder().decode(value))
    const members = family(pid)
    expect(members.length).toBeGreaterThan(3)
    end(child.pid, 'SIGKILL')
    await until('it is gone', withinMs, () => members.every(isGone) && !existsSync(dir))
  })

  test('has a standby that gets what was committed, and becomes a primary', async () => {
    await using server = await startPostgres()
    await using standby = await server.createStandby({ synchronous: true, delayMs: 60 })
    await server.psql('CREATE TABLE t (n int)')
    const began = performance.now()
    await server.psql('INSERT INTO t VALUES (1)')
    expect(performance.now() - began).toBeGreaterThan(59)
    const count = 'SELECT count(*) FROM t'
    await until('the row', withinMs, async () => (await standby.psql(count)) === '1')
    // A commit waits for the standby.
    standby.replication?.freeze({ toServer: true })
    const waiting = server.psql('INSERT INTO t VALUES (2)')
    await until('the row', withinMs, async () => (await standby.psql(count)) === '2')
    expect([isPending(waiting), await server.psql(count)]).toEqual([true, '1'])
    standby.replication?.thaw()
    await waiting
    await server.kill()
    await standby.promote()
    expect(await standby.psql(`INSERT INTO t VALUES (3); ${count}`)).toBe('3')
  })

  test('has standbys that nobody waits for', async () => {
    await using server = await startPostgres()
    {
      await using standby = await server.createStandby({ synchronous: false })
      await standby.pause()
      await server.psql('CREATE TABLE t (n int)')
      await standby.resume()
      await until('the table', withinMs, async () => (await standby.psql(`SELECT to_regclass('t')`)) === 't')
    }
    expect(await server.psql('SELECT count(*) FROM pg_replication_slots')).toBe('0')
  })

  test('behind a proxy, gets what a frozen direction lets through', async () => {
    const server = await sharedPostgres()
    await server.createDatabase('frozen')
    await using proxy = await freezingProxy(server.port)
    const url = Object.assign(new URL(server.url('frozen')), { port: String(proxy.port) }).href
    const count = () => server.psql('SELECT count(*) FROM t', 'frozen')
    {
      await using client = await connected(url)
      await client.query('CREATE TABLE t (n int)')
      proxy.freeze({ toServer: true })
      const unsent = client.query('INSERT INTO t VALUES (1)')
      await until('the statement is held', withinMs, () => proxy.held.toServer > 0)
      expect([isPending(unsent), await count()]).toEqual([true, '0'])
      proxy.thaw()
      await unsent
      proxy.freeze({ toClient: true })
      const unanswered = client.query('INSERT INTO t VALUES (2)')
      await until('the row', withinMs, async () => (await count()) === '2')
      expect(isPending(unanswered)).toBe(true)
      // A new connection is accepted and gets no answer.
      const late = connected(url)
      await until('the connection', withinMs, () => proxy.connections === 2)
      proxy.thaw()
      await unanswered
      await (await late).end()
      const lost = failure(client.query('SELECT pg_sleep(1000)'))
      await proxy.cut()
      await lost
      expect(proxy.connections).toBe(0)
      expect((await failure(connected(url))).message).toContain('ECONNREFUSED')
    }
    await proxy.mend()
    await using client = await connected(url)
    proxy.delay(50)
    const began = performance.now()
    await client.query('SELECT 1')
    expect(performance.now() - began).toBeGreaterThan(49)
  })
})

test('a proxy passes everything on in order, and holds little of what it may not pass', async () => {
  const sent = Buffer.alloc(
    16 * 1024 * 1024,
    Uint8Array.from({ length: 251 }, (_, n) => n),
  )
  const sha = (bytes: Buffer) => new Bun.CryptoHasher('sha256').update(bytes).digest('hex')
  const server = createServer({ allowHalfOpen: true }, socket => {
    const chunks: Buffer[] = []
    socket.on('data', (chunk: Buffer) => chunks.push(chunk))
    socket.on('end', () => socket.end(sha(Buffer.concat(chunks))))
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  await using proxy = await freezingProxy((server.address() as AddressInfo).port)
  proxy.freeze()
  const client = connect({ port: proxy.port, host: '127.0.0.1', allowHalfOpen: true })
  const answer = new Promise<string>((resolve, reject) => {
    let text = ''
    client.on('data', chunk => {
      text += chunk
    })
    client.on('end', () => resolve(text))
    client.on('error', reject)
  })
  client.end(sent)
  const bound = 256 * 1024
  await until('as much is held as may be', withinMs, () => proxy.held.toServer >= bound)
  let looks = 0
  await until('it has had time for more', withinMs, () => ++looks > 10)
  expect(proxy.held.toServer).toBeLessThan(4 * bound)
  proxy.thaw()
  expect(await answer).toBe(sha(sent))
  await until('the connection ends', withinMs, () => proxy.connections === 0)
  expect(proxy.held).toEqual({ toServer: 0, toClient: 0 })
  server.close()
})
