import {
  botId,
  post,
  startBenchService,
  startChild,
  startUpstream,
  temporaryFolder,
  writeSession,
} from './process.ts'
import { type Benchmark, median, medianInterval, percentile, type Row, spread } from './report.ts'

const session = 'shop'
let said = 0

/**
 * Returns the ms from the order to the upstream at `from` to answer a poll with a message until `wait` has
 * read it.
 */
export async function oneDelivery(
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
  const order = post(`${from}/control/say`, { run: 1, n: ++said, to: botId(bot), session: bot })
  const took = (await got) - at
  await order
  return took
}

export const delivery: Benchmark = {
  name: 'delivery',
  compares:
    'ms from the order to the upstream to answer until a waiting reader has read the whole response: a recv of svc, compared with a bare relay that polls, writes one durable row and answers. The p50 is the median of the differences within each pair, with its 95 % interval; the p99 is the difference of the percentiles.',
  async run({ quick, rounds }) {
    const each = quick ? 100 : 300
    using folder = temporaryFolder()
    // Two upstreams keep the bare polls apart from those of the service.
    await using upstream = await startUpstream()
    await using other = await startUpstream()
    writeSession(folder.path, session, upstream.ready)
    await using service = await startBenchService(folder.path, upstream.ready)
    await using relay = await startChild('bare-relay.ts', [folder.path, other.ready])

    const bare = () => oneDelivery(other.ready, '', () => post(relay.ready))
    const ours = () =>
      oneDelivery(upstream.ready, session, () => post(`${service.url}/tools/default/recv`, { timeout: 30 }))
    const times: Record<'bare' | 'ours', number[][]> = { bare: [], ours: [] }
    // The first round only warms up.
    for (let round = -1; round < rounds; round++) {
      const found: [number[], number[]] = [[], []]
      for (let i = 0; i < (round < 0 ? 50 : each); i++) {
        found[0].push(await bare())
        found[1].push(await ours())
      }
      if (round < 0) continue
      times.bare.push(found[0])
      times.ours.push(found[1])
    }
    const row = (p: number, limit: number, extra: number, interval = ''): Row => {
      const [ours, bare] = [times.ours.flat(), times.bare.flat()].map(list => percentile(list, p))
      const extras = times.ours.map((list, i) => percentile(list, p) - percentile(times.bare[i] ?? [], p))
      return {
        name: 'delivery',
        what: `upstream to a waiting recv, p${p * 100}`,
        ours: `${ours!.toFixed(2)} ms`,
        baseline: `${bare!.toFixed(2)} ms`,
        result: `+ ${extra.toFixed(2)} ms${interval}`,
        goal: `≤ + ${limit} ms`,
        met: extra <= limit,
        spread: spread(extras, 2),
      }
    }
    const [ours99, bare99] = [times.ours.flat(), times.bare.flat()].map(list => percentile(list, 0.99))
    const differences = times.ours.flatMap((list, round) =>
      list.map((value, i) => value - (times.bare[round]?.[i] ?? Number.NaN)),
    )
    const [low, high] = medianInterval(differences)
    return [
      row(0.5, 1.5, median(differences), ` (${low.toFixed(2)} … ${high.toFixed(2)})`),
      row(0.99, 5, ours99! - bare99!),
    ]
  },
}
