/** A folder that is to be the data directory, before anything in it is opened. */
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { dataFiles, isSessionFolder } from '../../model/data-files.ts'
import { ensurePrivateDir, fileExists } from '../../platform/files.ts'
import { refuseNewer } from './migrations.ts'

/** What svc puts into a folder, and what a disk holds that is otherwise empty. */
const ownNames = new Set([
  dataFiles.dataLock,
  dataFiles.pollLock,
  dataFiles.defaultSession,
  dataFiles.endedSignIns,
  dataFiles.store,
  dataFiles.apiToken,
  dataFiles.address,
  'lost+found',
])

/** Whether a file of this name tells that svc worked on the directory: with accounts or, so far, without. */
export const showsUse = (name: string): boolean => name === dataFiles.store || name === dataFiles.pollLock

/** What lies in a folder. */
export interface Contents {
  isEmpty: boolean
  /** It has something of svc's. */
  isOurs: boolean
  isSandbox: boolean
  /** svc worked on it. */
  isUsed: boolean
  /** How many have credentials. */
  sessions: number
}

export async function contentsOf(dir: string): Promise<Contents> {
  const entries = await readdir(dir, { withFileTypes: true })
  const folders = entries.filter(entry => entry.isDirectory())
  const isSandbox = folders.some(({ name }) => name === dataFiles.sandbox)
  const own = folders.filter(({ name }) => isSessionFolder(name))
  const logged = await Promise.all(own.map(({ name }) => fileExists(join(dir, name, dataFiles.token))))
  const sessions = logged.filter(Boolean).length
  return {
    ...{ isEmpty: entries.length === 0, isSandbox, sessions },
    isOurs: isSandbox || sessions > 0 || entries.some(({ name }) => ownNames.has(name)),
    isUsed: entries.some(({ name }) => showsUse(name)),
  }
}

/** Makes the folder private, and the sandbox's where it is to be. @throws SvcError `store_unavailable` for a newer version's */
export async function claim(dir: string, forSandbox: boolean): Promise<void> {
  await refuseNewer(join(dir, dataFiles.store))
  await ensurePrivateDir(dir)
  if (forSandbox) await ensurePrivateDir(join(dir, dataFiles.sandbox))
}
