/**
 * Chaos: three nodes on one database, messages that arrive, answers, webhooks, logins and readers everywhere, and one fault
 * after another: of a node, of its network to the database, of its clock, of the database. Afterwards everything is counted.
 *
 * `./scripts/storm --cluster --help`; the short form is chaos.long.test.ts.
 */
import { parseArgs } from 'node:util'
import { Svc } from '../../src/library/svc.ts'
import { receiver } from '../push/receiver.ts'
import { clusterSecret, startCluster } from '../support/cluster.ts'
import { type Postgres, type Standby, startPostgres } from '../support/postgres.ts'
import { type TestSandbox, withSandbox } from '../support/sandbox.ts'
import type { Json } from '../support/service.ts'
import { until } from '../support/until.ts'
import { lived } from './support/lived.ts'
import { canSetClocks, type Nodes, nodesOf } from './support/nodes.ts'
import { readNotes, rowsOf, takeNotes } from './support/notes.ts'
import { findOverlaps, judgeBegins, PollRecord } from './support/polls.ts'
import { type Chance, chanceOf } from './support/random.ts'
import { consume, nothingReceived, type Received, readAfter } from './support/readers.ts'

export interface ChaosOptions {
  rounds: number
  /** Chooses the faults, and who writes what. */
  seed: number
  /** Between two faults, ms, lowest and highest. */
  pauseMs?: readonly [number, number]
  /** Whether upstream gives a batch again until the cursor moves. */
  replay: 'until_advance' | 'never'
  /** Only faults whose names begin so. */
  faults?: string
  onRound?(line: string): void
}

export interface ChaosReport {
  seed: number
  replay: string
  /** Number of faults by kind. */
  faults: Record<string, number>
  messages: number
  missing: number
  /** Of these: taken by the open poll of a node that was killed or suspended, or had lost its lease. */
  takenAlong: number
  storedTwice: number
  sends: Record<string, number>
  sentTwice: number
  logins: { done: number; begunAgain: number }
  webhooks: { events: number; repeats: number }
  /** Handings to readers beyond the first, and of these, unmarked ones after a crash of the database. */
  repeats: number
  unmarked: number
  polls: { begun: number; withoutLease: number; atOnce: number; ofSuspended: number }
  seconds: number
  /** Everything that broke a law, in words. */
  violations: string[]
}

interface Account {
  session: string
  bot: string
  user: string
}

/** A message to a user: one text, perhaps asked for several times with one key. */
interface Sent {
  text: string
  outcomes: string[]
}

/** Claims are not durable: a database that crashed gives again, without a mark, what it gave in the moment before. */
const justBeforeMs = 3000
const accounts = 6
const size = 3

