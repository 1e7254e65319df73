/**
 * Files that survive a crash and folders that only their owner reads.
 *
 * Modes are set explicitly, so a generous umask changes nothing. Durable means: a reader after a power cut sees the
 * whole old content or the whole new one, and what was reported as written is there.
 */
import type { Buffer } from 'node:buffer'
import { closeSync, constants, fstatSync, openSync, readFileSync, type Stats } from 'node:fs'
import {
  chmod,
  type FileHandle,
  lchown,
  link,
  lstat,
  mkdir,
  open,
  readdir,
  realpath,
  rename,
  rm,
  stat,
  unlink,
  writeFile,
} from 'node:fs/promises'
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from 'node:path'
import process from 'node:process'
import { SvcError } from '../model/error.ts'
import { randomBytes } from './lazy-crypto.ts'

const privateDir = 0o700
const privateFile = 0o600

/** The system's code of a failed call (`ENOENT`, `EACCES` …), if it is one. */
export const errorCodeOf = (error: unknown): string | undefined =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined

/** For `catch`: what stands for a file that is not there. Any other failure is thrown on. */
export const absentAs =
  <T>(value: T, codes: readonly string[] = ['ENOENT']) =>
  (error: unknown): T => {
    if (codes.includes(errorCodeOf(error) ?? '')) return value
    throw error
  }

/**
 * Creates the folder, and makes it (not the parents that existed) readable by its owner only.
 *
 * @param options.parents whether missing parents are made too, as by default. Not where the parent is our own: when
 *   somebody removed that one, an empty one in its place would hide it
 */
export async function ensurePrivateDir(path: string, options: { parents?: boolean } = {}): Promise<void> {
  const made = await mkdir(path, { recursive: options.parents ?? true, mode: privateDir }).then(
    first => ((options.parents ?? true) ? first : path),
    error => {
      if (options.parents !== false || errorCodeOf(error) !== 'EEXIST') throw error
    },
  )
  if (made !== undefined) await leaveFolders(made, path)
  if (process.platform === 'win32') return
  // Looking first: a folder of somebody else that is private already need not be changed.
  if (((await stat(path)).mode & 0o777) !== privateDir) await chmod(path, privateDir)
}

/** Whom a new file in the folder is left to, if that is not who makes it: what root keeps, its owner could not read. */
async function heirOf(folder: string): Promise<Pick<Stats, 'uid' | 'gid'> | undefined> {
  if (process.geteuid?.() !== 0) return undefined
  const owner = await stat(folder)
  return owner.uid === 0 ? undefined : owner
}

/** The same for new folders, from the first that was made down to the last. */
async function leaveFolders(first: string, last: string): Promise<void> {
  const heir = await heirOf(dirname(first))
  if (!heir) return
  for (let folder = resolve(last); liesIn(resolve(first), folder); folder = dirname(folder))
    await lchown(folder, heir.uid, heir.gid)
}

/** Takes group's and others' rights from an existing file; an absent one is fine. */
export async function makePrivate(path: string): Promise<void> {
  const found = await statOf(path)
  if (found && process.platform !== 'win32' && (found.mode & 0o077) !== 0) await chmod(path, privateFile)
}

/** Puts what was created, renamed or removed in a folder on the disk. */
export async function syncDir(path: string): Promise<void> {
  // Windows cannot open a folder for syncing, and needs not: its renames are journalled.
  if (process.platform === 'win32') return
  const dir = await open(path, 'r')
  try {
    await dir.sync()
  } finally {
    await dir.close()
  }
}

async function writeTemporary(path: string, text: string, like?: Stats, durable = true): Promise<string> {
  const temporary = `${path}.${randomBytes(6).toString('hex')}.tmp`
  const handle = await open(temporary, 'wx', privateFile)
  try {
    // The owner first: a change of owner may take rights away. Only root can give a file away, and only root need.
    const owner = like ?? (await heirOf(dirname(path)))
    if (owner && owner.uid !== (await handle.stat()).uid) await handle.chown(owner.uid, owner.gid)
    // The mode given to open passes the umask, which may take rights away, never add any.
    await handle.chmod(like ? like.mode & 0o7777 : privateFile)
    await handle.writeFile(text)
    if (durable) await handle.sync()
  } catch (error) {
    await handle.close()
    await removeQuietly(temporary)
    throw error
  }
  await handle.close()
  return temporary
}

/** Replaces the file by `text` in one step, 0600, on the disk when this resolves. */
export const writeDurably = (path: string, text: string): Promise<void> =>
  writeDurablyInOrder([{ path, text }])

/** The same, without waiting for the disk: after a power cut the file may be empty. */
export const writeWhole = async (path: string, text: string): Promise<void> =>
  putInPlace(await writeTemporary(path, text, undefined, false), path)

/**
 * The same for several files of one folder, at little more than the price of one: a crash leaves none, or the first,
 * or the first two … replaced, never a later one without the earlier ones.
 */
