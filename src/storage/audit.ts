/** The audit log: who did what. The rules for every method are in `store.ts`. */
import type { AuditLine, AuditOutcome } from '../model/audit.ts'

/** `principal` is as from `formatPrincipal`. */
export type NewAuditLine = Omit<AuditLine, 'id' | 'name' | 'draft_by_name'>

export interface AuditFilter {
  /** Only lines after this id, oldest first. Default: newest first. */
  after?: number | undefined
  /** Only lines before this id. */
  before?: number | undefined
  /** Unix ms, inclusive. */
  since?: number | undefined
  /** Unix ms, exclusive. */
  until?: number | undefined
  /** Only lines whose subject has each of these words: names of sessions, ids of users. */
  subjects?: readonly string[] | undefined
  address?: string | undefined
  request_id?: string | undefined
  /** Only lines about the message with this row id. */
  message?: number | undefined
  /** Only calls of these principals. */
  principals?: readonly string[] | undefined
  operations?: readonly string[] | undefined
  outcome?: AuditOutcome | undefined
  limit: number
}

/**
 * A send has a line from the write that stores its message; its outcome follows the message's status. Every
 * other line is an event of type `audit.line`, in the write that gives it an outcome.
 */
export interface AuditStore {
  /** Adds a line. @returns its id */
  add(line: NewAuditLine): Promise<number>

  /** Sets the outcome of a line, and its subject if that is known only now. Not durable. */
  settle(id: number, outcome: string, subject?: string): Promise<void>

  /** @throws the signal's reason when it aborts */
  list(filter: AuditFilter, signal?: AbortSignal): Promise<AuditLine[]>
}