export async function runChaos(options: ChaosOptions): Promise<ChaosReport> {
  const { rounds, seed, pauseMs = [500, 3000], replay } = options
  const begun = Date.now()
  const note = options.onRound ?? (() => {})
  const chance = chanceOf(seed)
  const own = () => chanceOf(chance.between(0, 2 ** 31))
  await using stack = new AsyncDisposableStack()
  const record = new PollRecord()
  const sandbox = stack.use(await withSandbox({ switches: { replay, quota: 0 }, around: record.around }))
  const postgres = stack.use(await startPostgres())
  const cluster = stack.use(await startCluster({ nodes: 0, postgres, wechat: sandbox.url }))
  const nodes = stack.use(nodesOf(cluster, size, { args: ['--pace', 'off'] }))
  for (let place = 0; place < size; place++) await nodes.start(place)
  await takeNotes(cluster)
  using hook = receiver()
  {
    const storeUrl = postgres.url(cluster.databaseName)
    const where = { basePath: sandbox.dir, secretKey: clusterSecret, upstreamUrl: sandbox.url }
    await using svc = await Svc.open({ ...where, storeUrl })
    await svc.webhooks.add({ url: hook.url, types: ['message.received'], allow_private: true })
  }
  const people: Account[] = []
  for (let nth = 0; nth < accounts; nth++) {
    const user = await sandbox.addUser(`User ${nth}`)
    const { bot_id: bot } = await cluster.logIn(`s${nth}`, user)
    people.push({ session: `s${nth}`, bot, user })
  }

  const readers = nodes.doors.map((_, place) => nothingReceived(`reader-${place}`))
  const shared = nothingReceived('shared')
  const followed = nothingReceived('(after)')
  for (const { consumer } of [...readers, shared])
    await nodes.doors[0]!()!.call('recv', { consumer, timeout: 0 })
  const reading = new AbortController()
  const read = Promise.all(
    nodes.doors.flatMap((door, place) => [
      consume(readers[place]!, door, reading.signal, own()),
      consume(shared, door, reading.signal, own()),
    ]),
  )
  const follow = readAfter(followed, nodes.doors, reading.signal)
  const pouring = new AbortController()
  const written: string[] = []
  const writing = write(sandbox, people, pouring.signal, own(), written)
  const sending = Promise.all(
    Array.from({ length: 3 }, (_, nth) => sendOn(nodes, people, pouring.signal, own(), `a${nth}`)),
  )
  const logins: Promise<number>[] = []
  const database = await databaseOf(postgres, cluster.moveTo, stack)

  const faults = Object.entries(faultsOf(nodes, database)).filter(
    ([name]) => name.startsWith(options.faults ?? '') && (canSetClocks || name !== 'clock set'),
  )
  const counts: Record<string, number> = {}
  const violations: string[] = []
  for (let round = 1; round <= rounds; round++) {
    await Bun.sleep(chance.between(...pauseMs))
    if (round % 2 === 0) logins.push(logIn(nodes, sandbox, `l${round}`, own()))
    const [name, strike] = chance.pick(faults)
    counts[name] = (counts[name] ?? 0) + 1
    const told = await strike(chance)
    note(
      `${new Date().toISOString()} round ${round}: ${name}${told ? ` (${told})` : ''}, ${written.length} messages`,
    )
  }

  note('waits for the logins')
  const begunAgain = await Promise.all(logins)
  note('waits for the sends')
  pouring.abort()
  const sent = (await sending).flat()
  await writing
  note('waits until everything has arrived')
  for (const one of people) await say(sandbox, one, `m-last-${one.session}`, written)
  const query = `SELECT id, text, sent, status, reason FROM svc.message WHERE sent < 2 ORDER BY id`
  const readRows = () => rowsOf<Row>(cluster, query)
  /** What no node has stored yet, though one can. It tries again after 10 s at most. */
  const findAwaited = async () => {
    const stored = new Set((await readRows()).filter(row => row.sent === 0).map(({ text }) => text))
    return written.filter(text => !stored.has(text) && !isTakenAlong(record, nodes, text))
  }
  await until('all messages are stored', 60_000, async () => (await findAwaited()).length === 0).catch(
    () => {},
  )
  await until('nothing is being sent', 60_000, async () =>
    (await readRows()).every(({ status }) => status !== 'sending' && status !== 'queued'),
  ).catch(error => violations.push(String(error)))
  const rows = await readRows()
  const received = rows.filter(row => row.sent === 0)

  const texts = new Set(received.map(({ text }) => text)).size
  for (const one of [...readers, shared, followed])
    await waitForAll(one.consumer, texts, () => one.byText.size, violations)
  const hooked = () => new Map(hook.got.map(({ body }) => [body.data.id as number, body]))
  await waitForAll('the webhook', received.length, () => hooked().size, violations)
  reading.abort()
  await read
  const order = await follow
  if (order.some((id, nth) => nth > 0 && id <= order[nth - 1]!)) violations.push('(after) came out of order')
  for (const peer of new Set(hook.got.map(({ body }) => body.data.from_user))) {
    const ids = [...hooked().values()]
      .filter(({ data }) => data.from_user === peer)
      .map(({ data }) => Number(data.id))
    if (ids.some((id, nth) => nth > 0 && id <= ids[nth - 1]!))
      violations.push(`webhooks of ${peer} out of order`)
  }

  note('counts')
  const missing = written.filter(text => !received.some(row => row.text === text))
  const lost = missing.filter(text => !isTakenAlong(record, nodes, text))
  for (const text of replay === 'never' ? lost : missing)
    violations.push(`"${text}" is not stored; taken by ${takenBy(record, text)}`)
  const storedTwice = repeatedIn(received.map(({ text }) => text))
  for (const text of storedTwice) violations.push(`"${text}" is stored more than once`)
  const sentTwice = judgeSends(sent, rows, sandbox, violations)
  const repeats = judgeRepeats([...readers, shared, followed], database.crashes, violations)

  // Leases and polls. What is noted after a poll may be about a later one.
  const polls = [...record.polls]
  const { leases, owners } = await readNotes(cluster)
  const withoutLease = judgeBegins({ polls, leases, owners, pids: nodes.pids })
  const overlaps = findOverlaps(polls, nodes.suspended, Date.now())
  violations.push(...withoutLease, ...overlaps.forbidden)

  // Logins.
  const { body: sessions } = await nodes.doors[0]!()!.call('sessions')
  for (let round = 2; round <= rounds; round += 2)
    if (sessions.filter(({ connected, name }: Json) => name === `l${round}` && connected).length !== 1)
      violations.push(`the login of l${round} did not end well`)

  violations.push(...nodes.crashes)
  for (const [place, node] of nodes.at.entries()) {
    nodes.at[place] = undefined
    const code = await node!.kill('SIGTERM')
    if (code !== 0) violations.push(`node ${place} ended with ${code}: ${node!.log().slice(-1000)}`)
  }
  return {
    ...{ seed, replay, faults: counts },
    messages: written.length,
    missing: missing.length,
    takenAlong: missing.length - lost.length,
    storedTwice: storedTwice.length,
    sends: tally(sent.map(({ outcomes }) => outcomes.at(-1) ?? 'broken')),
    sentTwice,
    logins: { done: logins.length, begunAgain: begunAgain.reduce((sum, one) => sum + one, 0) },
    webhooks: { events: received.length, repeats: hook.got.length - hooked().size },
    ...repeats,
    polls: {
      begun: polls.length,
      withoutLease: withoutLease.length,
      atOnce: overlaps.forbidden.length,
      ofSuspended: overlaps.ofSuspended,
    },
    seconds: Math.round((Date.now() - begun) / 1000),
    violations,
  }
}

