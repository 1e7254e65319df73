/** The data directory: whether it can be used, who else may read it, and what lies about in it. */

import type { Stats } from 'node:fs'
import { access, constants, lstat, readdir } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import process from 'node:process'
import { statOf } from '../platform/files.ts'
import { shellWord } from '../platform/shell.ts'
import { bad, type Found, note, ok, warning } from './finding.ts'
import type { Patient } from './patient.ts'
import { isNobodys, isOurFile, leftoverName, type Place, sessionFolders, setAsideName } from './place.ts'
import { counted, listed, svcCommand, troubleOf } from './words.ts'

/** Looks at the directory itself and at what lies in it. */
export async function examineDirectory({ config, clock, place, sessions }: Patient): Promise<Found[]> {
  const { dir } = place
  if (place.state === 'missing') return missing(place)
  if (place.state === 'unreadable') {
    const isFile = (place.error as { code?: string }).code === 'ENOTDIR'
    return [
      bad(
        'usable',
        `${dir} cannot be read: ${troubleOf(place.error)}`,
        isFile
          ? 'Choose a folder with --base-path.'
          : `sudo chown -R "$(id -un)" ${shellWord(dir)} && chmod 700 ${shellWord(dir)}`,
      ),
    ]
  }
  if (place.state === 'foreign') {
    return [
      warning(
        'usable',
        `${dir} holds other files and none of svc (${listed(place.entries.map(({ name }) => name))})`,
        'Choose a new or an empty folder with --base-path.',
      ),
    ]
  }
  const strangers = new Set([...sessions.others, ...hiddenFolders(place)])
  const names = place.entries.map(({ name }) => name)
  const foreign = names.filter(name => strangers.has(name) || isForeignFile(name, place))
  const folders = sessionFolders(place).filter(name => !strangers.has(name))
  const entries = await walk(
    dir,
    names.filter(name => !foreign.includes(name) && !isNobodys(name)),
    [...folders, ...(place.isSandbox ? ['sandbox'] : [])],
  )
  return [
    ...kindOf(config.sandbox, place.isSandbox, sessions.sessions.length, dir),
    ...(await writableOf(dir)),
    ...rightsOf(dir, entries),
    ...ownersOf(dir, entries),
    ...leftoversOf(dir, entries, clock.now()),
    ...foreignOf(foreign),
  ]
}

const hiddenFolders = ({ entries }: Place) =>
  entries.flatMap(entry =>
    entry.isDirectory() && entry.name.startsWith('.') && !isOurFile(entry.name) ? [entry.name] : [],
  )

const isForeignFile = (name: string, { entries }: Place) =>
  !isNobodys(name) && !isOurFile(name) && !entries.some(entry => entry.name === name && entry.isDirectory())

async function missing({ dir, isSandbox }: Place): Promise<Found[]> {
  let parent = dirname(dir)
  for (let deep = 0; deep < 100 && !(await statOf(parent).catch(() => undefined)); deep++)
    parent = dirname(parent)
  try {
    await access(parent, constants.W_OK | constants.X_OK)
    return [note('usable', `there is no ${dir} yet`, svcCommand('openapi', dir, isSandbox))]
  } catch (error) {
    return [
      bad(
        'usable',
        `there is no ${dir}, and it cannot be made in ${parent}: ${troubleOf(error)}`,
        'Choose a folder that you may write to with --base-path.',
      ),
    ]
  }
}

function kindOf(asSandbox: boolean, isSandbox: boolean, sessions: number, dir: string): Found[] {
  if (!asSandbox || isSandbox) return []
  return [
    bad(
      'kind',
      `${dir} ${sessions > 0 ? 'holds real sessions' : 'was used without --sandbox'}, and --sandbox refuses it`,
      'Choose another folder with --base-path.',
    ),
  ]
}

async function writableOf(dir: string): Promise<Found[]> {
  try {
    await access(dir, constants.R_OK | constants.W_OK | constants.X_OK)
    return [ok('usable', `${dir} can be read and written`)]
  } catch (error) {
    return [
      bad(
        'usable',
        `${dir} cannot be written: ${troubleOf(error)}`,
        (error as { code?: string }).code === 'EROFS'
          ? 'Mount it writable, or choose another folder with --base-path.'
          : `sudo chown -R "$(id -un)" ${shellWord(dir)}`,
      ),
    ]
  }
}

interface Entry {
  path: string
  /** Undefined when the system does not show it. */
  info?: Stats
  error?: unknown
}

/** The directory, what lies in it, and what lies in the named folders; not the media, which are many. */
async function walk(dir: string, names: readonly string[], folders: readonly string[]): Promise<Entry[]> {
  const paths = [dir, ...names.map(name => join(dir, name))]
  const unreadable: Entry[] = []
  for (const folder of folders) {
    const path = join(dir, folder)
    try {
      paths.push(...(await readdir(path)).map(name => join(path, name)))
    } catch (error) {
      unreadable.push({ path, error })
    }
  }
  const entries = await Promise.all(
    paths.map(async (path): Promise<Entry> => {
      try {
        return { path, info: await lstat(path) }
      } catch (error) {
        return { path, error }
      }
    }),
  )
  return [...entries, ...unreadable]
}

