/** `./scripts/bench`: runs the named benchmarks (without a name all of them) and prints one table. */
import { cpus, loadavg } from 'node:os'
import process from 'node:process'
import { parseArgs } from 'node:util'
import { raiseFetchLimit } from '../../src/platform/process.ts'
import { binary } from './binary.ts'
import { cluster, clusterIdle, clusterStandby } from './cluster.ts'
import { clusterHistory } from './cluster-history.ts'
import { clusterTakeover } from './cluster-takeover.ts'
import { delivery } from './delivery.ts'
import { growth } from './growth.ts'
import { history } from './history.ts'
import { idle } from './idle.ts'
import { ingest } from './ingest.ts'
import { ingestLarge } from './ingest-large.ts'
import { many } from './many.ts'
import { media } from './media.ts'
import { pairWith } from './pair.ts'
import { panel } from './panel.ts'
import { panelBurst } from './panel-burst.ts'
import { push } from './push.ts'
import { pushLoad } from './push-load.ts'
import { quiet } from './quiet.ts'
import { type Benchmark, type Row, tableOf } from './report.ts'
import { rest } from './rest.ts'
import { send } from './send.ts'

const all: readonly Benchmark[] = [
  rest,
  send,
  many,
  ingest,
  delivery,
  push,
  ...pushLoad,
  media,
  history,
  ingestLarge,
  idle,
  quiet,
  binary,
  panel,
  panelBurst,
  growth,
  cluster,
  clusterHistory,
  clusterIdle,
  clusterStandby,
  clusterTakeover,
]

// Thousands of calls wait at the same time.
raiseFetchLimit()

const { values, positionals } = parseArgs({
  args: process.argv.slice(2),
  allowPositionals: true,
  options: {
    quick: { type: 'boolean', default: false },
    keep: { type: 'boolean', default: false },
    rounds: { type: 'string' },
    help: { type: 'boolean', short: 'h', default: false },
  },
})
// What another version costs is measured only if that version is named.
const ref = positionals[0] === 'pair' ? positionals[1] : undefined
const named = ref === undefined ? positionals : positionals.slice(2)
const unknown = named.filter(name => !all.some(benchmark => benchmark.name === name))
if (values.help || unknown.length > 0) {
  for (const name of unknown) console.error(`there is no benchmark ${name}`)
  console.log(`./scripts/bench [--quick] [--rounds N] [--keep] [name …]
./scripts/bench pair REF

  --quick     small sizes and few rounds, for an impression; goals are not judged
  --rounds N  rounds of baseline and svc (5; quick: 2)
  --keep      keeps the store of 5,000,000 rows in the temporary folder for the next run
`)
  for (const { name, compares } of [...all, pairWith('REF')]) console.log(`${name}\n    ${compares}`)
  process.exit(unknown.length > 0 ? 2 : 0)
}

const chosen =
  ref === undefined
    ? all.filter(({ name }) => named.length === 0 || named.includes(name))
    : [pairWith(ref), ...all.filter(({ name }) => named.includes(name))]
const rounds = Number(values.rounds ?? (values.quick ? 2 : 5))
const rows: Row[] = []
const notes: string[] = []
let failed = 0
for (const benchmark of chosen) {
  const from = performance.now()
  console.error(`${benchmark.name} …`)
  try {
    const { quick, keep } = values
    rows.push(...(await benchmark.run({ quick, keep, rounds, note: text => notes.push(text) })))
    console.error(`${benchmark.name}: ${((performance.now() - from) / 1000).toFixed(0)} s`)
  } catch (error) {
    failed++
    console.error(`${benchmark.name} failed:`, error)
  }
}
const load = loadavg()[0] ?? 0
console.log(
  `\nBun ${Bun.version}, ${cpus().length} × ${cpus()[0]?.model ?? 'unknown processor'}, load ${load.toFixed(1)} at the end${values.quick ? ', quick sizes' : ''}\n`,
)
console.log(tableOf(rows))
console.log(`\nMedians of the rounds; the spread is of single rounds.`)
for (const note of notes) console.log(`- ${note}`)
for (const { name, compares } of chosen) console.log(`- ${name}: ${compares}`)
process.exitCode = failed > 0 || (!values.quick && rows.some(row => !row.met)) ? 1 : 0
