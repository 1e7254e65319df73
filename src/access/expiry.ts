/** Ends expired keys, and everything that ends with a key, also if nobody uses them. */
import type { Runtime } from '../platform/runtime.ts'
import type { KeyStore } from '../storage/keys.ts'
import type { StoreMaintenance } from '../storage/store.ts'

export interface ExpiryPorts {
  keys: Pick<KeyStore, 'endExpired'>
  maintenance: Pick<StoreMaintenance, 'isClockTrusted'>
  /** Whether this process polls: only one has to end keys. */
  isPolling(): boolean
}

const checkEveryMs = 1000

/**
 * Runs until the service stops. While the clock may be wrong, an expired key is rejected but not ended, since that
 * cannot be undone.
 */
export async function endExpiredKeys(
  { isPolling, keys, maintenance }: ExpiryPorts,
  { bus, clock, closing, log }: Runtime,
): Promise<void> {
  while (!closing.aborted) {
    try {
      if (isPolling() && (await maintenance.isClockTrusted())) {
        const ended = await keys.endExpired(clock.now())
        if (ended.length > 0) bus.notify('keysRevoked', ended)
      }
    } catch (error) {
      if (!closing.aborted) log.warn('expired keys not ended', { error })
    }
    await clock.sleep(checkEveryMs, closing)
  }
}
