/** The three streams of a command: which of them is a terminal, colours there, texts made safe for it, and writing that says when it is done. */
import { fstatSync, write } from 'node:fs'
import process from 'node:process'
import type { Readable, Writable } from 'node:stream'
import { format } from 'node:util'
import { type Environment, ownEnvironment } from '../config.ts'
import { SvcError } from '../model/error.ts'
import { type Clock, systemClock } from '../platform/clock.ts'
import { seen } from '../platform/escape-controls.ts'
import { errorCodeOf } from '../platform/files.ts'
import type { Log } from '../platform/log.ts'
import { onStopSignals, ownCommand, type StopSignal } from '../platform/process.ts'
import { reasonOf } from '../platform/system-error.ts'

/** What a command reads and writes, and its clock: those of the process, or of a test. */
export interface Io {
  readonly env: Environment
  readonly clock: Clock
  /** How svc is started again: the program and its first arguments. */
  readonly program: readonly string[]
  readonly in: { readonly isTerminal: boolean; readonly stream: Readable & { unref?(): unknown } }
  readonly out: Output
  readonly err: Output
  /** Takes the log, which goes to the stderr of the process otherwise. */
  readonly log?: (lines: string) => void
  /** From here on, what the runtime and libraries would print to stderr by themselves are lines of this log. */
  logRuntime?(log: Log): void
  /** Calls `stop` on the first signal to stop. @returns takes that back */
  onStop(stop: (signal: StopSignal) => void): () => void
  /** Dies of the signal. */
  die(signal: StopSignal): void
}

/** Where a command writes. Colours are taken out where they are not wanted. */
export interface Output {
  readonly isTerminal: boolean
  readonly hasColours: boolean
  /** Of the terminal. */
  readonly columns: number | undefined
  /** Resolves once the text is written; on stderr whether it could be or not. @throws NobodyReads when the other end is closed, NotPrinted */
  write(text: string): Promise<void>
  /** Writes a line and does not wait; it does not fail when nobody reads any more. */
  print(line: string): void
}

/** What asks a descriptor loads the streams of Node, 5 ms of a start: only a device is asked. */
function isTerminal(descriptor: number): boolean {
  try {
    if (!fstatSync(descriptor).isCharacterDevice()) return false
  } catch {
    // Closed.
    return false
  }
  return process.getBuiltinModule('node:tty').isatty(descriptor)
}

/** The process's own. By the descriptors: opening the streams to ask them takes 6 ms of a start. */
export function processIo(): Io {
  return {
    env: ownEnvironment(),
    clock: systemClock,
    get program() {
      return ownCommand()
    },
    in: {
      // Of a service it is /dev/null, which is a device too, and nobody asks.
      get isTerminal() {
        return isTerminal(0)
      },
      get stream() {
        return process.stdin
      },
    },
    out: outputTo(1),
    err: outputTo(2),
    logRuntime,
    onStop: onStopSignals,
    die: signal => void process.kill(process.pid, signal),
  }
}

/** Warnings, what libraries print to stderr, and the error that ends the process. */
function logRuntime(log: Log): void {
  // The listener that is there prints them.
  process.removeAllListeners('warning')
  process.on('warning', ({ name, message }) => log.warn(message, { name }))
  console.error = (...values) => log.error(format(...values))
  console.warn = (...values) => log.warn(format(...values))
  const end = (error: unknown) => {
    const { stack } = error instanceof Error ? error : {}
    log.error('svc ends by an error that nothing caught: please report it', {
      error: error ?? 'nothing',
      stack,
    })
    process.exit(1)
  }
  process.on('uncaughtException', end)
  process.on('unhandledRejection', end)
}

