import { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { isPostgresThere } from '../../test/support/postgres.ts'
import {
  type BenchCluster,
  type BenchSession,
  startBenchCluster,
  startBenchPostgres,
} from './cluster-nodes.ts'
import {
  botId,
  type Child,
  cpuSecondsOf,
  createTemporaryFolder,
  memoryOf,
  post,
  type Service,
  startBenchService,
  startUpstream,
  waitUntil,
} from './process.ts'
import {
  alternate,
  type Benchmark,
  createSpeedRow,
  formatNumber,
  formatSpread,
  median,
  percentile,
  type Row,
  toMib,
} from './report.ts'
import { runLoad, writeSessionWithUsers } from './send.ts'
import { createMessage, createRandom, toWireText } from './texts.ts'

const name = 'cluster'
const nodeCount = 3
const callers = 16
const names = (count: number) => Array.from({ length: count }, (_none, nth) => `shop${nth}`)
let runs = 0

/** One SQLite process and a cluster, with the same sessions, each with an upstream of its own. */
interface Both extends AsyncDisposable {
  /** The data directory of the SQLite process. */
  folder: string
  single: Service
  singleUpstream: Child
  cluster: BenchCluster
  clusterUpstream: Child
}

async function startBoth(sessions: readonly BenchSession[], nodes = nodeCount): Promise<Both> {
  await using stack = new AsyncDisposableStack()
  const hold = ['--hold-ms', '30000']
  const singleUpstream = stack.use(await startUpstream(hold))
  const clusterUpstream = stack.use(await startUpstream(hold))
  const folder = stack.use(createTemporaryFolder())
  for (const { name, users = 0 } of sessions)
    writeSessionWithUsers(folder.path, name, singleUpstream.ready, users)
  const single = stack.use(await startBenchService(folder.path, singleUpstream.ready))
  const cluster = stack.use(await startBenchCluster(clusterUpstream.ready, { sessions, nodes }))
  for (const { ready } of [singleUpstream, clusterUpstream])
    await post(`${ready}/control/parked`, { count: sessions.length })
  const own = stack.move()
  return {
    folder: folder.path,
    single,
    singleUpstream,
    cluster,
    clusterUpstream,
    [Symbol.asyncDispose]: () => own.disposeAsync(),
  }
}

/** Counts the statements that clients have sent, by a number that is known. */
async function statementsOf({ psql }: BenchCluster): Promise<number> {
  return Number(
    await psql(`SELECT coalesce(sum(calls), 0) FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
      WHERE d.datname = current_database() AND s.toplevel`),
  )
}

export const cluster: Benchmark = {
  name,
  compares:
    'three nodes on one PostgreSQL against one process on SQLite, in turns, with the same sessions: messages/s of backlogs of all sessions, in batches of 100 and of 1; sends/s of 16 callers (pace off); ms from the order to the upstream until a recv that waits on another node is read, at 100 messages/s; and statements that the database is given for each. Needs PostgreSQL.',
  async run({ quick, rounds, note }) {
    if (!isPostgresThere()) throw new Error('there is no PostgreSQL here')
    const turns = Math.min(rounds, 3)
    const sessions = names(quick ? 30 : 60).map(name => ({ name, users: callers * 2 }))
    await using both = await startBoth(sessions)
    const rows: Row[] = []
    rows.push(...(await measureSends(both, turns, quick ? 2 : 5, note)))
    const all = sessions.map(({ name }) => name)
    rows.push(await measureIngest(both, { all, batches: quick ? 2 : 6, size: 100, turns, note }))
    rows.push(await measureIngest(both, { all, batches: quick ? 20 : 100, size: 1, turns, note }))
    rows.push(...(await measureDelivery(both, all, turns, quick ? 300 : 1000)))
    rows.push(measureMemory(both))
    note(await measureDisk(both))
    return rows
  },
}

async function measureSends(
  { single, cluster }: Both,
  turns: number,
  seconds: number,
  note: (text: string) => void,
): Promise<Row[]> {
  const bodyOf = (user: string) => JSON.stringify({ to: user, text: 'an answer', session: 'shop0' })
  const send = '/tools/default/send'
  const onSingle = async (span: number) => {
    const { requests, seconds } = await runLoad(single.url, callers, span, [send, bodyOf('user%n@im.wechat')])
    return requests / seconds
  }
  let requests = 0
  const onCluster = async (span: number) => {
    // Other users on each node: user0 …, user10 …, user20 ….
    const shares = await Promise.all(
      cluster.nodes.map(({ url }, nth) => {
        const count = Math.floor((callers + nodeCount - 1 - nth) / nodeCount)
        return runLoad(url, count, span, [send, bodyOf(`user${nth || ''}%n@im.wechat`)])
      }),
    )
    requests = shares.reduce((sum, share) => sum + share.requests, 0)
    return shares.reduce((sum, share) => sum + share.requests / share.seconds, 0)
  }
  // Long enough for the runtimes to compile what runs often.
  await onSingle(seconds)
  await onCluster(2 * seconds)
  const perSend: number[] = []
  const paired = await alternate(
    turns,
    () => onSingle(seconds),
    async () => {
      const before = await statementsOf(cluster)
      const speed = await onCluster(seconds)
      perSend.push(((await statementsOf(cluster)) - before) / requests)
      return speed
    },
  )
  note(`statements for each send, with what the nodes ask every second: ${formatSpread(perSend)}`)
  return [createSpeedRow(paired, { name, what: `sends, ${callers} callers`, unit: 'send/s', goal: 0.5 })]
}

/** Lets every session get a backlog. @returns messages/s until all are committed */
async function takeBacklog(
  { ready }: Child,
  { all, batches, size }: { all: readonly string[]; batches: number; size: number },
): Promise<number> {
  const sessions = all.map(name => ({ name, to: botId(name) }))
  await post(`${ready}/control/backlog`, { run: ++runs, batches, size, users: 200, sessions })
  const { ms } = await post(`${ready}/control/took`)
  return (all.length * batches * size) / (ms / 1000)
}

async function measureIngest(
  { singleUpstream, cluster, clusterUpstream }: Both,
  options: {
    all: readonly string[]
    batches: number
    size: number
    turns: number
    note(text: string): void
  },
): Promise<Row> {
  const { all, batches, size, turns, note } = options
  const count = all.length * batches * size
  const take = (upstream: Child) => takeBacklog(upstream, options)
  await take(singleUpstream)
  await take(clusterUpstream)
  const perMessage: number[] = []
  const paired = await alternate(
    turns,
    () => take(singleUpstream),
    async () => {
      const before = await statementsOf(cluster)
      const speed = await take(clusterUpstream)
      perMessage.push(((await statementsOf(cluster)) - before) / count)
      return speed
    },
  )
  const what = `ingest, batches of ${size}, ${all.length} sessions`
  note(`${what}: statements for each message: ${formatSpread(perMessage, 2)}`)
  if (size > 1) return createSpeedRow(paired, { name, what, unit: 'msg/s', goal: 0.5 })
  const speed = median(paired.ours)
  return {
    ...createSpeedRow(paired, { name, what, unit: 'msg/s', goal: 0 }),
    goal: '≥ 2,000/s',
    met: speed >= 2000,
  }
}

/** A reader that waits on a node, and what it has got: when, by text. */
function startReader(url: string, consumer: string) {
  const got = new Map<string, number>()
  const leaving = new AbortController()
  const reading = (async () => {
    while (!leaving.signal.aborted) {
      const messages = await post(`${url}/tools/default/recv`, { consumer, timeout: 2 })
      const now = performance.now()
      for (const { text } of messages) got.set(text, now)
    }
  })()
  return {
    got,
    async stop() {
      leaving.abort()
      await reading
    },
  }
}

/** Lets messages come at `perSecond`, one after the other to each session. @returns ms of each until it was read */
async function deliver(
  upstream: Child,
  all: readonly string[],
  count: number,
  perSecond: number,
  { got }: ReturnType<typeof startReader>,
): Promise<number[]> {
  const run = ++runs
  const next = createRandom(run)
  const said = new Map<string, number>()
  const from = performance.now()
  for (let n = 0; n < count; n++) {
    const session = all[n % all.length]!
    const text = `message ${run} ${n}`
    const message = toWireText({ ...createMessage(run, n, botId(session), 1, next), text })
    await Bun.sleep(Math.max(0, from + (n * 1000) / perSecond - performance.now()))
    said.set(text, performance.now())
    void post(`${upstream.ready}/control/say`, { message, run, n, session, wait: true })
  }
  return await waitUntil('all messages are read', async () => {
    const took = [...said].map(([text, at]) => (got.get(text) ?? Number.NaN) - at)
    return took.some(Number.isNaN) ? undefined : took
  })
}

/** Returns the sessions that other nodes than the first one poll. */
async function pollersElsewhere({ ready }: Child, all: readonly string[]): Promise<string[]> {
  await post(`${ready}/control/parked`, { count: all.length })
  const elsewhere: string[] = []
  for (const session of all) {
    const { version } = await post(`${ready}/control/poller`, { session })
    if (!version?.endsWith('.1')) elsewhere.push(session)
  }
  return elsewhere
}

async function measureDelivery(
  { single, singleUpstream, cluster, clusterUpstream }: Both,
  all: readonly string[],
  turns: number,
  count: number,
): Promise<Row[]> {
  const elsewhere = await pollersElsewhere(clusterUpstream, all)
  const alone = startReader(single.url, 'bench')
  const reader = startReader(cluster.nodes[0]!.url, 'bench')
  await Bun.sleep(500)
  const [ours, baseline]: number[][][] = [[], []]
  for (let turn = -1; turn < turns; turn++) {
    const bare = await deliver(singleUpstream, elsewhere, count, 100, alone)
    const took = await deliver(clusterUpstream, elsewhere, count, 100, reader)
    if (turn < 0) continue
    baseline!.push(bare)
    ours!.push(took)
  }
  await Promise.all([alone, reader].map(one => one.stop()))
  return (
    [
      [0.5, 15],
      [0.99, 60],
    ] as const
  ).map(([p, limit]) => {
    const each = ours!.map(took => percentile(took, p))
    return {
      name,
      what: `upstream to a recv that waits on another node, 100 messages/s, p${p * 100}`,
      ours: `${formatNumber(median(each), 1)} ms`,
      baseline: `${formatNumber(median(baseline!.map(took => percentile(took, p))), 1)} ms`,
      result: `${formatNumber(median(each), 1)} ms`,
      goal: `≤ ${limit} ms`,
      met: median(each) <= limit,
      spread: formatSpread(each),
    }
  })
}

/** Returns what a message takes, with its event, its words for searches and its indexes, on both engines. */
async function measureDisk({ cluster, folder }: Both): Promise<string> {
  using db = new Database(join(folder, 'messages.db'), { readonly: true })
  const { count = 0 } = db.query<{ count: number }, []>('SELECT count(*) AS count FROM message').get() ?? {}
  const { size = 0 } =
    db
      .query<{ size: number }, []>(
        'SELECT page_count * page_size AS size FROM pragma_page_count, pragma_page_size',
      )
      .get() ?? {}
  const each =
    await cluster.psql(`SELECT round(sum(pg_total_relation_size(c.oid)) / (SELECT count(*) FROM svc.message))
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'svc' AND c.relkind = 'r'`)
  return `bytes on disk for each of ${formatNumber(count)} messages: SQLite ${formatNumber(size / count)}, PostgreSQL ${each.trim()}`
}

function measureMemory({ single, cluster }: Both): Row {
  const bare = toMib(memoryOf(single.pid).rss)
  const each = cluster.nodes.map(({ pid }) => toMib(memoryOf(pid).rss))
  return {
    name,
    what: 'memory of a node after that',
    ours: `${formatNumber(median(each), 1)} MiB`,
    baseline: `${formatNumber(bare, 1)} MiB`,
    result: `+ ${formatNumber(median(each) - bare, 1)} MiB`,
    goal: '≤ + 25 MiB',
    met: median(each) - bare <= 25,
    spread: formatSpread(each),
  }
}

export const clusterStandby: Benchmark = {
  name: 'cluster-standby',
  compares:
    'three nodes on a PostgreSQL without a standby, against the same with a synchronous standby that is 0, 5 and 20 ms away: messages/s of backlogs of all sessions, in batches of 1 and of 100; ms from the order to the upstream until a recv that waits on another node is read, at 100 messages/s. Needs PostgreSQL.',
  async run({ quick }) {
    const all = names(quick ? 30 : 60)
    const found: { far: string; speeds: number[]; waits: number[] }[] = []
    for (const delayMs of [undefined, 0, 5, 20]) {
      await using postgres = await startBenchPostgres()
      await using _standby =
        delayMs === undefined ? undefined : await postgres.createStandby({ synchronous: true, delayMs })
      await using upstream = await startUpstream(['--hold-ms', '30000'])
      await using cluster = await startBenchCluster(upstream.ready, {
        sessions: all.map(name => ({ name })),
        postgres,
      })
      await post(`${upstream.ready}/control/parked`, { count: all.length })
      const speeds: number[] = []
      for (const [size, batches] of [
        [1, quick ? 20 : 60],
        [100, quick ? 2 : 6],
      ] as const) {
        await takeBacklog(upstream, { all, batches, size })
        speeds.push(await takeBacklog(upstream, { all, batches, size }))
      }
      const elsewhere = await pollersElsewhere(upstream, all)
      const reader = startReader(cluster.nodes[0]!.url, 'bench')
      await Bun.sleep(500)
      await deliver(upstream, elsewhere, 300, 100, reader)
      const waits = await deliver(upstream, elsewhere, quick ? 300 : 1000, 100, reader)
      await reader.stop()
      found.push({ far: delayMs === undefined ? 'no standby' : `${delayMs} ms away`, speeds, waits })
    }
    const [bare, ...others] = found
    return others.flatMap(({ far, speeds, waits }) => [
      ...['batches of 1', 'batches of 100'].map((what, nth) => ({
        name: 'cluster-standby',
        what: `standby ${far}: ingest, ${what}`,
        ours: `${formatNumber(speeds[nth]!)} msg/s`,
        baseline: `${formatNumber(bare!.speeds[nth]!)} msg/s`,
        result: formatNumber(speeds[nth]! / bare!.speeds[nth]!, 2),
        goal: '',
        met: true,
        spread: '',
      })),
      ...[0.5, 0.99].map(p => ({
        name: 'cluster-standby',
        what: `standby ${far}: recv on another node, 100 messages/s, p${p * 100}`,
        ours: `${formatNumber(percentile(waits, p), 1)} ms`,
        baseline: `${formatNumber(percentile(bare!.waits, p), 1)} ms`,
        result: `${formatNumber(percentile(waits, p), 1)} ms`,
        goal: '',
        met: true,
        spread: '',
      })),
    ])
  },
}

export const clusterIdle: Benchmark = {
  name: 'cluster-idle',
  compares:
    'one node on PostgreSQL with 5,000 idle accounts against a process on SQLite with as many, after their first polls have ended: statements a second, and share of a core. Needs PostgreSQL and some 12,000 open files (ulimit -n).',
  async run({ quick }) {
    const count = quick ? 500 : 5000
    await using both = await startBoth(
      names(count).map(name => ({ name, users: 1 })),
      1,
    )
    const { single, cluster } = both
    const node = cluster.nodes[0]!
    // A first poll is held for 30 s, and its cursor is written.
    await Bun.sleep(quick ? 35_000 : 70_000)
    const [before, at] = [await statementsOf(cluster), performance.now()]
    const cpu = [single, node].map(({ pid }) => cpuSecondsOf(pid))
    await Bun.sleep(30_000)
    const seconds = (performance.now() - at) / 1000
    const [bare, own] = [single, node].map(
      ({ pid }, nth) => ((cpuSecondsOf(pid) - cpu[nth]!) / seconds) * 100,
    )
    const statements = ((await statementsOf(cluster)) - before) / seconds
    const about = `${count} idle accounts on a node`
    return [
      {
        name: 'cluster-idle',
        what: `${about}: statements`,
        ours: `${formatNumber(statements, 1)}/s`,
        baseline: '–',
        result: `${formatNumber(statements, 1)}/s`,
        goal: '≤ 50/s',
        met: statements <= 50,
        spread: '',
      },
      {
        name: 'cluster-idle',
        what: `${about}: share of a core`,
        ours: `${formatNumber(own!, 1)} %`,
        baseline: `${formatNumber(bare!, 1)} %`,
        result: formatNumber(own! / bare!, 2),
        goal: '≤ 2',
        met: own! / bare! <= 2,
        spread: '',
      },
    ]
  },
}
