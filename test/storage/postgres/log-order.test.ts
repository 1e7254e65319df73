/** The order of the log, with several nodes that write: no row appears after a higher one, and none is skipped. */
import { describe, expect, test } from 'bun:test'
import { isPostgresThere } from '../../support/postgres.ts'
import { insert, message } from '../support.ts'
import { follow, writer } from './log-order.ts'
import { databaseOfTest } from './support.ts'

describe.skipIf(!isPostgresThere())('PostgreSQL', () => {
  test('a reader that follows the log of four writers gets every row, in the order of the ids', async () => {
    const place = databaseOfTest()
    await using reader = await place.open()
    await using one = await place.open()
    await using two = await place.open()
    const batches = 25
    for (const name of ['three', 'four']) place.start(writer(name, { batches, size: 3 }))
    const write = async (storage: typeof one, name: string) => {
      for (let nth = 0; nth < batches; nth++) {
        const texts = [0, 1, 2].map(at => `${name} ${3 * nth + at}`)
        await insert(
          { storage },
          texts.map(text => message(text, { message_id: text })),
          name,
          name,
        )
      }
    }
    const [found] = await Promise.all([
      follow(reader, { until: 4 * 3 * batches, limit: 7 }),
      write(one, 'one'),
      write(two, 'two'),
    ])
    const counts = new Map(['one', 'two', 'three', 'four'].map(name => [name, 3 * batches]))
    expect(found).toEqual({ skipped: 0, disordered: 0, counts })
  })
})
