/** Findings of svc doctor, and the context that every check gets. */
import type { Config } from '../config.ts'
import type { DataDirectory } from '../inspect/data-directory.ts'
import type { ServiceAddress } from '../inspect/healthz.ts'
import type { Clock } from '../platform/clock.ts'
import type { InspectedSessions, Polling } from '../storage/inspection.ts'

/**
 * Severity of a finding.
 *
 * - ok: as expected
 * - note: worth knowing, but not a problem
 * - warning: works now, and may fail later
 * - error: does not work, or is open to others
 */
export type Severity = 'ok' | 'note' | 'warning' | 'error'

/** Subjects of the checks, in the order of the report. */
export const subjects = [
  'runtime',
  'directory',
  'locks',
  'clock',
  'disk',
  'sessions',
  'store',
  'cluster',
  'network',
  'exposure',
  'service',
] as const
export type Subject = (typeof subjects)[number]

export interface Finding {
  /** Name of the check, one word for programs. One check may have several findings. */
  check: string
  severity: Severity
  /** The finding in one sentence, without secrets. */
  what: string
  /** A command, or a sentence that says what to do. */
  fix?: string
}

/** A finding with its subject. */
export interface DoctorFinding extends Finding {
  subject: Subject
}

export const okFinding = (check: string, what: string): Finding => ({ check, severity: 'ok', what })
export const noteFinding = (check: string, what: string, fix?: string): Finding => ({
  check,
  severity: 'note',
  what,
  fix,
})
export const warningFinding = (check: string, what: string, fix: string): Finding => ({
  check,
  severity: 'warning',
  what,
  fix,
})
export const errorFinding = (check: string, what: string, fix: string): Finding => ({
  check,
  severity: 'error',
  what,
  fix,
})

/** Data for all checks: collected once, never changed. */
export interface DoctorContext {
  /** Configuration of the service that is examined. */
  readonly config: Config
  /** Address that the running service wrote down; undefined: use the configuration's address. */
  readonly address?: ServiceAddress
  /** Names of unknown SVC_* variables, each with the likely correct name if there is one. */
  readonly unknownVariables?: readonly string[]
  /** Version of this program. */
  readonly version: string
  readonly clock: Clock
  /** Longest wait for an answer from the network, in milliseconds; default 5000. */
  readonly deadlineMs: number
  readonly directory: DataDirectory
  /** Undefined if the lock file cannot be read. */
  readonly polling: Polling | undefined
  readonly sessions: InspectedSessions
  /** Formats a command of svc for this directory, ready to type. */
  command(words: string): string
}
