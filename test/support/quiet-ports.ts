/** Ports of webhooks for tests that neither read the log nor stop svc. */
import { silentLog } from '../../src/platform/log.ts'

export const quietPorts = {
  log: silentLog,
  closing: new AbortController().signal,
  feed: { readAfter: async (cursor: string) => ({ events: [], cursor }) },
  createLinks: () => undefined,
}
