/**
 * The storm: several processes on one data directory, messages pouring in, answers going out, readers everywhere, and a
 * SIGKILL again and again. Afterwards everything is counted.
 *
 * `bun test/faults/storm.ts --help`; the short form is storm.long.test.ts.
 */
import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import type { Json } from '../support/service.ts'
import { stopwatch } from '../support/stopwatch.ts'
import { answerOn, contradictions } from './support/answers.ts'
import { type Fleet, type Kill, startFleet } from './support/fleet.ts'
import { LogFile, sessionFiles } from './support/log-file.ts'
import { pollLockNote, until } from './support/program.ts'
import { type Chance, chanceOf } from './support/random.ts'
import { consume, nothingReceived, type Received, readAfter } from './support/readers.ts'
import { beyondOneBatch, inHistory, lackOf, repeatsOf } from './support/verdict.ts'
import { logInSessions, Writers } from './support/world.ts'

export interface StormOptions {
  /** How often somebody is killed. */
  rounds: number
  /** Chooses who dies when, who writes what. */
  seed: number
  /** Between a restart and the next kill, ms, lowest and highest. */
  pauseMs: readonly [number, number]
  /** Whether upstream gives a batch again until the cursor moves. */
  replay: 'until_advance' | 'never'
  /** Most messages in one answer of upstream. */
  batch?: number
  processes?: number
  sessions?: number
  command?: string[]
  onRound?(line: string): void
}

export interface StormReport {
  seed: number
  replay: string
  rounds: number
  kills: number
  pollersKilled: number
  killedWhileStarting: number
  messages: number
  missing: number
  /** The most that one killed poller took along, of one session. */
  longestGap: number
  consumers: { name: string; messages: number; repeats: number; brokenCalls: number; refusals: string }[]
  answers: Record<string, number>
  takeoversMs: { median: number; longest: number }
  pollsAtOnce: number
  integrity: string
  seconds: number
  /** Everything that broke a law, in words. */
  violations: string[]
}

