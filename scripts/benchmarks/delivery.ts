import {
  botId,
  createTemporaryFolder,
  post,
  startBenchService,
  startChild,
  startUpstream,
  writeSession,
} from './process.ts'
import { type Benchmark, formatSpread, median, medianInterval, percentile, type Row } from './report.ts'

const session = 'shop'
let messageCount = 0

/**
 * Returns the ms from the order to the upstream at `from` to answer a poll with a message until `wait` has
 * read it.
 */
export async function measureDelivery(
  from: string,
  bot: string,
  wait: () => Promise<unknown[]>,
): Promise<number> {
  const got = wait().then(messages => {
    if (messages.length !== 1) throw new Error(`${messages.length} messages`)
    return performance.now()
  })
  await post(`${from}/control/parked`, { count: 1, session: bot })
  // The reader's own request must have arrived too.
  await Bun.sleep(2)
  const at = performance.now()
  const order = post(`${from}/control/say`, { run: 1, n: ++messageCount, to: botId(bot), session: bot })
  const took = (await got) - at
  await order
  return took
}

/** The pause before a message of a conversation: by then caches have cooled down. */
const pauseMs = 50

interface Pair {
  bare: number
  ours: number
}

/** Rounds of pairs, one after the other; the first round only warms up. */
async function pairsOf(
  rounds: number,
  each: number,
  pauseMs: number,
  once: Readonly<Record<keyof Pair, () => Promise<number>>>,
): Promise<Pair[][]> {
  const all: Pair[][] = []
  for (let round = -1; round < rounds; round++) {
    const pairs: Pair[] = []
    for (let i = 0; i < (round < 0 ? 50 : each); i++) {
      await Bun.sleep(pauseMs)
      const bare = await once.bare()
      await Bun.sleep(pauseMs)
      pairs.push({ bare, ours: await once.ours() })
    }
    if (round >= 0) all.push(pairs)
  }
  return all
}

function rowOf(rounds: readonly Pair[][], p: number, limit: number, when = ''): Row {
  const at = (pairs: readonly Pair[], of: (pair: Pair) => number) => percentile(pairs.map(of), p)
  const extraOf = (pairs: readonly Pair[]) => at(pairs, ({ ours }) => ours) - at(pairs, ({ bare }) => bare)
  const all = rounds.flat()
  const differences = all.map(({ bare, ours }) => ours - bare)
  const isMedian = p === 0.5
  const extra = isMedian ? median(differences) : extraOf(all)
  const [low, high] = medianInterval(differences)
  const interval = isMedian ? ` (${low.toFixed(2)} … ${high.toFixed(2)})` : ''
  return {
    name: 'delivery',
    what: `upstream to a waiting recv${when}, p${p * 100}`,
    ours: `${at(all, ({ ours }) => ours).toFixed(2)} ms`,
    baseline: `${at(all, ({ bare }) => bare).toFixed(2)} ms`,
    result: `+ ${extra.toFixed(2)} ms${interval}`,
    goal: `≤ + ${limit} ms`,
    met: extra <= limit,
    spread: formatSpread(rounds.map(extraOf), 2),
  }
}

export const delivery: Benchmark = {
  name: 'delivery',
  compares:
    'ms from the order to the upstream to answer until a waiting reader has read the whole response: a recv of svc, compared with a bare relay that polls, writes one durable row and answers. Measured message after message, and after a pause of 50 ms. The p50 is the median of the differences within each pair, with its 95 % interval; the p99 is the difference of the percentiles.',
  async run({ quick, rounds }) {
    using folder = createTemporaryFolder()
    // Two upstreams keep the bare polls apart from those of the service.
    await using upstream = await startUpstream()
    await using other = await startUpstream()
    writeSession(folder.path, session, upstream.ready)
    await using service = await startBenchService(folder.path, upstream.ready)
    await using relay = await startChild('bare-relay.ts', [folder.path, other.ready])
    const once = {
      bare: () => measureDelivery(other.ready, '', () => post(relay.ready)),
      ours: () =>
        measureDelivery(upstream.ready, session, () =>
          post(`${service.url}/tools/default/recv`, { timeout: 30 }),
        ),
    }
    const quickly = await pairsOf(rounds, quick ? 100 : 300, 0, once)
    const slowly = await pairsOf(rounds, quick ? 20 : 60, pauseMs, once)
    return [
      rowOf(quickly, 0.5, 1.5),
      rowOf(quickly, 0.99, 5),
      rowOf(slowly, 0.5, 1.5, ` after ${pauseMs} ms of quiet`),
    ]
  },
}
