/**
 * Files that survive a crash, and folders that only their owner can read.
 *
 * Modes are set explicitly, so a permissive umask changes nothing. Durable means: after a power cut a reader
 * sees the whole old content or the whole new one, and everything reported as written is there.
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

/** Returns the system's code of a failed call (`ENOENT`, `EACCES` …), if there is one. */
export const errorCodeOf = (error: unknown): string | undefined =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined

/** Makes a handler for `catch` that returns `value` for an absent file and throws any other failure. */
export const returnIfAbsent =
  <T>(value: T, codes: readonly string[] = ['ENOENT']) =>
  (error: unknown): T => {
    if (codes.includes(errorCodeOf(error) ?? '')) return value
    throw error
  }

/**
 * Creates the folder and makes it readable by its owner only. Parents that existed stay as they are.
 *
 * @param options.parents whether to create missing parents, the default. Pass false where the parent is a
 *   folder of svc: if that was removed, an empty one in its place would hide the loss
 */
export async function ensurePrivateDir(path: string, options: { parents?: boolean } = {}): Promise<void> {
  const firstCreated = await mkdir(path, { recursive: options.parents ?? true, mode: privateDir }).then(
    first => ((options.parents ?? true) ? first : path),
    error => {
      if (options.parents !== false || errorCodeOf(error) !== 'EEXIST') throw error
    },
  )
  if (firstCreated !== undefined) await giveToOwner(firstCreated, path)
  if (process.platform === 'win32') return
  // Checked first: another user's folder that is already private needs no chmod.
  if (((await stat(path)).mode & 0o777) !== privateDir) await chmod(path, privateDir)
}

/**
 * Returns the owner of the folder when root runs svc for another user. New files are given to that owner, who
 * could not read root's files.
 */
async function intendedOwnerOf(folder: string): Promise<Pick<Stats, 'uid' | 'gid'> | undefined> {
  if (process.geteuid?.() !== 0) return undefined
  const owner = await stat(folder)
  return owner.uid === 0 ? undefined : owner
}

/** Gives new folders to the same owner, from the first one created down to the last. */
async function giveToOwner(first: string, last: string): Promise<void> {
  const heir = await intendedOwnerOf(dirname(first))
  if (!heir) return
  for (let folder = resolve(last); isInside(resolve(first), folder); folder = dirname(folder))
    await lchown(folder, heir.uid, heir.gid)
}

/** Removes the rights of group and others from a file. Does nothing if the file is absent. */
export async function makePrivate(path: string): Promise<void> {
  const found = await statOf(path)
  if (found && process.platform !== 'win32' && (found.mode & 0o077) !== 0) await chmod(path, privateFile)
}

/** Flushes the entries of a folder to the disk: created, renamed and removed files. */
export async function syncDir(path: string): Promise<void> {
  // Windows cannot open a folder for syncing, and does not need to: its renames are journalled.
  if (process.platform === 'win32') return
  await using dir = await open(path, 'r')
  await dir.sync()
}

