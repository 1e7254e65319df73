/** Lines of the audit log for calls without a valid token: one a minute for each address, with their number. */
import type { Gateway } from '../gateway/gateway-api.ts'
import type { Log } from '../platform/log.ts'

const minuteMs = 60_000
/** Calls of further addresses within a minute are counted together. */
const maxAddresses = 1000

/**
 * Returns a function that counts a call of an address. The lines are written at the end of the minute, or when
 * the signal aborts.
 */
export function createFailureCounter(
  { audit, clock }: Pick<Gateway, 'audit' | 'clock'>,
  log: Log,
  signal: AbortSignal,
): (address: string) => void {
  let counts = new Map<string, number>()
  const writeLater = async () => {
    await clock.sleep(minuteMs, signal)
    const counted = counts
    counts = new Map()
    const line = { principal: 'open', operation: 'authenticate', outcome: 'unauthorized' }
    for (const [address, count] of counted)
      await audit
        .add({ at: clock.now(), ...line, count, ...(address !== '' && { address }) })
        .catch(error => log.warn('no line in the audit log', { error }))
  }
  return address => {
    if (counts.size === 0) void writeLater()
    const counted = counts.has(address) || counts.size < maxAddresses ? address : ''
    counts.set(counted, (counts.get(counted) ?? 0) + 1)
  }
}
