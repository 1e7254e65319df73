import { expect, test } from 'bun:test'
import { runStorm, type StormReport, tableOf } from './storm.ts'

/** The seed of a failing run makes its choices again; `scripts/storm` runs for longer. */
const seed = Number(process.env.STORM_SEED) || Math.floor(Math.random() * 1e9)

async function storm(replay: 'until_advance' | 'never', rounds: number): Promise<StormReport> {
  const report = await runStorm({ rounds, seed, replay, pauseMs: [400, 1100] })
  console.log(`STORM_SEED=${seed}\n${tableOf(report)}`)
  return report
}

test('three processes, killed again and again while upstream replays: every message is in history once and reaches every reader', async () => {
  const report = await storm('until_advance', 20)
  expect(report.violations).toEqual([])
  expect(report).toMatchObject({ missing: 0, pollsAtOnce: 1, integrity: 'ok' })
  expect(report.messages).toBeGreaterThan(100)
  expect(report.consumers.map(one => one.messages)).toEqual(Array(5).fill(report.messages))
}, 300_000)

test('three processes, killed again and again while upstream gives nothing twice: at most the batch in flight of each killed poller is missing', async () => {
  const report = await storm('never', 8)
  expect(report.violations).toEqual([])
  expect(report).toMatchObject({ pollsAtOnce: 1, integrity: 'ok' })
  expect(report.consumers.map(one => one.messages)).toEqual(Array(5).fill(report.messages - report.missing))
  console.log(`${report.missing} of ${report.messages} missing after ${report.pollersKilled} dead pollers`)
}, 300_000)
