/** `svc recv --follow`: messages as they come, each dealt with once it is written. */
import type { Gateway } from '../gateway/gateway-api.ts'
import { badArgument, SvcError } from '../model/error.ts'
import { sessionKey, sessionName } from '../model/session.ts'
import { createLog } from '../platform/log.ts'
import { againFlags } from './advice.ts'
import { commandCall } from './call.ts'
import { chatLines } from './chat.ts'
import { openForCommand } from './open.ts'
import { jsonLine } from './print.ts'
import { isAnyLoggedIn, readToolRun, silentNote, type ToolRun } from './run-tool.ts'
import { noSession, writeNote } from './show.ts'
import { errColours, terminal, writeErr, writeOut } from './terminal.ts'

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
  const log = createLog(config.logLevel)
  using call = commandCall()
  await using stack = new AsyncDisposableStack()
  const { gateway } = await openForCommand(config, log, stack)
  const place = after === undefined ? { consumer: consumer ?? 'cli' } : { from: Number(after) }
  const within = session === undefined ? {} : { session: await known(gateway, session) }
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
    if (terminal.err && !json) await writeErr(errColours.dim('following; Ctrl-C ends it\n'))
    for (let count = 1; ; count++) {
      const { done, value: message } = await next
      if (done) break
      await writeOut(json ? `${jsonLine(message)}\n` : chatLines(message, again))
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

/** The session's name as it is written; one that was logged out counts while its messages are here. */
async function known(gateway: Gateway, session: string): Promise<string> {
  const name = sessionName(session)
  const found = (await gateway.accounts.list()).find(one => sessionKey(one.name) === sessionKey(name))
  if (found) return found.name
  const { messages } = await gateway.history.page({ session: name, limit: 1, offset: 0 })
  if (messages.length > 0) return name
  throw new SvcError('session_not_found', `there is no session named "${name}"`)
}
