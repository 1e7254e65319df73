/** The usual log of a client: warnings and errors, on the console. */
import type { Log, LogFields } from '../platform/log.ts'

const logOf = (room: string): Log => {
  const write =
    (level: string) =>
    (event: string, fields: LogFields = {}) => {
      const words = Object.entries(fields).map(
        ([key, value]) => `${key}=${value instanceof Error ? value.message : String(value)}`,
      )
      console.error(new Date().toISOString(), level, `${room}: ${event}`, ...words)
    }
  const none = () => {}
  return { debug: none, info: none, warn: write('WARNING'), error: write('ERROR'), child: logOf }
}

export const consoleLog: Log = logOf('svc')
