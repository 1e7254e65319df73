/** What becomes of the log when a standby takes over from a primary that failed. */
import { describe, expect, test } from 'bun:test'
import { systemClock } from '../../../src/platform/clock.ts'
import { createLog } from '../../../src/platform/log.ts'
import type { LoggedEvent } from '../../../src/storage/events.ts'
import { openPgStorage, type PgStorage } from '../../../src/storage/postgres/open.ts'
import { secret } from '../../support/databases.ts'
import { failure } from '../../support/failure.ts'
import { freezingProxy } from '../../support/freezing-proxy.ts'
import { isPostgresThere, type StandbyOptions, startPostgres } from '../../support/postgres.ts'
import { until } from '../../support/until.ts'
import { insert, message } from '../support.ts'

const withinMs = 60_000

/** Nodes on a primary with a standby. */
async function openSite(size: number, options: StandbyOptions) {
  await using stack = new AsyncDisposableStack()
  const primary = stack.use(await startPostgres())
  await primary.createDatabase('svc')
  const standby = stack.use(await primary.createStandby(options))
  const proxy = stack.use(await freezingProxy(primary.port))
  const url = Object.assign(new URL(primary.url('svc')), { port: String(proxy.port) }).href
  const lines: string[] = []
  const log = createLog('DEBUG', line => void lines.push(line))
  const nodes: PgStorage[] = []
  for (let nth = 0; nth < size; nth++) {
    const storage = await openPgStorage({ url, secret, clock: systemClock, log, maxAgeDays: 0, maxCount: 0 })
    stack.defer(() => storage.close())
    nodes.push(storage)
  }
  const own = stack.move()
  return {
    nodes,
    standby,
    lines,
    /** The primary fails, the standby takes over, and the address leads to it. */
    async failOver() {
      await primary.kill()
      await standby.promote()
      await proxy.cut()
      proxy.retarget(standby.port)
      await proxy.mend()
    },
    /** Stores messages; others, if that fails. @returns their rows */
    store: (node: PgStorage, ...texts: string[]) =>
      until('a message is stored', withinMs, () =>
        insert(
          { storage: node },
          texts.map(text => message(text)),
        ).then(
          rows => rows.map(Number),
          () => undefined,
        ),
      ),
    [Symbol.asyncDispose]: () => own.disposeAsync(),
  }
}

/** Reads events to the end. A page may be empty before it. @throws if some are lost */
async function readOn({ events }: PgStorage['store'], from: string) {
  const all: LoggedEvent[] = []
  for (let cursor = from; ; ) {
    const page = await events.listAfter(cursor, { limit: 10 })
    if (page.gone) throw new Error(`events after ${cursor} are lost`)
    if (page.cursor === cursor) return { cursor, events: all }
    all.push(...page.events)
    cursor = page.cursor
  }
}

describe.skipIf(!isPostgresThere())('when a standby takes over', () => {
  test('nothing is lost of what was confirmed or read, if it was synchronous', async () => {
    await using site = await openSite(3, { synchronous: true, delayMs: 20 })
    const [reader, ...writers] = site.nodes as [PgStorage, ...PgStorage[]]
    const rows = new Map<number, string | undefined>()
    const stopping = new AbortController()
    const write = async (storage: PgStorage, name: string) => {
      for (let nth = 0; !stopping.signal.aborted; nth++) {
        const one = message(`${name} ${nth}`)
        // What fails was not confirmed.
        const stored = await insert({ storage }, [one]).catch(() => [])
        for (const id of stored) rows.set(Number(id), one.message_id)
      }
    }
    const read = async () => {
      for (let last = 0; !stopping.signal.aborted; ) {
        const found = await reader.store.log.listAfter(last, { limit: 100 }).catch(() => [])
        for (const { id, message_id } of found) rows.set(id, message_id)
        last = found.at(-1)?.id ?? last
        await Bun.sleep(1)
      }
    }
    const working = [
      read(),
      ...writers.flatMap((node, nth) => [0, 1, 2, 3].map(of => write(node, `${nth}.${of}`))),
    ]
    await until('there is something to lose', withinMs, () => rows.size > 500)
    await site.failOver()
    stopping.abort()
    await Promise.all(working)
    const before = Math.max(...rows.keys())
    const [next] = await site.store(reader, 'after it')
    expect(next!).toBeGreaterThan(before)
    const ids = [...rows.keys()]
    const found = await reader.store.log.getByIds(ids)
    expect(
      new Map(found.map(({ id, message_id }): [number, string | undefined] => [id, message_id])),
    ).toEqual(new Map([...rows].toSorted(([one], [other]) => one - other)))
  }, 180_000)

  test('no id is given twice, readers of what was lost are told so, and the log says it, if it was asynchronous', async () => {
    await using site = await openSite(2, { synchronous: false, delayMs: 0 })
    const [one, other] = site.nodes as [PgStorage, PgStorage]
    const kept = await site.store(one, 'kept')
    const { cursor: known } = await one.store.events.listAfter('', { limit: 10 })
    const isKept = `SELECT count(*) FROM svc.message`
    await until('the standby has it', withinMs, async () => (await site.standby.psql(isKept, 'svc')) === '1')
    site.standby.replication?.freeze()
    const lost = await site.store(one, 'lost', 'lost as well')
    const { cursor: beyond, events } = await one.store.events.listAfter(known, { limit: 10 })
    expect(events.map(({ message }) => message)).toEqual(lost)

    await site.failOver()
    const [next] = await site.store(other, 'after it')
    expect(next!).toBeGreaterThan(lost.at(-1)! + 1000)
    for (const { store } of site.nodes) {
      expect((await store.log.listAfter(0, { limit: 10 })).map(({ id }) => id)).toEqual(
        expect.arrayContaining([kept[0]!, next!]),
      )
      // Both stand at the same place now, one of them on what is lost.
      expect(await store.events.listAfter(beyond, { limit: 10 })).toMatchObject({ gone: true })
      const after = await readOn(store, known)
      expect(after.events.map(({ message }) => message)).toContain(next!)
      expect((await store.events.listAfter(after.cursor, { limit: 10 })).gone).toBeUndefined()
    }
    const told = () => site.lines.filter(line => line.includes('data may be lost')).length === 2
    await until('both nodes have said it', withinMs, told)
  }, 180_000)

  test('a server that does not write durably is refused', async () => {
    await using server = await startPostgres({ settings: { fsync: 'off' } })
    await server.createDatabase('svc')
    const opened = openPgStorage({
      ...{ url: server.url('svc'), secret, clock: systemClock, log: createLog('ERROR', () => {}) },
      ...{ maxAgeDays: 0, maxCount: 0 },
    })
    expect(await failure(opened)).toMatchObject({ code: 'store_unavailable', hint: 'Set fsync = on.' })
  })
})
