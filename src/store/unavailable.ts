/** The engine's errors as callers are told of them: what is wrong, and what heals it. */
import { SvcError } from '../model/error.ts'
import { errorCodeOf } from '../platform/files.ts'

const hints: readonly (readonly [RegExp, string])[] = [
  [/^(SQLITE_FULL|ENOSPC|EDQUOT)/, 'The disk is full. Free some space; the service recovers by itself.'],
  [
    /^(SQLITE_(BUSY|LOCKED|PROTOCOL))/,
    'Another process has been writing to messages.db for long. Try again; if it lasts, look for a process that hangs.',
  ],
  [
    /^(SQLITE_(READONLY|CANTOPEN|PERM|AUTH)|EACCES|EPERM|EROFS|ENOENT)/,
    'messages.db or its folder cannot be written. Check owner and permissions of the data directory.',
  ],
  [
    /^SQLITE_(CORRUPT|NOTADB)/,
    'messages.db is damaged. Stop svc and move it away together with its -wal and -shm files: a new one is made.',
  ],
  [
    /^(SQLITE_(IOERR|NOMEM|NOLFS|SCHEMA)|E[A-Z]+$)/,
    'Check the disk and the system log; the service recovers by itself.',
  ],
]

/** `store_unavailable` for what the machine did; anything else is a bug and stays what it is. */
export function unavailable(error: unknown, what: string): unknown {
  const code = errorCodeOf(error) ?? ''
  const hint = hints.find(([pattern]) => pattern.test(code))?.[1]
  if (hint === undefined) return error
  return new SvcError('store_unavailable', `${what} (${code})`, { hint, cause: error })
}
