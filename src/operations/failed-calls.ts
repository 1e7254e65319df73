/**
 * Metrics, and lines of the audit log, for calls without a valid token, refused sign-ins to the panel, and wrong links of invitations: one a minute for each
 * address, of IPv6 each network (/64), with their number.
 */
import type { Gateway } from '../gateway/gateway-api.ts'
import { networkOf } from '../platform/address.ts'
import type { Log } from '../platform/log.ts'

const minuteMs = 60_000
/** Calls of further addresses within a minute are counted together. */
const maxAddresses = 1000

/**
 * Returns a function that counts a call of an address. The lines are written at the end of the minute, or when
 * the signal aborts.
 */
export function createFailureCounter(
  { audit, clock, metrics }: Pick<Gateway, 'audit' | 'clock' | 'metrics'>,
  log: Log,
  signal: AbortSignal,
): (address: string, operation?: 'sign_in' | 'join') => void {
  let counts = new Map<string, number>()
  const writeLater = async () => {
    await clock.sleep(minuteMs, signal)
    const all = counts
    counts = new Map()
    for (const [counted, count] of all) {
      const [operation = '', address] = counted.split(' ')
      const line = { at: clock.now(), principal: 'open', operation, outcome: 'unauthorized', count }
      await audit
        .add({ ...line, ...(address && { address }) })
        .catch(error => log.warn('no line in the audit log', { error }))
    }
  }
  return (from, operation: string = 'authenticate') => {
    metrics.refused()
    if (counts.size === 0) void writeLater()
    const one = `${operation} ${networkOf(from)}`
    const counted = counts.has(one) || counts.size < maxAddresses ? one : `${operation} `
    counts.set(counted, (counts.get(counted) ?? 0) + 1)
  }
}
