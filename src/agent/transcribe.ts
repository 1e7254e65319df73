/** Runs the command of the user that prints what is said in a voice message. */
import { endsWithin } from '../platform/clock.ts'
import { waitForAbort } from '../platform/signals.ts'
import { agentError, type ProgramOptions, startProgram } from './process.ts'
import { toPlainText } from './terminal.ts'

const patienceMs = 60_000
/** Longest transcript, in bytes. */
const maxOutput = 64 * 1024

/**
 * Returns the text that a command prints for a WAV file, whose path is its last argument.
 *
 * @param place where the agent runs: its folder may contain files that it left for the command to load
 * @throws SvcError for a command that fails or takes too long; the reason of the signal
 */
export async function transcribe(
  command: string,
  path: string,
  { signal, ...place }: Pick<ProgramOptions, 'folder' | 'isolatedFrom'> & { signal: AbortSignal },
): Promise<string> {
  const words = ['/bin/sh', '-c', `${command} "$1"`, 'sh', path]
  const program = await startProgram({ ...place, command: words, settings: command.split(/\s+/) })
  const stop = () => void program.end()
  void waitForAbort(signal).then(stop)
  let output = ''
  program.stdin.end()
  program.stdout.setEncoding('utf8').on('data', (text: string) => {
    if (output.length < maxOutput) output += text
  })
  try {
    const isInTime = await endsWithin(patienceMs, program.ended)
    signal.throwIfAborted()
    if (!isInTime) throw agentError('the command of --transcribe took too long')
    const end = await program.ended
    if (end.status !== 0) throw program.failure(end)
    return toPlainText(output.slice(0, maxOutput))
  } finally {
    stop()
  }
}
