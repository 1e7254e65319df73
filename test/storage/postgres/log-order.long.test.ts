/** The order of the log of many writers that are killed. */
import { describe, expect, test } from 'bun:test'
import { isPostgresThere } from '../../support/postgres.ts'
import { follow, writer } from './log-order.ts'
import { databaseOfTest } from './support.ts'

const rows = Number(process.env.LOG_ROWS) || 1_000_000
const [writers, size] = [5, 250]

describe.skipIf(!isPostgresThere())('PostgreSQL', () => {
  test(`${rows} rows of ${writers} writers, which are killed again and again: none is skipped, none that was confirmed is lost`, async () => {
    const place = databaseOfTest()
    await using reader = await place.open()
    const stop = new AbortController()
    const confirmed = new Map<string, number>()
    let [stored, kills] = [0, 0]
    /** Writes under a new name each time: one that is killed leaves off somewhere. */
    const work = async (nth: number) => {
      for (let life = 0; stored < rows; life++) {
        const name = `w${nth}-${life}`
        const child = place.start(writer(name, { batches: rows, size }))
        const most = size * Math.ceil((rows / writers / size / 4) * (0.5 + Math.random()))
        let text = ''
        for await (const bytes of child.stdout) {
          text += new TextDecoder().decode(bytes)
          const lines = text.split('\n')
          text = lines.pop() ?? ''
          const last = Number(lines.at(-1) ?? 0)
          if (last === 0) continue
          stored += last - (confirmed.get(name) ?? 0)
          confirmed.set(name, last)
          if (last < most && stored < rows) continue
          kills += 1
          child.kill('SIGKILL')
          break
        }
        await child.exited
      }
    }
    const all = Promise.all(Array.from({ length: writers }, (_, nth) => work(nth))).then(() => stop.abort())
    const found = await follow(reader, { until: Number.POSITIVE_INFINITY, limit: 1000, stop: stop.signal })
    await all
    const lost = [...confirmed].filter(([name, count]) => (found.counts.get(name) ?? 0) < count)
    expect({ ...found, counts: undefined, lost }).toEqual({
      skipped: 0,
      disordered: 0,
      counts: undefined,
      lost: [],
    })
    expect(kills).toBeGreaterThanOrEqual(writers)
  }, 1_800_000)
})
