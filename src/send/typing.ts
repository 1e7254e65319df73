/** The typing indicator while a send takes its time: best effort, never the reason for a failure. */
import type { Account, Api } from '../ilink/api.ts'
import { isILinkError } from '../ilink/http.ts'
import type { Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'

/** The indicator fades by itself after a few seconds (protocol notes 2.7). */
const repeatMs = 4500
/** Work shorter than this shows no indicator. */
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
 */
export function showTyping(
  ports: { api: Api; clock: Clock; log: Log },
  account: Account,
  user: string,
  contextToken: string | undefined,
  onRefused: () => Promise<unknown>,
): () => Promise<void> {
  const { api, clock, log } = ports
  const stop = new AbortController()
  /** Ends requests under way. */
  const cut = new AbortController()
  const run = async () => {
    await clock.sleep(quietMs, stop.signal)
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
