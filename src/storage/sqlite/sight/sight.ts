/** A data directory, looked at as it lies there. */
import type { Sight } from '../../sight.ts'
import { lookAtPolling } from './polling.ts'
import { lookAtSessions } from './sessions.ts'
import { readStoreStats } from './store-stats.ts'

export const sightOf = (dir: string): Sight => ({
  sessions: () => lookAtSessions(dir),
  store: options => readStoreStats(dir, options),
  polling: clock => lookAtPolling(dir, clock),
})
