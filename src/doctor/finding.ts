/** What each look at one thing is given, and what it brought to light. */
import type { Config } from '../config.ts'
import type { DataDirectory } from '../inspect/data-directory.ts'
import type { Clock } from '../platform/clock.ts'
import type { Polling, SeenSessions } from '../storage/sight.ts'

/**
 * - ok: as it should be
 * - note: worth knowing, nothing is wrong
 * - warning: works now, and may not for long
 * - error: something does not work, or is open to others
 */
export type Severity = 'ok' | 'note' | 'warning' | 'error'

/** The subjects, in the order of the report. */
export const subjects = [
  'runtime',
  'directory',
  'locks',
  'clock',
  'disk',
  'sessions',
  'store',
  'network',
  'exposure',
  'service',
] as const
export type Subject = (typeof subjects)[number]

export interface Found {
  /** Which look this is, one word for programs; the same one may bring several findings. */
  check: string
  severity: Severity
  /** In one sentence, without secrets. */
  what: string
  /** A command, or a sentence that says what to do. */
  fix?: string
}

/** A finding with where it belongs. */
export interface Finding extends Found {
  subject: Subject
}

export const ok = (check: string, what: string): Found => ({ check, severity: 'ok', what })
export const note = (check: string, what: string, fix?: string): Found => ({
  ...{ check, severity: 'note', what, fix },
})
export const warning = (check: string, what: string, fix: string): Found => ({
  ...{ check, severity: 'warning', what, fix },
})
export const bad = (check: string, what: string, fix: string): Found => ({
  ...{ check, severity: 'error', what, fix },
})

/** What every subject looks at: gathered once, changed by nobody. */
export interface DoctorContext {
  /** As of the service that is looked at. */
  readonly config: Config
  /** Where the service noted that it listens; by the configuration without it. */
  readonly address?: string
  /** Variables that svc does not know, by name, perhaps with the one that was meant. */
  readonly unknownVariables?: readonly string[]
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
