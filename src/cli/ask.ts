/** Asks questions of the person at the keyboard, and reads stdin as text. */
import { Buffer } from 'node:buffer'
import { createInterface } from 'node:readline'
import type { Question } from '../model/call.ts'
import { badArgument } from '../model/error.ts'
import { maxTextBytes, tooLongError } from '../send/plan.ts'
import { colours, type Io } from './terminal.ts'

/**
 * Returns a function for `Call.ask`. It writes the question to stderr and reads one line of stdin, typed or
 * piped, as the answer. The answer is undefined if stdin ends or the signal aborts.
 *
 * @param silent true: write no question, since programs read stderr
 */
export function askPerson(
  io: Io,
  signal: () => AbortSignal,
  { silent = false }: { silent?: boolean } = {},
): (question: Question) => Promise<string | undefined> {
  return ({ text }) => readAnswer(io, silent ? '' : text, signal(), line => line !== '')
}

/** Returns true if the person answers yes. Enter alone and the end of stdin are a no. */
export async function askYesNo(io: Io, text: string, signal: AbortSignal): Promise<boolean> {
  const line = await readAnswer(io, text, signal, () => true)
  return line !== undefined && /^y(es)?$/i.test(line)
}

/**
 * Most bytes to read for an answer. An endless input without a line end, such as a device, gives no answer.
 */
const maxAnswerBytes = 64 * 1024

/**
 * Reads the first line that `willDo` accepts. The terminal keeps its own line editing, so Ctrl-C stays a
 * signal.
 */
async function readAnswer(
  io: Io,
  question: string,
  signal: AbortSignal,
  willDo: (line: string) => boolean,
): Promise<string | undefined> {
  const { stream } = io.in
  if (question) await io.err.write(`${colours.bold(question)} `)
  const lines = createInterface({ input: stream, terminal: false })
  const { promise, resolve } = Promise.withResolvers<string | undefined>()
  let left = maxAnswerBytes
  const count = (chunk: Uint8Array) => {
    left -= chunk.length
    if (left >= 0) return
    stream.pause()
    resolve(undefined)
  }
  stream.on('data', count)
  lines.on('line', line => {
    if (willDo(line.trim())) resolve(line.trim())
  })
  lines.on('close', () => resolve(undefined))
  signal.addEventListener('abort', () => resolve(undefined), { once: true })
  try {
    const line = await promise
    // The next output begins on a new line.
    if (line === undefined && question) await io.err.write('\n')
    return line
  } finally {
    lines.close()
    stream.off('data', count)
    // An open stream would keep the process alive.
    stream.pause()
    stream.unref?.()
  }
}

/**
 * Reads all of stdin as text, without a newline at the end.
 *
 * @throws SvcError `invalid_arguments` if it is not UTF-8; `text_too_long` as soon as it is longer than one
 *   call may send
 */
export async function readStdin({ in: { stream } }: Io): Promise<string> {
  const chunks: Uint8Array[] = []
  let left = maxTextBytes + '\r\n'.length
  for await (const chunk of stream) {
    chunks.push(chunk)
    left -= chunk.length
    if (left < 0) throw tooLongError(`more than ${maxTextBytes}`)
  }
  try {
    const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
    return decoder.decode(Buffer.concat(chunks)).replace(/\r?\n$/, '')
  } catch (error) {
    throw badArgument('text', 'what came on stdin is not UTF-8 text', {
      hint: 'Turn it into UTF-8 first, or send it as a file with --file.',
      cause: error,
    })
  }
}
