/**
 * The three streams of a command: detects terminals and colours, makes foreign text safe to print, and
 * writes with a promise that resolves once the text is written.
 */
import { fstatSync, write } from 'node:fs'
import process from 'node:process'
import type { Readable, Writable } from 'node:stream'
import { format } from 'node:util'
import { type Environment, getEnvironment } from '../config.ts'
import { SvcError } from '../model/error.ts'
import { type Clock, systemClock } from '../platform/clock.ts'
import { escapeControls } from '../platform/escape-controls.ts'
import { errorCodeOf } from '../platform/files.ts'
import type { Log } from '../platform/log.ts'
import { findOwnCommand, onStopSignals, type StopListener, type StopSignal } from '../platform/process.ts'
import { reasonOf } from '../platform/system-error.ts'

/** Streams, environment and clock of a command: those of the process, or of a test. */
export interface Io {
  readonly env: Environment
  readonly clock: Clock
  /** The command that starts svc again: the program and its first arguments. */
  readonly program: readonly string[]
  readonly in: { readonly isTerminal: boolean; readonly stream: Readable & { unref?(): unknown } }
  readonly out: Output
  readonly err: Output
  /** Writes log lines. Default: to the stderr of the process. */
  readonly log?: (lines: string) => void
  /** Sends everything that the runtime and libraries would print to stderr to this log, from now on. */
  logRuntime?(log: Log): void
  /** Same as `onStopSignals`. */
  onStop(stop: StopListener): () => void
  /** Ends the process by the signal. */
  die(signal: StopSignal): void
}

/** An output stream of a command. It removes colours unless it shows them. */
export interface Output {
  readonly isTerminal: boolean
  readonly hasColours: boolean
  /** Width of the terminal; undefined if this is no terminal. */
  readonly columns: number | undefined
  /**
   * Resolves once the text is written. On stderr it never fails.
   *
   * @throws BrokenPipeError if the pipe is closed, NotPrintedError for other errors
   */
  write(text: string): Promise<void>
  /** Writes a line without waiting. Does not fail on a closed pipe. */
  print(line: string): void
}

/**
 * Returns true for a terminal. Loading `node:tty` takes 5 ms of a start, so that is done only for a device.
 */
function isTerminal(descriptor: number): boolean {
  try {
    if (!fstatSync(descriptor).isCharacterDevice()) return false
  } catch {
    // The descriptor is closed.
    return false
  }
  return process.getBuiltinModule('node:tty').isatty(descriptor)
}

/**
 * Returns the streams of the process. Checks descriptors, since opening the streams takes 6 ms of a start.
 */
export function processIo(): Io {
  return {
    env: getEnvironment(),
    clock: systemClock,
    get program() {
      return findOwnCommand()
    },
    in: {
      // A getter: a service's stdin is /dev/null, a device too, and a service never needs this.
      get isTerminal() {
        return isTerminal(0)
      },
      get stream() {
        return process.stdin
      },
    },
    out: createOutput(1),
    err: createOutput(2),
    logRuntime,
    onStop: onStopSignals,
    die: signal => void process.kill(process.pid, signal),
  }
}