/** What others must not read. */
const secretName = /(^|\/)(api_token|token\.json[^/]*|contexts\.json[^/]*|messages\.db[^/]*)$/

function rightsOf(dir: string, entries: readonly Entry[]): Found[] {
  const found: Found[] = []
  const closed = entries.filter(
    ({ error }) => error !== undefined && (error as { code?: string }).code !== 'ENOENT',
  )
  if (closed.length > 0) {
    found.push(
      bad(
        'rights',
        `${listed(closed.map(({ path }) => relative(dir, path)))} cannot be read: ${troubleOf(closed[0]!.error)}`,
        `sudo chown -R "$(id -un)" ${shellWord(dir)} && chmod -R u+rwX ${shellWord(dir)}`,
      ),
    )
  }
  if (process.platform === 'win32') return found
  // A named media root keeps its rights; in the data directory it is as closed as that one.
  const ours = entries.filter(
    ({ path, info }) =>
      info &&
      (info.isFile() || info.isDirectory()) &&
      (info.mode & 0o077) !== 0 &&
      path !== join(dir, 'media'),
  )
  if (ours.length === 0) {
    return closed.length > 0 ? found : [ok('rights', 'only their owner may read the directory and its files')]
  }
  const folders = ours.filter(({ info }) => info!.isDirectory()).map(({ path }) => path)
  const files = ours.filter(({ info }) => !info!.isDirectory()).map(({ path }) => path)
  const fix = [
    ...(folders.length > 0 ? [`chmod 700 ${folders.map(shellWord).join(' ')}`] : []),
    ...(files.length > 0 ? [`chmod 600 ${files.map(shellWord).join(' ')}`] : []),
  ].join(' && ')
  const reachable = folders.includes(dir) && files.some(path => secretName.test(path))
  const what = `others may read ${listed(ours.map(({ path }) => relative(dir, path) || dir))}`
  found.push(
    reachable
      ? bad('rights', `${what}: credentials and messages are open to every user of this machine`, fix)
      : warning('rights', what, fix),
  )
  return found
}

function ownersOf(dir: string, entries: readonly Entry[]): Found[] {
  const own = entries.find(({ path }) => path === dir)?.info?.uid
  const user = process.geteuid?.()
  if (own === undefined || user === undefined || process.platform === 'win32') return []
  const found: Found[] = []
  if (own !== user) {
    found.push(
      user === 0
        ? warning(
            'owner',
            `${dir} belongs to user ${own}, and you are root: files that svc makes as root are closed to that user`,
            `sudo -u "#${own}" ${svcCommand('doctor', dir)}`,
          )
        : bad(
            'owner',
            `${dir} belongs to user ${own}, and you are user ${user}`,
            `sudo chown -R "$(id -un)" ${shellWord(dir)}`,
          ),
    )
  }
  const mixed = entries.filter(({ path, info }) => path !== dir && info && info.uid !== own)
  if (mixed.length > 0) {
    found.push(
      warning(
        'owner',
        `${listed(mixed.map(({ path }) => relative(dir, path)))} ${mixed.length === 1 ? 'belongs' : 'belong'} to another user than the directory, as when svc was run with sudo`,
        `sudo chown -R ${own} ${shellWord(dir)}`,
      ),
    )
  }
  return found.length > 0 ? found : [ok('owner', 'the directory and its files belong to you')]
}

/** Younger than this, a temporary file may be under way. */
const underWayMs = 60_000

function leftoversOf(dir: string, entries: readonly Entry[], now: number): Found[] {
  const found: Found[] = []
  const left = entries.filter(
    ({ path, info }) => leftoverName.test(path) && info !== undefined && now - info.mtimeMs > underWayMs,
  )
  const aside = entries.filter(({ path, info }) => info && setAsideName.test(path))
  if (left.length > 0) {
    found.push(
      note(
        'leftovers',
        `${counted(left.length, 'file')} of writes that were broken off: ${listed(left.map(({ path }) => relative(dir, path)))}`,
        `rm ${left.map(({ path }) => shellWord(path)).join(' ')}`,
      ),
    )
  }
  if (aside.length > 0) {
    found.push(
      note(
        'set_aside',
        `${counted(aside.length, 'damaged file')} set aside: ${listed(aside.map(({ path }) => relative(dir, path)))}`,
        `Look whether there is something to save in them, then: rm ${aside.map(({ path }) => shellWord(path)).join(' ')}`,
      ),
    )
  }
  return found
}

const foreignOf = (names: readonly string[]): Found[] =>
  names.length === 0
    ? []
    : [
        note(
          'foreign',
          `not of svc, or left over from a logout: ${listed(names)}`,
          'Move what is yours to another folder; svc leaves it alone.',
        ),
      ]