export async function writeDurablyInOrder(files: readonly { path: string; text: string }[]): Promise<void> {
  const first = files[0]
  if (!first) return
  const folder = dirname(first.path)
  if (files.some(file => dirname(file.path) !== folder))
    throw new Error('files written in order share one folder')
  const written = await Promise.allSettled(files.map(file => writeTemporary(file.path, file.text)))
  const left = written.flatMap(result => (result.status === 'fulfilled' ? result.value : []))
  try {
    const failed = written.find(result => result.status === 'rejected')
    if (failed) throw failed.reason
    for (const { path } of files) await putInPlace(left.shift() ?? '', path)
    await syncDir(folder)
  } finally {
    for (const temporary of left) await removeQuietly(temporary)
  }
}

/**
 * Replaces a file that belongs to somebody else's program by `text` in one step: rights and owner stay as they are. One
 * that is not there is made, 0600. Follows no link: name the file itself.
 */
export async function replaceKeepingRights(path: string, text: string): Promise<void> {
  await putInPlace(await writeTemporary(path, text, await statOf(path)), path)
  await syncDir(dirname(path))
}

/** Gives a temporary file its name; nothing of it stays when that fails. */
const putInPlace = (temporary: string, path: string): Promise<void> =>
  rename(temporary, path).catch(async error => {
    await removeQuietly(temporary)
    throw error
  })

/**
 * Creates a file with its content in one step, 0600, where there is none.
 *
 * @returns false when another process was first
 */
export async function createDurably(path: string, text: string): Promise<boolean> {
  const temporary = await writeTemporary(path, text)
  try {
    // A link appears with its content, unlike a file that is created and then written; some file systems have none.
    await link(temporary, path).catch(async error => {
      if (errorCodeOf(error) === 'EEXIST') throw error
      await writeFile(path, text, { flag: 'wx', mode: privateFile })
    })
    return true
  } catch (error) {
    if (errorCodeOf(error) === 'EEXIST') return false
    throw error
  } finally {
    await removeQuietly(temporary)
  }
}

// A pipe that nobody writes to would keep an ordinary open waiting for good. Windows has neither.
export const readOnly = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0)
/** Far more than a file has that is read whole. */
const mostBytes = 512 * 1024 * 1024

/** For what lies at a path and is no regular file, in the form of the system's errors. */
export function refuseNoFile(path: string, info: Pick<Stats, 'isFile' | 'isDirectory'>): void {
  if (info.isFile()) return
  const code = info.isDirectory() ? 'EISDIR' : 'EFTYPE'
  throw Object.assign(new Error(`${path} is no file`), { code, path, syscall: 'open' })
}

function refuseTooMuch(path: string, info: Stats): void {
  refuseNoFile(path, info)
  if (info.size > mostBytes) throw Object.assign(new Error(`${path} is too large`), { code: 'EFBIG', path })
}

/** @throws the system's error; EISDIR and EFTYPE for what is no file: a pipe may never answer, a device never end */
export function bytesOf(path: string): Buffer {
  const file = openSync(path, readOnly)
  try {
    refuseTooMuch(path, fstatSync(file))
    return readFileSync(file)
  } finally {
    closeSync(file)
  }
}

/** The file's text; undefined when there is no such file. @throws as `bytesOf` */
export async function readText(path: string): Promise<string | undefined> {
  const handle = await open(path, readOnly).catch(absentAs(undefined))
  if (!handle) return undefined
  try {
    refuseTooMuch(path, await handle.stat())
    return await handle.readFile('utf8')
  } finally {
    await handle.close()
  }
}

/** What `stat` says of the path after symlinks; undefined when nothing is there. */
export const statOf = (path: string): Promise<Stats | undefined> => stat(path).catch(absentAs(undefined))

/** The same of a link itself. */
export const lstatOf = (path: string): Promise<Stats | undefined> => lstat(path).catch(absentAs(undefined))

export const fileExists = async (path: string): Promise<boolean> => (await statOf(path)) !== undefined

/** Removes the file; a file that is gone already, or cannot be removed, is no reason to fail. */
export async function removeQuietly(path: string): Promise<void> {
  await unlink(path).catch(() => {})
}

/**
 * Removes files of a folder whose name fits and that nobody has written to since `before` (Unix ms); an absent folder has
 * none. @returns how many
 */
export async function sweep(folder: string, fits: Pick<RegExp, 'test'>, before: number): Promise<number> {
  let removed = 0
  for (const name of await readdir(folder).catch(() => [])) {
    if (!fits.test(name)) continue
    const path = join(folder, name)
    const info = await lstatOf(path)
    if (!info?.isFile() || info.mtimeMs >= before) continue
    await rm(path, { force: true })
    removed += 1
  }
  return removed
}

/** Renames a damaged file to `<path>.corrupt-<unix ms>`, so that it is neither used nor lost. @returns the new path */
export async function setAside(path: string): Promise<string> {
  for (let at = Date.now(), tries = 0; tries < 1000; at++, tries++) {
    const aside = `${path}.corrupt-${at}`
    if (await lstatOf(aside)) continue
    await rename(path, aside)
    await syncDir(dirname(path))
    return aside
  }
  throw new Error(`no free name to set ${basename(path)} aside`)
}