async function writeTemporary(
  path: string,
  text: string | Buffer,
  template?: Stats,
  durable = true,
): Promise<string> {
  const temporary = `${path}.${randomBytes(6).toString('hex')}.tmp`
  const handle = await open(temporary, 'wx', privateFile)
  try {
    // Change the owner first: that may clear mode bits. Only root can give a file away, and only root needs
    // to.
    const owner = template ?? (await intendedOwnerOf(dirname(path)))
    if (owner && owner.uid !== (await handle.stat()).uid) await handle.chown(owner.uid, owner.gid)
    // The umask may have removed bits of the mode given to open. It never adds any.
    await handle.chmod(template ? template.mode & 0o7777 : privateFile)
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

/** Replaces the file by `text` in one step, 0600. The text is on the disk when this resolves. */
export const writeDurably = (path: string, text: string | Buffer): Promise<void> =>
  writeDurablyInOrder([{ path, text }])

/**
 * Replaces the file like `writeDurably`, but does not wait for the disk: after a power cut the file may be
 * empty.
 */
export const replaceFile = async (path: string, text: string): Promise<void> =>
  putInPlace(await writeTemporary(path, text, undefined, false), path)

/**
 * Replaces several files of one folder like `writeDurably`, at little more than the cost of one. A crash
 * leaves none replaced, or the first, or the first two …, never a later one without the earlier ones.
 */
export async function writeDurablyInOrder(
  files: readonly { path: string; text: string | Buffer }[],
): Promise<void> {
  const first = files[0]
  if (!first) return
  const folder = dirname(first.path)
  if (files.some(file => dirname(file.path) !== folder))
    throw new Error('files written in order share one folder')
  const written = await Promise.allSettled(files.map(file => writeTemporary(file.path, file.text)))
  const remaining = written.flatMap(result => (result.status === 'fulfilled' ? result.value : []))
  try {
    const failed = written.find(result => result.status === 'rejected')
    if (failed) throw failed.reason
    for (const { path } of files) await putInPlace(remaining.shift() ?? '', path)
    await syncDir(folder)
  } finally {
    for (const temporary of remaining) await removeQuietly(temporary)
  }
}

/**
 * Replaces a file of another program by `text` in one step and keeps its rights and owner. An absent file is
 * created,
 * 0600. Follows no link: pass the path of the file itself.
 */
export async function replaceKeepingRights(path: string, text: string): Promise<void> {
  await putInPlace(await writeTemporary(path, text, await statOf(path)), path)
  await syncDir(dirname(path))
}

/** Renames a temporary file to its final name. Removes it when that fails. */
const putInPlace = (temporary: string, path: string): Promise<void> =>
  rename(temporary, path).catch(async error => {
    await removeQuietly(temporary)
    throw error
  })

/**
 * Creates a file with its content in one step, 0600, if it is absent.
 *
 * @returns false when the file exists already
 */
export async function createDurably(path: string, text: string): Promise<boolean> {
  const temporary = await writeTemporary(path, text)
  try {
    // A link appears together with its content; a file that is created and then written does not. Some file
    // systems have no links.
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

// Without O_NONBLOCK, opening a pipe that has no writer would wait forever. Windows has neither.
export const readOnlyFlags = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0)
/** Limit for files that are read whole; none of them comes near it. */
const maxReadBytes = 512 * 1024 * 1024

/**
 * @throws an Error in the form of the system's errors (EISDIR, EFTYPE) when the path is not a regular file
 */
export function rejectNonFile(path: string, info: Pick<Stats, 'isFile' | 'isDirectory'>): void {
  if (info.isFile()) return
  const code = info.isDirectory() ? 'EISDIR' : 'EFTYPE'
  throw Object.assign(new Error(`${path} is no file`), { code, path, syscall: 'open' })
}

function rejectUnreadable(path: string, info: Stats): void {
  rejectNonFile(path, info)
  if (info.size > maxReadBytes)
    throw Object.assign(new Error(`${path} is too large`), { code: 'EFBIG', path })
}

/**
 * Reads a regular file. Others are rejected: a pipe may never answer, and a device may never end.
 *
 * @throws the system's error; EISDIR and EFTYPE for a folder, pipe or device; EFBIG above 512 MiB
 */
export function readBytes(path: string): Buffer {
  const file = openSync(path, readOnlyFlags)
  try {
    rejectUnreadable(path, fstatSync(file))
    return readFileSync(file)
  } finally {
    closeSync(file)
  }
}

/**
 * Reads a regular file as text; undefined when it is absent.
 *
 * @throws the system's error; EISDIR, EFTYPE, EFBIG
 */
export async function readText(path: string): Promise<string | undefined> {
  await using handle = await open(path, readOnlyFlags).catch(returnIfAbsent(undefined))
  if (!handle) return undefined
  rejectUnreadable(path, await handle.stat())
  return await handle.readFile('utf8')
}

/** Returns `stat` of the path after symlinks; undefined when nothing is there. */
export const statOf = (path: string): Promise<Stats | undefined> =>
  stat(path).catch(returnIfAbsent(undefined))

/** Returns `lstat` of the path, which describes a link itself; undefined when nothing is there. */
export const lstatOf = (path: string): Promise<Stats | undefined> =>
  lstat(path).catch(returnIfAbsent(undefined))

export const fileExists = async (path: string): Promise<boolean> => (await statOf(path)) !== undefined

/** Removes the file. An absent file, or one that cannot be removed, is not an error. */
export async function removeQuietly(path: string): Promise<void> {
  await unlink(path).catch(() => {})
}

/**
 * Removes the files of a folder whose name matches `pattern` and that were last written before `before` (Unix
 * ms).
 *
 * @throws the system's first error, after the files that could be removed are gone
 * @returns how many it removed; 0 for an absent folder
 */
export async function sweep(folder: string, pattern: Pick<RegExp, 'test'>, before: number): Promise<number> {
  let removed = 0
  const failures: unknown[] = []
  for (const name of await readdir(folder).catch(returnIfAbsent<string[]>([]))) {
    if (!pattern.test(name)) continue
    const path = join(folder, name)
    const info = await lstatOf(path)
    if (!info?.isFile() || info.mtimeMs >= before) continue
    await rm(path, { force: true }).then(
      () => removed++,
      error => failures.push(error),
    )
  }
  if (failures.length > 0) throw failures[0]
  return removed
}

/**
 * Renames a damaged file to `<path>.corrupt-<unix ms>`, so that it is neither used nor lost.
 *
 * @returns the new path
 */
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
 * Creates a new file, 0600, open for writing. When the name is taken, it tries the name with ` (1)`, ` (2)` …
 * Never overwrites and never follows a link.
 *
 * @param nameWith returns the name with a given mark in it, which may be ''
 */
export async function createUnique(
  dir: string,
  nameWith: (mark: string) => string,
): Promise<{ path: string; handle: FileHandle }> {
  for (let tries = 0; tries < 200; tries++) {
    // After a hundred taken names counting on would be slow: use a random mark.
    const mark = tries === 0 ? '' : ` (${tries < 100 ? tries : randomBytes(4).toString('hex')})`
    const path = join(dir, nameWith(mark))
    try {
      const handle = await open(path, 'wx', privateFile)
      const heir = await intendedOwnerOf(dir)
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
 * Returns the real path of `path` after all symlinks, if it is inside `root`. Relative paths start at `root`.
 * A path that does not exist yet is checked by its nearest existing parent. Use the returned path, not the
 * original.
 *
 * @param field the argument that holds the path
 * @throws SvcError `forbidden` when it is outside or cannot be resolved; `store_unavailable` when the root is
 *   gone
 */
export async function resolveInside(root: string, path: string, field?: string): Promise<string> {
  const outside = (cause?: unknown) =>
    new SvcError('forbidden', `the path lies outside the media root, ${root}`, {
      field,
      hint: 'Name a file inside the media root.',
      next: { action: 'upload' },
      cause,
    })
  if (path.includes('\0')) throw outside()
  const realRoot = await realpath(root).catch(error => {
    throw new SvcError('store_unavailable', `the media root cannot be entered (${errorCodeOf(error)})`, {
      hint: 'It was removed, moved or closed to svc while it runs. Put it back, and check owner and permissions.',
      cause: error,
    })
  })
  // Names are searched only in the root, in folders inside it, and in its parents.
  const maySearch = (at: string) => isInside(realRoot, at) || isInside(at, realRoot)
  const found = await toDiskForm(resolve(realRoot, path), field, maySearch)
  const real = await realPathOf(found).catch(error => {
    throw outside(error)
  })
  if (!isInside(realRoot, real)) throw outside()
  return real
}

/** Returns whether a path is the folder or is inside it. Both must be real paths. */
export function isInside(folder: string, path: string): boolean {
  const relativePath = relative(folder, path)
  return relativePath !== '..' && !relativePath.startsWith(`..${sep}`) && !isAbsolute(relativePath)
}

/**
 * Returns the real path after all symlinks. A path that does not exist yet is placed in its nearest existing
 * parent.
 *
 * @throws the system's error for a path that cannot be resolved, such as a link to nothing
 */
export async function realPathOf(path: string): Promise<string> {
  let existing = resolve(path)
  const missing: string[] = []
  for (;;) {
    try {
      return join(await realpath(existing), ...missing.reverse())
    } catch (error) {
      if (errorCodeOf(error) !== 'ENOENT' && errorCodeOf(error) !== 'ENOTDIR') throw error
      // A dangling link exists as a link: creating "it" would create its target, wherever that is.
      if (await lstatOf(existing).catch(() => undefined)) throw error
      const parent = dirname(existing)
      if (parent === existing) throw error
      missing.push(basename(existing))
      existing = parent
    }
  }
}

/**
 * Returns the path with each name in the Unicode form that it has on the disk (`é` may be one character or
 * two). A name that is absent as written is replaced by the one that differs only in Unicode form.
 *
 * @param maySearchIn returns whether names may be searched in a folder, given by its real path
 * @throws SvcError `invalid_arguments` when several names match
 */
export async function toDiskForm(
  path: string,
  field = 'path',
  maySearchIn = (_folder: string): boolean => true,
): Promise<string> {
  let [at = '', ...names] = path.split(sep)
  for (const [nth, name] of names.entries()) {
    const folder = `${at}${sep}`
    at = folder + name
    if (!hasUnicodeForms(name) || (await lstatOf(at).catch(() => undefined))) continue
    const real = await realpath(folder).catch(() => undefined)
    // An absent folder holds nothing. A caller may name thousands of them.
    if (real === undefined) return [at, ...names.slice(nth + 1)].join(sep)
    if (maySearchIn(real)) at = folder + findSameName(await readdir(real).catch(() => []), name, field)
  }
  return at
}

/** Returns whether a name can be written in several Unicode forms. */
export const hasUnicodeForms = (name: string): boolean => /\P{ASCII}/u.test(name) && name.length <= 1024

/**
 * Returns the name in a folder that differs from `name` at most in Unicode form; `name` itself if there is
 * none.
 *
 * @throws SvcError `invalid_arguments` when several match
 */
export function findSameName(folder: readonly string[], name: string, field: string): string {
  const normalizedName = name.normalize('NFC')
  const found = folder.filter(entry => entry.normalize('NFC') === normalizedName)
  if (found.length <= 1) return found[0] ?? name
  throw new SvcError(
    'invalid_arguments',
    `${found.length} names in its folder differ from ${JSON.stringify(name)} in Unicode form alone`,
    { field, hint: 'Rename one of them, or give the name exactly as it is on the disk.' },
  )
}