export async function runStorm(options: StormOptions): Promise<StormReport> {
  const { rounds, seed, pauseMs, replay, batch = 20, processes = 3, sessions = 4 } = options
  const begun = Date.now()
  const chance = chanceOf(seed)
  const own = () => chanceOf(chance.between(0, 2 ** 31))
  await using fleet = await startFleet({
    size: processes,
    args: ['--pace', 'off', '--log-level', 'INFO'],
    // WeChat refuses tokens that it takes again, and lapses, now and then; nothing may be lost or doubled for it.
    faults: [
      { endpoint: 'sendmessage', kind: 'expired', rate: 0.05, times: 0 },
      { endpoint: 'getupdates', kind: 'expired', rate: 0.002, times: 0 },
      { endpoint: 'getupdates', kind: 'lapsed', rate: 0.02, times: 0 },
    ],
    ...(options.command && { command: options.command }),
  })
  await fleet.phone.post('switches', {
    ...{ replay, batch, burst: 'off', quota: 0 },
    // A message that upstream gives a second time would hide that it was lost.
    ...(replay !== 'never' && { duplicate: 'same_id', duplicate_after_ms: 700 }),
  })
  const accounts = await logInSessions(fleet, sessions)
  const violations: string[] = []

  const private_ = fleet.doors.map((_, place) => nothingReceived(`reader-${place}`))
  const shared = nothingReceived('shared')
  const followed = nothingReceived('(after)')
  const consumers = [...private_, shared]
  // A consumer begins at the log's end at its first call: before anybody writes.
  for (const { consumer } of consumers) await fleet.doors[0]!()!.call('recv', { consumer, timeout: 0 })

  const reading = new AbortController()
  const readers = Promise.all([
    ...fleet.doors.flatMap((door, place) => [
      consume(private_[place]!, door, reading.signal, own()),
      consume(shared, door, reading.signal, own()),
    ]),
  ])
  const following = readAfter(followed, fleet.doors, reading.signal)
  const pouring = new AbortController()
  const writers = new Writers(fleet, accounts, own())
  const writing = writers.write(pouring.signal)
  const answering = answerOn(fleet, accounts, pouring.signal, own())
  using log = new LogFile(fleet.dir)

  const watched = watchLock(fleet.dir, pouring.signal)
  for (let round = 1; round <= rounds; round++) {
    await Bun.sleep(chance.between(...pauseMs))
    // Every other time when something is being fetched, stored, handed out.
    if (chance.next() < 1 / 2) {
      await writers.nextBurst
      await Bun.sleep(chance.between(0, 20))
    }
    const line = await killSomebody(fleet, chance)
    if (replay !== 'never') {
      for (const { text } of log.passedOver(writers.injected))
        violations.push(`round ${round}: cursor is past "${text}"`)
    }
    options.onRound?.(
      `round ${round}: ${line}, ${writers.injected.length} messages, ${log.receivedIds().size} stored`,
    )
  }

  pouring.abort()
  const answers = await answering
  await writing
  await fleet.allReady()
  const last = await writers.last()
  const { injected } = writers
  await until('the last messages are stored', 30_000, () => {
    const stored = log.receivedIds()
    return last.every(one => stored.has(one.messageId))
  }).catch(error => violations.push(String(error)))
  const rows = log.rows()
  const received = rows.filter(row => !row.sent)
  for (const one of [...consumers, followed]) {
    using watch = stopwatch()
    // A lease whose owner lives lapses after 30 s.
    await until(one.consumer, 45_000, () => one.byText.size >= received.length).catch(() => {
      const lack = lackOf(one, rows, fleet.kills)
      violations.push(`${one.consumer} ${lack}; leases: ${log.leases().join('; ')}`)
    })
    const tookMs = Math.round(watch.ms)
    if (tookMs > 15_000) violations.push(`${one.consumer} had to wait ${tookMs} ms for its last messages`)
  }
  reading.abort()
  await readers
  const order = await following
  if (order.some((id, index) => index > 0 && id <= order[index - 1]!))
    violations.push('(after) came out of order')

  const { missing, twice, foreign } = inHistory(injected, rows)
  for (const text of twice) violations.push(`"${text}" is in history more than once`)
  for (const text of foreign) violations.push(`"${text}" is in history and was never written`)
  if (replay === 'never') violations.push(...beyondOneBatch(missing, fleet.kills, batch))
  else for (const { text } of missing.messages) violations.push(`"${text}" is not in history`)
  violations.push(...(await historyAgrees(fleet, received.length)))
  const told = consumers.map(one => ({ one, repeats: repeatsOf(one, fleet.kills) }))
  for (const { repeats } of told) violations.push(...repeats.forbidden)
  const followedTwice = repeatsOf(followed, fleet.kills).count
  if (followedTwice > 0) violations.push(`(after) got ${followedTwice} messages twice`)
  violations.push(...(await contradictions(fleet, answers, rows)))

  const stats: Json = await fleet.phone.get('stats')
  const pollsAtOnce = Math.max(...Object.values(stats.polls_at_once as Record<string, number>))
  if (pollsAtOnce > 1) violations.push(`${pollsAtOnce} polls of one bot at once`)
  const codes = await fleet.stop()
  if (codes.some(code => code !== 0)) violations.push(`exit statuses at the end: ${codes}`)
  const integrity = log.integrity()
  if (integrity !== 'ok') violations.push(`messages.db: ${integrity}`)
  for (const name of ['token.json', 'contexts.json']) {
    const paths = sessionFiles(fleet.dir, name)
    if (paths.length !== sessions) violations.push(`${paths.length} of ${sessions} sessions have a ${name}`)
    for (const path of paths) JSON.parse(readFileSync(path, 'utf8'))
  }
  for (const program of fleet.programs) {
    for (const line of program.log().split('\n')) {
      if (/ERROR/.test(line)) violations.push(`process ${program.pid}: ${line}`)
    }
  }

  const takeovers = takeoversOf(fleet.kills, await watched)
  return {
    ...{ seed, replay, rounds },
    kills: fleet.kills.length,
    pollersKilled: fleet.kills.filter(kill => kill.wasPoller).length,
    killedWhileStarting: fleet.kills.filter(kill => kill.wasStarting).length,
    messages: injected.length,
    missing: missing.messages.length,
    longestGap: Math.max(0, ...missing.runs.map(run => run.length)),
    consumers: [...told, { one: followed, repeats: { count: followedTwice } }].map(({ one, repeats }) => ({
      name: one.consumer,
      messages: one.byText.size,
      repeats: repeats.count,
      brokenCalls: one.broken.length,
      refusals: refusalsOf(one),
    })),
    answers: tally(answers.map(answer => answer.outcome)),
    takeoversMs: { median: takeovers[takeovers.length >> 1] ?? 0, longest: takeovers.at(-1) ?? 0 },
    ...{ pollsAtOnce, integrity },
    seconds: Math.round((Date.now() - begun) / 1000),
    violations,
  }
}

/** One round: somebody dies and is started again; one in eight dies a second time while it starts. */
async function killSomebody(fleet: Fleet, chance: Chance): Promise<string> {
  // The poller has most to lose, so it is chosen a little more often.
  const any = chance.between(0, fleet.size - 1)
  const place = chance.next() < 1 / 4 ? (fleet.pollerPlace() ?? any) : any
  const kill = await fleet.kill(place)
  // Now and then the others are alone for a while.
  await Bun.sleep(chance.pick([0, 0, 200, 1500]))
  fleet.restart(place)
  if (chance.next() < 1 / 8) {
    await Bun.sleep(chance.between(20, 400))
    await fleet.kill(place)
    fleet.restart(place)
  }
  return `${kill.wasPoller ? 'the poller' : 'a watcher'} died${kill.wasStarting ? ' while it started' : ''}`
}

