/** The typing indicator while a send takes its time: best effort, never the reason for a failure. */
import type { Account, Api } from '../ilink/api.ts'
import type { Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'

/** The indicator fades by itself after a few seconds (protocol notes 2.7). */
const repeatMs = 4500
/** Work shorter than this shows no indicator. */
const quietMs = 700

/**
 * Shows "typing" to `user` from `quietMs` on until the returned function is called.
 *
 * The ticket is fetched per use: a cached one may be stale, and then the cancel is lost and the indicator sticks.
 */
export function showTyping(
  ports: { api: Api; clock: Clock; log: Log },
  account: Account,
  user: string,
  contextToken: string | undefined,
): () => void {
  const { api, clock, log } = ports
  const stop = new AbortController()
  const run = async () => {
    await clock.sleep(quietMs, stop.signal)
    if (stop.signal.aborted) return
    const { typing_ticket: ticket } = await api.getConfig(account, user, contextToken)
    if (!ticket) return
    while (!stop.signal.aborted) {
      await api.sendTyping(account, { userId: user, ticket, typing: true })
      await clock.sleep(repeatMs, stop.signal)
    }
    await api.sendTyping(account, { userId: user, ticket, typing: false })
  }
  run().catch(error => log.debug('typing not shown', { error }))
  return () => stop.abort()
}
