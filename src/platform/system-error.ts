/** Explains errors of the system and of the database engine. */
import { statSync } from 'node:fs'
import { dirname } from 'node:path'
import process from 'node:process'
import { SvcError } from '../model/error.ts'
import { attempt } from './fields.ts'
import { errorCodeOf } from './files.ts'

const noRightReason = 'this user has no right to it'

const reasons: Readonly<Record<string, string>> = {
  EACCES: noRightReason,
  EPERM: noRightReason,
  EROFS: 'it is read-only',
  ENOENT: 'it is not there',
  EEXIST: 'it is a file',
  ENOTDIR: 'it is not a folder',
  EISDIR: 'it is a folder',
  ELOOP: 'its links lead in a circle',
  ENAMETOOLONG: 'it is too long',
  EFTYPE: 'it is a pipe, a socket or a device, not a file',
  ENXIO: 'it is a socket or a device, not a file',
  EFBIG: 'it is too large',
  ENOSPC: 'the disk is full',
  EDQUOT: 'the disk is full',
  SQLITE_FULL: 'the disk is full',
  EIO: 'the disk fails',
  EADDRINUSE: 'it is in use',
  ECONNREFUSED: 'nothing listens there',
  ECONNRESET: 'the connection broke',
  ENOTFOUND: 'its host name is not found',
  CERT_HAS_EXPIRED: 'its certificate has expired',
}

/** Returns the reason of the system's error, in words. */
export function reasonOf(error: unknown): string {
  const code = errorCodeOf(error)
  if (code === undefined || error instanceof SvcError)
    return error instanceof Error ? error.message : String(error)
  const reason = reasons[code] ?? code
  return reason === noRightReason ? `${reason}${ownerNoteOf(error as Error & { path?: unknown })}` : reason
}

/** Returns the owner of the path in the error, if it is another user; else ''. */
function ownerNoteOf({ path }: { path?: unknown }): string {
  const user = process.geteuid?.()
  if (typeof path !== 'string' || user === undefined) return ''
  for (const candidate of [path, dirname(path)]) {
    // Undefined if a folder above it cannot be entered.
    const uid: number = attempt(() => statSync(candidate).uid) ?? user
    if (uid !== user) return ` (${candidate} belongs to user ${uid}, and svc runs as user ${user})`
  }
  return ''
}

/** What to do when a file of the data directory cannot be read or written. */
const remedies: readonly (readonly [RegExp, string])[] = [
  [/^(SQLITE_FULL|ENOSPC|EDQUOT)/, 'The disk is full. Free some space; a running svc recovers by itself.'],
  [
    /^SQLITE_(BUSY|LOCKED|PROTOCOL)/,
    'Another process has been writing to messages.db for a long time. Try again. If it lasts, look for a process that hangs.',
  ],
  [/^(ENOENT|ENOTDIR)$/, 'A folder of svc was removed or moved while svc runs. Put it back and restart svc.'],
  [
    /^(EACCES|EPERM)/,
    'Run svc as the user that owns it, or give the data directory to this user with chown -R.',
  ],
  [/^(EISDIR|EFTYPE|ENXIO)/, 'Something else is in the place of a file of svc. Move it away.'],
  [
    /^(SQLITE_(READONLY|CANTOPEN|PERM|AUTH)|EROFS)/,
    'Check owner and permissions of the data directory, the media root and what is in them, and whether the file system is mounted read-only.',
  ],
  [
    /^SQLITE_(CORRUPT|NOTADB)/,
    'messages.db is damaged. Stop svc and move the file away together with its -wal and -shm files. svc then creates a new one.',
  ],
  [
    /^(SQLITE_(IOERR|NOMEM|NOLFS|SCHEMA)|E(?!CONN|PIPE|HOST|NET|TIME|PROTO|NOTFOUND)[A-Z0-9]+$)/,
    'Check the disk and the system log; a running svc recovers by itself.',
  ],
]

/**
 * Returns `store_unavailable` for an error of the disk or the system. Any other error is a bug and is
 * returned as it is.
 */
export function storeErrorOf(error: unknown, what: string): unknown {
  const code = error instanceof SvcError ? '' : (errorCodeOf(error) ?? '')
  const hint = remedies.find(([pattern]) => pattern.test(code))?.[1]
  if (hint === undefined) return error
  const why = code in reasons ? `: ${reasonOf(error)}` : ''
  return new SvcError('store_unavailable', `${what}${why} (${code})`, { hint, cause: error })
}

/** Returns the error for a folder without locks: processes that share it could not exclude each other. */
export const noLocksError = (folder: string, cause?: unknown): SvcError =>
  new SvcError('store_unavailable', `the file system of ${folder} does not support locks`, {
    hint: 'Choose a data directory on a local disk with --base-path, or mount this file system with locks (NFS: with its lock service, without nolock).',
    cause,
  })
