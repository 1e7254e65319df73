/** What every subject looks at: gathered once, changed by nobody. */
import type { Config } from '../config.ts'
import type { DataDirectory } from '../inspect/data-directory.ts'
import type { Clock } from '../platform/clock.ts'
import type { Polling, SeenSessions } from '../storage/sight.ts'

export interface DoctorContext {
  /** As of the service that is looked at. */
  readonly config: Config
  /** Where the service noted that it listens; by the configuration without it. */
  readonly address?: string
  /** Of this program. */
  readonly version: string
  readonly clock: Clock
  /** Longest wait for any answer from the network, 5 s. */
  readonly deadlineMs: number
  readonly directory: DataDirectory
  /** Undefined when the lock file cannot be read. */
  readonly polling: Polling | undefined
  readonly sessions: SeenSessions
  /** A command of svc for this directory, as one may type it. */
  command(words: string): string
}
