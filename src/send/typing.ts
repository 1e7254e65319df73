/** The typing indicator while a send takes its time: best effort, never the reason for a failure. */
import type { Account, Api } from '../ilink/api.ts'
import { isILinkError } from '../ilink/http.ts'
import { SvcError } from '../model/error.ts'
import type { Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import { untilAborted } from '../platform/signals.ts'
import { refusal } from './problems.ts'

/** The indicator fades by itself after a few seconds (protocol notes 2.7). */
const repeatMs = 4500
/** Past the end of the work, nothing waits longer than this for upstream. */
const lastWordMs = 1500

/**
 * Shows "typing" to `user` until the work is over; resolves when the indicator is taken back, and never rejects.
 *
 * The ticket is fetched per use: a cached one may be stale, and then the cancel is lost and the indicator sticks.
 *
 * @param onRefused called when WeChat refuses the token
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
  /** Ends requests under way. */
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
      // Also after an error: the one before may have shown it.
      await api.sendTyping(account, { userId: user, ticket, typing: false }, cut.signal)
    }
  }
  const running = run().catch(async error => {
    log.debug('typing not shown', { error })
    if (isILinkError(error, 'expired')) await onRefused()
  })
  const ended = new AbortController()
  const late = async () => {
    await untilAborted(over)
    await clock.sleep(lastWordMs, ended.signal)
  }
  await Promise.race([running, late()])
  ended.abort()
  cut.abort()
}

/**
 * Shows "typing" once, which fades by itself, or takes it back.
 *
 * @throws SvcError `upstream_error`, `upstream_timeout`; ILinkError `expired` when WeChat refuses the token
 */
export async function typeOnce(
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
    throw refusal(code, 'WeChat did not show that the bot is typing', error)
  }
}