/** The tool must show what the file holds: every page of every process, each message once. */
async function historyAgrees(fleet: Fleet, stored: number): Promise<string[]> {
  const found: string[] = []
  for (const [place, door] of fleet.doors.entries()) {
    const ids = new Set<number>()
    let shown = 0
    for (let before: number | undefined; ; ) {
      const input = { direction: 'received', limit: 200, ...(before && { before }) }
      const { body } = await door()!.call('history', input)
      for (const { id } of body.messages) ids.add(id)
      shown += body.messages.length
      if (!body.next_before) break
      before = body.next_before
    }
    if (shown !== stored || ids.size !== stored) {
      found.push(`history of process ${place} shows ${shown} rows, ${ids.size} different, of ${stored}`)
    }
  }
  return found
}

/** When the poll lock was taken, Unix ms, until `stop`. */
async function watchLock(dir: string, stop: AbortSignal): Promise<number[]> {
  const taken = new Set<number>()
  while (!stop.aborted) {
    const note = pollLockNote(dir)
    if (note) taken.add(note.at)
    await Bun.sleep(50)
  }
  return [...taken]
}

/** From the death of each poller to the next taking of the lock, shortest first. */
function takeoversOf(kills: readonly Kill[], taken: readonly number[]): number[] {
  return kills
    .filter(kill => kill.wasPoller)
    .flatMap(kill => {
      const next = taken.find(at => at >= kill.at)
      return next === undefined ? [] : next - kill.at
    })
    .sort((a, b) => a - b)
}

const refusalsOf = (received: Received) =>
  [...received.refusals].map(([code, times]) => `${code} ${times}`).join(', ')

function tally(words: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const word of words) counts[word] = (counts[word] ?? 0) + 1
  return counts
}

/** The report as a table for people (and for the README). */
export function tableOf(report: StormReport): string {
  const { takeoversMs } = report
  const rows: [string, string | number][] = [
    ['upstream', report.replay === 'never' ? 'gives nothing twice' : 'replays until the cursor moves'],
    ['rounds', report.rounds],
    [
      'processes killed',
      `${report.kills} (${report.pollersKilled} pollers, ${report.killedWhileStarting} starting)`,
    ],
    ['messages written', report.messages],
    [
      'missing from history',
      `${report.missing}${report.missing ? ` (at most ${report.longestGap} in a row)` : ''}`,
    ],
    ['stored twice', report.violations.filter(line => line.includes('more than once')).length],
    ...report.consumers.map(({ name, messages, repeats, brokenCalls, refusals }): [string, string] => [
      `reader ${name}`,
      `${messages} messages, ${repeats} repeats, ${brokenCalls} broken calls${refusals && `; ${refusals}`}`,
    ]),
    [
      'answers sent',
      Object.entries(report.answers)
        .map(([what, times]) => `${times} ${what}`)
        .join(', '),
    ],
    ['takeover', `median ${takeoversMs.median} ms, longest ${takeoversMs.longest} ms`],
    ['polls of one bot at once', report.pollsAtOnce],
    ['messages.db', report.integrity],
    ['laws broken', report.violations.length],
    ['seed, seconds', `${report.seed}, ${report.seconds}`],
  ]
  const wide = Math.max(...rows.map(([name]) => name.length))
  return rows.map(([name, value]) => `| ${name.padEnd(wide)} | ${value} |`).join('\n')
}

const help = `Kills svc again and again while messages pour in, then counts.

--rounds N     how many kills while upstream replays (200)
--lossy N      and how many while upstream gives nothing twice (a quarter of that)
--seed N       repeats the choices of an earlier storm (random)
--pause A,B    milliseconds between kills, lowest and highest (1000,3000)
--svc PATH     a compiled svc instead of the sources
--quiet        no line per round`

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      ...{ rounds: { type: 'string' }, lossy: { type: 'string' }, seed: { type: 'string' } },
      ...{ pause: { type: 'string' }, svc: { type: 'string' } },
      ...{ quiet: { type: 'boolean' }, help: { type: 'boolean' } },
    },
  })
  if (values.help) console.log(help)
  else {
    const rounds = Number(values.rounds ?? 200)
    const lossy = Number(values.lossy ?? Math.ceil(rounds / 4))
    const seed = Number(values.seed ?? Math.floor(Math.random() * 1e9))
    const [low = 1000, high = 3000] = (values.pause ?? '').split(',').filter(Boolean).map(Number)
    console.log(`seed ${seed}`)
    let failed = false
    for (const [replay, count] of [
      ['until_advance', rounds],
      ['never', lossy],
    ] as const) {
      if (count === 0) continue
      const report = await runStorm({
        ...{ rounds: count, seed, replay, pauseMs: [low, high] as const },
        ...(values.svc && { command: [values.svc] }),
        ...(!values.quiet && { onRound: (line: string) => console.error(line) }),
      })
      console.log(`\n${tableOf(report)}\n`)
      for (const line of report.violations.slice(0, 100)) console.log(`BROKEN ${line}`)
      failed ||= report.violations.length > 0
    }
    process.exitCode = failed ? 1 : 0
  }
}
