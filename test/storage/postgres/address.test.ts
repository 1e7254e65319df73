/** An address of the database that changes while a node runs. */
import { describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { followStoreUrl } from '../../../src/config/secrets.ts'
import { isSvcError } from '../../../src/model/error.ts'
import { systemClock } from '../../../src/platform/clock.ts'
import { silentLog } from '../../../src/platform/log.ts'
import { openPgStorage } from '../../../src/storage/postgres/open.ts'
import { newDatabase, secret } from '../../support/databases.ts'
import { freezingProxy } from '../../support/freezing-proxy.ts'
import { isPostgresThere, sharedPostgres } from '../../support/postgres.ts'
import { until } from '../../support/until.ts'
import { insert, message } from '../support.ts'

type Config = Parameters<typeof followStoreUrl>[0]

/** The file with the address. */
function addressFile(first: string) {
  const folder = mkdtempSync(join(tmpdir(), 'svc-address-'))
  const storeUrlFile = join(folder, 'store_url')
  const write = (text: string) => writeFileSync(storeUrlFile, text, { mode: 0o600 })
  write(first)
  const url = followStoreUrl({ storeUrlFile } as Config, first)
  return { url, write, [Symbol.dispose]: () => rmSync(folder, { recursive: true }) }
}

test('the whole address is read from its file again; one that is no address changes nothing', () => {
  using file = addressFile('postgres://svc:a@one.example:5432/svc')
  const read = () => new URL((file.url as () => string)())
  file.write('postgres://svc:b%40@two.example:6000/other')
  expect([read().host, read().password, read().pathname]).toEqual(['two.example:6000', 'b%40', '/other'])
  for (const wrong of ['', 'nonsense', 'postgres://one,two/svc']) {
    file.write(wrong)
    expect(read().host).toBe('two.example:6000')
  }
})

describe.skipIf(!isPostgresThere())('PostgreSQL', () => {
  test('a node follows its address to another host, and refuses another store there', async () => {
    await using database = await newDatabase()
    await using other = await newDatabase()
    const { port } = new URL(database.url)
    const storeId = await (await sharedPostgres()).psql(
      'SELECT store_id FROM svc.meta',
      new URL(other.url).pathname.slice(1),
    )
    await using before = await freezingProxy(Number(port))
    await using after = await freezingProxy(Number(port))
    const through = (url: string, proxy: { port: number }) => url.replace(`:${port}/`, `:${proxy.port}/`)
    using file = addressFile(through(database.url, before))
    const storage = await openPgStorage({
      url: file.url,
      secret,
      clock: systemClock,
      log: silentLog,
      maxAgeDays: 0,
      maxCount: 0,
    })
    const works = () =>
      insert({ storage }, [message('x')]).then(
        () => true,
        () => false,
      )
    try {
      expect(await works()).toBe(true)
      file.write(through(database.url, after))
      await before.cut()
      await until('the node works on the new host', 30_000, works)
      await until('it has its lease there', 30_000, () => storage.node.leaseLeftMs > 3000)
      file.write(other.url)
      await after.cut()
      await until('the other store is refused', 30_000, async () => {
        const failure = await storage.store.log.getHead().catch(error => error)
        return isSvcError(failure, 'store_unavailable') && failure.details?.store_id === storeId
      })
      file.write(database.url)
      await until('the node works on its store again', 30_000, works)
    } finally {
      await storage.close()
    }
  }, 120_000)
})
