/** What several nodes use of the limits of a key. */
import { describe, expect, test } from 'bun:test'
import { isPostgresThere } from '../../support/postgres.ts'
import { openPostgres } from './support.ts'

const dayMs = 24 * 60 * 60_000
const use = (key: string, calls: number, open: number, bytes: number, dayAgeMs = 0) => ({
  ...{ key, calls, open, bytes, dayAgeMs },
})

describe.skipIf(!isPostgresThere())('use of keys on PostgreSQL', () => {
  test('each node learns what the others use; of a node that has ended, only the bytes of the day', async () => {
    await using t = await openPostgres()
    const b = await t.second()
    await using c = await t.second()
    const { keys } = t.store
    expect(await keys.shareUse([use('k', 1.5, 2, 30), use('other', 1, 1, 1)])).toEqual([])
    expect(await b.store.keys.shareUse([use('k', 2, 1, 10, 60_000)])).toMatchObject([
      use('k', 1.5, 2, 30, expect.any(Number)),
    ])
    expect(await c.store.keys.shareUse([use('k', 0, 0, 0)])).toMatchObject([
      use('k', 3.5, 3, 40, expect.any(Number)),
    ])
    // What a node says counts in place of what it said before.
    await keys.shareUse([use('k', 0, 1, 35)])
    const [told] = await c.store.keys.shareUse([use('k', 0, 0, 0)])
    const { dayAgeMs, ...counted } = told!
    expect(counted).toMatchObject({ calls: 2, open: 2, bytes: 45 })
    expect(dayAgeMs).toBeWithin(60_000, 120_000)
    await b[Symbol.asyncDispose]()
    expect(await c.store.keys.shareUse([use('k', 0, 0, 0)])).toMatchObject(
      [use('k', 0, 1, 45)].map(({ dayAgeMs: _, ...rest }) => rest),
    )
    // A day that is over counts no more.
    await keys.shareUse([use('k', 0, 0, 35, dayMs)])
    expect(await c.store.keys.shareUse([use('k', 0, 0, 0)])).toMatchObject([{ key: 'k', open: 0, bytes: 10 }])
  })
})
