/**
 * Writes log lines with levels to stderr, because stdout is for results. A line is an event with fields, not
 * prose. Secrets are masked here, not at the call sites: a field that looks like a secret is never printed.
 * Characters that a terminal would obey or a reader would not see are escaped, so each event is exactly one
 * line.
 */
import process from 'node:process'
import { escapeControls, escapeControlsIn } from './escape-controls.ts'
import { nameOfProcess } from './process.ts'

export const logLevels = ['DEBUG', 'INFO', 'WARNING', 'ERROR'] as const
export type LogLevel = (typeof logLevels)[number]

export const logFormats = ['text', 'json'] as const
export type LogFormat = (typeof logFormats)[number]

/** error: a person must look at it; warn: it healed; info: a state changed; debug: each request. */
export interface Log {
  debug(event: string, fields?: LogFields): void
  info(event: string, fields?: LogFields): void
  warn(event: string, fields?: LogFields): void
  error(event: string, fields?: LogFields): void
  /** Returns this log with a room name ('' adds none) and with fields that every line carries. */
  child(room: string, fields?: LogFields): Log
}
export type LogFields = Record<string, unknown>

const secretKey =
  /token|secret|authorization|cookie|aes_?key|password|qr_?(code|url|text)|verify_?code|encrypt|upload_(full_)?url|full_url|upload_param/i
// A bot token (`<id>@im.bot:<secret>`), a bearer header, or a signed CDN parameter inside a text.
const secretText =
  /(@im\.bot:)[^\s"',}]+|(Bearer\s+)[^\s"',}]+|((?:encrypted_query_param|qrcode|verify_code|taskid|token)=)[^\s"'&,}]+/gi

