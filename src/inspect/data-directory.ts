/** Inspects a data directory without changing it: does it exist, what is in it, and is it a sandbox's. */
import type { Config } from '../config.ts'
import { badArgument } from '../model/error.ts'
import { errorCodeOf } from '../platform/files.ts'
import { reasonOf } from '../platform/system-error.ts'
import type { Inspection } from '../storage/inspection.ts'
import { type DirectoryContents, readContents } from '../storage/sqlite/directory-claim.ts'
import { createInspection } from '../storage/sqlite/inspection.ts'

export { explainMark, isOfDatabase, readClosedMark, rejectClosed } from '../storage/sqlite/closed-mark.ts'
export { isOurFile, setAsideName } from '../storage/sqlite/directory-claim.ts'

/** Opens the read-only inspection of a data directory. */
export { createInspection } from '../storage/sqlite/inspection.ts'

/** Opens the read-only inspection of the store of a service with this configuration. */
export async function openInspection({
  basePath,
  storeUrl,
}: Pick<Config, 'basePath' | 'storeUrl'>): Promise<Inspection> {
  if (storeUrl === undefined) return createInspection(basePath)
  const { PgInspection } = await import('../storage/postgres/inspection.ts')
  return new PgInspection(storeUrl)
}

/** State of a data directory, which may not exist. */
export interface DataDirectory extends Pick<DirectoryContents, 'entries' | 'isUsed' | 'sessions'> {
  dir: string
  /** `foreign`: a folder with files, none of them svc's. */
  state: 'missing' | 'unreadable' | 'foreign' | 'empty' | 'ours'
  /** Why it is unreadable. */
  error?: unknown
  /**
   * True if it belongs to the sandbox, or if --sandbox was given and it contains no data of real accounts.
   */
  isSandbox: boolean
}

/** Returns why a folder is no data directory, and cannot be read as one; undefined if it is, or may become one. */
export const explainUnusable = ({ state, error }: DataDirectory): string | undefined =>
  state === 'foreign'
    ? 'it has other files, and none of svc'
    : state === 'unreadable'
      ? reasonOf(error)
      : undefined

/** @throws SvcError `invalid_arguments` for a folder that no command is for */
export async function rejectForeign({ basePath, storeUrl }: Pick<Config, 'basePath' | 'storeUrl'>) {
  const why = storeUrl === undefined ? explainUnusable(await inspectDirectory(basePath)) : undefined
  if (why !== undefined)
    throw badArgument('--base-path', `${basePath} cannot be used: ${why}`, {
      hint: 'Name the data directory, or a new or an empty folder.',
    })
}

/**
 * Inspects the directory.
 *
 * @param asSandbox true if svc runs with --sandbox
 */
export async function inspectDirectory(dir: string, asSandbox = false): Promise<DataDirectory> {
  try {
    const { entries, isEmpty, isOurs, isSandbox, isUsed, sessions } = await readContents(dir)
    const state = isEmpty ? 'empty' : isOurs ? 'ours' : 'foreign'
    const isToBe = asSandbox && sessions === 0 && !isUsed
    return { dir, state, entries, isUsed, sessions, isSandbox: isSandbox || isToBe }
  } catch (error) {
    const state = errorCodeOf(error) === 'ENOENT' ? 'missing' : 'unreadable'
    return { dir, state, error, entries: [], isUsed: false, sessions: 0, isSandbox: asSandbox }
  }
}
