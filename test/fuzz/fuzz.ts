/**
 * Sends what nobody expects to a running service, through every door and from its WeChat, and watches it: answers, log,
 * memory, the longest wait of a caller beside, and that every message comes to its reader once.
 *
 * `bun test/fuzz/fuzz.ts --help`; the short form is fuzz.test.ts.
 */
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import fc from 'fast-check'
import { type Call, callsOf, filled } from './doors.ts'
import { send, wrongIn } from './send.ts'
import { fullHouse, othersServed, servedText } from './served.ts'
import { startTarget, type Target, users } from './target.ts'
import { type SpoiledReply, spoiledReply } from './upstream.ts'
import { shown } from './values.ts'

export interface FuzzOptions {
  requests: number
  seconds: number
  seed: number
  /** Where in the seed's run a finding was; that alone is run. */
  path?: string
  /** Only calls whose name contains it. */
  only?: string
  /** At which the service is ended. */
  memoryMb: number
  /** A caller beside may wait so long. */
  pauseMs: number
  /** How many different findings are looked for. */
  findings: number
  /** How long a finding is made smaller. */
  shrinkSeconds: number
  /** Services under attack at a time, each with calls of its own; 1 by default. */
  services?: number
  command?: string[]
  onLine?(line: string): void
}

export interface Finding {
  /** What is wrong, and the smallest input known for it. */
  what: string
  input: string
  seed: number
  path: string
  /** Until it was seen first. */
  requests: number
  seconds: number
}

export interface FuzzReport {
  seed: number
  requests: number
  /** Of them, from WeChat. */
  replies: number
  seconds: number
  /** Counted messages, each read once. */
  counted: number
  peakMb: number
  /** The longest wait of a caller beside; and how many long ones came of no input alone. */
  longestPauseMs: number
  unexplained: number
  statuses: Record<string, number>
  findings: Finding[]
}

const largestStoreMb = 500
/** Between those of two services; each finding takes one more. */
const seedsApart = 1000
/** What reading and answering so much takes, whatever it says, ms for each MB: beyond that a wait counts. */
const perMb = 60
/** Who asks WeChat something leaves then: a burst is as long as its slowest call, and svc tries for longer. */
const patienceMs = 500

type Input = { call: Call } | { reply: SpoiledReply }

export async function runFuzz(options: FuzzOptions): Promise<FuzzReport> {
  const zero = { requests: 0, replies: 0, counted: 0, peakMb: 0, longestPauseMs: 0, unexplained: 0 }
  const report: FuzzReport = { seed: options.seed, seconds: 0, ...zero, statuses: {}, findings: [] }
  const known: Wrong[] = []
  const services = options.path === undefined ? (options.services ?? 1) : 1
  await Promise.all(
    Array.from({ length: services }, async (_, at) => {
      await using run = new Run({ ...options, seed: options.seed + at * seedsApart }, report, known)
      await run.all()
    }),
  )
  return report
}

/** Thrown by a run, and caught by fast-check. */
class Wrong extends Error {
  readonly kind: string
  /** Undefined: it came of several together. */
  readonly input: Input | undefined

  constructor(kind: string, message: string, input?: Input) {
    super(message)
    this.kind = kind
    this.input = input
  }
}

/** The same kind of thing, by the same call, with the same parts spoiled. */
const isLike = (wrong: Wrong, known: Wrong) =>
  wrong.kind === known.kind &&
  (known.kind === 'rpc' ||
    (wrong.input !== undefined &&
      known.input !== undefined &&
      nameOf(wrong.input) === nameOf(known.input) &&
      placesOf(known.input).every(place => placesOf(wrong.input!).includes(place))))

class Run implements AsyncDisposable {
  readonly #options: FuzzOptions
  readonly #begun = performance.now()
  #target: Target | undefined
  readonly #report: FuzzReport
  readonly #known: Wrong[]
  /** When a line said how far it is, s. */
  #toldAt = 0
  /** Set once something is wrong: what follows makes it smaller. */
  #first: { requests: number; seconds: number; until: number } | undefined

  /** @param report of all runs together, as are the faults that are `known` */
  constructor(options: FuzzOptions, report: FuzzReport, known: Wrong[]) {
    this.#options = options
    this.#report = report
    this.#known = known
  }

  get #seconds() {
    return (performance.now() - this.#begun) / 1000
  }