const addressText = /(?:[a-z][a-z0-9+.-]*:)?\/\/[^\s"'<>]+/gi
const secretParameter =
  /token|secret|pass(w|$)|pwd|signature|credential|api[-_]?key|^(key|sig|sign|auth|code|jwt|pw)$|[-_]key$/i
/** A part of a path that nobody chose: a UUID, or a long run of letters and digits. */
const secretPart = /[0-9a-f]{8}-[0-9a-f]{4}-|[a-z0-9]{20,}|(?=[a-z]*\d)(?=\d*[a-z])[a-z0-9]{16,}|^bot\d+:/i

/**
 * Masks what may be secret in an address: user information, secrets of its query, its fragment, and parts of its path that
 * look like one. The host stays. For addresses that svc calls; a link that a person should press stays whole.
 */
export function maskAddress(address: string): string {
  const [, scheme = '', all = ''] = /^((?:[^:/]*:)?\/\/)?(.*)$/s.exec(address) ?? []
  // A password may have a slash, which makes the address malformed.
  const until = URL.canParse(address) ? /^[^/?#]*@/ : /^.*@/s
  const [, path = '', query, fragment] =
    /^([^?#]*)(?:\?([^#]*))?(?:#(.*))?$/s.exec(all.replace(until, '***@')) ?? []
  const parts = path.split('/').map((part, nth) => (nth > 0 && secretPart.test(part) ? '***' : part))
  const pairs = query?.split('&').map(pair => {
    const [name = ''] = pair.split('=', 1)
    return pair.includes('=') && secretParameter.test(name) ? `${name}=***` : pair
  })
  return `${scheme}${parts.join('/')}${pairs ? `?${pairs.join('&')}` : ''}${fragment ? '#***' : ''}`
}

/** Masks the secrets in a text: for log lines and for error texts from elsewhere. */
export const maskText = (text: string): string =>
  text
    .replace(addressText, maskAddress)
    .replace(secretText, (_all, a?: string, b?: string, c?: string) => `${a ?? b ?? c ?? ''}***`)

function maskValue(key: string, value: unknown, depth = 0): unknown {
  if (value === undefined || value === null || typeof value === 'number' || typeof value === 'boolean')
    return value
  if (secretKey.test(key)) return '***'
  if (typeof value === 'string') return maskText(value)
  if (typeof value !== 'object') return maskText(String(value))
  // A foreign object may have a `toString` that is not a function.
  if (depth > 3) return '…'
  if (value instanceof Error) {
    const because = value.cause ? ` (${maskValue('', value.cause, depth + 1)})` : ''
    return maskText(`${value.message}${because}`)
  }
  if (Array.isArray(value)) return value.map(entry => maskValue('', entry, depth + 1))
  return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, maskValue(k, v, depth + 1)]))
}

function formatValue(value: unknown): string {
  if (typeof value === 'string') return /^[^\s"=]+$/.test(value) ? value : JSON.stringify(value)
  return JSON.stringify(value) ?? 'undefined'
}

interface LogEntry {
  time: string
  level: LogLevel
  room: string
  event: string
}

function toTextLine({ time, level, room, event }: LogEntry, fields: [string, unknown][]): string {
  const rest = fields.map(([key, value]) => ` ${formatValue(key)}=${formatValue(value)}`)
  return `${time} ${level} ${escapeControls(`${room ? `${room}: ` : ''}${event}${rest.join('')}`)}\n`
}

/** Formats an entry as a line of JSON. Fields cannot replace time, level, room, event and node. */
function toJsonLine(entry: LogEntry, fields: [string, unknown][]): string {
  const own = { ...entry, node: nameOfProcess() }
  return `${JSON.stringify(escapeControlsIn({ ...own, ...Object.fromEntries(fields), ...own }))}\n`
}

interface Sink {
  write(text: string): unknown
  /** Resolves when everything is written. Only Bun has it. */
  flush?(): unknown
}
interface BunRuntime {
  stderr: { writer(): Sink }
}

/**
 * Uses Bun's own writer where there is one: Node's stream costs some ms of a start and 1.4 MB of an idle
 * service.
 */
function openStderr(): Sink {
  const { Bun } = globalThis as { Bun?: BunRuntime }
  // A Windows console takes no UTF-8; Node's stream knows what it takes.
  return Bun && process.platform !== 'win32' ? Bun.stderr.writer() : process.stderr
}

/**
 * Writes the lines of one turn of the event loop together, after the responses of that turn: a write costs
 * more than the rest of a line.
 */
class Stderr {
  #waiting = ''
  #sink: Sink | undefined

  constructor() {
    process.on('exit', () => this.#writeWaiting())
  }

  write(line: string): void {
    if (this.#waiting === '') setImmediate(() => this.#writeWaiting())
    this.#waiting += line
  }

  #writeWaiting(): void {
    this.#flush().catch(() => {})
  }

  async #flush(): Promise<void> {
    if (this.#waiting === '') return
    const text = this.#waiting
    this.#waiting = ''
    this.#sink ??= openStderr()
    // The promises reject when stderr has no reader any more.
    await Promise.all([this.#sink.write(text), this.#sink.flush?.()])
  }
}

const stderr = new Stderr()

/** Lines of this level and above report failures. */
const failureRank = logLevels.indexOf('WARNING')
/** Lines per second for an event that repeats. */
const maxLinesPerSecond = 10
/** Limit of the events that are counted separately. */
const maxEvents = 1000

/** Lets at most 10 lines per second pass. */
export class LineLimit {
  #second = Number.NaN
  #passed = 0
  #dropped = 0

  /** @returns whether a line passes, and how many were dropped since the last one that passed */
  next(now = performance.now()): { passes: boolean; unlogged?: number } {
    const second = Math.floor(now / 1000)
    if (second !== this.#second) this.#passed = 0
    this.#second = second
    if (this.#passed >= maxLinesPerSecond) {
      this.#dropped++
      return { passes: false }
    }
    this.#passed++
    const unlogged = this.#dropped
    this.#dropped = 0
    return { passes: true, ...(unlogged > 0 && { unlogged }) }
  }
}

/** Limits failures that repeat: a disk that is full, a thousand accounts without a network. */
class RepeatLimit {
  /** The second in which an event was last logged, by event. */
  readonly #loggedAt = new Map<string, number>()
  readonly #lines = new LineLimit()

  next(event: string): { passes: boolean; unlogged?: number } {
    const second = Math.floor(performance.now() / 1000)
    const isFirst = this.#loggedAt.get(event) !== second
    if (this.#loggedAt.size >= maxEvents) this.#loggedAt.clear()
    this.#loggedAt.set(event, second)
    return isFirst ? { passes: true } : this.#lines.next()
  }
}

/** While a database is away, every failure of a part that tries again has the same reason. */
const outageEveryMs = 60_000

/** Lets a failure with the same reason pass once a minute. */
class OutageLimit {
  readonly #known = new Map<string, { at: number; dropped: number }>()

  next(failure: string, now = performance.now()): { passes: boolean; unlogged?: number } {
    const known = this.#known.get(failure)
    if (known && now - known.at < outageEveryMs) {
      known.dropped++
      return { passes: false }
    }
    if (this.#known.size >= maxEvents) this.#known.clear()
    this.#known.set(failure, { at: now, dropped: 0 })
    return { passes: true, ...(known && known.dropped > 0 && { unlogged: known.dropped }) }
  }
}

/** An error of a database that is away. It may last, and every part that needs the database meets it. */
export interface Outage extends Error {
  readonly isOutage: true
}

/** Returns why the database is away, if that is why something failed. */
function outageOf(error: unknown): string | undefined {
  return error instanceof Error && (error as Partial<Outage>).isOutage === true ? error.message : undefined
}

export function createLog(
  level: LogLevel,
  write: (line: string) => void = line => stderr.write(line),
  format: LogFormat = 'text',
): Log {
  const minRank = logLevels.indexOf(level)
  const line = format === 'json' ? toJsonLine : toTextLine
  const repeated = new RepeatLimit()
  const outages = new OutageLimit()
  const make = (room: string, bound: LogFields): Log => {
    const at = (rank: number) => (event: string, fields?: LogFields) => {
      if (rank < minRank) return
      const outage = outageOf(fields?.error)
      const { passes, unlogged } =
        rank < failureRank
          ? { passes: true }
          : outage === undefined
            ? repeated.next(event)
            : outages.next(`${room} ${event} ${outage}`)
      if (!passes) return
      const rest = Object.entries({ ...bound, ...fields, unlogged })
        .filter(([, value]) => value !== undefined)
        .map(([key, value]): [string, unknown] => [key, maskValue(key, value)])
      const time = new Date().toISOString()
      write(line({ time, level: logLevels[rank]!, room, event: maskText(event) }, rest))
    }
    return {
      debug: at(0),
      info: at(1),
      warn: at(2),
      error: at(3),
      child: (name, fields) => make([room, name].filter(Boolean).join('.'), { ...bound, ...fields }),
    }
  }
  return make('', {})
}

/** A log that writes nothing: for tests, and for library callers that want no log. */
export const silentLog: Log = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  child: () => silentLog,
}
