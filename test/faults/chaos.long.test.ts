import { expect, test } from 'bun:test'
import { isPostgresThere } from '../support/postgres.ts'
import { type ChaosReport, runChaos, tableOf } from './chaos.ts'

/** The seed of a failing run makes its choices again; `scripts/storm --cluster` runs for longer. */
const seed = Number(process.env.STORM_SEED) || Math.floor(Math.random() * 1e9)

async function chaos(replay: 'until_advance' | 'never', rounds: number): Promise<ChaosReport> {
  const report = await runChaos({ rounds, seed, replay })
  console.log(`STORM_SEED=${seed}\n${tableOf(report)}`)
  return report
}

test.skipIf(!isPostgresThere())(
  'three nodes under faults while upstream replays: every message is stored once, nothing is sent twice, nobody polls without a lease',
  async () => {
    const report = await chaos('until_advance', 20)
    expect(report.violations).toEqual([])
    expect(report).toMatchObject({ missing: 0, storedTwice: 0, sentTwice: 0 })
    expect(report.polls).toMatchObject({ withoutLease: 0, atOnce: 0 })
  },
  900_000,
)

test.skipIf(!isPostgresThere())(
  'three nodes under faults while upstream gives nothing twice: only what the open poll of a node took that was killed, suspended, or lost its lease is missing',
  async () => {
    const report = await chaos('never', 8)
    expect(report.violations).toEqual([])
    expect(report.missing).toBe(report.takenAlong)
  },
  600_000,
)
