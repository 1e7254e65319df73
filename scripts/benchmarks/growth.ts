import { logIn, type Service, startService } from '../../test/support/service.ts'
import { cpuSecondsOf, createTemporaryFolder, memoryOf, root, startChild, waitUntil } from './process.ts'
import { type Benchmark, formatSpread, median, percentile, type Row } from './report.ts'

const callers = 16
/**
 * Sends per second of all callers. A fixed number, so that versions of svc are compared at equal load. Callers
 * that send as fast as they can take the whole core, and then each message waits for a round of 16 sends.
 */
const sendsPerSecond = 400
/** WeChat accepts about ten answers to each message of a user. */
const answers = 9
/** How long the simulated WeChat holds a poll. */
const holdSeconds = 28

export const growth: Benchmark = {
  name: 'growth',
  compares:
    'one service that starts empty, with a simulated WeChat in its own process. Sessions log in one after the other through the login tool. Then: ms from before a user writes until a waiting recv over REST is read to its end, while 16 callers send 400 messages/s; the same while logins wait; the same while recv calls wait for sessions without messages. Needs about 12,000 open files (ulimit -n).',
  async run({ quick, note }) {
    const sessions = Number(process.env.GROWTH_SESSIONS ?? (quick ? 300 : 5000))
    const waitingLogins = Math.ceil(sessions / 5)
    const each = quick ? 300 : 1000
    using folder = createTemporaryFolder()
    await using phone = await startPhone(folder.path)
    await using service = await startService({
      dir: folder.path,
      args: ['--log-level', 'error', '--pace', 'off', '--store-max-count', '0'],
    })
    // The callers send more than a person would.
    await phone.post('switches', { burst: 'off' })
    await service.call('sessions')
    await Bun.sleep(2000)
    const emptyRss = memoryOf(service.pid).rss

    const took: number[] = []
    const people: string[] = []
    const cpuBefore = cpuSecondsOf(service.pid)
    for (let i = 0; i < sessions; i++) {
      const { id } = await phone.post<{ id: string }>('users', { name: `person ${i}` })
      const from = performance.now()
      await logIn(withPhone(service, phone), `s${i}`, id)
      took.push(performance.now() - from)
      people.push(id)
    }
    const cpuEach = ((cpuSecondsOf(service.pid) - cpuBefore) / sessions) * 1000
    const tenth = Math.ceil(sessions / 10)
    const [first, last] = [took.slice(0, tenth), took.slice(-tenth)].map(median) as [number, number]
    note(`growth: a login takes the service ${cpuEach.toFixed(1)} ms of processor time`)
    const rows: Row[] = [
      {
        name: 'growth',
        what: `${sessions} logins, one after the other: last tenth over the first`,
        ours: `${last.toFixed(1)} ms each`,
        baseline: `${first.toFixed(1)} ms`,
        result: (last / first).toFixed(2),
        goal: '≤ 1.5',
        met: last / first <= 1.5,
        spread: formatSpread(took),
      },
    ]
    await waitUntil('all are polled', async () => (await phone.polls()) >= sessions || undefined)
    // The end of a login's first poll is not idling: its new cursor goes to the disk. The faster the logins,
    // the more such ends would be counted. Twice the hold, so that each session's poll ends twice.
    const idleSeconds = quick ? 5 : 2 * holdSeconds
    if (!quick) await Bun.sleep((holdSeconds + 2) * 1000)
    const idleFrom = cpuSecondsOf(service.pid)
    await Bun.sleep(idleSeconds * 1000)
    const share = ((cpuSecondsOf(service.pid) - idleFrom) / idleSeconds) * 100
    const rss = memoryOf(service.pid).rss
    const kb = (rss - emptyRss) / 1024 / sessions
    rows.push({
      name: 'growth',
      what: `${sessions} sessions: memory each, idle`,
      ours: `${(rss / 1024 ** 2).toFixed(0)} MiB`,
      baseline: `${(emptyRss / 1024 ** 2).toFixed(0)} MiB`,
      result: `${kb.toFixed(1)} KB`,
      goal: '≤ 60 KB',
      met: kb <= 60,
      spread: `${share.toFixed(1)} % of a core over ${idleSeconds} s`,
    })

    const row = async (what: string) => {
      const { times, sent, seconds } = await measureDeliveries(service, phone, people, each)
      const p99 = percentile(times, 0.99)
      rows.push({
        name: 'growth',
        what: `${what}: a message read, p99, 16 callers sending`,
        ours: `${p99.toFixed(1)} ms`,
        baseline: `p50 ${median(times).toFixed(1)} ms`,
        result: `${p99.toFixed(1)} ms`,
        goal: '≤ 50 ms',
        met: p99 <= 50,
        spread: `${formatSpread(times)}; ${(sent / seconds).toFixed(0)} sends/s`,
      })
    }
    await row(`${sessions} sessions`)

    for (let i = 0; i < waitingLogins; i++) {
      const { body } = await service.call('login', { session_name: `w${i}`, timeout: 0 })
      if (body.status !== 'waiting') throw new Error(`login: ${JSON.stringify(body)}`)
    }
    await row(`beside ${waitingLogins} waiting logins`)
    for (let i = 0; i < waitingLogins; i++) await service.call('logout', { session_name: `w${i}` })

    // For the sessions that get no messages. In other processes, because a client that holds thousands of
    // calls collects its own garbage for tens of ms, which would count against the service.
    const wait = JSON.stringify({ session: 's%n', after: '0', timeout: 300 })
    const half = String(Math.floor(sessions / 2))
    const waiting = ['/tools/default/recv', wait, half, '600']
    await using _one = await startChild('load.ts', [service.url, ...waiting])
    await using _other = await startChild('load.ts', [service.url, ...waiting])
    await Bun.sleep(3000)
    await row(`beside ${sessions} waiting recv calls`)
    return rows
  },
}

