/**
 * Compares the processor time of a send with that of another version of svc: `./scripts/bench pair REF`. Both run at the
 * same time and get the same load in turns, so that a slow moment of the machine slows both. Time that passes says less:
 * single runs of one version differ by a quarter.
 */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { isPostgresThere } from '../../test/support/postgres.ts'
import {
  cpuSecondsOf,
  createTemporaryFolder,
  post,
  root,
  type Service,
  startBenchService,
  startUpstream,
} from './process.ts'
import { alternate, type Benchmark, createCostRow, type Row } from './report.ts'
import { runLoad, writeSessionWithUsers } from './send.ts'

/** A version: its folder, and what starts it on PostgreSQL, since each version writes its own tables. */
interface Tree {
  folder: string
  startBenchCluster: typeof import('./cluster-nodes.ts').startBenchCluster
}

interface Setting {
  what: string
  sessions: number
  isByKey?: boolean
  isOnPostgres?: boolean
}

/** A running version, and the key that its callers have. */
interface Started {
  service: Service
  key: string | undefined
  /** The id of a user is this and the number of the caller. */
  users: string
}

const settings: readonly Setting[] = [
  { what: 'one session', sessions: 1 },
  { what: 'with a key', sessions: 1, isByKey: true },
  { what: '10 sessions', sessions: 10 },
  { what: 'PostgreSQL', sessions: 1, isOnPostgres: true },
]
const callerCounts = [1, 16]
const maxCallers = 16

const treeIn = async (folder: string): Promise<Tree> => {
  const clusters = await import(join(folder, 'scripts/benchmarks/cluster-nodes.ts'))
  return { folder, startBenchCluster: clusters.startBenchCluster }
}

/** Writes the files of a version into a folder, and installs what it needs. */
async function writeTree(ref: string, folder: string): Promise<void> {
  mkdirSync(folder)
  const archive = Bun.spawn(['git', 'archive', ref], { cwd: root, stdout: 'pipe', stderr: 'inherit' })
  const unpacked = Bun.spawn(['tar', '-x', '-C', folder], { stdin: archive.stdout, stderr: 'inherit' })
  const isThere = (await archive.exited) === 0 && (await unpacked.exited) === 0
  if (!isThere) throw new Error(`git has no files of "${ref}"`)
  const program = Bun.spawn([join(folder, 'scripts/svc'), '--version'], {
    stdout: 'ignore',
    stderr: 'inherit',
  })
  if ((await program.exited) !== 0) throw new Error(`svc of "${ref}" does not start`)
}

async function start(
  tree: Tree,
  upstream: string,
  setting: Setting,
  stack: AsyncDisposableStack,
): Promise<Started> {
  const names = Array.from({ length: setting.sessions }, (_none, nth) => `shop${nth}`)
  const countOf = (nth: number) => (nth === 0 ? maxCallers : 0)
  if (setting.isOnPostgres) {
    const sessions = names.map((name, nth) => ({ name, users: countOf(nth) }))
    const cluster = stack.use(await tree.startBenchCluster(upstream, { sessions, nodes: 1 }))
    return { service: cluster.nodes[0]!, key: undefined, users: 'user' }
  }
  const folder = stack.use(createTemporaryFolder())
  for (const [nth, name] of names.entries()) writeSessionWithUsers(folder.path, name, upstream, countOf(nth))
  const command = [process.execPath, join(tree.folder, 'src/main.ts')]
  const service = stack.use(await startBenchService(folder.path, upstream, { command }))
  const made = setting.isByKey
    ? await post(`${service.url}/keys`, { name: 'caller', can: ['reply'] })
    : undefined
  return { service, key: made?.key, users: 'o9cqAbCd' }
}

/** Returns the processor time of one send, of all threads, in ms. */
async function measure({ service, key, users }: Started, callers: number, seconds: number): Promise<number> {
  const body = JSON.stringify({ to: `${users}%n@im.wechat`, text: 'an answer' })
  const before = cpuSecondsOf(service.pid)
  const { requests } = await runLoad(service.url, callers, seconds, ['/tools/default/send', body], key)
  return ((cpuSecondsOf(service.pid) - before) * 1000) / requests
}

export const pairWith = (ref: string): Benchmark => ({
  name: 'pair',
  compares: `ms of processor time of a send, all threads of the service together, compared with ${ref}: both run, and get the load in turns. The spread is of the ratios of single turns.`,
  async run({ quick, rounds }) {
    const seconds = quick ? 1 : 2
    using folder = createTemporaryFolder()
    const other = join(folder.path, 'tree')
    await writeTree(ref, other)
    const [ours, theirs] = [await treeIn(root), await treeIn(other)]
    const rows: Row[] = []
    for (const setting of settings) {
      if (setting.isOnPostgres && !isPostgresThere()) continue
      await using stack = new AsyncDisposableStack()
      const upstream = stack.use(await startUpstream())
      const now = await start(ours, upstream.ready, setting, stack)
      const before = await start(theirs, upstream.ready, setting, stack)
      for (const callers of callerCounts) {
        // Long enough for the runtime to compile what runs often.
        for (const one of [before, now]) await measure(one, callers, 2 * seconds)
        const paired = await alternate(
          2 * rounds,
          () => measure(before, callers, seconds),
          () => measure(now, callers, seconds),
        )
        const what = `send, ${setting.what}, ${callers} caller${callers > 1 ? 's' : ''}`
        rows.push(createCostRow(paired, { name: 'pair', what, unit: 'ms', goal: 1, digits: 2 }))
      }
    }
    return rows
  },
})
