/**
 * Checks the data directory: is it usable, can others read it, and are there damaged files that svc set
 * aside.
 */
import type { Stats } from 'node:fs'
import { access, constants, lstat, readdir } from 'node:fs/promises'
import { join, relative } from 'node:path'
import process from 'node:process'
import { takeOver } from '../inspect/advised-commands.ts'
import { type DataDirectory, isOurFile, setAsideName } from '../inspect/data-directory.ts'
import { dataFiles } from '../model/data-files.ts'
import { errorCodeOf } from '../platform/files.ts'
import { counted, listed, shellWord } from '../platform/format.ts'
import { reasonOf } from '../platform/system-error.ts'
import { bad, type DoctorContext, type Found, note, ok, warning } from './finding.ts'

/** Checks the directory and the files in it. */
export async function examineDirectory(context: DoctorContext): Promise<Found[]> {
  const { config, directory, sessions } = context
  const { dir } = directory
  if (directory.state === 'missing')
    return [note('usable', `there is no ${dir} yet`, context.command('openapi'))]
  if (directory.state === 'unreadable')
    return [
      bad(
        'usable',
        `${dir} cannot be read: ${reasonOf(directory.error)}`,
        `Choose a folder with --base-path, or: ${takeOver(dir)}`,
      ),
    ]
  if (directory.state === 'foreign')
    return [
      warning(
        'usable',
        `${dir} holds other files and none of svc (${listed(directory.entries.map(({ name }) => name))})`,
        'Choose a new or an empty folder with --base-path.',
      ),
    ]
  const folders = [
    ...sessions.sessions.map(({ name }) => name),
    ...(directory.isSandbox ? [dataFiles.sandbox] : []),
  ]
  const entries = await walk(
    dir,
    directory.entries.map(({ name }) => name).filter(name => isOurFile(name) || folders.includes(name)),
    folders,
  )
  return [
    ...kindOf(config.sandbox, directory, sessions.sessions.length),
    await writableOf(dir),
    ...rightsOf(dir, entries),
    ...ownersOf(dir, entries),
    ...setAsideOf(dir, entries),
  ]
}

function kindOf(asSandbox: boolean, { dir, isSandbox }: DataDirectory, sessions: number): Found[] {
  if (!asSandbox || isSandbox) return []
  const what = sessions > 0 ? 'holds real sessions' : 'was used without --sandbox'
  return [bad('kind', `${dir} ${what}: --sandbox cannot use it`, 'Choose another folder with --base-path.')]
}

async function writableOf(dir: string): Promise<Found> {
  try {
    await access(dir, constants.R_OK | constants.W_OK | constants.X_OK)
    return ok('usable', `${dir} can be read and written`)
  } catch (error) {
    return bad(
      'usable',
      `${dir} cannot be written: ${reasonOf(error)}`,
      `Mount it writable, choose another folder with --base-path, or: ${takeOver(dir)}`,
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
async function walk(dir: string, names: readonly string[], folders: readonly string[]): Promise<Entry[]> {
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
const secretName = /(^|\/)(api_token|token\.json[^/]*|contexts\.json[^/]*|messages\.db[^/]*)$/

function rightsOf(dir: string, entries: readonly Entry[]): Found[] {
  const namesOf = (list: readonly Entry[]) => listed(list.map(({ path }) => relative(dir, path) || dir))
  const unreadable = entries.filter(({ error }) => error !== undefined && errorCodeOf(error) !== 'ENOENT')
  const [first] = unreadable
  if (first)
    return [bad('rights', `${namesOf(unreadable)} cannot be read: ${reasonOf(first.error)}`, takeOver(dir))]
  if (process.platform === 'win32') return []
  const open = entries.filter(
    ({ info }) => info && (info.isFile() || info.isDirectory()) && (info.mode & 0o077) !== 0,
  )
  if (open.length === 0) return [ok('rights', 'only their owner may read the directory and its files')]
  const what = `others may read ${namesOf(open)}`
  const fix = `chmod go= ${open.map(({ path }) => shellWord(path)).join(' ')}`
  const isReachable = open.some(({ path }) => path === dir) && open.some(({ path }) => secretName.test(path))
  return [
    isReachable
      ? bad('rights', `${what}: credentials and messages are open to every user of this machine`, fix)
      : warning('rights', what, fix),
  ]
}

function ownersOf(dir: string, entries: readonly Entry[]): Found[] {
  const own = entries.find(({ path }) => path === dir)?.info?.uid
  const user = process.geteuid?.()
  if (own === undefined || user === undefined || process.platform === 'win32') return []
  if (own !== user && user !== 0)
    return [bad('owner', `${dir} belongs to user ${own}, and you are user ${user}`, takeOver(dir))]
  const others = entries.filter(({ info }) => info && info.uid !== own)
  if (others.length === 0) return [ok('owner', 'the directory and its files have one owner')]
  return [
    warning(
      'owner',
      `files of another user than the directory's (this happens when svc runs with sudo): ${listed(others.map(({ path }) => relative(dir, path)))}`,
      `sudo chown -R ${own} ${shellWord(dir)}`,
    ),
  ]
}

function setAsideOf(dir: string, entries: readonly Entry[]): Found[] {
  const paths = entries.filter(({ info, path }) => info && setAsideName.test(path)).map(({ path }) => path)
  if (paths.length === 0) return []
  return [
    note(
      'set_aside',
      `${counted(paths.length, 'damaged file')} set aside: ${listed(paths.map(path => relative(dir, path)))}`,
      `Check whether you want to save something from them, then: rm ${paths.map(shellWord).join(' ')}`,
    ),
  ]
}
