/**
 * Measures the cost of many endpoints, many readers and a long absence. Each is its own benchmark, because it
 * takes a minute.
 */
import { connect } from 'node:net'
import { join } from 'node:path'
import { systemClock } from '../../src/platform/clock.ts'
import { silentLog } from '../../src/platform/log.ts'
import { openSqliteStore } from '../../src/storage/sqlite/store.ts'
import { ingestWithSvc, prepareBacklog, readIngestSpeed, session } from './ingest.ts'
import {
  botId,
  cpuSecondsOf,
  createTemporaryFolder,
  memoryOf,
  post,
  resetPeak,
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
  toMib,
} from './report.ts'

/** Starts a receiver that counts its answers, each after `answerMs`, and that never answers under `/hang`. */
function startReceiver(answerMs: number) {
  const own = { count: 0 }
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 0,
    development: false as const,
    async fetch(request) {
      await request.text()
      if (request.url.endsWith('/hang')) await new Promise(() => {})
      if (answerMs > 0) await Bun.sleep(answerMs)
      own.count++
      return new Response()
    },
  })
  return {
    url: server.url.origin,
    came: () => own.count,
    [Symbol.dispose]: () => void server.stop(true),
  }
}

/** Adds endpoints that start at the end of the event log, or with `beginning` at its start. */
async function addEndpoints(dir: string, urls: readonly string[], beginning = false): Promise<void> {
  const path = join(dir, 'messages.db')
  const options = { path, clock: systemClock, log: silentLog, maxAgeDays: 0, maxCount: 0 }
  const store = await openSqliteStore(options)
  try {
    const position = beginning ? '' : await store.events.getHead()
    for (const [nth, url] of urls.entries())
      await store.webhooks.add({
        id: `wh_${nth}`,
        url,
        types: ['message.received'],
        headers: {},
        link_key: 'k',
        replies: false,
        secrets: [{ secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw' }],
        allow_private: true,
        created_at: nth,
        position,
      })
  } finally {
    await store.maintenance.close()
  }
}

/** Waits until everything is delivered. @returns deliveries per second since the first one */
async function measureDrain(came: () => number, total: number): Promise<number> {
  while (came() === 0) await Bun.sleep(1)
  const from = performance.now()
  while (came() < total) await Bun.sleep(5)
  return total / ((performance.now() - from) / 1000)
}

/** Delivers messages to 50 endpoints that answer, beside `hanging` endpoints that do not. */
async function measureBesideHanging(messages: number, hanging: number) {
  using folder = createTemporaryFolder()
  using receiver = startReceiver(0)
  await using upstream = await startUpstream()
  writeSession(folder.path, session, upstream.ready)
  const urls = (count: number, path: string) => Array.from({ length: count }, () => receiver.url + path)
  await addEndpoints(folder.path, [...urls(50, '/'), ...urls(hanging, '/hang')])
  await prepareBacklog(upstream, messages)
  await using service = await startBenchService(folder.path, upstream.ready)
  const perSecond = await measureDrain(receiver.came, messages * 50)
  return { perSecond, bytes: memoryOf(service.pid).peak }
}

const hanging: Benchmark = {
  name: 'push-hanging',
  compares:
    'deliveries/s of a backlog to 50 endpoints, from the first delivery on, while the backlog is still being stored: beside 50 more that never answer, compared with the 50 alone; and the largest memory of the service.',
  async run({ quick, rounds }) {
    const messages = quick ? 100 : 600
    const bytes = { ours: [] as number[], baseline: [] as number[] }
    const measure = async (which: keyof typeof bytes) => {
      const found = await measureBesideHanging(messages, which === 'ours' ? 50 : 0)
      bytes[which].push(found.bytes)
      return found.perSecond
    }
    const paired = await alternate(
      rounds,
      () => measure('baseline'),
      () => measure('ours'),
    )
    const what = '50 endpoints beside 50 that hang, against alone'
    const row = createSpeedRow(paired, { name: 'push-hanging', what, unit: '/s', goal: 0.9 })
    const more = toMib(median(bytes.ours) - median(bytes.baseline))
    const each = bytes.ours.map((value, i) => toMib(value - bytes.baseline[i]!))
    return [row, createMemoryRow('push-hanging', 'the same, memory', bytes, { more, goal: 20, each })]
  },
}

const createMemoryRow = (
  name: string,
  what: string,
  bytes: { ours: number[]; baseline: number[] },
  { more, goal, each }: { more: number; goal: number; each: number[] },
): Row => ({
  name,
  what,
  ours: `${formatNumber(toMib(median(bytes.ours)))} MiB`,
  baseline: `${formatNumber(toMib(median(bytes.baseline)))} MiB`,
  result: `+ ${more.toFixed(1)} MiB`,
  goal: `≤ + ${goal} MiB`,
  met: more <= goal,
  spread: formatSpread(each),
})

/** Opens readers of a stream that store nothing. @returns the bytes so far; disposal closes the readers */
async function openReaders(url: string, count: number) {
  const { hostname, port, pathname, search } = new URL(url)
  const sockets: ReturnType<typeof connect>[] = []
  const own = { bytes: 0 }
  const requestText = `GET ${pathname}${search} HTTP/1.1\r\nHost: ${hostname}:${port}\r\n\r\n`
  for (let nth = 0; nth < count; nth++) {
    const opened = Promise.withResolvers<void>()
    const socket = connect(Number(port), hostname, () => socket.write(requestText))
    sockets.push(socket)
    socket.on('data', chunk => {
      own.bytes += chunk.length
      opened.resolve()
    })
    socket.on('error', opened.reject)
    await opened.promise
  }
  return {
    bytes: () => own.bytes,
    [Symbol.dispose]: () => {
      for (const socket of sockets) socket.destroy()
    },
  }
}

let messageCount = 0
/** Sends 100 messages per second. @returns the processor time of the process in that time, in seconds */
async function sendSteadily(upstream: string, bot: string, pid: number, seconds: number): Promise<number> {
  const before = cpuSecondsOf(pid)
  const from = performance.now()
  for (let n = 0; n < seconds * 100; n++) {
    await post(`${upstream}/control/parked`, { count: 1, session: bot })
    await post(`${upstream}/control/say`, { run: 2, n: ++messageCount, to: botId(bot), session: bot })
    await Bun.sleep(Math.max(0, from + n * 10 - performance.now()))
  }
  return cpuSecondsOf(pid) - before
}

/**
 * Returns what readers add to the cost of a process: bytes of memory per reader, ms of processor time per
 * message.
 */
async function measureReadersCost(
  { url, pid }: { url: string; pid: number },
  { upstream, bot, readers, seconds }: { upstream: string; bot: string; readers: number; seconds: number },
) {
  await sendSteadily(upstream, bot, pid, 1)
  const without = await sendSteadily(upstream, bot, pid, seconds)
  const before = memoryOf(pid).rss
  using opened = await openReaders(url, readers)
  const before2 = opened.bytes()
  const beside = await sendSteadily(upstream, bot, pid, seconds)
  const messages = seconds * 100
  return {
    bytesEach: (memoryOf(pid).rss - before) / readers,
    cpuMs: ((beside - without) * 1000) / messages,
    /** Bytes of one message to one reader on the connection. */
    frame: (opened.bytes() - before2) / readers / messages,
  }
}

const readers: Benchmark = {
  name: 'push-readers',
  compares:
    'ms of processor time per message that 1,000 readers of GET /events add to the cost without readers, at 100 messages/s, compared with a process that polls the same upstream and broadcasts frames of the same size, each encoded once. Memory: the growth of the service per reader.',
  async run({ quick, rounds }) {
    const [count, seconds] = quick ? [200, 1] : [1000, 5]
    using folder = createTemporaryFolder()
    await using upstream = await startUpstream()
    await using other = await startUpstream()
    writeSession(folder.path, session, upstream.ready)
    const found: Record<'ours' | 'bare', Awaited<ReturnType<typeof measureReadersCost>>[]> = {
      ours: [],
      bare: [],
    }
    for (let round = 0; round < rounds; round++) {
      await using service = await startBenchService(folder.path, upstream.ready)
      const { pid, url } = service
      const from = { readers: count, seconds }
      const ours = await measureReadersCost(
        { pid, url: `${url}/events?types=message.received` },
        { ...from, upstream: upstream.ready, bot: session },
      )
      found.ours.push(ours)
      await using bare = await startChild('bare-push.ts', [other.ready, '', String(Math.round(ours.frame))])
      const address = { pid: bare.pid, url: `${bare.ready}/events` }
      found.bare.push(await measureReadersCost(address, { ...from, upstream: other.ready, bot: '' }))
    }
    const of = (which: 'ours' | 'bare', key: 'cpuMs' | 'bytesEach') => found[which].map(entry => entry[key])
    const [ours, bare] = [median(of('ours', 'cpuMs')), median(of('bare', 'cpuMs'))]
    const each = of('ours', 'bytesEach').map(bytes => bytes / 1024)
    return [
      {
        name: 'push-readers',
        what: `${formatNumber(count)} stream readers, 100 messages/s`,
        ours: `${ours.toFixed(2)} ms`,
        baseline: `${bare.toFixed(2)} ms`,
        result: (ours / bare).toFixed(2),
        goal: '≤ 1.5 ×',
        met: ours / bare <= 1.5,
        spread: formatSpread(
          found.ours.map((one, i) => one.cpuMs / found.bare[i]!.cpuMs),
          2,
        ),
      },
      {
        name: 'push-readers',
        what: 'memory of each',
        ours: `${median(each).toFixed(0)} KB`,
        baseline: `${(median(of('bare', 'bytesEach')) / 1024).toFixed(0)} KB`,
        result: `${median(each).toFixed(0)} KB`,
        goal: '≤ 60 KB',
        met: median(each) <= 60,
        spread: formatSpread(each, 0),
      },
    ]
  },
}

/** Fewer deliveries than this do not count as a backlog. */
const few = 2000

/**
 * Measures deliveries of a process: their speed, and how much its largest memory grew after the first few.
 */
async function measureBacklog(pid: number, came: () => number, messages: number) {
  resetPeak(pid)
  while (came() < few) await Bun.sleep(1)
  const from = performance.now()
  const before = memoryOf(pid).peak
  while (came() < messages) await Bun.sleep(5)
  const perSecond = (messages - few) / ((performance.now() - from) / 1000)
  return { perSecond, more: toMib(memoryOf(pid).peak - before) }
}

const backlog: Benchmark = {
  name: 'push-backlog',
  compares:
    'deliveries/s of a stored log of 100,000 messages of 200 conversations to one endpoint that was away and answers after 5 ms; and how far the largest memory exceeds that of the first 2,000 deliveries, compared with a bare loop that reads the same store and makes as many POSTs.',
  async run({ quick, rounds }) {
    const messages = quick ? 10_000 : 100_000
    const found: Record<'ours' | 'bare', Awaited<ReturnType<typeof measureBacklog>>[]> = {
      ours: [],
      bare: [],
    }
    for (let round = 0; round < rounds; round++) {
      using folder = createTemporaryFolder()
      await using upstream = await startUpstream()
      await prepareBacklog(upstream, messages)
      writeSession(folder.path, session, upstream.ready)
      const first = await startBenchService(folder.path, upstream.ready)
      await readIngestSpeed(upstream, messages)
      await first[Symbol.asyncDispose]()
      {
        using receiver = startReceiver(5)
        await using bare = await startChild('bare-backlog.ts', [
          join(folder.path, 'messages.db'),
          receiver.url,
        ])
        found.bare.push(await measureBacklog(bare.pid, receiver.came, messages))
      }
      using receiver = startReceiver(5)
      await addEndpoints(folder.path, [receiver.url], true)
      await using service = await startBenchService(folder.path, upstream.ready)
      found.ours.push(await measureBacklog(service.pid, receiver.came, messages))
    }
    const speeds = found.ours.map(({ perSecond }) => perSecond)
    const [speed, bareSpeed] = [median(speeds), median(found.bare.map(({ perSecond }) => perSecond))]
    const [ours, bare] = [found.ours, found.bare].map(list => median(list.map(({ more }) => more)))
    const beyond = found.ours.map(({ more }, round) => more - found.bare[round]!.more)
    return [
      {
        name: 'push-backlog',
        what: 'a stored backlog, one endpoint',
        ours: `${formatNumber(speed)} /s`,
        baseline: `${formatNumber(bareSpeed)} /s`,
        result: `${formatNumber(speed)} /s`,
        goal: '≥ 1,000 /s',
        met: speed >= 1000,
        spread: formatSpread(speeds, 0),
      },
      {
        name: 'push-backlog',
        what: 'memory beyond its first 2,000',
        ours: `+ ${ours!.toFixed(1)} MiB`,
        baseline: `+ ${bare!.toFixed(1)} MiB`,
        result: `${(ours! - bare!).toFixed(1)} MiB`,
        goal: '≤ 10 MiB',
        met: ours! - bare! <= 10,
        spread: formatSpread(beyond),
      },
    ]
  },
}

const ingestBeside: Benchmark = {
  name: 'push-ingest',
  compares: 'messages/s as in `ingest`, with 10 endpoints that answer at once, compared with none.',
  async run({ quick, rounds }) {
    const messages = quick ? 5000 : 20_000
    await using upstream = await startUpstream()
    const paired = await alternate(
      rounds,
      () => ingestWithSvc(upstream, messages),
      async () => {
        using folder = createTemporaryFolder()
        using receiver = startReceiver(0)
        await addEndpoints(
          folder.path,
          Array.from({ length: 10 }, () => receiver.url),
        )
        return await ingestWithSvc(upstream, messages, folder.path)
      },
    )
    const what = 'ingest with 10 endpoints, against none'
    return [createSpeedRow(paired, { name: 'push-ingest', what, unit: 'msg/s', goal: 0.9 })]
  },
}

export const pushLoad: readonly Benchmark[] = [hanging, readers, backlog, ingestBeside]
