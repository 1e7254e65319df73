/** What the machine refuses while a session file is written, as callers are told of it. */
import { SvcError } from '../model/error.ts'
import { errorCodeOf } from '../platform/files.ts'

const hints: readonly (readonly [RegExp, string])[] = [
  [/^(ENOSPC|EDQUOT)$/, 'The disk is full. Free some space; the service recovers by itself.'],
  [
    /^(EACCES|EPERM|EROFS|ENOENT|ENOTDIR|EISDIR)$/,
    'The data directory cannot be written. Check its owner and permissions.',
  ],
  [/^E[A-Z0-9]+$/, 'Check the disk and the system log; the service recovers by itself.'],
]

/**
 * Does `work` and translates the machine's errors.
 *
 * @throws SvcError `store_unavailable` for those; anything else as it is
 */
export async function told<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    const code = error instanceof SvcError ? '' : (errorCodeOf(error) ?? '')
    const hint = hints.find(([pattern]) => pattern.test(code))?.[1]
    if (hint === undefined) throw error
    throw new SvcError('store_unavailable', `the session's files cannot be written (${code})`, {
      hint,
      cause: error,
    })
  }
}
