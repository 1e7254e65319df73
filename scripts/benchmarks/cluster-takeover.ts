/** Idle accounts on three nodes, one of which is killed. */
import process from 'node:process'
import { isPostgresThere } from '../../test/support/postgres.ts'
import { type BenchCluster, startBenchCluster } from './cluster-nodes.ts'
import { cpuSecondsOf, memoryOf, post, startUpstream, waitUntil } from './process.ts'
import { type Benchmark, formatNumber, type Row, toMib } from './report.ts'

const nodeCount = 3
/** The goal of one node, and of a cluster. */
const usual = 20_000

export const clusterTakeover: Benchmark = {
  name: 'cluster-takeover',
  compares: `three nodes on PostgreSQL with ${usual} idle accounts (CLUSTER_ACCOUNTS=600 for fewer), after their first polls have ended, one of which is killed: s until each of its accounts is polled elsewhere; memory of each, and statements a second, connections, and share of a core of all, before and after. Needs PostgreSQL, a quiet machine, and some more open files than there are accounts (ulimit -n).`,
  async run({ quick, note }) {
    if (!isPostgresThere()) throw new Error('there is no PostgreSQL here')
    const count = Number(process.env.CLUSTER_ACCOUNTS ?? (quick ? 600 : usual))
    const sessions = Array.from({ length: count }, (_none, nth) => ({ name: `shop${nth}` }))
    await using upstream = await startUpstream(['--hold-ms', '30000'])
    const began = performance.now()
    await using cluster = await startBenchCluster(upstream.ready, {
      sessions,
      nodes: nodeCount,
      // One node alone could not open as many connections.
      areLate: true,
    })
    const pollers = () => post(`${upstream.ready}/control/pollers`, { version: '2.4.1' })
    const patienceMs = 600_000
    await waitUntil('all are polled', async () => (await pollers()).all === count || undefined, patienceMs)
    note(`${count} accounts: written and polled after ${formatSeconds(performance.now() - began)}`)
    // The cursor of a first poll is written when it ends, 30 s after it began.
    await Bun.sleep(45_000)
    const rows: Row[] = await measure(cluster, `${count} idle accounts on three nodes`, cluster.nodes)
    const { by } = await pollers()
    const [victim, ...others] = cluster.nodes
    const killed = performance.now()
    process.kill(victim!.pid, 'SIGKILL')
    await waitUntil('all are taken over', async () => (await pollers()).by === 0 || undefined, patienceMs)
    const took = performance.now() - killed
    rows.push({
      ...emptyRow,
      what: `${by} accounts of a node that was killed: until the last one is polled elsewhere`,
      result: formatSeconds(took),
      goal: '≤ 10 s',
      met: took <= 10_000,
    })
    await Bun.sleep(45_000)
    rows.push(...(await measure(cluster, `${count} idle accounts on the two that are left`, others)))
    return rows
  },
}

const emptyRow = { name: 'cluster-takeover', ours: '', baseline: '–', goal: '', met: true, spread: '' }
const formatSeconds = (ms: number) => `${formatNumber(ms / 1000, 1)} s`

async function measure(
  { psql }: BenchCluster,
  about: string,
  nodes: readonly { readonly pid: number }[],
): Promise<Row[]> {
  const statements = async () =>
    Number(
      await psql(`SELECT coalesce(sum(calls), 0) FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
        WHERE d.datname = current_database() AND s.toplevel`),
    )
  const cpu = () => nodes.reduce((sum, { pid }) => sum + cpuSecondsOf(pid), 0)
  const [calls, used, at] = [await statements(), cpu(), performance.now()]
  await Bun.sleep(30_000)
  const seconds = (performance.now() - at) / 1000
  const connections = await psql(`SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name NOT LIKE 'bench%' AND pid <> pg_backend_pid()`)
  const found = {
    'memory of each': nodes.map(({ pid }) => `${formatNumber(toMib(memoryOf(pid).rss))} MiB`).join(', '),
    'statements of all': `${formatNumber(((await statements()) - calls) / seconds, 1)}/s`,
    'share of a core, all': `${formatNumber(((cpu() - used) / seconds) * 100, 1)} %`,
    'connections of all': connections.trim(),
  }
  return Object.entries(found).map(([what, result]) => ({ ...emptyRow, what: `${about}: ${what}`, result }))
}
