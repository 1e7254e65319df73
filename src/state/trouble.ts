/** What the machine refuses while session files are read or written, as callers are told of it. */
import { SvcError } from '../model/error.ts'
import { errorCodeOf } from '../platform/files.ts'

const hints: readonly (readonly [RegExp, string])[] = [
  [/^(ENOSPC|EDQUOT)$/, 'The disk is full. Free some space; the service recovers by itself.'],
  [
    /^(ENOENT|ENOTDIR)$/,
    'The data directory, or a folder in it, was removed or moved while svc runs. Put it back and restart svc.',
  ],
  [/^(EACCES|EPERM|EROFS|EISDIR)$/, 'Check owner and permissions of the data directory and what is in it.'],
  [/^E[A-Z0-9]+$/, 'Check the disk and the system log; the service recovers by itself.'],
]

/** `store_unavailable` for an error of the machine; anything else as it is. */
export function troubled(error: unknown, what: string): unknown {
  const code = error instanceof SvcError ? '' : (errorCodeOf(error) ?? '')
  const hint = hints.find(([pattern]) => pattern.test(code))?.[1]
  if (hint === undefined) return error
  return new SvcError('store_unavailable', `${what} (${code})`, { hint, cause: error })
}

/**
 * Does `work`, which writes session files, and translates the machine's errors.
 *
 * @throws SvcError `store_unavailable` for those; anything else as it is
 */
export async function told<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw troubled(error, "the session's files cannot be written")
  }
}