interface Row {
  id: number
  text: string
  sent: number
  status?: string
  reason?: string
}

/** What a fault did, in words, for those who watch. It ends when what it broke works again. */
type Fault = (chance: Chance) => Promise<string | undefined>

function faultsOf(nodes: Nodes, database: Database): Record<string, Fault> {
  const place = (chance: Chance) => chance.between(0, size - 1)
  const partition =
    (how: 'toServer' | 'toClient' | 'both'): Fault =>
    async chance => {
      const at = place(chance)
      const { database: proxy } = nodes.at[at]!
      proxy.freeze(how === 'both' ? undefined : { [how]: true })
      await Bun.sleep(chance.between(3000, 9000))
      proxy.thaw()
      return `node ${at}`
    }
  return {
    'killed node': async chance => {
      const at = place(chance)
      await nodes.kill(at)
      await Bun.sleep(chance.pick([0, 0, 500, 7000]))
      await nodes.start(at)
      return `node ${at}`
    },
    'suspended node': async chance => {
      const at = place(chance)
      await nodes.suspend(at, chance.between(6500, 9000))
      return `node ${at}`
    },
    'partition: nothing reaches the database': partition('toServer'),
    'partition: nothing comes back': partition('toClient'),
    'partition: both directions': partition('both'),
    'partition: connections end': async chance => {
      const at = place(chance)
      const { database: proxy } = nodes.at[at]!
      await proxy.cut()
      await Bun.sleep(chance.between(0, 9000))
      await proxy.mend()
      return `node ${at}`
    },
    'clock set': async chance => {
      const at = place(chance)
      const aheadMs = chance.pick([-7_200_000, -90_000, 90_000, 7_200_000])
      nodes.setClock(at, aheadMs)
      await Bun.sleep(chance.between(2000, 5000))
      nodes.setClock(at, 0)
      return `node ${at} by ${aheadMs / 1000} s`
    },
    'database restarted': async () => {
      await database.primary.stop('fast')
      await database.primary.start()
      return undefined
    },
    'database killed': () => database.crash(),
    'database suspended': async chance => {
      await database.primary.pause()
      await Bun.sleep(chance.between(2000, 9000))
      await database.primary.resume()
      return undefined
    },
    'failover to a synchronous standby': () => database.failOver(),
  }
}