/**
 * Creates a new file, 0600, open for writing; when the name is taken, the one with ` (1)` in it, ` (2)` … Never
 * overwrites and never follows a link.
 *
 * @param nameWith the name with a mark in it, or with ''
 */
export async function createUnique(
  dir: string,
  nameWith: (mark: string) => string,
): Promise<{ path: string; handle: FileHandle }> {
  for (let tries = 0; tries < 200; tries++) {
    // After a hundred neighbours counting on is slow and pointless.
    const mark = tries === 0 ? '' : ` (${tries < 100 ? tries : randomBytes(4).toString('hex')})`
    const path = join(dir, nameWith(mark))
    try {
      const handle = await open(path, 'wx', privateFile)
      const heir = await heirOf(dir)
      if (heir) await handle.chown(heir.uid, heir.gid)
      await handle.chmod(privateFile)
      return { path, handle }
    } catch (error) {
      if (errorCodeOf(error) !== 'EEXIST') throw error
    }
  }
  throw new Error(`no free name for ${nameWith('')}`)
}

/**
 * The real path of `path` (relative ones start at `root`) after all symlinks, if it lies in `root`. What does not
 * exist yet is judged by its nearest existing parent. Work on the returned path, not on the given one.
 *
 * @param field the argument that holds the path
 * @throws SvcError `forbidden` when it lies outside, or cannot be followed; `store_unavailable` when the root is gone
 */
export async function insideDir(root: string, path: string, field?: string): Promise<string> {
  const outside = (cause?: unknown) =>
    new SvcError('forbidden', `the path lies outside the media root, ${root}`, {
      ...{ field, hint: 'Name a file inside the media root.' },
      next: { action: 'upload' },
      cause,
    })
  if (path.includes('\0')) throw outside()
  const realRoot = await realpath(root).catch(error => {
    throw new SvcError('store_unavailable', `the media root cannot be entered (${errorCodeOf(error)})`, {
      hint: 'It was removed, moved or closed to svc while it runs: put it back, and check owner and permissions.',
      cause: error,
    })
  })
  // Names are looked up in the folder alone, and on the way to it.
  const mayLook = (at: string) => liesIn(realRoot, at) || liesIn(at, realRoot)
  const found = await onDisk(resolve(realRoot, path), field, mayLook)
  const real = await realWay(found).catch(error => {
    throw outside(error)
  })
  if (!liesIn(realRoot, real)) throw outside()
  return real
}

/** Whether a path lies in a folder, or is it; both real. */
export function liesIn(folder: string, path: string): boolean {
  const way = relative(folder, path)
  return way !== '..' && !way.startsWith(`..${sep}`) && !isAbsolute(way)
}

/**
 * The real path after all symlinks, where what does not exist yet stands in its nearest existing parent.
 *
 * @throws what the system says of a way that cannot be followed, such as a link to nothing
 */
export async function realWay(path: string): Promise<string> {
  let existing = resolve(path)
  const missing: string[] = []
  for (;;) {
    try {
      return join(await realpath(existing), ...missing.reverse())
    } catch (error) {
      if (errorCodeOf(error) !== 'ENOENT' && errorCodeOf(error) !== 'ENOTDIR') throw error
      // A link to nothing exists as a link: creating "it" would create its target, wherever that is.
      if (await lstatOf(existing).catch(() => undefined)) throw error
      const parent = dirname(existing)
      if (parent === existing) throw error
      missing.push(basename(existing))
      existing = parent
    }
  }
}

/**
 * The path with each name in the Unicode form that it has on the disk: where none is there as it is written, one that is the
 * same in another form (`é` as one character, or as two).
 *
 * @param mayLook whether names may be looked for in a folder, given by its real path
 * @throws SvcError `invalid_arguments` when there are several
 */
export async function onDisk(
  path: string,
  field = 'path',
  mayLook = (_folder: string): boolean => true,
): Promise<string> {
  let [at = '', ...names] = path.split(sep)
  for (const [nth, name] of names.entries()) {
    const folder = `${at}${sep}`
    at = folder + name
    if (!hasForms(name) || (await lstatOf(at).catch(() => undefined))) continue
    const real = await realpath(folder).catch(() => undefined)
    // Nothing lies in a folder that is not there. A caller may name thousands of them.
    if (real === undefined) return [at, ...names.slice(nth + 1)].join(sep)
    if (mayLook(real)) at = folder + sameName(await readdir(real).catch(() => []), name, field)
  }
  return at
}

/** Whether a name may be written in several forms of Unicode. */
export const hasForms = (name: string): boolean => /\P{ASCII}/u.test(name) && name.length <= 1024

/** The one of the names in a folder that is this name in another form; the name itself where none is. @throws as `onDisk` */
export function sameName(folder: readonly string[], name: string, field: string): string {
  const wanted = name.normalize('NFC')
  const found = folder.filter(one => one.normalize('NFC') === wanted)
  if (found.length <= 1) return found[0] ?? name
  throw new SvcError(
    'invalid_arguments',
    `${found.length} names in its folder differ from ${JSON.stringify(name)} in Unicode form alone`,
    { field, hint: 'Rename one of them, or give the name exactly as it is on the disk.' },
  )
}
