/** Runs `svc recv --follow`: prints messages as they come. */
import { badArgument } from '../model/error.ts'
import { describeInbox, followMessages as followOperation } from '../operations/reading.ts'
import { verbs } from '../operations/tools.ts'
import { formatBrief } from './brief.ts'
import { formatMessage } from './chat.ts'
import { directoryFlagsOf } from './command.ts'
import { withoutGuests } from './guests.ts'
import { commandCall, createAsk, openForCommand } from './open.ts'
import { isJson, writeResult } from './print.ts'
import { formatSilent, noSessionNote, printNote, writeFollowing } from './show.ts'
import type { OperationRequest } from './view.ts'

/**
 * Polls WeChat, or follows the process that polls and takes over when that ends. The consumer's position
 * moves after a message is written, so neither Ctrl-C nor a kill loses a message. After a kill the last
 * message may come again, marked.
 */
export async function followMessages({ command, config, input }: OperationRequest): Promise<void> {
  const { ack, after, consumer = 'cli', limit, session } = verbs.recv.parse(input)
  if (ack !== undefined)
    throw badArgument('--ack', 'not with --follow, which acknowledges each message once it is written')
  const isBrief = command.opts().brief === true
  if (isBrief && isJson(command)) throw badArgument('--brief', 'expected without --json')
  const { err } = command.io
  using call = commandCall(command.io)
  await using opened = await openForCommand(config, command.io)
  const ask = createAsk(opened, call)
  const again = directoryFlagsOf(command)
  const start = after === undefined ? { consumer } : after === 'end' ? {} : { after }
  const followed = await ask(followOperation, { ...start, session, known: true })
  const messages = followed.follow(call.signal)
  // Fixes the start of a new consumer at the end of the log, before polling adds messages.
  let next = messages.next()
  try {
    await opened.gateway.start()
    if (!isJson(command)) {
      const now = await ask(describeInbox, { session })
      const silent = formatSilent(now.silent, again)
      const isVain = silent === undefined && !now.connected
      await printNote({ note: isVain ? noSessionNote(again) : silent }, command)
      await writeFollowing(err, opened.phoneUrl)
    }
    for (let count = 0; ; next = messages.next()) {
      // Requesting the next message acknowledges this one.
      const { done, value: message } = await next
      if (done) break
      if (isBrief && withoutGuests([message], await ask(verbs.sessions, {})).length === 0) continue
      const format = isBrief ? formatBrief : formatMessage
      await writeResult(command, message, format(message, again))
      if (++count === limit) call.end()
    }
  } finally {
    // Messages that are not written yet come again.
    call.end()
    await messages.return()
  }
}
