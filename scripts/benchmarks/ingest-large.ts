import { ingestWithSvc } from './ingest.ts'
import { openLargeStore } from './large-store.ts'
import { startUpstream } from './process.ts'
import { alternate, type Benchmark, createSpeedRow } from './report.ts'

export const ingestLarge: Benchmark = {
  name: 'ingest-large',
  compares: 'the same ingest by svc into a store with millions of rows, compared with an empty one.',
  async run({ quick, rounds, keep, note }) {
    const messages = quick ? 5000 : 20_000
    const rows = quick ? 100_000 : 5_000_000
    await using store = await openLargeStore(rows, keep, note)
    await using upstream = await startUpstream()
    const paired = await alternate(
      rounds,
      () => ingestWithSvc(upstream, messages),
      () => ingestWithSvc(upstream, messages, store.dir),
    )
    const what = `ingest, ${rows.toLocaleString('en-US')} rows in the store`
    return [createSpeedRow(paired, { name: 'ingest-large', what, unit: 'msg/s', goal: 0.8 })]
  },
}