/** Logs warnings, what libraries print to stderr, and the error that ends the process. */
function logRuntime(log: Log): void {
  // The default listener prints warnings to stderr.
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

function createOutput(descriptor: 1 | 2): Output {
  const isShown = isTerminal(descriptor)
  const hasColours = isShown && wantsColours(getEnvironment())
  // The console writes without opening a stream.
  const { error } = console
  const stream = () => (descriptor === 1 ? process.stdout : process.stderr)
  const text = hasColours ? (text: string) => text : withoutColours
  return {
    isTerminal: isShown,
    hasColours,
    get columns() {
      return (isShown && stream().columns) || undefined
    },
    // A terminal is written through its stream, which knows the console's encoding.
    async write(output) {
      const writing = isShown
        ? writeToStream(stream(), text(output))
        : writeToDescriptor(descriptor, text(output))
      // A command does not fail because stderr cannot be written.
      await (descriptor === 1 ? writing : writing.catch(() => {}))
    },
    print: line => (descriptor === 1 ? console.log : error)(text(line)),
  }
}

/** Returns true if the environment (NO_COLOR, FORCE_COLOR, CI, TERM) allows colours on a terminal. */
const wantsColours = ({ CI, FORCE_COLOR, NO_COLOR, TERM }: Environment): boolean =>
  !NO_COLOR && (Boolean(FORCE_COLOR || CI) || process.platform === 'win32' || TERM !== 'dumb')

/** Loaded only with a terminal: picocolors reads the environment, which Deno may not allow. */
const painter = isTerminal(1) || isTerminal(2) ? (await import('picocolors')).createColors(true) : undefined
const passText = (text: string): string => text
/** Functions that colour text. An output without colours removes them again. */
export const colours = {
  red: painter?.red ?? passText,
  green: painter?.green ?? passText,
  yellow: painter?.yellow ?? passText,
  cyan: painter?.cyan ?? passText,
  dim: painter?.dim ?? passText,
  bold: painter?.bold ?? passText,
} as const

/** Removes colours. Foreign text has no escape sequences at this point. */
export const withoutColours = (text: string): string =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the expression removes control characters
  text.replace(/\u001b\[\d+m/g, '')

/** Returns the width of the terminal; 80 without one. */
export const columnsOf = ({ err, out }: Io): number => out.columns ?? err.columns ?? 80

/** The other end of the pipe is closed. */
export class BrokenPipeError extends Error {}

/** The output of a command could not be written, for example to a full disk. */
export class NotPrintedError extends SvcError {
  constructor(cause: unknown) {
    super('internal', `the result could not be printed: ${reasonOf(cause)}`, {
      hint: 'Check where the output goes, and the free space there.',
      cause,
    })
  }
}

const writeToStream = (stream: Writable, text: string): Promise<void> =>
  new Promise((resolve, reject) =>
    stream.write(text, error => (error ? reject(toWriteError(error)) : resolve())),
  )

/** Writes to the descriptor off the event loop, so that a slow reader does not delay signals and leases. */
async function writeToDescriptor(descriptor: 1 | 2, text: string): Promise<void> {
  const bytes = new TextEncoder().encode(text)
  for (let at = 0; at < bytes.length; ) at += await writeSome(descriptor, bytes.subarray(at))
}

const writeSome = (descriptor: number, bytes: Uint8Array): Promise<number> =>
  new Promise((resolve, reject) =>
    write(descriptor, bytes, (error, count) => {
      if (!error) resolve(count)
      // The pipe is full, and its other end made it non-blocking.
      else if (error.code === 'EAGAIN') setTimeout(() => resolve(0), 5)
      else reject(toWriteError(error))
    }),
  )

const toWriteError = (error: Error): Error =>
  errorCodeOf(error) === 'EPIPE'
    ? new BrokenPipeError(error.message, { cause: error })
    : new NotPrintedError(error)

/**
 * Makes foreign text safe and puts it on one line: shows control and direction characters by their number.
 */
export const oneLine = (text: string): string =>
  escapeControls(text.replace(/\r\n|[\n\v\f\u0085\u2028\u2029]/g, ' ⏎ '))

/** Characters of a text that a list prints. */
const maxListedCharacters = 300

/**
 * Shortens a long text for a list, without making it safe to print.
 *
 * @param whole says how to read the whole text; appended to a shortened one
 */
export const shortenListed = (text: string, whole: string): string =>
  text.length <= maxListedCharacters
    ? text
    : `${text.slice(0, maxListedCharacters).replace(/[\ud800-\udbff]$/, '')}… (${text.length} characters; ${whole})`

/** Splits foreign text into lines and makes each safe to print. */
export const safeLines = (text: string): string[] =>
  text.split(/\r\n|[\n\v\f\u0085\u2028\u2029]/).map(line => escapeControls(line))
