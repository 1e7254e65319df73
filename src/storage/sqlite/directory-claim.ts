/** Checks a folder that is to become the data directory, before anything in it is opened. */
import type { Dirent } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { dataFiles, isHalfWritten, isSessionFolder } from '../../model/data-files.ts'
import { ensurePrivateDir, fileExists } from '../../platform/files.ts'
import { inspectLock } from '../../platform/lock-look.ts'
import { rejectOtherForm } from './migrations.ts'

const ownNames: ReadonlySet<string> = new Set([
  ...[dataFiles.dataLock, dataFiles.pollLock, dataFiles.defaultSession],
  ...[dataFiles.store, dataFiles.apiToken, dataFiles.address, dataFiles.mcpKey],
  ...[dataFiles.secrets, dataFiles.restoring, dataFiles.backupLock],
])
/** Files that a file system, or the desktop, puts into any folder. */
const systemFiles = /^(lost\+found|\.DS_Store)$/
/** Suffixes of SQLite's files beside the store, and of a lock's folder. */
const suffix = /(?<=\.db)-(wal|shm|journal)$|(?<=\.lock)\.lock$/
/** Name of a file that did not parse. */
export const setAsideName = /\.corrupt-\d+$/

const isKept = (name: string): boolean => ownNames.has(name.replace(suffix, ''))

/** Whether svc writes files of this name into the directory itself. */
export const isOurFile = (name: string): boolean =>
  isKept(name) || isHalfWritten(name) || setAsideName.test(name)

/** Contents of a folder. */
export interface DirectoryContents {
  entries: readonly Dirent[]
  /** The folder has no files, except those of the system and those that a killed svc was writing. */
  isEmpty: boolean
  /** The folder has a file of svc. */
  isOurs: boolean
  isSandbox: boolean
  /**
   * svc was used here, with or without accounts: there is a store, or a process polls. Locks alone remain
   * after the directory was cleared.
   */
  isUsed: boolean
  /** Number of session folders that have credentials, or cannot be read. */
  sessions: number
}

/** Returns the names of the folders that may be a session's. */
export const sessionFolders = ({ entries }: Pick<DirectoryContents, 'entries'>): string[] =>
  entries.flatMap(entry => (entry.isDirectory() && isSessionFolder(entry.name) ? [entry.name] : []))

export async function readContents(dir: string): Promise<DirectoryContents> {
  const entries = await readdir(dir, { withFileTypes: true })
  const names = entries.map(({ name }) => name)
  const isSandbox = entries.some(entry => entry.isDirectory() && entry.name === dataFiles.sandbox)
  const tokens = sessionFolders({ entries }).map(name => join(dir, name, dataFiles.token))
  const logged = await Promise.all(tokens.map(path => fileExists(path).catch(() => true)))
  const sessions = logged.filter(Boolean).length
  return {
    entries,
    isEmpty: names.every(name => systemFiles.test(name) || isHalfWritten(name)),
    isSandbox,
    sessions,
    isOurs: isSandbox || sessions > 0 || names.some(isKept),
    isUsed: names.includes(dataFiles.store) || (await isPolled(dir)),
  }
}

/** Whether a process polls there. True if that cannot be determined. */
async function isPolled(dir: string): Promise<boolean> {
  const lock = await inspectLock(join(dir, dataFiles.pollLock)).catch(() => ({ held: undefined }))
  return lock !== undefined && lock.held !== false
}

/**
 * Makes the folder private, and creates the sandbox's folder if needed. @throws SvcError `store_unavailable`
 * for the directory of a newer version
 */
export async function claimDataDirectory(dir: string, forSandbox: boolean): Promise<void> {
  await rejectOtherForm(join(dir, dataFiles.store))
  await ensurePrivateDir(dir)
  if (forSandbox) await ensurePrivateDir(join(dir, dataFiles.sandbox))
}
