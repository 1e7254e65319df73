/** The data directory as it lies there: what it is, what is in it, and whose it is. Looks only. */
import type { Dirent } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { dataFiles, isSessionFolder } from '../model/data-files.ts'
import { errorCodeOf, fileExists } from '../platform/files.ts'
import { showsUse } from '../storage/sqlite/claim.ts'

/** A data directory, there or not. */
export interface DataDirectory {
  dir: string
  /** `foreign`: a folder with files, none of them svc's. */
  state: 'missing' | 'unreadable' | 'foreign' | 'empty' | 'ours'
  /** Of an unreadable one, why. */
  error?: unknown
  entries: readonly Dirent[]
  /** svc worked on it, with accounts or, so far, without. */
  isUsed: boolean
  /** It belongs to the sandbox, or is to: nothing in it is of real accounts, and --sandbox was given. */
  isSandbox: boolean
}

const ourFiles =
  /^(\.default_session|\.signed_out\.json|api_token|messages\.db(-wal|-shm|-journal)?|\.(data|poll)\.lock(\.lock)?)$/
/** What a file system, or the desktop, puts into any folder. */
const nobodys = /^(lost\+found|\.DS_Store)$/
/** A file that was being written, and one that did not parse. */
const leftoverName = /\.[0-9a-f]{12}\.tmp$/
export const setAsideName = /\.corrupt-\d+$/

/** Whether svc gives files of this name into the directory itself. */
export const isOurFile = (name: string): boolean =>
  ourFiles.test(name) || leftoverName.test(name) || setAsideName.test(name)

/**
 * Looks at the directory.
 *
 * @param asSandbox whether svc is to use it with --sandbox
 */
export async function lookAtDirectory(dir: string, asSandbox = false): Promise<DataDirectory> {
  let entries: Dirent[]
  try {
    entries = await readdir(dir, { withFileTypes: true })
  } catch (error) {
    const missing = errorCodeOf(error) === 'ENOENT'
    return {
      dir,
      state: missing ? 'missing' : 'unreadable',
      error,
      entries: [],
      isUsed: false,
      isSandbox: asSandbox,
    }
  }
  const hasWorld = entries.some(entry => entry.isDirectory() && entry.name === dataFiles.sandbox)
  const known = entries.filter(({ name }) => !nobodys.test(name))
  const isUsed = known.some(({ name }) => showsUse(name))
  if (known.length === 0) return { dir, state: 'empty', entries, isUsed, isSandbox: asSandbox }
  const hasAccounts = await hasSession(dir, known)
  const isSandbox = hasWorld || (asSandbox && !hasAccounts && !isUsed)
  const isOurs = hasWorld || hasAccounts || known.some(({ name }) => ourFiles.test(name))
  return { dir, state: isOurs ? 'ours' : 'foreign', entries, isUsed, isSandbox }
}

/** The folders that may be a session's. */
export const sessionFolders = ({ entries }: Pick<DataDirectory, 'entries'>): string[] =>
  entries.flatMap(entry => (entry.isDirectory() && isSessionFolder(entry.name) ? [entry.name] : []))

async function hasSession(dir: string, entries: readonly Dirent[]): Promise<boolean> {
  const found = await Promise.all(
    sessionFolders({ entries }).map(name => fileExists(join(dir, name, dataFiles.token)).catch(() => true)),
  )
  return found.includes(true)
}
