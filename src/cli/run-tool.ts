/** One tool: what was typed goes in, the result goes to stdout, for people or as JSON; of recv also messages as they come. */
import type { Config } from '../config.ts'
import type { Gateway } from '../gateway/gateway-api.ts'
import { badArgument, type ErrorCode, SvcError } from '../model/error.ts'
import { invoke } from '../operations/gate.ts'
import { knownSession } from '../operations/history.ts'
import type { Tool } from '../operations/tools.ts'
import { agreed, readStdin } from './ask.ts'
import { chatLines } from './chat.ts'
import { againFlags, type Command, type CommandLine, toolConfig } from './command.ts'
import { commandCall, configToRead, isAbsent, openForCommand, refuseAbsent } from './open.ts'
import { jsonLine } from './print.ts'
import { progressBar } from './progress.ts'
import {
  noDirectory,
  noSession,
  type Shown,
  shownResult,
  silentText,
  writeFollowing,
  writeNote,
} from './show.ts'
import { type Io, oneLine } from './terminal.ts'
import type { ToolFlags } from './tool-flags.ts'

/** What every command of a tool needs to know of its command line. */
export interface ToolRun {
  readonly line: CommandLine
  readonly command: Command
  readonly tool: Tool
  readonly flags: ToolFlags
}

/** What was typed, checked; and the settings. @throws SvcError `invalid_arguments` */
export async function readToolRun(run: ToolRun): Promise<{
  config: Config
  input: Record<string, unknown>
  json: boolean
}> {
  const { command, flags, tool } = run
  const input = await flags.input(command, () => readStdin(command.io))
  // The one of all commands is no reader's own.
  if (input.ack !== undefined && command.opts().consumer === undefined) delete input.consumer
  // Before anything is opened or made: wrong usage leaves no trace.
  tool.parse(input)
  refuseUnasked(run, input)
  const config = tool.effect === 'read' ? await configToRead(command) : toolConfig(command)
  return { config, input, json: command.opts().json === true }
}

/** What the tools that only look give where there is no data directory. */
const nothingToSee: Readonly<Record<string, (input: Readonly<Record<string, unknown>>) => unknown>> = {
  history: ({ limit, offset }) => ({ messages: [], total: 0, total_is_lower_bound: false, limit, offset }),
  sessions: () => [],
  recv: () => [],
}
/** What the others do not find there, where it is more than a login. */
const notThere: Readonly<Record<string, ErrorCode>> = {
  download: 'message_not_found',
  logout: 'session_not_found',
  rename_session: 'session_not_found',
  set_default: 'session_not_found',
}

/** Runs the tool and prints its result. */
export async function runTool(run: ToolRun): Promise<void> {
  const { command, flags, line, tool } = run
  const { config, input: typed, json } = await readToolRun(run)
  const nothing = nothingToSee[tool.name]
  if (nothing && (await isAbsent(config))) {
    refuseAbsent({ session: typed.session, user: typed.user_id })
    await command.io.out.write(json ? `${jsonLine(nothing(tool.parse(typed)))}\n` : '')
    if (!json) await writeNote(noDirectory(config.basePath, againFlags(command)), command)
    return
  }
  const bar = progressBar(command.io)
  using call = commandCall(command.io, bar && { progress: bar.step })
  let delivered = false
  try {
    await using opened = await openForCommand(config, command.io, { absent: notThere[tool.name] })
    const { gateway, log } = opened
    const input = { ...typed, ...flags.times(command, gateway.clock.now()) }
    try {
      await tool.cli.refuse?.(gateway, tool.parse(input))
      await confirmed(run, gateway, input, call.signal)
      const result = await invoke(tool, asTyped(run, gateway), input, call, log)
      bar?.clear()
      const shown = shownResult(tool.name, result, input, againFlags(command))
      if (shown.failed) line.status = 1
      line.done = shown.done
      await command.io.out.write(json ? `${jsonLine(result)}\n` : shown.text)
      delivered = true
      if (!json && !call.cutBy) {
        const silent = tool.name === 'recv' ? await silentNote(gateway, input, command) : undefined
        const isVain = silent && shown.text === '' && !(await isAnyLoggedIn(gateway))
        if (!isVain) await writeNote(shown, command)
        else if (!silent.note) await writeNote(noSession(againFlags(command)), command)
        if (silent) await writeNote(silent, command)
      }
    } finally {
      bar?.clear()
      call.done(delivered)
    }
  } catch (error) {
    // You know that you pressed Ctrl-C: it is not an error to tell.
    const cut = call.cutBy !== undefined && error instanceof SvcError && error.code === 'shutting_down'
    if (!cut) throw error
  }
  if (call.cutBy) line.cutBy = call.cutBy
}

