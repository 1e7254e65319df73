import { systemClock } from '../../src/platform/clock.ts'
import { silentLog } from '../../src/platform/log.ts'
import { connectPg, constantSql, sql, toJsonb } from '../../src/platform/postgres.ts'
import { PgDatabase } from '../../src/storage/postgres/database.ts'
import { GramIndexer } from '../../src/storage/postgres/grams.ts'
import { placesPerMessage } from '../../src/storage/postgres/tables.ts'
import { isPostgresThere } from '../../test/support/postgres.ts'
import { type BenchCluster, type BenchSession, startBenchCluster } from './cluster-nodes.ts'
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
import { absentWord, createMessage, createRandom, createText, toWireText } from './texts.ts'

const name = 'cluster'
const nodeCount = 3
const callers = 16
const names = (count: number) => Array.from({ length: count }, (_none, nth) => `shop${nth}`)
let runs = 0

/** One SQLite process and a cluster, with the same sessions, each with an upstream of its own. */
interface Both extends AsyncDisposable {
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
  return { single, singleUpstream, cluster, clusterUpstream, [Symbol.asyncDispose]: () => own.disposeAsync() }
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
  const take = async ({ ready }: Child): Promise<number> => {
    const sessions = all.map(name => ({ name, to: botId(name) }))
    await post(`${ready}/control/backlog`, { run: ++runs, batches, size, users: 200, sessions })
    const { ms } = await post(`${ready}/control/took`)
    return count / (ms / 1000)
  }
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

async function measureDelivery(
  { single, singleUpstream, cluster, clusterUpstream }: Both,
  all: readonly string[],
  turns: number,
  count: number,
): Promise<Row[]> {
  // A reader on the first node; messages come to sessions that the other nodes poll.
  const elsewhere: string[] = []
  for (const session of all) {
    const { version } = await post(`${clusterUpstream.ready}/control/poller`, { session })
    if (!version.endsWith('.1')) elsewhere.push(session)
  }
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

const distinct = 100_000

/** Writes messages, with the index of their texts: as if they had come long ago. */
async function fillHistory(url: string, rows: number): Promise<void> {
  const connection = await connectPg({ url, name: 'bench', answerMs: 3_600_000 })
  const db = new PgDatabase({ url, clock: systemClock, log: silentLog, node: crypto.randomUUID() })
  try {
    const indexes = await connection.all<{
      name: string
      made: string
    }>(sql`SELECT indexname AS name, indexdef AS made
      FROM pg_indexes WHERE tablename IN ('message', 'gram') AND indexname NOT LIKE '%_pkey' AND schemaname = 'svc'`)
    await connection.run(sql`SET statement_timeout = 0`)
    for (const { name } of indexes)
      await connection.script([sql`SET synchronous_commit = off`, constantSql(`DROP INDEX ${name}`)])
    const next = createRandom(1)
    const [first] = await connection.all<{ key: number }>(
      sql`INSERT INTO session (name, name_key) VALUES ('shop', 'shop') RETURNING key`,
    )
    const most = Math.min(rows, distinct)
    for (let n = 0; n < most; ) {
      const all = Array.from({ length: Math.min(5000, most - n) }, () => {
        const message = { ...createMessage(0, n++, botId('shop'), 5000, next), text: createText(next) }
        return { id: n, peer: message.from, at: message.at, text: message.text, raw: toWireText(message) }
      })
      await connection.run(sql`INSERT INTO message (id, message_id, session, sent, bot_id, peer, msg_type, timestamp,
          stored_at, content_hash, text, raw)
        SELECT id, 'm' || id, ${first!.key}, 0, ${botId('shop')}, peer, 'TEXT', at, at, 'h' || id, text, raw
        FROM jsonb_to_recordset(${toJsonb(all)}::jsonb) AS one(id bigint, peer text, at bigint, text text, raw text)`)
    }
    await connection.run(sql`UPDATE head SET last = ${most}, place = ${most * placesPerMessage}`)
    await db.barrier()
    const indexer = new GramIndexer({ db, clock: systemClock, log: silentLog })
    await connection.run(constantSql(indexes.find(({ name }) => name === 'gram_pairs')!.made))
    while (await indexer.step(1, 20_000));
    await connection.run(constantSql('DROP INDEX gram_pairs'))
    // The first element of a row is that of its block.
    await connection.run(sql`INSERT INTO gram SELECT id + nth * ${most}::bigint, ARRAY[(-((id + nth * ${most}::bigint) >> 16) - 1)::integer] || pairs[2:]
      FROM gram CROSS JOIN generate_series(1, ${rows / most - 1}::bigint) AS nth ORDER BY nth, id`)
    await connection.run(sql`INSERT INTO message (id, message_id, session, sent, bot_id, peer, msg_type, timestamp, stored_at,
        content_hash, text, raw)
      SELECT id + nth * ${most}::bigint, 'm' || (id + nth * ${most}::bigint), session, sent, bot_id, peer, msg_type,
        timestamp + nth * ${most}::bigint * 37, stored_at + nth * ${most}::bigint * 37, 'h' || (id + nth * ${most}::bigint), text, raw
      FROM message CROSS JOIN generate_series(1, ${rows / most - 1}::bigint) AS nth ORDER BY nth, id`)
    for (const { made } of indexes) await connection.run(constantSql(made))
    await connection.run(
      sql`INSERT INTO session_bot VALUES (${botId('shop')}, ${first!.key}) ON CONFLICT DO NOTHING`,
    )
    await connection.run(sql`UPDATE head SET last = ${rows}, place = ${rows * placesPerMessage}`)
    await connection.run(sql`UPDATE indexed SET upto = ${rows}`)
    await connection.run(constantSql('VACUUM ANALYZE'))
    await db.barrier()
  } finally {
    await db.close()
    connection.destroy()
  }
}

export const clusterHistory: Benchmark = {
  name: 'cluster-history',
  compares:
    'ms of a whole POST /tools/default/history on a node, one after the other, p50: the newest 50, a word of two Chinese characters, a word of two frequent characters that never stand together. Needs PostgreSQL.',
  async run({ quick, rounds, note }) {
    const count = quick ? 100_000 : 1_000_000
    await using upstream = await startUpstream()
    const from = performance.now()
    await using cluster = await startBenchCluster(upstream.ready, {
      sessions: [{ name: 'other' }],
      nodes: 1,
      fill: url => fillHistory(url, count),
    })
    note(
      `${formatNumber(count)} messages on PostgreSQL: made in ${formatNumber((performance.now() - from) / 1000)} s`,
    )
    const { url } = cluster.nodes[0]!
    const text = createText(createRandom(1))
    const word = /[\u4e00-\u9fff]{2}/.exec(text)![0]
    const kinds = [
      { what: 'newest 50', input: {}, limit: 5 },
      { what: `a word of two characters`, input: { text_contains: word }, limit: 20 },
      { what: 'an absent word', input: { text_contains: absentWord }, limit: 60 },
    ]
    const found: Row[] = []
    for (const { what, input, limit } of kinds) {
      const each: number[] = []
      for (let round = 0; round < Math.min(rounds, 3); round++) {
        const took: number[] = []
        for (let nth = 0; nth < 40; nth++) {
          const at = performance.now()
          const answer = await post(`${url}/tools/default/history`, input)
          took.push(performance.now() - at)
          if ((answer.messages.length === 0) !== (what === 'an absent word'))
            throw new Error(`${what}: wrong`)
        }
        each.push(percentile(took, 0.5))
      }
      found.push({
        name: 'cluster-history',
        what: `${formatNumber(count)} messages: ${what}, p50`,
        ours: `${formatNumber(median(each), 1)} ms`,
        baseline: '–',
        result: `${formatNumber(median(each), 1)} ms`,
        goal: `≤ ${limit} ms`,
        met: median(each) <= limit,
        spread: formatSpread(each),
      })
    }
    return found
  },
}
