import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  createTemporaryFolder,
  startBenchService,
  startChild,
  startUpstream,
  writeSession,
} from './process.ts'
import {
  alternate,
  type Benchmark,
  createSpeedRow,
  formatNumber,
  formatSpread,
  median,
  type Row,
} from './report.ts'

const path = '/tools/default/send'
const callers = 16

interface LoadResult {
  requests: number
  seconds: number
  p50: number
  p99: number
}

/** Writes a session whose users have all written, with an unlimited number of answers. */
export function writeSessionWithUsers(dir: string, name: string, upstream: string, users: number): void {
  writeSession(dir, name, upstream)
  const context = {
    token: 'A'.repeat(120),
    received_at: Date.now(),
    used: -1_000_000,
    first_seen: Date.now(),
  }
  const all = Array.from({ length: users }, (_none, nth) => [`o9cqAbCd${nth}@im.wechat`, context] as const)
  writeFileSync(join(dir, name, 'contexts.json'), JSON.stringify(Object.fromEntries(all), null, 2), {
    mode: 0o600,
  })
}

const answer = JSON.stringify({ to: 'o9cqAbCd%n@im.wechat', text: 'an answer' })

export async function runLoad(
  url: string,
  connections: number,
  seconds: number,
  [at, body] = [path, answer],
  token?: string,
): Promise<LoadResult> {
  const given = [url, at, body, String(connections), String(seconds)]
  await using child = await startChild('load.ts', token === undefined ? given : [...given, token])
  if ((await child.exited) !== 0) throw new Error('the load process failed')
  return JSON.parse((await child.output()).trim().split('\n').at(-1) ?? '') as LoadResult
}

async function runBare(upstream: string, connections: number, seconds: number): Promise<number> {
  using folder = createTemporaryFolder()
  await using child = await startChild('bare-send.ts', [
    folder.path,
    upstream,
    String(connections),
    String(seconds),
  ])
  if ((await child.exited) !== 0) throw new Error('the bare loop failed')
  const { requests, seconds: took } = JSON.parse(
    (await child.output()).trim().split('\n').at(-1) ?? '',
  ) as LoadResult
  return requests / took
}

export const send: Benchmark = {
  name: 'send',
  compares:
    'sends/s of POST /tools/default/send to 16 users, pace off, compared with a bare loop with as many callers: a durable intent row, the POST, a durable result. p99 compared with p50, with 16 callers.',
  async run({ quick, rounds }) {
    const seconds = quick ? 1 : 3
    const rows: Row[] = []
    {
      using folder = createTemporaryFolder()
      await using upstream = await startUpstream()
      writeSessionWithUsers(folder.path, 'shop', upstream.ready, callers)
      await using service = await startBenchService(folder.path, upstream.ready)
      const taken: LoadResult[] = []
      for (const connections of [1, callers]) {
        await runLoad(service.url, connections, 1)
        const paired = await alternate(
          rounds,
          () => runBare(upstream.ready, connections, seconds),
          async () => {
            const found = await runLoad(service.url, connections, seconds)
            if (connections === callers) taken.push(found)
            return found.requests / found.seconds
          },
        )
        const what = `${connections} caller${connections > 1 ? 's' : ''}`
        rows.push(createSpeedRow(paired, { name: 'send', what, unit: 'send/s', goal: 0.5 }))
      }
      const ratios = taken.map(({ p50, p99 }) => p99 / p50)
      rows.push({
        name: 'send',
        what: `${callers} callers: p99 / p50`,
        ours: `${formatNumber(median(taken.map(({ p99 }) => p99)), 1)} ms`,
        baseline: `${formatNumber(median(taken.map(({ p50 }) => p50)), 1)} ms`,
        result: median(ratios).toFixed(1),
        goal: '≤ 4',
        met: median(ratios) <= 4,
        spread: formatSpread(ratios),
      })
    }
    return rows
  },
}
