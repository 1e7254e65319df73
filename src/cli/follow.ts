/** `svc recv --follow`: messages as they come. */
import { badArgument } from '../model/error.ts'
import { describeInbox, followMessages as followOperation } from '../operations/reading.ts'
import { verbs } from '../operations/tools.ts'
import { chatLines } from './chat.ts'
import { againFlags } from './command.ts'
import { asker, commandCall, openForCommand } from './open.ts'
import { isJson, writeResult } from './print.ts'
import { noSession, silentText, writeFollowing } from './show.ts'
import type { Typed } from './view.ts'

/**
 * Polls, or follows the process that does and takes over when it ends. The consumer's position moves when a message has
 * been written, so Ctrl-C loses none, and neither does a kill: the one message in between comes again, marked.
 */
export async function followMessages({ command, config, input }: Typed): Promise<void> {
  const { ack, after, consumer = 'cli', limit, session } = verbs.recv.parse(input)
  if (ack !== undefined)
    throw badArgument('--ack', 'not with --follow, where a message is dealt with once it is written')
  const { err } = command.io
  using call = commandCall(command.io)
  await using opened = await openForCommand(config, command.io)
  const ask = asker(opened, call)
  const again = againFlags(command)
  const place = after === undefined ? { consumer } : { after }
  const followed = await ask(followOperation, { ...place, session, known: true })
  const messages = followed.follow(call.signal)
  // A consumer that is new begins at the end of the log as it is now: before polling adds to it.
  let next = messages.next()
  try {
    await opened.gateway.start()
    if (!isJson(command)) {
      const now = await ask(describeInbox, { session })
      const silent = silentText(now.silent, again)
      const isVain = silent === undefined && !now.connected
      await err.write(isVain ? noSession(again) : (silent ?? ''))
      await writeFollowing(err, opened.phoneUrl)
    }
    for (let count = 1; ; count++) {
      const { done, value: message } = await next
      if (done) break
      await writeResult(command, message, chatLines(message, again))
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
