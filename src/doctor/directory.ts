/**
 * Checks the data directory: is it usable, can others read it, and are there damaged files that svc set
 * aside.
 */

import type { Stats } from 'node:fs'
import { access, constants, lstat, readdir } from 'node:fs/promises'
import { join, relative } from 'node:path'
import process from 'node:process'
import { takeOverCommand } from '../inspect/advised-commands.ts'
import {
  type DataDirectory,
  explainMark,
  isOfDatabase,
  isOurFile,
  readClosedMark,
  setAsideName,
} from '../inspect/data-directory.ts'
import { type Finding, type Found, finding } from '../inspect/finding.ts'
import { dataFiles } from '../model/data-files.ts'
import { errorCodeOf } from '../platform/files.ts'
import { formatCount, formatList, quoteForShell } from '../platform/format.ts'
import { reasonOf } from '../platform/system-error.ts'
import type { DoctorContext } from './finding.ts'

/** Checks the directory and the files in it. */
export async function examineDirectory(context: DoctorContext): Promise<Found> {
  const { config, directory, sessions } = context
  const { dir } = directory
  if (directory.state === 'missing')
    return finding.note('usable', `there is no ${dir} yet`, context.command('openapi'))
  if (directory.state === 'unreadable')
    return finding.error(
      'usable',
      `${dir} cannot be read: ${reasonOf(directory.error)}`,
      `Choose a folder with --base-path, or: ${takeOverCommand(dir)}`,
    )
  if (directory.state === 'foreign')
    return finding.warning(
      'usable',
      `${dir} holds other files and none of svc (${formatList(directory.entries.map(({ name }) => name))})`,
      'Choose a new or an empty folder with --base-path.',
    )
  const folders = [
    ...sessions.sessions.map(({ name }) => name),
    ...(directory.isSandbox ? [dataFiles.sandbox] : []),
  ]
  const entries = await listEntries(
    dir,
    directory.entries.map(({ name }) => name).filter(name => isOurFile(name) || folders.includes(name)),
    folders,
  )
  return [
    checkKind(config.sandbox, directory, sessions.sessions.length),
    await checkClosed(directory, config.storeUrl !== undefined),
    await checkWritable(dir),
    checkRights(dir, entries),
    checkOwners(dir, entries),
    findSetAside(dir, entries),
  ]
}

function checkKind(asSandbox: boolean, { dir, isSandbox }: DataDirectory, sessions: number): Found {
  if (!asSandbox || isSandbox) return undefined
  const what = sessions > 0 ? 'holds real sessions' : 'was used without --sandbox'
  return finding.error(
    'kind',
    `${dir} ${what}: --sandbox cannot use it`,
    'Choose another folder with --base-path.',
  )
}

/** A mark that cannot be read is a problem of the directory, which the other checks report. */
async function checkClosed({ dir }: DataDirectory, isNode: boolean): Promise<Found> {
  const mark = await readClosedMark(dir).catch(() => undefined)
  if (mark === undefined || (isNode && isOfDatabase(mark))) return undefined
  const { problem, hint } = explainMark(dir, mark)
  return finding.error('usable', problem, hint)
}

async function checkWritable(dir: string): Promise<Finding> {
  try {
    await access(dir, constants.R_OK | constants.W_OK | constants.X_OK)
    return finding.ok('usable', `${dir} can be read and written`)
  } catch (error) {
    return finding.error(
      'usable',
      `${dir} cannot be written: ${reasonOf(error)}`,
      `Mount it writable, choose another folder with --base-path, or: ${takeOverCommand(dir)}`,
    )
  }
}

interface Entry {
  path: string
  info?: Stats
  /** Why the system does not give `info`. */
  error?: unknown
}

/**
 * Returns the directory, the named entries, and the content of the named folders. Skips the media, which
 * are many.
 */
async function listEntries(
  dir: string,
  names: readonly string[],
  folders: readonly string[],
): Promise<Entry[]> {
  const paths = [dir, ...names.map(name => join(dir, name))]
  const unreadable: Entry[] = []
  for (const folder of folders) {
    const path = join(dir, folder)
    await readdir(path).then(
      inside => paths.push(...inside.map(name => join(path, name))),
      error => unreadable.push({ path, error }),
    )
  }
  const entries = paths.map(path =>
    lstat(path).then(
      (info): Entry => ({ path, info }),
      (error): Entry => ({ path, error }),
    ),
  )
  return [...(await Promise.all(entries)), ...unreadable]
}

/** Paths of the files that contain credentials or messages. */
const secretPath = /(^|\/)(api_token|token\.json[^/]*|contexts\.json[^/]*|messages\.db[^/]*)$/

function checkRights(dir: string, entries: readonly Entry[]): Found {
  const namesOf = (list: readonly Entry[]) => formatList(list.map(({ path }) => relative(dir, path) || dir))
  const unreadable = entries.filter(({ error }) => error !== undefined && errorCodeOf(error) !== 'ENOENT')
  const [first] = unreadable
  if (first)
    return finding.error(
      'rights',
      `${namesOf(unreadable)} cannot be read: ${reasonOf(first.error)}`,
      takeOverCommand(dir),
    )
  if (process.platform === 'win32') return undefined
  const open = entries.filter(
    ({ info }) => info && (info.isFile() || info.isDirectory()) && (info.mode & 0o077) !== 0,
  )
  if (open.length === 0) return finding.ok('rights', 'only their owner may read the directory and its files')
  const what = `others may read ${namesOf(open)}`
  const fix = `chmod go= ${open.map(({ path }) => quoteForShell(path)).join(' ')}`
  const isReachable = open.some(({ path }) => path === dir) && open.some(({ path }) => secretPath.test(path))
  return isReachable
    ? finding.error('rights', `${what}: credentials and messages are open to every user of this machine`, fix)
    : finding.warning('rights', what, fix)
}

function checkOwners(dir: string, entries: readonly Entry[]): Found {
  const own = entries.find(({ path }) => path === dir)?.info?.uid
  const user = process.geteuid?.()
  if (own === undefined || user === undefined || process.platform === 'win32') return undefined
  if (own !== user && user !== 0)
    return finding.error(
      'owner',
      `${dir} belongs to user ${own}, and you are user ${user}`,
      takeOverCommand(dir),
    )
  const others = entries.filter(({ info }) => info && info.uid !== own)
  if (others.length === 0) return finding.ok('owner', 'the directory and its files have one owner')
  return finding.warning(
    'owner',
    `files of another user than the directory's (this happens when svc runs with sudo): ${formatList(others.map(({ path }) => relative(dir, path)))}`,
    `sudo chown -R ${own} ${quoteForShell(dir)}`,
  )
}

function findSetAside(dir: string, entries: readonly Entry[]): Found {
  const paths = entries.filter(({ info, path }) => info && setAsideName.test(path)).map(({ path }) => path)
  if (paths.length === 0) return undefined
  return finding.note(
    'set_aside',
    `${formatCount(paths.length, 'damaged file')} set aside: ${formatList(paths.map(path => relative(dir, path)))}`,
    `Check whether you want to save something from them, then: rm ${paths.map(quoteForShell).join(' ')}`,
  )
}
