/** Ports of webhooks for tests in which nobody subscribes over MCP. */
import { silentLog } from '../../src/platform/log.ts'

export const callbacks = { reachOf: () => ({ allowPrivate: false }) }
export const callbackPorts = { callbacks, log: silentLog, closing: new AbortController().signal }
