/** Questions to the person at the keyboard, and stdin as text. */
import { Buffer } from 'node:buffer'
import { createInterface } from 'node:readline'
import type { Question } from '../model/call.ts'
import { badArgument } from '../model/error.ts'
import { mostTextBytes, tooLong } from '../send/plan.ts'
import { colours, type Io } from './terminal.ts'

/**
 * For `Call.ask`: the question on stderr, a line of stdin as the answer, typed or piped; undefined when there is none.
 *
 * @param silent where stderr is for programs
 */
export function askPerson(
  io: Io,
  signal: () => AbortSignal,
  { silent = false }: { silent?: boolean } = {},
): (question: Question) => Promise<string | undefined> {
  return ({ text }) => lineFor(io, silent ? '' : text, signal(), line => line !== '')
}

/** Whether the person says yes; Enter alone, and the end of stdin, are no. */
export async function agreed(io: Io, text: string, signal: AbortSignal): Promise<boolean> {
  const line = await lineFor(io, text, signal, () => true)
  return line !== undefined && /^y(es)?$/i.test(line)
}

/** Bytes that are read for an answer. What goes on without one, such as a device, has none. */
const longestAnswer = 64 * 1024

/** The first line that will do. The terminal keeps its own line editing, so Ctrl-C stays a signal. */
async function lineFor(
  io: Io,
  question: string,
  signal: AbortSignal,
  willDo: (line: string) => boolean,
): Promise<string | undefined> {
  const { stream } = io.in
  if (question) await io.err.write(`${colours.bold(question)} `)
  const lines = createInterface({ input: stream, terminal: false })
  const { promise, resolve } = Promise.withResolvers<string | undefined>()
  let left = longestAnswer
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
    // What is said next begins a line of its own.
    if (line === undefined && question) await io.err.write('\n')
    return line
  } finally {
    lines.close()
    stream.off('data', count)
    // Else the open stream keeps the process from ending.
    stream.pause()
    stream.unref?.()
  }
}

/**
 * All of stdin as a text, without the newline that programs end with.
 *
 * @throws SvcError `invalid_arguments` for other bytes; `text_too_long` for more than one call may send: the rest is not read
 */
export async function readStdin({ in: { stream } }: Io): Promise<string> {
  const chunks: Uint8Array[] = []
  let left = mostTextBytes + '\r\n'.length
  for await (const chunk of stream) {
    chunks.push(chunk)
    left -= chunk.length
    if (left < 0) throw tooLong(`more than ${mostTextBytes}`)
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
