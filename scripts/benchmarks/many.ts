import { measureDelivery } from './delivery.ts'
import { createTemporaryFolder, memoryOf, post, startBenchService, startUpstream } from './process.ts'
import { type Benchmark, formatNumber, formatSpread, median, type Row, toMib } from './report.ts'
import { runLoad, writeSessionWithUsers } from './send.ts'

type Size = readonly [users: number, accounts: number]

const few: Size = [10, 1]
const sizes: readonly { what: string; size: Size }[] = [
  { what: '1,000 users', size: [1000, 1] },
  { what: '20,000 users', size: [20_000, 1] },
  { what: '1,500 accounts', size: [10, 1500] },
  { what: '5,000 accounts', size: [10, 5000] },
]

interface Measurement {
  send: number
  delivery: number
  healthz: number
  sessions: number
  mib: number
}

/** Measures ms at p50 with one caller and this many users or accounts, and then the service's memory. */
async function measureSize([users, accounts]: Size, seconds: number): Promise<Measurement> {
  using folder = createTemporaryFolder()
  await using upstream = await startUpstream(['--hold-ms', '300000'])
  writeSessionWithUsers(folder.path, 'shop', upstream.ready, users)
  for (let nth = 1; nth < accounts; nth++)
    writeSessionWithUsers(folder.path, `other${nth}`, upstream.ready, 0)
  await using service = await startBenchService(folder.path, upstream.ready)
  await post(`${upstream.ready}/control/parked`, { count: accounts })
  const timed = async (call: [path: string, body: string]) => {
    await runLoad(service.url, 1, 1, call)
    return (await runLoad(service.url, 1, seconds, call)).p50
  }
  const deliveries: number[] = []
  for (let nth = 0; nth < 60; nth++)
    deliveries.push(
      await measureDelivery(upstream.ready, 'shop', () =>
        post(`${service.url}/tools/default/recv`, { timeout: 30 }),
      ),
    )
  const send = await timed([
    '/tools/default/send',
    JSON.stringify({ to: 'user0@im.wechat', text: 'an answer' }),
  ])
  const healthz = await timed(['/healthz', ''])
  const sessions = await timed(['/tools/default/sessions', '{}'])
  return {
    send,
    healthz,
    sessions,
    delivery: median(deliveries.slice(20)),
    mib: toMib(memoryOf(service.pid).rss),
  }
}

export const many: Benchmark = {
  name: 'many',
  compares:
    'ms at p50 with one caller for a send, a delivery and GET /healthz, with many users of one session or many accounts, compared with a service that has 10 users and one account; and the time of `sessions` with many accounts. 5,000 accounts need about 11,000 open files (ulimit -n).',
  async run({ quick, rounds }) {
    const seconds = quick ? 1 : 2
    const roundCount = Math.min(rounds, 2)
    const chosen = sizes.filter(({ size }) => !quick || size[1] <= 1500)
    const bare: Measurement[] = []
    const found = new Map(chosen.map(({ what }) => [what, [] as Measurement[]]))
    for (let round = 0; round < roundCount; round++) {
      bare.push(await measureSize(few, seconds))
      for (const { what, size } of chosen) found.get(what)!.push(await measureSize(size, seconds))
    }
    const of = (all: readonly Measurement[], key: keyof Measurement) => all.map(entry => entry[key])
    return chosen.flatMap(({ what, size }) => {
      const ours = found.get(what)!
      const against = (key: 'send' | 'delivery' | 'healthz'): Row => {
        const [took, alone] = [median(of(ours, key)), median(of(bare, key))]
        return {
          name: 'many',
          what: `${what}: ${key}`,
          ours: `${formatNumber(took, 2)} ms`,
          baseline: `${formatNumber(alone, 2)} ms`,
          result: (took / alone).toFixed(2),
          goal: '≤ 1.5',
          met: took / alone <= 1.5,
          spread: formatSpread(of(ours, key), 2),
        }
      }
      const [sessions, grown] = [
        median(of(ours, 'sessions')),
        median(of(ours, 'mib')) - median(of(bare, 'mib')),
      ]
      const rest: Row =
        size[1] === 1
          ? {
              name: 'many',
              what: `${what}: memory`,
              ours: `${formatNumber(median(of(ours, 'mib')))} MiB`,
              baseline: `${formatNumber(median(of(bare, 'mib')))} MiB`,
              result: `+ ${formatNumber(grown)} MiB`,
              goal: '≤ + 40 MiB',
              met: grown <= 40,
              spread: formatSpread(of(ours, 'mib'), 0),
            }
          : {
              name: 'many',
              what: `${what}: sessions`,
              ours: `${formatNumber(sessions, 2)} ms`,
              baseline: `${formatNumber(median(of(bare, 'sessions')), 2)} ms`,
              result: `${formatNumber(sessions, 2)} ms`,
              goal: size[1] > 1500 ? '–' : '≤ 8 ms',
              met: size[1] > 1500 || sessions <= 8,
              spread: formatSpread(of(ours, 'sessions'), 2),
            }
      const keys =
        size[1] === 1 ? (['send', 'delivery'] as const) : (['send', 'delivery', 'healthz'] as const)
      return [...keys.map(against), rest]
    })
  },
}
