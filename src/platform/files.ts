/**
 * Files that survive a crash and folders that only their owner reads.
 *
 * Modes are set explicitly, so a generous umask changes nothing. Durable means: a reader after a power cut sees the
 * whole old content or the whole new one, and what was reported as written is there.
 */
import { Buffer } from 'node:buffer'
import type { Stats } from 'node:fs'
import {
  chmod,
  type FileHandle,
  lchown,
  link,
  lstat,
  mkdir,
  open,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  stat,
  unlink,
  writeFile,
} from 'node:fs/promises'
import { basename, dirname, extname, isAbsolute, join, relative, resolve, sep } from 'node:path'
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

/** The file's text; undefined when there is no such file. */
export const readText = (path: string): Promise<string | undefined> =>
  readFile(path, 'utf8').catch(absentAs(undefined))

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

const longestNameBytes = 200
const longestExtensionBytes = 32
// To normalise a run of accents takes time with its square: 15 ms for these, 17 s for 40,000.
const mostNormalized = 1024
const deviceName = /^(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])(\.|$)/i
// Control and invisible formatting characters (bidi overrides make "gpj.exe" read "exe.jpg"), lone surrogates and
// line separators. The zero-width joiner and the variation selectors stay: emoji are made of them.
const unseen =
  /\u034f|[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200c\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e0fff}]/gu

/**
 * A name from a stranger as a base name that every file system takes: no separators, control characters, bidi
 * overrides, characters that nobody sees (tags carry whole sentences to a language model), leading dots, trailing dots or spaces, device names; at most 200 bytes, cut between characters, with its
 * extension kept.
 */
export function safeBaseName(name: string, fallback: string): string {
  const clean = cleaned(name) || cleaned(fallback) || 'file'
  return deviceName.test(clean) ? `_${clean}` : clean
}

function cleaned(name: string): string {
  // A name never needs more than this; the rest of a megabyte is not worth looking at.
  const seen = name.slice(-4096).replace(unseen, '')
  const text = seen.length > mostNormalized ? seen : seen.normalize('NFC')
  const base = text
    .slice(Math.max(text.lastIndexOf('/'), text.lastIndexOf('\\')) + 1)
    .replace(/[<>:"|?*]/g, '_')
    .trim()
    .replace(/^[. ]+|[. ]+$/g, '')
  if (Buffer.byteLength(base) <= longestNameBytes) return base
  const found = extname(base)
  const extension = Buffer.byteLength(found) <= longestExtensionBytes ? found : ''
  const stem = extension ? base.slice(0, -extension.length) : base
  return cutBytes(stem, longestNameBytes - Buffer.byteLength(extension)).replace(/[. ]+$/, '') + extension
}

/** The longest beginning of at most `limit` bytes that does not cut a character, as a reader sees it. */
function cutBytes(text: string, limit: number): string {
  let bytes = 0
  let kept = ''
  for (const { segment } of new Intl.Segmenter(undefined, { granularity: 'grapheme' }).segment(text)) {
    bytes += Buffer.byteLength(segment)
    if (bytes > limit) return kept
    kept += segment
  }
  return kept
}

/**
 * Creates a new file, 0600, open for writing; when the name is taken, `name (1).ext`, `name (2).ext` … Never
 * overwrites and never follows a link.
 */
export async function createUnique(dir: string, name: string): Promise<{ path: string; handle: FileHandle }> {
  const extension = extname(name)
  const stem = extension ? name.slice(0, -extension.length) : name
  for (let tries = 0; tries < 200; tries++) {
    // After a hundred neighbours counting on is slow and pointless.
    const mark = tries === 0 ? '' : ` (${tries < 100 ? tries : randomBytes(4).toString('hex')})`
    const path = join(dir, `${stem}${mark}${extension}`)
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
  throw new Error(`no free name for ${name}`)
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
  const real = await realWay(resolve(realRoot, path)).catch(error => {
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
