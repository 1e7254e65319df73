/** Several nodes that write events, keys and lines of the audit log at a time, and share the endpoints. */
import { describe, expect, test } from 'bun:test'
import { connectPg } from '../../../src/platform/postgres.ts'
import { sql } from '../../../src/platform/sql.ts'
import { cursorNumberOf } from '../../../src/storage/events.ts'
import type { NewKey } from '../../../src/storage/keys.ts'
import { isPostgresThere } from '../../support/postgres.ts'
import { until } from '../../support/until.ts'
import { webhook } from '../support.ts'
import { openPostgres } from './support.ts'

const progress = (epoch: number) => ({
  epoch,
  position: 'at-8',
  lanes: [],
  ended: [],
  tries: [],
  health: {},
})
const key = (id: string): NewKey => ({
  ...{
    id,
    name: `key ${id}`,
    hash: '',
    grant: { rights: ['recv'] },
    can: [],
    made_by: 'owner',
    created_at: 5,
  },
})
const ids = Array.from({ length: 60 }, (_, nth) => `wh_${nth}`)
const sorted = (...sets: ReadonlySet<string>[]) => sets.flatMap(set => [...set]).toSorted()
const allOf = [...ids].toSorted()

describe.skipIf(!isPostgresThere())('several nodes on PostgreSQL', () => {
  test('of appends that compare with the same cursor, one wins', async () => {
    await using t = await openPostgres()
    await using other = await t.second()
    for (let round = 0; round < 20; round++) {
      const seen = await t.store.events.getHead()
      const told = { type: 'session.status', session: 's', data: { round } } as const
      const won = await Promise.all(
        [t, other, t, other].map(({ store }) => store.events.append([told], seen)),
      )
      expect(won.filter(Boolean)).toHaveLength(1)
    }
    const { events } = await t.store.events.listAfter('', { limit: 100 })
    expect(events.map(({ data }) => (data as { round: number }).round)).toEqual([...Array(20).keys()])
  })

  test('who follows events, keys or lines of the audit log misses none that another node writes', async () => {
    await using t = await openPostgres()
    await using a = await t.second()
    await using b = await t.second()
    const most = 100
    let isOver = false
    const write = async ({ store }: typeof a, by: string) => {
      for (let nth = 0; nth < most; nth++)
        await Promise.all([
          store.events.append([{ type: 'session.status', session: by, data: { nth } }]),
          store.keys.add(key(`${by}${nth}`)),
          store.audit.add({ at: nth, principal: 'owner', operation: by }),
        ])
    }
    const found = { events: 0, keys: 0, lines: 0 }
    const follow = async () => {
      let [cursor, revision, line] = ['', 0, 0]
      for (let last = false; !last; ) {
        last = isOver
        const page = await t.store.events.listAfter(cursor, { limit: 1000 })
        const changed = await t.store.keys.listChangedSince(revision)
        const lines = await t.store.audit.list({ after: line, limit: 1000 })
        expect(cursorNumberOf(page.cursor)).toBeGreaterThanOrEqual(cursorNumberOf(cursor))
        cursor = page.cursor
        revision = changed.revision
        line = lines.at(-1)?.id ?? line
        found.events += page.events.length
        found.keys += changed.keys.length
        found.lines += lines.length
      }
    }
    await Promise.all([
      follow(),
      Promise.all([write(a, 'a'), write(a, 'c'), write(b, 'b'), write(b, 'd')]).finally(() => {
        isOver = true
      }),
    ])
    expect(found).toEqual({ events: 4 * most, keys: 4 * most, lines: 4 * most })
  })

  test('endpoints are spread over the nodes that poll; each has one node, also while they change hands', async () => {
    await using t = await openPostgres()
    await using other = await t.second()
    for (const id of ids) await t.store.webhooks.add(webhook(id))
    const [one, two] = [t.store.webhooks, other.store.webhooks]
    await t.storage.leases.join()
    const first = await one.progress.takeOver()
    expect(sorted(first)).toEqual(allOf)

    // The new node gets nothing of what the first one still delivers.
    await other.storage.leases.join()
    expect(sorted(await two.progress.takeOver())).toEqual([])
    const kept = await one.progress.takeOver(first)
    expect(sorted(await two.progress.takeOver(new Set()))).toEqual([])
    expect(kept.size).toBeGreaterThan(10)
    expect(kept.size).toBeLessThan(50)

    // What was given up goes over, in a new epoch.
    const [given = ''] = sorted(first).filter(id => !kept.has(id))
    const before = (await one.get(given))!.epoch
    expect(await one.progress.save(given, progress(before))).toBe(true)
    expect(sorted(await one.progress.takeOver(kept))).toEqual(sorted(kept))
    const taken = await two.progress.takeOver(new Set())
    expect(sorted(kept, taken)).toEqual(allOf)
    expect((await two.get(given))!.epoch).toBe(before + 1)
    expect(await one.progress.save(given, progress(before))).toBe(false)
    expect(sorted(await two.progress.takeOver(taken))).toEqual(sorted(taken))
    expect(await two.progress.save(given, progress(before + 1))).toBe(true)

    // A node that leaves leaves all of its own.
    await t.storage.leases.close()
    expect(sorted(await two.progress.takeOver(taken))).toEqual(allOf)
  })

  test('the endpoints of a node that died go to another one, which rejects what it had not stored', async () => {
    await using t = await openPostgres()
    await using other = await t.second()
    await t.store.webhooks.add(webhook('wh_1'))
    await t.storage.leases.join()
    await other.storage.leases.join()
    const first = await t.store.webhooks.progress.takeOver()
    const second = await other.store.webhooks.progress.takeOver()
    expect(sorted(first, second)).toEqual(['wh_1'])
    const [dead, alive] = first.has('wh_1') ? [t, other] : [other, t]
    const { epoch } = (await dead.store.webhooks.get('wh_1'))!
    expect(sorted(await alive.store.webhooks.progress.takeOver(new Set()))).toEqual([])
    // It lives in this test, and may renew its lease.
    await until('another node delivers', 10_000, async () => {
      await endHolder(t.url)
      return (await alive.store.webhooks.progress.takeOver(new Set())).has('wh_1')
    })
    expect(await dead.store.webhooks.progress.save('wh_1', progress(epoch))).toBe(false)
    expect(await alive.store.webhooks.progress.save('wh_1', progress(epoch + 1))).toBe(true)
  })
})

/** Ends the lease of the node that delivers, as if it had died. */
async function endHolder(url: string): Promise<void> {
  const connection = await connectPg({ url, name: 'test', answerMs: 5000 })
  await connection.run(sql`UPDATE node SET lease_until = clock_timestamp() - interval '1 s'
    WHERE id = (SELECT deliverer FROM webhook)`)
  connection.destroy()
}
