/** The data directory as it lies there: what it is, what is in it, and whose it is. Looks only. */
import { errorCodeOf } from '../platform/files.ts'
import { type Contents, contentsOf } from '../storage/sqlite/directory-claim.ts'

export { isOurFile, setAsideName } from '../storage/sqlite/directory-claim.ts'

/** What is stored in it. */
export { sightOf } from '../storage/sqlite/sight.ts'

/** A data directory, there or not. */
export interface DataDirectory extends Pick<Contents, 'entries' | 'isUsed' | 'sessions'> {
  dir: string
  /** `foreign`: a folder with files, none of them svc's. */
  state: 'missing' | 'unreadable' | 'foreign' | 'empty' | 'ours'
  /** Of an unreadable one, why. */
  error?: unknown
  /** It belongs to the sandbox, or is to: nothing in it is of real accounts, and --sandbox was given. */
  isSandbox: boolean
}

/**
 * Looks at the directory.
 *
 * @param asSandbox whether svc is to use it with --sandbox
 */
export async function lookAtDirectory(dir: string, asSandbox = false): Promise<DataDirectory> {
  try {
    const { entries, isEmpty, isOurs, isSandbox, isUsed, sessions } = await contentsOf(dir)
    const state = isEmpty ? 'empty' : isOurs ? 'ours' : 'foreign'
    const isToBe = asSandbox && sessions === 0 && !isUsed
    return { dir, state, entries, isUsed, sessions, isSandbox: isSandbox || isToBe }
  } catch (error) {
    const state = errorCodeOf(error) === 'ENOENT' ? 'missing' : 'unreadable'
    return { dir, state, error, entries: [], isUsed: false, sessions: 0, isSandbox: asSandbox }
  }
}
