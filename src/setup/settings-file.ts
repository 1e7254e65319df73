/** A settings file of another program: read whole, replaced in one step, never guessed at. */

import { lstat, mkdir, readFile, readlink, unlink } from 'node:fs/promises'
import { basename, dirname, resolve } from 'node:path'
import process from 'node:process'
import { SvcError } from '../model/error.ts'
import { errorCodeOf, replaceKeepingRights, statOf, syncDir } from '../platform/files.ts'

export interface SettingsFile {
  /** As the program names it. */
  readonly path: string
  /** Where it is, past links: whoever keeps his settings elsewhere keeps his link. */
  readonly target: string
  /** undefined: there is none. */
  readonly text: string | undefined
}

/** @throws SvcError `forbidden` for what is not text in UTF-8, or cannot be read */
export async function readSettings(path: string): Promise<SettingsFile> {
  const target = await targetOf(path)
  return { path, target, text: await textOf(path, target) }
}

/**
 * Writes what was changed, unless somebody else wrote meanwhile.
 *
 * @param text undefined removes the file
 * @returns false when the file is not any more what was read
 * @throws SvcError `forbidden` when it cannot be written
 */
export async function writeSettings(file: SettingsFile, text: string | undefined): Promise<boolean> {
  const { path, target } = file
  try {
    const found = await statOf(target)
    // A new file in its place would be writable: that its owner made it read-only means something.
    if (found && (found.mode & 0o200) === 0) throw refused(path, 'is read-only')
    if (!found) await mkdir(dirname(target), { recursive: true, mode: 0o700 })
    if ((await textOf(path, target)) !== file.text) return false
    if (text === undefined) {
      await unlink(target)
      await syncDir(dirname(target))
    } else await replaceKeepingRights(target, text)
    return true
  } catch (error) {
    if (error instanceof SvcError) throw error
    throw refused(path, reasonOf(error), error)
  }
}

async function textOf(path: string, target: string): Promise<string | undefined> {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(await readFile(target))
  } catch (error) {
    if (errorCodeOf(error) === 'ENOENT') return undefined
    throw refused(path, error instanceof TypeError ? 'is not text in UTF-8' : reasonOf(error), error)
  }
}

/** Follows links by hand: one to a file that is not there yet leads there all the same. */
async function targetOf(path: string): Promise<string> {
  let target = path
  for (let links = 0; links < 40; links++) {
    const found = await lstat(target).catch(() => undefined)
    if (!found?.isSymbolicLink()) return target
    target = resolve(dirname(target), await readlink(target))
  }
  throw refused(path, 'is a link that leads round in a circle')
}

/** The file was left alone, and why. */
export const refused = (path: string, why: string, cause?: unknown): SvcError =>
  new SvcError('forbidden', `${path} ${why}; it was left as it is`, {
    hint: `Put that right and try again, or edit ${basename(path)} yourself.`,
    cause,
  })

function reasonOf(error: unknown): string {
  const code = errorCodeOf(error)
  if (code === 'EACCES' || code === 'EPERM')
    return `cannot be used: user ${process.getuid?.() ?? ''} has no right to it`
  if (code === 'EROFS') return 'is on a read-only disk'
  if (code === 'EISDIR') return 'is a folder'
  if (code === 'ENOTDIR' || code === 'EEXIST') return 'lies in something that is no folder'
  return `cannot be used: ${code ?? String(error)}`
}
