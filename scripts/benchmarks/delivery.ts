import { botId, post, startBenchService, startUpstream, temporaryFolder, writeSession } from './process.ts'
import { type Benchmark, percentile, type Row, spread } from './report.ts'

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
    'ms from the order to the upstream to answer until a waiting reader has read the whole response: a recv of svc (which stores the message durably), compared with a long poll of the same upstream by the same reader. The result is the difference of the percentiles; its spread is that of the rounds.',
  async run({ quick, rounds }) {
    const each = quick ? 100 : 300
    using folder = temporaryFolder()
    // Two upstreams keep the bare polls apart from those of the service.
    await using upstream = await startUpstream()
    await using other = await startUpstream()
    writeSession(folder.path, session, upstream.ready)
    await using service = await startBenchService(folder.path, upstream.ready)

    const bare = () =>
      oneDelivery(other.ready, '', async () => {
        const reply = await post(`${other.ready}/ilink/bot/getupdates`, { get_updates_buf: '' })
        return reply.msgs
      })
    const ours = () =>
      oneDelivery(upstream.ready, session, () => post(`${service.url}/tools/default/recv`, { timeout: 30 }))
    for (let i = 0; i < 50; i++) {
      await bare()
      await ours()
    }
    const times: Record<'bare' | 'ours', number[][]> = { bare: [], ours: [] }
    for (let round = 0; round < rounds; round++) {
      const found: [number[], number[]] = [[], []]
      for (let i = 0; i < each; i++) {
        found[0].push(await bare())
        found[1].push(await ours())
      }
      times.bare.push(found[0])
      times.ours.push(found[1])
    }
    const row = (p: number, limit: number): Row => {
      const [ourAll, bareAll] = [times.ours.flat(), times.bare.flat()].map(list => percentile(list, p))
      const extra = ourAll! - bareAll!
      const extras = times.ours.map((list, i) => percentile(list, p) - percentile(times.bare[i] ?? [], p))
      return {
        name: 'delivery',
        what: `upstream to a waiting recv, p${p * 100}`,
        ours: `${ourAll!.toFixed(2)} ms`,
        baseline: `${bareAll!.toFixed(2)} ms`,
        result: `+ ${extra.toFixed(2)} ms`,
        goal: `≤ + ${limit} ms`,
        met: extra <= limit,
        spread: spread(extras, 2),
      }
    }
    return [row(0.5, 1), row(0.99, 5)]
  },
}
