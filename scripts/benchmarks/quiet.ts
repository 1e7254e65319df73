import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import {
  botId,
  cpuSecondsOf,
  createTemporaryFolder,
  post,
  root,
  type Service,
  startBenchService,
  startUpstream,
  waitUntil,
} from './process.ts'
import { type Benchmark, formatNumber, formatSpread, median, type Row } from './report.ts'
import { writeSessionWithUsers } from './send.ts'

const few = 10
/** The canned upstream holds a poll for so long: in a span of this length each session is answered once. */
const holdSeconds = 30

export const quiet: Benchmark = {
  name: 'quiet',
  compares:
    'a service with 5,000 idle accounts, one user each: processor time a second with one open panel (its stream of events is read) over that with none, in turns of one hold of the polls; statements that SQLite is given, and looks at files, a second, over those with 10 accounts, by the process that polls, with an open panel too, and by one that follows it. Needs strace for the looks, and a limit of open files of some 12,000 (ulimit -n).',
  async run({ quick, rounds }) {
    const accounts = quick ? 500 : 5000
    const small = await look(few, 0, quick)
    const large = await look(accounts, Math.min(rounds, quick ? 1 : 3), quick)
    const name = 'quiet'
    const ratios = large.open.map((open, nth) => open / large.closed[nth]!)
    const share = (values: readonly number[]) => `${formatNumber(median(values) * 100, 2)} %`
    const rows: Row[] = [
      {
        name,
        what: `${accounts} accounts: share of a core, one panel open`,
        ours: share(large.open),
        baseline: share(large.closed),
        result: formatNumber(median(ratios), 2),
        goal: '≤ 1.2',
        met: median(ratios) <= 1.2,
        spread: formatSpread(ratios, 2),
      },
    ]
    for (const who of ['poller', 'poller with a panel', 'watcher'] as const)
      for (const what of ['statements', 'looks'] as const) {
        const [ours, baseline] = [large.counted[who][what], small.counted[who][what]]
        // By chance a span contains one more or one less of the checks that run every second.
        const met = what === 'looks' || ours <= baseline * 1.2 + 1
        rows.push({
          name,
          what: `${accounts} accounts, ${who}: ${what === 'looks' ? 'looks at files' : what}`,
          ours: `${formatNumber(ours, 1)}/s`,
          baseline: `${formatNumber(baseline, 1)}/s`,
          result: formatNumber(ours / baseline, 2),
          goal: what === 'looks' ? '–' : '≤ 1.2',
          met,
          spread: '',
        })
      }
    return rows
  },
}

type Counted = Record<'statements' | 'looks', number>

async function look(accounts: number, rounds: number, quick: boolean) {
  using folder = createTemporaryFolder()
  const data = join(folder.path, 'data')
  await using upstream = await startUpstream(['--hold-ms', String(holdSeconds * 1000)])
  for (let nth = 0; nth < accounts; nth++) writeSessionWithUsers(data, `shop${nth}`, upstream.ready, 1)
  const counting = join(import.meta.dirname, 'counted.ts')
  const start = (file: string) =>
    startBenchService(data, upstream.ready, {
      command: [process.execPath, '--preload', counting, join(root, 'src/main.ts')],
      args: ['--admin-port', '0'],
      env: { COUNTED_FILE: file },
    })
  const counts = join(folder.path, 'counts')
  await using service = await start(counts)
  await post(`${upstream.ready}/control/parked`, { count: accounts })
  await saidTo(upstream.ready, accounts)
  // The next answer of a poll brings a cursor, which goes to the disk: that is no idling.
  await Bun.sleep(quick ? 3000 : (holdSeconds + 2) * 1000)
  const seconds = quick ? 5 : 15
  const poller = await countedOf(service, counts, seconds)
  const [closed, open]: number[][] = [[], []]
  const shareOf = async () => {
    const span = quick ? 5 : holdSeconds
    const before = cpuSecondsOf(service.pid)
    await Bun.sleep(span * 1000)
    return (cpuSecondsOf(service.pid) - before) / span
  }
  for (let round = 0; round < rounds; round++) {
    closed!.push(await shareOf())
    await using _panel = await openPanel(service)
    await Bun.sleep(2000)
    open!.push(await shareOf())
  }
  const withPanel = await (async () => {
    await using _panel = await openPanel(service)
    await Bun.sleep(2000)
    return await countedOf(service, counts, seconds)
  })()
  const others = join(folder.path, 'others')
  await using follower = await start(others)
  await Bun.sleep(5000)
  const watcher = await countedOf(follower, others, seconds)
  return { closed: closed!, open: open!, counted: { poller, 'poller with a panel': withPanel, watcher } }
}

/** Every account gets a message, some at a time. */
async function saidTo(upstream: string, accounts: number): Promise<void> {
  const names = Array.from({ length: accounts }, (_none, nth) => `shop${nth}`)
  const each = async () => {
    for (let name = names.pop(); name; name = names.pop())
      await post(`${upstream}/control/say`, { run: 1, n: names.length, to: botId(name), session: name })
  }
  await Promise.all(Array.from({ length: 20 }, each))
  await post(`${upstream}/control/parked`, { count: accounts })
}

/** Reads the panel's stream of events until it is disposed of. */
async function openPanel(service: Service): Promise<AsyncDisposable> {
  const url = /^admin on (\S+)$/m.exec(service.stdout())![1]!
  const leaving = new AbortController()
  const { body } = await fetch(new URL('/api/events', url), { signal: leaving.signal })
  const reading = (async () => {
    for await (const _bytes of body ?? []);
  })().catch(() => {})
  return {
    async [Symbol.asyncDispose]() {
      leaving.abort()
      await reading
    },
  }
}

/** What the service does in a second. */
async function countedOf({ pid }: Service, file: string, seconds: number): Promise<Counted> {
  const statements = async () => {
    rmSync(file, { force: true })
    process.kill(pid, 'SIGUSR2')
    return Number(
      await waitUntil('counts', async () => {
        await Bun.sleep(10)
        return (existsSync(file) && readFileSync(file, 'utf8')) || undefined
      }),
    )
  }
  const before = await statements()
  const from = performance.now()
  const calls = 'trace=stat,lstat,newfstatat,statx,open,openat,getdents64'
  const seen = `${file}.strace`
  const watching = Bun.spawn(['strace', '-f', '-qq', '-e', calls, '-o', seen, '-p', String(pid)], {
    stdio: ['ignore', 'ignore', 'ignore'],
  })
  await Bun.sleep(seconds * 1000)
  watching.kill('SIGINT')
  await watching.exited
  const took = (performance.now() - from) / 1000
  const looks = readFileSync(seen, 'utf8')
    .split('\n')
    .filter(line => !/unfinished|^$/.test(line)).length
  return { statements: ((await statements()) - before) / took, looks: looks / took }
}
