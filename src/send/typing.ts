/** Shows the typing indicator during a send. Best effort: it never makes a send fail. */
import type { Account, Api } from '../ilink/api.ts'
import { isILinkError } from '../ilink/http.ts'
import { SvcError } from '../model/error.ts'
import type { Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import { waitForAbort } from '../platform/signals.ts'
import { refusalError } from './problems.ts'

/** The indicator disappears after a few seconds by itself (protocol notes 2.7), so it is sent again. */
const repeatMs = 4500
/** Longest wait for upstream after the end of the work. */
const endGraceMs = 1500

/**
 * Shows "typing" to `user` until the work is over. Resolves when the indicator is removed; never rejects.
 *
 * Gets a new ticket per use: a cached one may be stale. Then the removal fails and the indicator stays.
 *
 * @param onRefused called if WeChat refuses the token
 */
export async function showTyping(
  ports: { api: Api; clock: Clock; log: Log },
  account: Account,
  user: string,
  contextToken: () => Promise<string | undefined>,
  onRefused: () => Promise<unknown>,
  over: AbortSignal,
): Promise<void> {
  const { api, clock, log } = ports
  /** Aborts requests under way. */
  const cut = new AbortController()
  const run = async () => {
    const { typing_ticket: ticket } = await api.getConfig(account, user, await contextToken(), cut.signal)
    if (!ticket || over.aborted) return
    try {
      while (!over.aborted) {
        await api.sendTyping(account, { userId: user, ticket, typing: true }, cut.signal)
        await clock.sleep(repeatMs, over)
      }
    } finally {
      // Also after an error, because the failed request may have shown the indicator.
      await api.sendTyping(account, { userId: user, ticket, typing: false }, cut.signal)
    }
  }
  const running = run().catch(async error => {
    log.debug('typing not shown', { error })
    if (isILinkError(error, 'expired')) await onRefused()
  })
  const ended = new AbortController()
  const timeOut = async () => {
    await waitForAbort(over)
    await clock.sleep(endGraceMs, ended.signal)
  }
  await Promise.race([running, timeOut()])
  ended.abort()
  cut.abort()
}

/**
 * Shows "typing" once (it disappears by itself), or removes it.
 *
 * @throws SvcError `upstream_error`, `upstream_timeout`; ILinkError `expired` if WeChat refuses the token
 */
export async function sendTypingOnce(
  api: Api,
  account: Account,
  { user, contextToken, typing }: { user: string; contextToken: string; typing: boolean },
  signal: AbortSignal,
): Promise<void> {
  try {
    const { typing_ticket: ticket } = await api.getConfig(account, user, contextToken, signal)
    if (!ticket) throw new SvcError('upstream_error', 'WeChat gave no ticket to show that the bot is typing')
    await api.sendTyping(account, { userId: user, ticket, typing }, signal)
  } catch (error) {
    if (!isILinkError(error) || error.kind === 'expired') throw error
    const code = error.kind === 'timeout' ? 'upstream_timeout' : 'upstream_error'
    throw refusalError(code, 'WeChat did not show that the bot is typing', error)
  }
}