interface Database {
  readonly primary: Postgres
  /** By `lived`. */
  readonly crashes: readonly number[]
  crash(): Promise<undefined>
  failOver(): Promise<string>
}

/** The server with a synchronous standby; after a failover, which is the new primary, it gets another one. */
async function databaseOf(
  first: Postgres,
  moveTo: (server: Postgres) => Promise<void>,
  stack: AsyncDisposableStack,
): Promise<Database> {
  let primary = first
  const crashes: number[] = []
  const createStandby = async () => stack.use(await primary.createStandby({ synchronous: true }))
  let standby: Standby = await createStandby()
  return {
    get primary() {
      return primary
    },
    crashes,
    async crash() {
      crashes.push(lived())
      await primary.kill()
      await primary.start()
      return undefined
    },
    async failOver() {
      crashes.push(lived())
      await primary.kill()
      await standby.promote()
      primary = standby
      await moveTo(primary)
      standby = await createStandby()
      return `to port ${primary.port}`
    },
  }
}

/** Waits until all have come. A busy machine may take long: they are missing when none comes for a minute. */
async function waitForAll(name: string, wanted: number, count: () => number, violations: string[]) {
  for (let had = count(); had < wanted; had = count())
    try {
      await until(name, 60_000, () => count() > had)
    } catch {
      violations.push(`${name} got ${count()} of ${wanted}`)
      return
    }
}

async function say(sandbox: TestSandbox, { bot, user }: Account, text: string, written: string[]) {
  await sandbox.say(text, { from: user, to: bot })
  written.push(text)
}

/** Users that write: about 20 messages a second, in bursts. */
async function write(
  sandbox: TestSandbox,
  people: readonly Account[],
  stop: AbortSignal,
  chance: Chance,
  written: string[],
): Promise<void> {
  for (let nth = 0; !stop.aborted; ) {
    const account = chance.pick(people)
    for (let left = chance.between(1, 8); left > 0; left--) await say(sandbox, account, `m${nth++}`, written)
    await Bun.sleep(chance.between(50, 400))
  }
}

/** Sends one message after another. What has a key is asked for until there is a result, now and then on all nodes at once. */
async function sendOn(
  nodes: Nodes,
  people: readonly Account[],
  stop: AbortSignal,
  chance: Chance,
  prefix: string,
): Promise<Sent[]> {
  const sent: Sent[] = []
  for (let nth = 0; !stop.aborted; nth++) {
    await Bun.sleep(chance.between(50, 500))
    const one: Sent = { text: `${prefix}-${nth}`, outcomes: [] }
    sent.push(one)
    const key = chance.next() < 1 / 2 ? `key-${one.text}` : undefined
    const input = { to: chance.pick(people).user, text: one.text, ...(key && { idempotency_key: key }) }
    const once = async (place: number) => {
      try {
        const { body, status } = await nodes.doors[place]!()!.call('send', input)
        one.outcomes.push(status === 200 ? body.status : body.code)
      } catch {
        one.outcomes.push('broken')
      }
    }
    const isOver = () => key === undefined || one.outcomes.some(outcome => results.has(outcome))
    if (key && chance.next() < 1 / 4) await Promise.all(nodes.at.map((_, place) => once(place)))
    else await once(chance.between(0, size - 1))
    for (let tries = 0; !isOver() && tries < 100; tries++) {
      await Bun.sleep(200)
      await once(chance.between(0, size - 1))
    }
  }
  return sent
}

