import { measureDelivery } from './delivery.ts'
import { prepareBacklog, session } from './ingest.ts'
import {
  createTemporaryFolder,
  post,
  root,
  startBenchService,
  startChild,
  startUpstream,
  writeSession,
} from './process.ts'
import { type Benchmark, formatNumber, formatSpread, percentile, type Row } from './report.ts'

/** Deliveries that arrive by themselves: counts them, and lets a caller wait for the next one. */
class Arrivals {
  count = 0
  #next = Promise.withResolvers<unknown[]>()

  readonly next = (): Promise<unknown[]> => {
    this.#next = Promise.withResolvers()
    return this.#next.promise
  }

  add(): void {
    this.count += 1
    this.#next.resolve([this.count])
  }
}

/**
 * Starts a receiver of webhooks with one path for svc and one for the baseline. It answers after `answerMs`.
 */
function startReceiver(answerMs: number) {
  const came: Record<string, Arrivals> = { ours: new Arrivals(), bare: new Arrivals() }
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    development: false as const,
    async fetch(request) {
      await request.text()
      came[new URL(request.url).pathname.slice(1)]?.add()
      if (answerMs > 0) await Bun.sleep(answerMs)
      return new Response()
    },
  })
  return {
    came: (name: 'ours' | 'bare') => came[name]!,
    url: server.url.origin,
    [Symbol.dispose]: () => void server.stop(true),
  }
}

/** Reads an event stream to its end and counts each event as it comes. */
async function follow(url: string, came: Arrivals, signal: AbortSignal): Promise<void> {
  const response = await fetch(url, { signal })
  const opened = Promise.withResolvers<void>()
  const reading = async () => {
    let open = ''
    for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
      opened.resolve()
      const frames = (open + chunk).split('\n\n')
      open = frames.pop()!
      for (const frame of frames) if (/^data:/m.test(frame)) came.add()
    }
  }
  reading().catch(opened.reject)
  await opened.promise
}

async function addWebhook(dir: string, url: string): Promise<void> {
  const words = ['webhook', 'add', url, '--allow-private', '--types', 'message.received', '-d', dir]
  const child = Bun.spawn([process.execPath, `${root}/src/main.ts`, ...words], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  if ((await child.exited) !== 0) throw new Error('the webhook was not added')
}

/** Returns rows of how much later than the baseline something arrived. */
function createLaterRows(what: string, times: Record<'ours' | 'bare', number[][]>): Row[] {
  return ([0.5, 0.99] as const).map((p, i) => {
    const limit = [5, 30][i]!
    const [ours, bare] = [times.ours.flat(), times.bare.flat()].map(list => percentile(list, p))
    const extras = times.ours.map((list, round) => percentile(list, p) - percentile(times.bare[round]!, p))
    return {
      name: 'push',
      what: `upstream to a ${what}, p${p * 100}`,
      ours: `${ours!.toFixed(2)} ms`,
      baseline: `${bare!.toFixed(2)} ms`,
      result: `+ ${(ours! - bare!).toFixed(2)} ms`,
      goal: `≤ + ${limit} ms`,
      met: ours! - bare! <= limit,
      spread: formatSpread(extras, 2),
    }
  })
}

/** Measures how long a message takes to a webhook's receiver and to a stream reader. */
async function measureLater(quick: boolean, rounds: number): Promise<Row[]> {
  const each = quick ? 50 : 200
  using folder = createTemporaryFolder()
  using receiver = startReceiver(0)
  await using upstream = await startUpstream()
  await using other = await startUpstream()
  writeSession(folder.path, session, upstream.ready)
  await using service = await startBenchService(folder.path, upstream.ready)
  await addWebhook(folder.path, `${receiver.url}/ours`)
  await using bare = await startChild('bare-push.ts', [other.ready, `${receiver.url}/bare`])
  const reading = new AbortController()
  const streams = { ours: new Arrivals(), bare: new Arrivals() }
  await follow(`${service.url}/events?types=message.received`, streams.ours, reading.signal)
  await follow(`${bare.ready}/events`, streams.bare, reading.signal)
  const deliverFrom = {
    ours: (wait: () => Promise<unknown[]>) => measureDelivery(upstream.ready, session, wait),
    bare: (wait: () => Promise<unknown[]>) => measureDelivery(other.ready, '', wait),
  }
  const rows: Row[] = []
  for (const [what, place] of [
    ['webhook receiver', receiver.came],
    ['stream reader', (name: 'ours' | 'bare') => streams[name]],
  ] as const) {
    for (let i = 0; i < 20; i++) {
      await deliverFrom.bare(place('bare').next)
      await deliverFrom.ours(place('ours').next)
    }
    const times: Record<'ours' | 'bare', number[][]> = { ours: [], bare: [] }
    for (let round = 0; round < rounds; round++) {
      const found: Record<'ours' | 'bare', number[]> = { ours: [], bare: [] }
      for (let i = 0; i < each; i++)
        for (const name of ['bare', 'ours'] as const)
          found[name].push(await deliverFrom[name](place(name).next))
      times.ours.push(found.ours)
      times.bare.push(found.bare)
    }
    rows.push(...createLaterRows(what, times))
  }
  reading.abort()
  return rows
}

/**
 * Delivers a backlog of 200 conversations by one webhook whose receiver takes 5 ms.
 *
 * @returns deliveries per second
 */
async function measureDrain(messages: number): Promise<number> {
  using folder = createTemporaryFolder()
  using receiver = startReceiver(5)
  await using upstream = await startUpstream()
  writeSession(folder.path, session, upstream.ready)
  const first = await startBenchService(folder.path, upstream.ready)
  await addWebhook(folder.path, `${receiver.url}/ours`)
  await first[Symbol.asyncDispose]()
  await prepareBacklog(upstream, messages)
  await using _service = await startBenchService(folder.path, upstream.ready)
  const came = receiver.came('ours')
  while (came.count === 0) await Bun.sleep(1)
  const from = performance.now()
  // The time until the first delivery is not counted, but the delivery is: with thousands this does not
  // matter.
  while (came.count < messages) await Bun.sleep(1)
  const perSecond = messages / ((performance.now() - from) / 1000)
  await post(`${upstream.ready}/control/took`)
  return perSecond
}

export const push: Benchmark = {
  name: 'push',
  compares:
    'ms from the order to the upstream to answer until a webhook’s receiver, or a reader of GET /events, has the event, compared with a bare process that polls and passes messages on at once (svc stores durably, signs, and keeps its position). Deliveries/s of a backlog of 200 conversations to one receiver that takes 5 ms per answer, from the first delivery on, while the backlog is still being stored.',
  async run({ quick, rounds }) {
    const rows = await measureLater(quick, rounds)
    const messages = quick ? 3000 : 10_000
    const speeds: number[] = []
    for (let round = 0; round < rounds; round++) speeds.push(await measureDrain(messages))
    const speed = percentile(speeds, 0.5)
    return [
      ...rows,
      {
        name: 'push',
        what: 'webhooks out, 200 conversations',
        baseline: '–',
        ours: `${formatNumber(speed)} /s`,
        result: `${formatNumber(speed)} /s`,
        goal: '≥ 1,000 /s',
        met: speed >= 1000,
        spread: formatSpread(speeds, 0),
      },
    ]
  },
}
