import { type LargeStore, openLargeStore } from './large-store.ts'
import { post, startBenchService, startUpstream } from './process.ts'
import { type Benchmark, formatSpread, percentile, type Row } from './report.ts'
import { absentWord } from './texts.ts'

const formatCount = (rows: number) => rows.toLocaleString('en-US')

export const history: Benchmark = {
  name: 'history',
  compares:
    'ms of a whole POST /tools/default/history, one after the other: the newest 50, 50 after 9,900 others, and a word of two frequent Chinese characters that never stand together. Baseline: a sessions call on the same connection.',
  async run({ quick, rounds, keep, note }) {
    const found: Row[] = []
    for (const rows of quick ? [10_000, 100_000] : [100_000, 5_000_000]) {
      await using store = await openLargeStore(rows, keep, note)
      found.push(...(await measureStore(store, rows, quick ? 50 : 200, rounds)))
    }
    return found
  },
}

async function measureStore(store: LargeStore, rows: number, each: number, rounds: number): Promise<Row[]> {
  await using upstream = await startUpstream()
  await using service = await startBenchService(store.dir, upstream.ready)
  const timed = async (tool: string, input: object, messages?: number): Promise<number> => {
    const from = performance.now()
    const answer = await post(`${service.url}/tools/default/${tool}`, input)
    const took = performance.now() - from
    if (messages !== undefined && answer.messages.length !== messages)
      throw new Error(`${tool}: wrong answer`)
    return took
  }
  const newest = { input: {}, messages: 50, limit: 2, what: 'newest 50' }
  const absent = {
    input: { text_contains: absentWord },
    messages: 0,
    limit: 5,
    what: 'absent 2-character word',
  }
  // The largest offset is 10,000. In the smallest store, one page still follows this offset.
  const far = { input: { offset: 9900 }, messages: 50, limit: 5, what: 'offset 9,900' }
  const times = new Map([newest, absent, far].map(kind => [kind, [] as number[][]]))
  const bare: number[] = []
  const first = await timed('history', absent.input, 0)
  for (let round = 0; round < rounds + 1; round++) {
    for (const [kind, kept] of times) {
      const list: number[] = []
      for (let i = 0; i < each; i++) {
        bare.push(await timed('sessions', {}))
        list.push(await timed('history', kind.input, kind.messages))
      }
      // During the first round the runtime still compiles.
      if (round > 0) kept.push(list)
    }
  }
  return [...times].map(([{ what, limit }, kept]) => {
    const p50 = percentile(kept.flat(), 0.5)
    return {
      name: 'history',
      what: `${formatCount(rows)} rows: ${what}, p50`,
      ours: `${p50.toFixed(2)} ms (p99 ${percentile(kept.flat(), 0.99).toFixed(2)}${what === absent.what ? `, first ${first.toFixed(1)}` : ''})`,
      baseline: `${percentile(bare, 0.5).toFixed(2)} ms`,
      result: `${p50.toFixed(2)} ms`,
      goal: `≤ ${limit} ms`,
      met: p50 <= limit,
      spread: formatSpread(
        kept.map(list => percentile(list, 0.5)),
        2,
      ),
    }
  })
}
