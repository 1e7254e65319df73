/** Versions of svc on one database: the tables are made once, grow while older nodes work, and shut older nodes out at last. */
import { describe, expect, test } from 'bun:test'
import { openPgSnapshot } from '../../../src/migrate/store/postgres-side.ts'
import type { SvcError } from '../../../src/model/error.ts'
import { systemClock } from '../../../src/platform/clock.ts'
import { createLog, silentLog } from '../../../src/platform/log.ts'
import { PgInspection } from '../../../src/storage/postgres/inspection.ts'
import { openPgStorage, type PgStorage } from '../../../src/storage/postgres/open.ts'
import { formAfter, steps } from '../../../src/storage/postgres/schema.ts'
import { unreleasedForms } from '../../../src/storage/unreleased.ts'
import { newDatabase, secret } from '../../support/databases.ts'
import { failure } from '../../support/failure.ts'
import { isPostgresThere, sharedPostgres } from '../../support/postgres.ts'
import { until } from '../../support/until.ts'
import { insert, message } from '../support.ts'

/** What later versions would add. */
const expand = [
  ...steps,
  `ALTER TABLE message ADD COLUMN mood text; CREATE INDEX message_mood ON message (mood, id);`,
]
const contract = [
  ...expand,
  `UPDATE meta SET min_reader = ${formAfter(expand.length)}; DROP INDEX message_mood;`,
]

const open = (url: string, known: readonly string[] = steps, log = silentLog): Promise<PgStorage> =>
  openPgStorage({ url, secret, clock: systemClock, log, maxAgeDays: 0, maxCount: 0, steps: known })

describe.skipIf(!isPostgresThere())('versions on one database', () => {
  test('eight nodes that open an empty database at once all get it; each step is said once at most', async () => {
    const server = await sharedPostgres()
    const name = `empty_${crypto.randomUUID().slice(0, 8)}`
    await server.createDatabase(name)
    const lines: string[] = []
    const log = createLog('INFO', line => void lines.push(line))
    const all = await Promise.all(Array.from({ length: 8 }, () => open(server.url(name), steps, log)))
    const said = lines.join('').split('the tables of the store were updated').length - 1
    expect(said).toBeGreaterThanOrEqual(1)
    expect(said).toBeLessThanOrEqual(steps.length)
    expect(await server.psql('SELECT count(*) FROM svc.node', name)).toBe('8')
    await Promise.all(all.map(storage => storage.close()))
    await server.dropDatabase(name)
  }, 60_000)

  test('what a version before the first release made is refused, and stays as it is', async () => {
    await using database = await newDatabase()
    const { url } = database
    await (await open(url)).close()
    const server = await sharedPostgres()
    const name = new URL(url).pathname.slice(1)
    await server.psql(`UPDATE svc.meta SET form = ${unreleasedForms}, min_reader = 1`, name)
    const refused = { code: 'store_unavailable', hint: expect.stringContaining('svc store aside') }
    expect(await failure(open(url))).toMatchObject(refused)
    const snapshot = openPgSnapshot({ url, secret, clock: systemClock, log: silentLog })
    expect(await failure(snapshot)).toMatchObject(refused)
    expect(await new PgInspection(url).readStoreStats()).toMatchObject({ form: unreleasedForms, messages: 0 })
    expect(await server.psql('SELECT form, min_reader FROM svc.meta', name)).toBe(`${unreleasedForms}|1`)
  })

  test('an update under load, then the end of the older version', async () => {
    await using database = await newDatabase()
    const { url } = database
    const lines: string[] = []
    const old = await open(
      url,
      steps,
      createLog('DEBUG', line => void lines.push(line)),
    )
    let stopped = false
    /** What the store confirmed. */
    const written = ['another']
    /** Writes and reads until the end, as nodes do. @returns why it ended */
    const work = async (storage: PgStorage, name: string): Promise<unknown> => {
      for (let nth = 0; !stopped; nth++) {
        try {
          await insert({ storage }, [message(`${name} ${nth}`, { message_id: `${name}${nth}` })])
          written.push(`${name} ${nth}`)
          await storage.store.log.listAfter(0, { limit: 20 })
          await storage.store.events.listAfter('', { limit: 20 })
        } catch (error) {
          return error
        }
      }
      return undefined
    }
    const working = (storage: PgStorage, name: string) =>
      Promise.all([1, 2].map(nth => work(storage, `${name}${nth}-`)))
    const ofOld = working(old, 'old')
    await until('the old one works', 10_000, () => written.length > 20)

    // Expand: the next version comes while the old one works, and both go on.
    const next = await open(url, expand)
    const ofNext = working(next, 'next')
    const another = await open(url)
    const before = written.length
    await until('both work', 10_000, () => written.length > before + 50)
    await insert({ storage: another }, [message('another')])

    // Contract: the version after that shuts the first one out, not the second.
    const last = await open(url, contract)
    const ofLast = working(last, 'last')
    const { code, problem } = (await failure(open(url))) as SvcError
    expect(code).toBe('store_unavailable')
    // Each is refused for the same reason.
    for (const error of await ofOld) expect(error).toMatchObject({ code, problem })
    const refusal = await until('the idle one is refused', 10_000, () =>
      another.store.log.listAfter(0, { limit: 1 }).then(
        () => undefined,
        error => error,
      ),
    )
    expect(refusal).toMatchObject({ code, problem })
    expect(lines.join('')).toContain('this node stops serving')
    const then = written.length
    await until('the others work', 10_000, () => written.length > then + 50)
    const server = await sharedPostgres()
    const left = await server.psql('SELECT count(*) FROM svc.node', new URL(url).pathname.slice(1))
    expect(left).toBe('2')
    stopped = true
    expect([...(await ofNext), ...(await ofLast)]).toEqual([undefined, undefined, undefined, undefined])
    // Nothing that any of them wrote is missing.
    const { rows } = await last.store.log.search({ limit: 10_000, offset: 0 }, new AbortController().signal)
    const texts = new Set(rows.map(({ text }) => text))
    expect(written.filter(text => !texts.has(text))).toEqual([])
    await Promise.all([old, another, next, last].map(storage => storage.close()))
  }, 60_000)
})