/** Results of a send with a key: asked again, the answer is the same. */
const results = new Set(['accepted', 'suspect', 'unknown', 'refused', 'window_closed', 'quota_exhausted'])

/** Logs a session in, each call on another node. Returns how often it had to begin again. */
async function logIn(nodes: Nodes, sandbox: TestSandbox, name: string, chance: Chance): Promise<number> {
  const user = await sandbox.addUser(name)
  const until = Date.now() + 120_000
  const qrcodes = new Set<string>()
  while (Date.now() < until) {
    await Bun.sleep(100)
    try {
      const { body, status } = await chance
        .pick(nodes.doors)()!
        .call('login', { session_name: name, timeout: 2 })
      if (status === 200 && body.status === 'confirmed') break
      if (body.qr_url === undefined || qrcodes.has(body.qr_url)) continue
      qrcodes.add(body.qr_url)
      await sandbox.scan({ confirm: true, qrcode: body.qr_url, user })
    } catch {
      // The node died, or does not answer.
    }
  }
  return qrcodes.size - 1
}

const takenBy = ({ polls }: PollRecord, text: string) =>
  polls
    .filter(({ texts }) => texts.includes(text))
    .map(({ channelVersion, ended = 0 }) => `${channelVersion} at ${new Date(ended).toISOString()}`)
    .join(', ')

/** Whether a poll took the message that its node could not answer for: it was killed or suspended, or had to end its polls. */
const isTakenAlong = ({ polls }: PollRecord, nodes: Nodes, text: string) =>
  polls.some(
    ({ channelVersion, ended = 0, texts }) =>
      texts.includes(text) &&
      (nodes.killed.has(channelVersion) ||
        nodes.hasCutPolls(channelVersion, ended) ||
        nodes.suspended.some(
          span => span.channelVersion === channelVersion && span.from <= ended && ended <= span.to,
        )),
  )

/** Judges each text by what WeChat has of it, displayed or not. Returns how many it has more than once. */
function judgeSends(
  sent: readonly Sent[],
  rows: readonly Row[],
  sandbox: TestSandbox,
  violations: string[],
): number {
  const wires = sandbox.world.core.db.all`SELECT wire FROM message WHERE direction = 'out'`
  const seen = tally(wires.map(({ wire }) => /"text":"([^"]*)"/.exec(String(wire))?.[1] ?? ''))
  const logged = Map.groupBy(
    rows.filter(row => row.sent === 1),
    ({ text }) => text,
  )
  for (const { text, outcomes } of sent) {
    const times = seen[text] ?? 0
    const rows = logged.get(text) ?? []
    // A call that could not hand its message over leaves a refused row, and its key is free for the next call.
    const [row, ...more] = rows.filter(({ status }) => status !== 'refused')
    const isWrong =
      times > 1 ||
      more.length > 0 ||
      rows.length > outcomes.length ||
      (outcomes.includes('accepted') && (times !== 1 || row?.status !== 'accepted')) ||
      (times > 0 && row?.status !== 'accepted' && row?.status !== 'unknown') ||
      (times === 0 && row?.status === 'accepted')
    const listed = rows.map(({ reason, status }) => [status, reason].filter(Boolean).join(': '))
    if (isWrong) violations.push(`"${text}" (${outcomes}; rows: ${listed}) was seen ${times} times`)
  }
  return Object.values(seen).filter(times => times > 1).length
}

