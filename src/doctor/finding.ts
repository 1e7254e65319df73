/** What svc doctor checks, and the context that every check gets. */

import type { ServiceAddress } from '../config/notes.ts'
import type { Config } from '../config.ts'
import type { DataDirectory } from '../inspect/data-directory.ts'
import { type Finding, finding } from '../inspect/finding.ts'
import { isConnected } from '../model/session.ts'
import type { Clock } from '../platform/clock.ts'
import type { InspectedSessions, Polling } from '../storage/inspection.ts'

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

/** A finding with its subject. */
export interface DoctorFinding extends Finding {
  subject: Subject
}

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

/** Completes the finding that nobody polls, which is only a note if no messages can come. */
export function describeIdle(
  { command, sessions }: DoctorContext,
  { check, severity, what }: Finding,
): Finding {
  const hasConnected = sessions.sessions.some(({ status }) => isConnected(status))
  const fix = command('openapi')
  return hasConnected
    ? { check, severity, what: `${what}: messages wait at WeChat until one does`, fix }
    : finding.note(check, what, fix)
}
