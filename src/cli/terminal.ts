/** The three streams of a command: which of them is a terminal, colours there, texts made safe for it, and writing that says when it is done. */
import { fstatSync, write } from 'node:fs'
import process from 'node:process'
import { seen } from '../platform/escape-controls.ts'
import { errorCodeOf } from '../platform/files.ts'

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

/** By the descriptors: opening the streams to ask them takes 6 ms of a start. */
export const terminal = {
  // Of a service it is /dev/null, which is a device too, and nobody asks.
  get in() {
    return isTerminal(0)
  },
  ...{ out: isTerminal(1), err: isTerminal(2) },
} as const

/** What a colour does to a text. */
type Paint = (text: string) => string
type Colour = 'red' | 'green' | 'yellow' | 'cyan' | 'dim' | 'bold'
/** Colours of one stream. */
export type Colours = Readonly<Record<Colour, Paint>> & { readonly shown: boolean }

const same: Paint = text => text
const plain: Colours = {
  ...{ red: same, green: same, yellow: same, cyan: same, dim: same, bold: same },
  shown: false,
}

/** Loaded where there is a terminal; NO_COLOR and TERM=dumb are its business. */
const painted: Colours =
  terminal.out || terminal.err
    ? await import('picocolors').then(({ default: pc }) => ({
        ...plain,
        ...(pc.isColorSupported && { ...pc.createColors(true), shown: true }),
      }))
    : plain

/** Colours for stdout, and for stderr: none where it is no terminal. */
export const colours: Colours = terminal.out ? painted : plain
export const errColours: Colours = terminal.err ? painted : plain

/** Columns of the terminal; 80 where there is none. */
export const columns = (): number =>
  (terminal.out ? process.stdout.columns : terminal.err ? process.stderr.columns : undefined) || 80

/** The other end of the pipe is closed. */
export class NobodyReads extends Error {}

/** Resolves once the text is written to stdout. @throws NobodyReads when it is closed */
export const writeOut = (text: string): Promise<void> => written(1, text)

/** The same on stderr. */
export const writeErr = (text: string): Promise<void> => written(2, text)

async function written(descriptor: 1 | 2, text: string): Promise<void> {
  const stream = descriptor === 1 ? 'out' : 'err'
  // A terminal by its stream, which knows how a console takes text; all else by the descriptor, off the event loop, so
  // that a reader who is slow does not keep signals and leases waiting.
  if (terminal[stream]) {
    const target = descriptor === 1 ? process.stdout : process.stderr
    return new Promise((resolve, reject) =>
      target.write(text, error => (error ? reject(writeError(error)) : resolve())),
    )
  }
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
  errorCodeOf(error) === 'EPIPE' ? new NobodyReads(error.message, { cause: error }) : error

/** Text from outside on one line: whatever a terminal would obey, and what turns the direction of writing, by number. */
export const oneLine = (text: string): string => seen(text.replace(/\r\n|[\n\v\f\u0085\u2028\u2029]/g, ' ⏎ '))

/** The lines of a text from outside, each made safe. */
export const safeLines = (text: string): string[] =>
  text.split(/\r\n|[\n\v\f\u0085\u2028\u2029]/).map(line => seen(line))