interface Phone extends AsyncDisposable {
  readonly url: string
  post<T>(path: string, body: object): Promise<T>
  polls(): Promise<number>
}

/** Starts `svc sandbox`: only the simulated WeChat. */
async function startPhone(dir: string): Promise<Phone> {
  const child = Bun.spawn(
    [process.execPath, 'src/main.ts', 'sandbox', '--no-banner', '--sandbox-port', '0', '-d', dir],
    { cwd: root, stdin: 'ignore', stdout: 'pipe', stderr: 'ignore' },
  )
  let output = ''
  const ready = Promise.withResolvers<string>()
  void (async () => {
    for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
      output += chunk
      const url = /phone on (\S+?)\/phone/.exec(output)?.[1]
      if (url) ready.resolve(url)
    }
    ready.reject(new Error(`the simulated WeChat ended: ${output}`))
  })()
  const url = await ready.promise
  return {
    url,
    async post<T>(path: string, body: object) {
      const response = await fetch(`${url}/phone/${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      })
      if (!response.ok) throw new Error(`phone ${path}: ${response.status} ${await response.text()}`)
      return (await response.json()) as T
    },
    polls: async () => (await (await fetch(`${url}/phone/stats`)).json()).polls_now,
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      await child.exited
    },
  }
}

const withPhone = (service: Service, { post }: Phone): Service => ({
  ...service,
  phone: post as Service['phone'],
})

/** Sends messages to sessions of the second half, one after the other, while the last sessions send. */
async function measureDeliveries(service: Service, phone: Phone, people: readonly string[], count: number) {
  let over = false
  let sent = 0
  const consumer = `reader-${performance.now()}`
  const arrived = new Map<string, () => void>()
  const leaving = new AbortController()
  const reading = (async () => {
    while (!over) {
      const { body } = await service.call('recv', { consumer, timeout: 30 }, leaving.signal)
      for (const { text } of body) arrived.get(text)?.()
    }
  })().catch(error => {
    if (!over) throw error
  })
  // A new consumer begins at the end of the log, so it must exist before the messages.
  await Bun.sleep(200)
  const began = performance.now()
  const sending = Array.from({ length: callers }, async (_, i) => {
    const to = people.at(-1 - i)!
    for (let nextAt = began + (i * 1000) / sendsPerSecond; !over; ) {
      await phone.post('say', { text: 'go on', from: to })
      for (let left = answers; left > 0 && !over; ) {
        await Bun.sleep(Math.max(0, nextAt - performance.now()))
        const { status, body } = await service.call('send', { to, text: `answer ${sent}` })
        if (status === 200) {
          sent++
          left--
          nextAt += (callers * 1000) / sendsPerSecond
        }
        // The user's message is still on its way to the service.
        else if (body.code === 'window_closed' || body.code === 'quota_exhausted') await Bun.sleep(5)
        else throw new Error(`send: ${JSON.stringify(body)}`)
      }
    }
  })
  await waitUntil('all callers send', async () => sent > 10 * callers || undefined)
  const times: number[] = []
  sent = 0
  const from = performance.now()
  for (let i = 0; i < count; i++) {
    const text = `message ${i}`
    const got = new Promise<void>(resolve => arrived.set(text, resolve))
    const at = performance.now()
    const to = people[Math.floor(people.length / 2 + Math.random() * (people.length / 2 - callers))]!
    await phone.post('say', { text, from: to })
    await Promise.race([got, rejectAfterTimeout(text)])
    times.push(performance.now() - at)
    arrived.delete(text)
  }
  const seconds = (performance.now() - from) / 1000
  over = true
  await Promise.all(sending)
  leaving.abort()
  await reading
  return { times, sent, seconds }
}

const rejectAfterTimeout = async (text: string) => {
  await Bun.sleep(30_000)
  throw new Error(`not read within 30 s: ${text}`)
}