function outputTo(descriptor: 1 | 2): Output {
  const isShown = isTerminal(descriptor)
  const hasColours = isShown && wantsColours(ownEnvironment())
  // By the console, which opens no stream for it.
  const { error } = console
  const stream = () => (descriptor === 1 ? process.stdout : process.stderr)
  const text = hasColours ? (text: string) => text : withoutColours
  return {
    isTerminal: isShown,
    hasColours,
    get columns() {
      return (isShown && stream().columns) || undefined
    },
    // A terminal by its stream, which knows how a console takes text.
    async write(given) {
      const writing = isShown ? shown(stream(), text(given)) : written(descriptor, text(given))
      // What a command did does not depend on who can be told about it.
      await (descriptor === 1 ? writing : writing.catch(() => {}))
    },
    print: line => (descriptor === 1 ? console.log : error)(text(line)),
  }
}

/** Whether a terminal shows colours, as NO_COLOR, FORCE_COLOR and TERM say it. */
const wantsColours = ({ CI, FORCE_COLOR, NO_COLOR, TERM }: Environment): boolean =>
  !NO_COLOR && (Boolean(FORCE_COLOR || CI) || process.platform === 'win32' || TERM !== 'dumb')

/** Loaded where there is a terminal: it reads the environment, which Deno may forbid. */
const painted = isTerminal(1) || isTerminal(2) ? (await import('picocolors')).createColors(true) : undefined
const plain = (text: string): string => text
/** Colours, for every output: one that shows none takes them out. */
export const colours = {
  red: painted?.red ?? plain,
  green: painted?.green ?? plain,
  yellow: painted?.yellow ?? plain,
  cyan: painted?.cyan ?? plain,
  dim: painted?.dim ?? plain,
  bold: painted?.bold ?? plain,
} as const

/** The text without them. What comes from outside has no escapes left by then. */
export const withoutColours = (text: string): string =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is taken out
  text.replace(/\u001b\[\d+m/g, '')

/** Columns of the terminal; 80 where there is none. */
export const columnsOf = ({ err, out }: Io): number => out.columns ?? err.columns ?? 80

/** The other end of the pipe is closed. */
export class NobodyReads extends Error {}

/** What a command had to say could not be written, as to a full disk. */
export class NotPrinted extends SvcError {
  constructor(cause: unknown) {
    super('internal', `the result could not be printed: ${reasonOf(cause)}`, {
      hint: 'Check where the output goes, and the free space there.',
      cause,
    })
  }
}

const shown = (stream: Writable, text: string): Promise<void> =>
  new Promise((resolve, reject) =>
    stream.write(text, error => (error ? reject(writeError(error)) : resolve())),
  )

/** By the descriptor, off the event loop: a reader who is slow does not keep signals and leases waiting. */
async function written(descriptor: 1 | 2, text: string): Promise<void> {
  const bytes = new TextEncoder().encode(text)
  for (let at = 0; at < bytes.length; ) at += await writeSome(descriptor, bytes.subarray(at))
}

const writeSome = (descriptor: number, bytes: Uint8Array): Promise<number> =>
  new Promise((resolve, reject) =>
    write(descriptor, bytes, (error, count) => {
      if (!error) resolve(count)
      // The other end made the pipe non-blocking, and it is full.
      else if (error.code === 'EAGAIN') setTimeout(() => resolve(0), 5)
      else reject(writeError(error))
    }),
  )

const writeError = (error: Error): Error =>
  errorCodeOf(error) === 'EPIPE' ? new NobodyReads(error.message, { cause: error }) : new NotPrinted(error)

/** Text from outside on one line: whatever a terminal would obey, and what turns the direction of writing, by number. */
export const oneLine = (text: string): string => seen(text.replace(/\r\n|[\n\v\f\u0085\u2028\u2029]/g, ' ⏎ '))

/** Characters of a text that a list shows. */
const listedText = 300

/** A text as a list shows it, to be made safe: of a long one the beginning, and `whole`, which says how to read all of it. */
export const listed = (text: string, whole: string): string =>
  text.length <= listedText
    ? text
    : `${text.slice(0, listedText).replace(/[\ud800-\udbff]$/, '')}… (${text.length} characters; ${whole})`

/** The lines of a text from outside, each made safe. */
export const safeLines = (text: string): string[] =>
  text.split(/\r\n|[\n\v\f\u0085\u2028\u2029]/).map(line => seen(line))
