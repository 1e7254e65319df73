/** What an install makes besides the files of the service: a user and his folders. Taken away again where it fails. */

import { readdir, rm, rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import { SvcError } from '../model/error.ts'
import { errorCodeOf, fileExists } from '../platform/files.ts'
import { runProgram } from '../platform/process.ts'
import { shellWord } from '../platform/shell.ts'
import { findAccount, isToBeMade } from './account.ts'
import type { Account } from './plan.ts'

/** A user who was not there before, and those of his folders that were not there before either. */
export interface Made {
  readonly account: Account
  readonly dataDir?: string
  readonly folders: readonly string[]
}

/** What of this is still to be made; undefined when the user is there. */
export async function newTo({ account, dataDir, folders }: Required<Made>): Promise<Made | undefined> {
  if (!isToBeMade(account)) return undefined
  const absent: string[] = []
  for (const path of [dataDir, ...folders]) if (!(await fileExists(path))) absent.push(path)
  return {
    account,
    ...(absent.includes(dataDir) && { dataDir }),
    folders: absent.filter(path => path !== dataDir),
  }
}

/** After an install that failed with `error`. @throws that error, with what stays in its hint */
export async function undone(made: Made | undefined, error: unknown): Promise<never> {
  const left = made && (await unmake(made))
  if (left === undefined || !(error instanceof SvcError)) throw error
  throw new SvcError(error.code, error.message, {
    hint: `${error.hint} ${left}`,
    cause: error,
  })
}

/**
 * Takes the user away, and what the attempt left in his folders; to be called when the service is stopped. A user who
 * owns something by then stays: a login, files in another folder.
 *
 * @returns what stays, for people
 */
async function unmake({ account, dataDir, folders }: Made): Promise<string | undefined> {
  const { name } = account
  if (dataDir !== undefined && !(await hasLogin(dataDir)))
    await rm(dataDir, { recursive: true, force: true }).catch(() => {})
  // The inner ones first.
  for (const path of [...folders].sort().reverse()) await rmdir(path).catch(() => {})
  const all = [...(dataDir === undefined ? [] : [dataDir]), ...folders]
  const left: string[] = []
  for (const path of all) if (await fileExists(path)) left.push(path)
  if (left.length === 0 && (await isRemoved(name))) return undefined
  const command = `sudo userdel ${shellWord(name)}`
  return left.length === 0
    ? `The user ${name}, made for it, stays: ${command}.`
    : `The user ${name}, made for it, stays, for ${left.join(', ')}; once that is gone: ${command}.`
}

async function hasLogin(dataDir: string): Promise<boolean> {
  try {
    const entries = await readdir(dataDir, { withFileTypes: true })
    const folders = entries.filter(entry => entry.isDirectory()).map(({ name }) => join(dataDir, name))
    const found = await Promise.all(folders.map(folder => fileExists(join(folder, 'token.json'))))
    return found.includes(true)
  } catch (error) {
    return errorCodeOf(error) !== 'ENOENT'
  }
}

async function isRemoved(name: string): Promise<boolean> {
  await runProgram('userdel', [name])
  if (await findAccount(name, 'linux')) return false
  // Not every system takes the group of that name with the user; with it there, he could not be made again.
  await runProgram('groupdel', [name])
  return true
}
