/** The typing indicator while a send takes its time: best effort, never the reason for a failure. */
import type { Account, Api } from '../ilink/api.ts'
import { isILinkError, said } from '../ilink/http.ts'
import { SvcError } from '../model/error.ts'
import type { Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'

/** The indicator fades by itself after a few seconds (protocol notes 2.7). */
const repeatMs = 4500
/** Work shorter than this shows no indicator, unless it is asked for. */
const quietMs = 700
/** Past the end of the work, nothing waits longer than this for upstream. */
const lastWordMs = 1500

/**
 * Shows "typing" to `user` from `quietMs` on until the returned function is called; that one resolves when the
 * indicator is taken back, and never rejects.
 *
 * The ticket is fetched per use: a cached one may be stale, and then the cancel is lost and the indicator sticks.
 *
 * @param onRefused called when WeChat refuses the token
 * @param wanted true: at once; false: not at all
 */
export function showTyping(
  ports: { api: Api; clock: Clock; log: Log },
  account: Account,
  user: string,
  contextToken: string | undefined,
  onRefused: () => Promise<unknown>,
  wanted: boolean | undefined,
): () => Promise<void> {
  if (wanted === false) return async () => {}
  const { api, clock, log } = ports
  const stop = new AbortController()
  /** Ends requests under way. */
  const cut = new AbortController()
  const run = async () => {
    if (!wanted) await clock.sleep(quietMs, stop.signal)
    if (stop.signal.aborted) return
    const { typing_ticket: ticket } = await api.getConfig(account, user, contextToken, cut.signal)
    if (!ticket || stop.signal.aborted) return
    try {
      while (!stop.signal.aborted) {
        await api.sendTyping(account, { userId: user, ticket, typing: true }, cut.signal)
        await clock.sleep(repeatMs, stop.signal)
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
  return async () => {
    stop.abort()
    const over = new AbortController()
    await Promise.race([running, clock.sleep(lastWordMs, over.signal)])
    over.abort()
    cut.abort()
  }
}

/**
 * Shows "typing" once; it fades by itself.
 *
 * @throws SvcError `upstream_error`, `upstream_timeout`; ILinkError `expired` when WeChat refuses the token
 */
export async function typeOnce(
  api: Api,
  account: Account,
  user: string,
  contextToken: string,
  signal: AbortSignal,
): Promise<void> {
  try {
    const { typing_ticket: ticket } = await api.getConfig(account, user, contextToken, signal)
    if (!ticket) throw new SvcError('upstream_error', 'WeChat gave no ticket to show that the bot is typing')
    await api.sendTyping(account, { userId: user, ticket, typing: true }, signal)
  } catch (error) {
    if (!isILinkError(error) || error.kind === 'expired') throw error
    const code = error.kind === 'timeout' ? 'upstream_timeout' : 'upstream_error'
    throw new SvcError(code, `WeChat did not show that the bot is typing${said(error)}`, { cause: error })
  }
}