/**
 * Whoever names a consumer wants its position used, beside a running service too; recv without a name shows there what
 * came in the last minute.
 */
const asTyped = ({ command, tool }: ToolRun, gateway: Gateway): Gateway =>
  tool.name === 'recv' && command.opts().consumer !== undefined
    ? {
        ...gateway,
        inbox: {
          begin: consumer => gateway.inbox.begin(consumer),
          recv: (request, call) => gateway.inbox.recv({ ...request, onward: true }, call),
          waiting: (request, most) => gateway.inbox.waiting(request, most),
        },
      }
    : gateway

/** Of recv: sessions that bring no messages, and what to do. */
async function silentNote(
  gateway: Gateway,
  { session }: Readonly<Record<string, unknown>>,
  command: Command,
): Promise<Shown> {
  const only = typeof session === 'string' ? session : undefined
  return silentText(await gateway.accounts.silent(only), againFlags(command))
}

/** Whether a session is connected. */
const isAnyLoggedIn = async (gateway: Gateway): Promise<boolean> =>
  (await gateway.accounts.list()).some(({ connected }) => connected)

/** Whether somebody sees a question and can answer it. */
const canAsk = (io: Io): boolean => io.in.isTerminal && io.err.isTerminal

/**
 * What takes something away, and asks nobody first, must have been told what: a script is not to hit the default one
 * by a word too few.
 *
 * @throws SvcError `invalid_arguments`
 */
function refuseUnasked({ command, tool }: ToolRun, input: Readonly<Record<string, unknown>>): void {
  const { path, positionals, question } = tool.cli
  const [key = ''] = positionals
  if (!question || input[key] || command.opts().yes === true || canAsk(command.io)) return
  throw badArgument(key, 'expected a name, since there is no terminal to ask on', {
    hint: 'Say which, or give --yes.',
    next: { action: 'run', command: [...path, 'NAME'] },
  })
}

/**
 * What takes something away asks the person at the terminal first, if there is one.
 *
 * @throws SvcError `forbidden` when the answer is not yes, `shutting_down` when a signal came instead of one
 */
async function confirmed(
  { command, tool }: ToolRun,
  gateway: Gateway,
  input: Readonly<Record<string, unknown>>,
  signal: AbortSignal,
): Promise<void> {
  if (!tool.cli.question || command.opts().yes === true || !canAsk(command.io)) return
  const question = await tool.cli.question(gateway, tool.parse(input))
  if (await agreed(command.io, oneLine(question), signal)) return
  if (signal.aborted) throw new SvcError('shutting_down', 'The question was not answered')
  throw new SvcError('forbidden', 'nothing was done, since the answer was not yes', {
    hint: 'To go ahead without the question give --yes.',
  })
}

/**
 * Polls, or follows the process that does and takes over when it ends. The consumer's position moves when a message has
 * been written, so Ctrl-C loses none, and neither does a kill: the one message in between comes again, marked.
 */
export async function followMessages(run: ToolRun): Promise<void> {
  const { command } = run
  const { config, input, json } = await readToolRun(run)
  const { ack, consumer, session, after, limit } = input as Following
  if (ack !== undefined)
    throw badArgument('--ack', 'not with --follow, where a message is dealt with once it is written')
  using call = commandCall(command.io)
  await using opened = await openForCommand(config, command.io)
  const { gateway } = opened
  const place = after === undefined ? { consumer: consumer ?? 'cli' } : { from: Number(after) }
  const within = session === undefined ? {} : { session: await knownSession(gateway, session) }
  const again = againFlags(command)
  const messages = gateway.follow({ ...place, ...within }, call.signal)
  // A consumer that is new begins at the end of the log as it is now: before polling adds to it.
  let next = messages.next()
  try {
    await gateway.start()
    if (!json) {
      const silent = await silentNote(gateway, within, command)
      const isVain = !silent.note && !(await isAnyLoggedIn(gateway))
      await writeNote(isVain ? noSession(again) : silent, command)
    }
    if (!json) await writeFollowing(command.io.err, opened.phoneUrl)
    for (let count = 1; ; count++) {
      const { done, value: message } = await next
      if (done) break
      await command.io.out.write(json ? `${jsonLine(message)}\n` : chatLines(message, again))
      if (count === limit) call.end()
      // Asking for the next one says that this one is dealt with.
      next = messages.next()
    }
  } finally {
    // What is not written by now comes again.
    call.end()
    await messages.return()
  }
}

/** What was typed; as the tool's input, not yet converted. */
interface Following {
  ack?: number
  consumer?: string
  session?: string
  after?: string
  limit?: number
}
