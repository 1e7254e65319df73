/** What the system and the database engine refuse, in words. */
import { SvcError } from '../model/error.ts'
import { errorCodeOf } from './files.ts'

const noRight = 'this user has no right to it'

const reasons: Readonly<Record<string, string>> = {
  EACCES: noRight,
  EPERM: noRight,
  EROFS: 'it is read-only',
  ENOENT: 'it is not there',
  EEXIST: 'it is a file',
  ENOTDIR: 'it is not a folder',
  EISDIR: 'it is a folder',
  ELOOP: 'its links lead in a circle',
  ENAMETOOLONG: 'it is too long',
  ENOSPC: 'the disk is full',
  EDQUOT: 'the disk is full',
  EIO: 'the disk fails',
  EADDRINUSE: 'it is in use',
  ECONNREFUSED: 'nothing listens there',
  ECONNRESET: 'the connection broke',
  ENOTFOUND: 'its host name is not found',
  CERT_HAS_EXPIRED: 'its certificate has expired',
}

/** Why the system refused. */
export function reasonOf(error: unknown): string {
  const code = errorCodeOf(error)
  if (code !== undefined) return reasons[code] ?? code
  return error instanceof Error ? error.message : String(error)
}

/** What to do when a file of the data directory cannot be read or written. */
const remedies: readonly (readonly [RegExp, string])[] = [
  [/^(SQLITE_FULL|ENOSPC|EDQUOT)/, 'The disk is full. Free some space; the service recovers by itself.'],
  [
    /^SQLITE_(BUSY|LOCKED|PROTOCOL)/,
    'Another process has been writing to messages.db for long. Try again; if it lasts, look for a process that hangs.',
  ],
  [/^(ENOENT|ENOTDIR)$/, 'A folder of svc was removed or moved while svc runs. Put it back and restart svc.'],
  [
    /^(SQLITE_(READONLY|CANTOPEN|PERM|AUTH)|EACCES|EPERM|EROFS|EISDIR)/,
    'Check owner and permissions of the data directory, the media root and what is in them.',
  ],
  [
    /^SQLITE_(CORRUPT|NOTADB)/,
    'messages.db is damaged. Stop svc and move it away together with its -wal and -shm files: a new one is made.',
  ],
  [
    /^(SQLITE_(IOERR|NOMEM|NOLFS|SCHEMA)|E(?!CONN|PIPE|HOST|NET|TIME|PROTO|NOTFOUND)[A-Z0-9]+$)/,
    'Check the disk and the system log; the service recovers by itself.',
  ],
]

/** `store_unavailable` for what the machine did to files; anything else is a bug and stays what it is. */
export function unavailable(error: unknown, what: string): unknown {
  const code = error instanceof SvcError ? '' : (errorCodeOf(error) ?? '')
  const hint = remedies.find(([pattern]) => pattern.test(code))?.[1]
  if (hint === undefined) return error
  return new SvcError('store_unavailable', `${what} (${code})`, { hint, cause: error })
}