  /** Enough of everything, or of findings. */
  get #isOver() {
    const { requests, seconds, findings } = this.#options
    return (
      this.#report.requests >= requests ||
      this.#seconds >= seconds ||
      this.#report.findings.length >= findings
    )
  }

  async all(): Promise<void> {
    const calls = await callsOf(await this.#ready(), this.#options.only)
    const input: fc.Arbitrary<Input> = fc.oneof(
      { arbitrary: calls.map(call => ({ call })), weight: 9 },
      { arbitrary: spoiledReply.map(reply => ({ reply })), weight: 2 },
    )
    // Bursts of a few would be as frequent as large ones; a burst takes as long as its slowest call.
    const burst = fc.noBias(fc.array(input, { minLength: 1, maxLength: 256, size: 'max' }))
    for (let seed = this.#options.seed; ; seed++) {
      this.#first = undefined
      const found = await fc.check(
        fc.asyncProperty(burst, inputs => this.#burst(inputs)),
        {
          seed,
          ...(this.#options.path !== undefined && { path: this.#options.path }),
          numRuns: 1_000_000_000,
        },
      )
      const wrong = found.errorInstance
      if (wrong instanceof Enough) break
      if (!(wrong instanceof Wrong)) throw wrong
      this.#add(wrong, found.counterexample![0], seed, found.counterexamplePath ?? '')
      if (this.#options.path !== undefined || this.#isOver) break
    }
    await this.#leave()
    this.#report.seconds = this.#seconds
  }

  #add(wrong: Wrong, inputs: Input[], seed: number, path: string): void {
    // A reply reaches whoever asks first: of a few together it may be another than the one that saw the fault.
    const all = inputs.length > 3 && wrong.input ? [wrong.input] : inputs
    const more = all.length > 10 ? `\nwith ${all.length - 10} more` : ''
    const text = all.slice(0, 10).map(describe).join('\nwith\n') + more
    this.#known.push(wrong)
    const { requests, seconds } = this.#first!
    const finding: Finding = { what: wrong.message, input: text, seed, path, requests, seconds }
    this.#report.findings.push(finding)
    this.#options.onLine?.(findingText(finding))
  }

  /** One run of the property. */
  async #burst(inputs: Input[]): Promise<void> {
    if (this.#first) {
      // The calls of a burst have more smaller forms than are ever tried; all of them would be made.
      if (performance.now() > this.#first.until) throw new fc.PreconditionFailure(true)
    } else if (this.#isOver) throw new Enough()
    const wrong = await this.#tried(inputs)
    if (this.#seconds >= this.#toldAt + 60 * (this.#options.services ?? 1)) {
      this.#toldAt = this.#seconds
      this.#options.onLine?.(`${this.#report.requests} requests in ${Math.round(this.#seconds)} s`)
    }
    if (!wrong) return
    if (this.#known.some(known => isLike(wrong, known))) return this.#leaveWhenBroken()
    const { requests } = this.#report
    if (!this.#first) this.#options.onLine?.(`after ${requests} requests: ${wrong.message.slice(0, 300)}`)
    this.#first ??= {
      requests,
      seconds: this.#seconds,
      until: performance.now() + this.#options.shrinkSeconds * 1000,
    }
    // What others then see lasts; an answer says nothing about the next one.
    if (wrong.kind === 'lost' || wrong.kind === 'pause') await this.#leave()
    throw wrong
  }

  async #tried(inputs: Input[]): Promise<Wrong | undefined> {
    const target = await this.#ready()
    target.restore()
    const wrong = (await Promise.all(inputs.map(input => this.#sent(target, input)))).find(one => one)
    target.upstream.disarm()
    if (wrong && !target.broken()) {
      const said = target
        .log()
        .trimEnd()
        .split('\n')
        .filter(line => / ERROR /.test(line))
      if (said.length > 0) wrong.message += `\nlog: ${said.at(-1)}`
      return wrong
    }
    const [astray] = target.upstream.ledAstray
    if (astray) return new Wrong('led astray', `the service asked ${astray}`)
    const lost = target.broken() ?? (await this.#lost(target, inputs))
    const log = target.logged()
    const pauseMs = target.pauseMs()
    this.#report.peakMb = Math.max(this.#report.peakMb, target.peakMb)
    this.#report.longestPauseMs = Math.max(this.#report.longestPauseMs, pauseMs)
    if (log) return new Wrong('log', log)
    if (lost) {
      await this.#leave()
      return (await this.#alone(inputs)) ?? new Wrong('lost', lost)
    }
    // So many at once may take longer than one alone may.
    if (pauseMs <= 2 * this.#options.pauseMs) return undefined
    const again = await this.#alone(inputs)
    if (!again) this.#report.unexplained++
    return again
  }

  /** Whether those beside are served, and what was stored can be read. */
  #lost(target: Target, inputs: Input[]): Promise<string | undefined> {
    const replied = inputs.some(input => 'reply' in input)
    return Promise.all([target.count(), replied ? target.unreadable() : undefined]).then(
      found => found.find(one => one),
      error => `a caller beside is not served: ${error}`,
    )
  }

  /** What one of the inputs does by itself; a pause counts when it comes each time. */
  async #alone(inputs: Input[]): Promise<Wrong | undefined> {
    const until = performance.now() + this.#options.shrinkSeconds * 1000
    // The largest first: it is most often that one.
    for (const input of [...inputs].sort((a, b) => lengthOf(b) - lengthOf(a))) {
      if (performance.now() > until) return undefined
      const pauses: number[] = []
      const pauseMs = this.#options.pauseMs + (perMb * lengthOf(input)) / 1e6
      for (let time = 0, times = 4; time < times; time++) {
        if (this.#target?.broken() || time + pauses.length === 0) await this.#leaveWhenBroken()
        const target = await this.#ready()
        // What is still done of earlier calls, and what reading takes in any case, is no fault of this one.
        target.pauseMs()
        await this.#lost(target, [input])
        const control = target.pauseMs()
        await this.#sent(target, input)
        const answered = await this.#lost(target, [input])
        pauses.push(target.pauseMs() - control)
        target.upstream.disarm()
        if (target.broken() || (answered && pauses[time]! <= pauseMs))
          return new Wrong('lost', target.broken() ?? answered!, input)
        if (pauses[time]! <= pauseMs) break
        // Nothing else takes as long: once more is enough.
        if (pauses[time]! > 10 * pauseMs) times = 2
        if (answered) await this.#leave()
      }
      if (pauses.every(ms => ms > pauseMs))
        return new Wrong('pause', `everybody waits ${pauses.join(' and ')} ms for one call`, input)
    }
    return undefined
  }

  async #sent(target: Target, input: Input): Promise<Wrong | undefined> {
    this.#report.requests++
    if ('reply' in input) {
      this.#report.replies++
      return this.#replied(target, input)
    }
    const call = filled(input.call, target.ids)
    const answer = await send(call.door === 'panel' ? target.urls.panel : target.urls.rest, call)
    const key = answer.left ? 'left' : String(answer.status)
    this.#report.statuses[key] = (this.#report.statuses[key] ?? 0) + 1
    const wrong = target.broken() ? undefined : wrongIn(call, answer)
    return wrong === undefined ? undefined : new Wrong(/-32603/.test(wrong) ? 'rpc' : 'answer', wrong, input)
  }

  /** A reply is given where it is asked for. */
  async #replied(target: Target, input: Input & { reply: SpoiledReply }): Promise<Wrong | undefined> {
    const { endpoint, reply } = input.reply
    const { upstream } = target
    if (endpoint === 'getupdates') {
      const token = target.victim()
      if (token === undefined) this.#report.statuses.unasked = (this.#report.statuses.unasked ?? 0) + 1
      else await upstream.answer(token, reply)
    } else {
      upstream.arm(endpoint, reply)
      const [tool, asked] = triggers[endpoint]
      const { status, body } = await target
        .call(tool, asked, patienceMs)
        .catch(() => ({ status: 0, body: {} }))
      if (status >= 500 && !/^(upstream_|store_unavailable)/.test(body.code))
        return new Wrong('answer', `${tool} is answered with ${status}: ${JSON.stringify(body)}`, input)
    }
    return undefined
  }

  async #ready(): Promise<Target> {
    const { memoryMb, command } = this.#options
    // What a long run has stored is not what is looked for.
    if (this.#target && this.#target.storedMb > largestStoreMb) await this.#leave()
    this.#target ??= await startTarget({ memoryMb, ...(command && { command }) })
    return this.#target
  }

  async #leaveWhenBroken(): Promise<void> {
    if (this.#target?.broken()) await this.#leave()
  }

  async #leave(): Promise<void> {
    this.#report.counted += this.#target?.counted ?? 0
    await this.#target?.[Symbol.asyncDispose]()
    this.#target = undefined
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#leave()
  }
}

/** Ends a run of fast-check that found nothing. */
class Enough extends Error {}

const picture = { kind: 'file', data: 'QUJD', file_name: 'a.txt' }
/** What makes the service ask an endpoint. */
const triggers: Record<Exclude<SpoiledReply['endpoint'], 'getupdates'>, readonly [string, object]> = {
  sendmessage: ['send', { to: users[0], text: 'hello' }],
  getconfig: ['send', { to: users[0], text: 'hello', typing: true }],
  sendtyping: ['send', { to: users[0], text: 'hello', typing: true }],
  getuploadurl: ['send', { to: users[0], media: [picture] }],
  upload: ['send', { to: users[0], media: [picture] }],
  get_bot_qrcode: ['login', { session_name: 'fresh', timeout: 0 }],
  get_qrcode_status: ['login', { session_name: 'fresh', timeout: 0 }],
  download: ['download', { message_id: '7460000000000000002' }],
}

const nameOf = (input: Input) =>
  'call' in input ? `${input.call.door} ${input.call.operation}` : `reply ${input.reply.endpoint}`
const lengthOf = (input: Input) =>
  'call' in input ? input.call.path.length + (input.call.body?.length ?? 0) : input.reply.reply.body.length
const placesOf = (input: Input) => ('call' in input ? input.call.places : input.reply.places)

function describe(input: Input): string {
  if ('reply' in input)
    return `WeChat answers ${input.reply.endpoint} with ${input.reply.reply.status} ${shown(input.reply.reply.body)}`
  const { door, method, path, headers, body, framing } = input.call
  const text =
    body === undefined
      ? ''
      : `\n\n${typeof body === 'string' ? shown(body) : `bytes ${Buffer.from(body).toString('hex').slice(0, 400)}`}`
  const kept = Object.entries(headers).filter(
    ([name, value]) => name !== 'authorization' || !value.startsWith('Bearer planted'),
  )
  return `${door}: ${method} ${shown(path)}${framing === 'length' ? '' : ` (${framing})`}\n${kept.map(([name, value]) => `${name}: ${shown(value)}`).join('\n')}${text}`
}

export const findingText = ({ what, input, seed, path, requests, seconds }: Finding): string =>
  `FOUND after ${requests} requests, ${seconds.toFixed(1)} s: ${what}\n--seed ${seed} --path ${path}\n${input}\n`

export const reportText = (report: FuzzReport): string =>
  [
    `seed ${report.seed}: ${report.requests} requests (${report.replies} of them replies of WeChat) in ${report.seconds.toFixed(1)} s`,
    `answers ${Object.entries(report.statuses)
      .map(([status, count]) => `${status}: ${count}`)
      .join(', ')}`,
    `${report.counted} numbered messages, each read once; memory at most ${report.peakMb} MB`,
    `longest wait of a caller beside ${report.longestPauseMs} ms; ${report.unexplained} long waits that no input causes alone`,
    `${report.findings.length} findings`,
  ].join('\n')

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      requests: { type: 'string', default: '100000' },
      seconds: { type: 'string', default: '3600' },
      seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 31)) },
      path: { type: 'string' },
      memory: { type: 'string', default: '512' },
      pause: { type: 'string', default: '250' },
      findings: { type: 'string', default: '1' },
      shrink: { type: 'string', default: '30' },
      only: { type: 'string' },
      svc: { type: 'string' },
      services: { type: 'string', default: '2' },
      served: { type: 'string', default: '1' },
      help: { type: 'boolean' },
    },
  })
  if (values.help) {
    console.log(
      './scripts/fuzz [--requests N] [--seconds N] [--seed N [--path PATH]] [--memory MB] [--pause MS] [--findings N] [--shrink S] [--only NAME] [--services N] [--svc PROGRAM] [--served N]',
    )
    process.exit(0)
  }
  // A service runs in a folder of its own: a program that is named from here is found from there too.
  const [program, ...rest] = values.svc?.split(' ') ?? []
  const command = program && { command: [program.includes('/') ? resolve(program) : program, ...rest] }
  let unserved = 0
  if (Number(values.served) > 0 && values.path === undefined) {
    const report = await othersServed({
      ...{ crowd: fullHouse, times: Number(values.served), pauseMs: Number(values.pause) },
      // Answers of 30 MB are read and stored.
      memoryMb: 2 * Number(values.memory),
      onLine: line => console.log(line),
      ...(values.only !== undefined && { only: values.only }),
      ...command,
    })
    console.log(servedText(report))
    unserved = report.findings.length
    if (Number(values.requests) === 0) process.exit(unserved > 0 ? 1 : 0)
  }
  console.log(`--seed ${values.seed}`)
  const report = await runFuzz({
    ...{ requests: Number(values.requests), seconds: Number(values.seconds), seed: Number(values.seed) },
    ...{ memoryMb: Number(values.memory), pauseMs: Number(values.pause), findings: Number(values.findings) },
    ...{
      shrinkSeconds: Number(values.shrink),
      services: Number(values.services),
      onLine: line => console.log(line),
    },
    ...(values.path !== undefined && { path: values.path }),
    ...(values.only !== undefined && { only: values.only }),
    ...command,
  })
  console.log(reportText(report))
  process.exit(report.findings.length + unserved > 0 ? 1 : 0)
}
