/** Ends expired keys, and everything that ends with a key, also if nobody uses them. */
import { settingAside } from '../platform/apart.ts'
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
export function endExpiredKeys(
  { isPolling, keys, maintenance }: ExpiryPorts,
  { bus, clock, closing: signal, log, tasks }: Runtime,
): void {
  const failure = 'expired keys not ended'
  tasks.repeat({ name: 'key_expiry', everyMs: checkEveryMs, failure, log, signal }, async setAside => {
    if (!isPolling() || !(await maintenance.isClockTrusted())) return
    const ended = await settingAside(setAside, keys.endExpired(clock.now()))
    if (ended.length > 0) bus.notify('keysRevoked', ended)
  })
}
