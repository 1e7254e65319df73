/** A settings file of another program: read whole, replaced in one step, never guessed at. */
import { mkdir, readFile } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import { SvcError } from '../model/error.ts'
import { realWay, replaceKeepingRights, statOf } from '../platform/files.ts'
import { reasonOf } from '../platform/system-error.ts'

export interface SettingsFile {
  /** As the program names it. */
  readonly path: string
  /** Where it is, past links. */
  readonly target: string
  /** Without a byte order mark; empty when there is no file. */
  readonly text: string
  readonly mark: '\ufeff' | ''
}

/** @throws SvcError `forbidden` for what is not text in UTF-8, or cannot be read */
export async function readSettings(path: string): Promise<SettingsFile> {
  try {
    const target = await realWay(path)
    const bytes = (await statOf(target)) ? await readFile(target) : new Uint8Array()
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
    const mark = text.startsWith('\ufeff') ? '\ufeff' : ''
    return { path, target, text: text.slice(mark.length), mark }
  } catch (error) {
    throw refused(
      path,
      error instanceof TypeError ? 'is not text in UTF-8' : `cannot be used: ${reasonOf(error)}`,
      error,
    )
  }
}

/**
 * Writes what was changed.
 *
 * @throws SvcError `forbidden` when it cannot be written, or another program wrote it meanwhile
 */
export async function writeSettings(file: SettingsFile, text: string): Promise<void> {
  const { path, target, mark } = file
  const found = await statOf(target)
  // A new file in its place would be writable: that its owner made it read-only means something.
  if (found && (found.mode & 0o200) === 0) throw refused(path, 'is read-only')
  if ((await readSettings(path)).text !== file.text)
    throw refused(path, 'was written by another program meanwhile')
  try {
    if (!found) await mkdir(dirname(target), { recursive: true, mode: 0o700 })
    await replaceKeepingRights(target, mark + text)
  } catch (error) {
    throw refused(path, `cannot be used: ${reasonOf(error)}`, error)
  }
}

/** The file was left alone, and why. */
export const refused = (path: string, why: string, cause?: unknown): SvcError =>
  new SvcError('forbidden', `${path} ${why}; it was left as it is`, {
    hint: `Put that right and try again, or edit ${basename(path)} yourself.`,
    cause,
  })