/** A message that comes again is marked, unless the database crashed at the moment when it came first. */
function judgeRepeats(
  consumers: readonly Received[],
  crashes: readonly number[],
  violations: string[],
): { repeats: number; unmarked: number } {
  let [repeats, unmarked] = [0, 0]
  for (const { byText, consumer } of consumers) {
    for (const [text, handings] of byText) {
      repeats += handings.length - 1
      // Two nodes may have answered at the same time: the marked answer may have come first.
      const first = handings.filter(({ redelivered }) => !redelivered)
      for (const [nth, { at }] of first.entries()) {
        if (nth === 0) continue
        unmarked++
        const earlier = first[nth - 1]!.at
        if (!crashes.some(crash => Math.abs(crash - earlier) < justBeforeMs))
          violations.push(
            `${consumer}: "${text}" came again without a mark, ${Math.round(at - earlier)} ms later`,
          )
      }
    }
  }
  return { repeats, unmarked }
}

function tally(words: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const word of words) counts[word] = (counts[word] ?? 0) + 1
  return counts
}

const repeatedIn = (words: readonly string[]) =>
  Object.entries(tally(words)).flatMap(([word, times]) => (times > 1 ? [word] : []))

/** The report as a table for people (and for the README). */
export function tableOf(report: ChaosReport): string {
  const { faults, logins, polls, webhooks } = report
  const listed = (counts: Record<string, number>) =>
    Object.entries(counts)
      .map(([what, times]) => `${times} ${what}`)
      .join(', ')
  const rows: [string, string | number][] = [
    ['upstream', report.replay === 'never' ? 'gives nothing twice' : 'replays until the cursor moves'],
    ['faults', listed(faults)],
    ['messages written', report.messages],
    ['missing', report.missing],
    ['of these, taken by a poll whose node was killed, suspended, or was just ending it', report.takenAlong],
    ['stored twice', report.storedTwice],
    ['messages sent', listed(report.sends)],
    ['sent twice', report.sentTwice],
    ['webhook: events, repeats', `${webhooks.events}, ${webhooks.repeats}`],
    [
      'handed out again (without a mark, after a crash of the database)',
      `${report.repeats} (${report.unmarked})`,
    ],
    ['logins (begun again)', `${logins.done} (${logins.begunAgain})`],
    ['polls', polls.begun],
    ['begun without a lease', polls.withoutLease],
    ['of one account at once', polls.atOnce],
    ['beside the open poll of a suspended node', polls.ofSuspended],
    ['laws broken', report.violations.length],
    ['seed, seconds', `${report.seed}, ${report.seconds}`],
  ]
  return rows.map(([name, value]) => `| ${name} | ${value} |`).join('\n')
}

const help = `Makes nodes, networks, clocks and the database fail while messages pour in, then counts.

--rounds N     how many faults while upstream replays (200)
--lossy N      and how many while upstream gives nothing twice (a quarter of that)
--seed N       repeats the choices of an earlier run (random)
--pause A,B    milliseconds between faults, lowest and highest (500,3000)
--faults NAME  only faults whose names begin so
--quiet        no line per round`

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      ...{ rounds: { type: 'string' }, lossy: { type: 'string' }, seed: { type: 'string' } },
      ...{ pause: { type: 'string' }, faults: { type: 'string' } },
      ...{ quiet: { type: 'boolean' }, help: { type: 'boolean' } },
    },
  })
  if (values.help) console.log(help)
  else {
    const rounds = Number(values.rounds ?? 200)
    const lossy = Number(values.lossy ?? Math.ceil(rounds / 4))
    const seed = Number(values.seed ?? Math.floor(Math.random() * 1e9))
    const [low = 500, high = 3000] = (values.pause ?? '').split(',').filter(Boolean).map(Number)
    console.log(`seed ${seed}`)
    if (!canSetClocks) console.log('without libfaketime no clock is set')
    for (const [replay, count] of [
      ['until_advance', rounds],
      ['never', lossy],
    ] as const) {
      if (count === 0) continue
      const report = await runChaos({
        ...{ rounds: count, seed, replay, pauseMs: [low, high] as const },
        ...(values.faults && { faults: values.faults }),
        ...(!values.quiet && { onRound: (line: string) => console.error(line) }),
      })
      console.log(`\n${tableOf(report)}\n`)
      for (const line of report.violations.slice(0, 100)) console.log(`BROKEN ${line}`)
      if (report.violations.length > 0) process.exitCode = 1
    }
  }
}
