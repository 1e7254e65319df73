/**
 * Runs any command as an agent: the prompt goes to its stdin or into its arguments, and what it prints is the answer.
 * svc knows more about some programs (`known-programs.ts`).
 */
import { Buffer } from 'node:buffer'
import { SvcError } from '../../index.ts'
import { badArgument } from '../../model/error.ts'
import { Lines } from '../../platform/byte-lines.ts'
import { parseFields } from '../../platform/fields.ts'
import { RoomPart } from '../../platform/runtime.ts'
import { waitForAbort } from '../../platform/signals.ts'
import type { Backend, Prompt, TurnContext, TurnResult } from '../backend.ts'
import {
  type AgentProgram,
  agentError,
  decodeOutput,
  type ProgramCommand,
  type ProgramEnd,
  startProgram,
} from '../process.ts'
import { toPlainText } from '../terminal.ts'
import {
  findKnownProgram,
  imagesOf,
  type KnownProgram,
  placeOfPrompt,
  type TurnProgress,
  toSessionId,
} from './known-programs.ts'
import { withLostNote } from './lost.ts'

/** Longest output that is an answer, and longest line of events, in bytes. */
const maxOutput = 1024 * 1024
/** When svc stops, a program has this time to end by itself. */
const closeMs = 2000
/** Longest argument of a program; Linux takes 128 KiB. */
const maxArgument = 100_000

/** @throws SvcError `invalid_arguments` if the prompt has no place of its own in the command */
export function createCommandBackend(options: ProgramCommand): Backend {
  const { command } = options
  // Inside a longer argument it could become a part of a script: sh -c 'ask {prompt}'.
  for (const word of command)
    if (word.includes(placeOfPrompt) && !/^(--?[\w-]+=)?\{prompt\}$/.test(word))
      throw badArgument('command', `${placeOfPrompt} is a part of ${JSON.stringify(word)}`, {
        hint: `Make it an argument of its own. In a script of a shell: sh -c 'ask "$1"' sh ${placeOfPrompt}`,
      })
  return new CommandBackend({ ...options, known: findKnownProgram(command) })
}

interface Run {
  readonly folder: string
  readonly program: AgentProgram
  readonly signal: AbortSignal
}

interface CommandPorts extends ProgramCommand {
  readonly known: KnownProgram | undefined
}

class CommandBackend extends RoomPart<CommandPorts> implements Backend {
  readonly #runs = new Set<Run>()

  async run(prompt: Prompt, context: TurnContext): Promise<TurnResult> {
    const { folder, signal } = context
    // A turn that was stopped may still be ending, and its program may still write its conversation.
    const ending = [...this.#runs].filter(run => run.folder === folder && run.signal.aborted)
    await Promise.all(ending.map(({ program }) => program.ended))
    signal.throwIfAborted()
    const { known } = this.ports
    return known ? this.#runKnown(known, prompt, context) : this.#runPlain(prompt, context)
  }

  async close(): Promise<void> {
    await Promise.all([...this.#runs].map(({ program }) => program.end(closeMs)))
  }

  async #runPlain({ text }: Prompt, context: TurnContext): Promise<TurnResult> {
    const { command } = this.ports
    const hasPlace = command.some(word => word.includes(placeOfPrompt))
    const args = hasPlace ? placePrompt(command, text) : command
    const output: Buffer[] = []
    let size = 0
    const { end, failure } = await this.#spawn(args, hasPlace ? '' : `${text}\n`, context, bytes => {
      size += bytes.length
      output.push(bytes)
      if (size > maxOutput) throw tooMuch()
    })
    const answer = toPlainText(decodeOutput(Buffer.concat(output)))
    if (end.status !== 0) throw failure(answer)
    return { text: answer }
  }

  async #runKnown(known: KnownProgram, prompt: Prompt, context: TurnContext): Promise<TurnResult> {
    const progress: TurnProgress = { text: '' }
    const lines = new Lines(line => {
      const event = parseFields(line)
      if (!event) return
      const { session } = progress
      known.take(event, progress)
      if (progress.session !== undefined && progress.session !== session)
        context.keepSession?.(progress.session)
    })
    const resumed = toSessionId(context.agentSession)
    const { command } = this.ports
    const args = [...command, ...known.argumentsFor(resumed, imagesOf(prompt.files), command)]
    const { end, failure } = await this.#spawn(args, prompt.text, context, bytes => lines.add(bytes))
    lines.end()
    const { early, error, session, text } = progress
    // A program whose steps are used up may end with an error.
    const hasFailed = (end.status !== 0 && early !== 'steps') || error !== undefined
    // The program does not know the conversation, and has done nothing yet.
    if (hasFailed && session === undefined && resumed !== undefined && end.status !== undefined) {
      const again = await this.#runKnown(known, prompt, { ...context, agentSession: undefined })
      return { ...again, text: withLostNote(again.text, prompt.text) }
    }
    if (hasFailed && error)
      throw agentError(`the agent failed: ${error.slice(0, 500)}`, undefined, { how: 'error', said: error })
    if (hasFailed) throw failure('')
    if (session === undefined) throw agentError('the agent printed no events')
    if (lines.hasDropped && text === '') throw tooMuch()
    return { text: toPlainText(text), early, agentSession: session }
  }

  /** Runs a program to its end. @param take called with what it prints; it may throw to end the program */
  async #spawn(
    command: readonly string[],
    input: string,
    { folder, isolatedFrom = this.ports.isolatedFrom, signal }: TurnContext,
    take: (bytes: Buffer) => void,
  ): Promise<{ end: ProgramEnd; failure: (said: string) => SvcError }> {
    const program = await startProgram({
      ...this.ports,
      isolatedFrom,
      settings: this.ports.command,
      command,
      folder,
    })
    const run = { folder, program, signal }
    this.#runs.add(run)
    let problem: unknown
    const stop = () => void program.end()
    void waitForAbort(signal).then(stop)
    program.stdout.on('data', (bytes: Buffer) => {
      if (problem !== undefined) return
      try {
        take(bytes)
      } catch (error) {
        problem = error
        program.stdout.destroy()
        stop()
      }
    })
    program.stdin.end(input)
    try {
      const end = await program.ended
      signal.throwIfAborted()
      if (problem !== undefined) throw problem
      return { end, failure: said => program.failure(end, said) }
    } finally {
      this.#runs.delete(run)
    }
  }
}

/** Puts the prompt into its place in the arguments. @throws SvcError `text_too_long` */
function placePrompt(command: readonly string[], text: string): string[] {
  if (Buffer.byteLength(text) > maxArgument)
    throw new SvcError('text_too_long', 'the prompt is too long for an argument of a program', {
      hint: `Leave ${placeOfPrompt} out of the command, so that the program reads the prompt from its stdin.`,
    })
  const plain = text.replaceAll('\0', '')
  // A message that begins with a dash must not become an option.
  const alone = plain.startsWith('-') ? ` ${plain}` : plain
  return command.map(word => (word === placeOfPrompt ? alone : word.replace(placeOfPrompt, () => plain)))
}

const tooMuch = () =>
  new SvcError('payload_too_large', 'the agent printed more than 1 MiB', {
    hint: 'Let it print its answer only.',
  })
