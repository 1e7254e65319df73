/** Files of other programs: read whole, and replaced in one step. */
import { mkdir, rm } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import { SvcError } from '../model/error.ts'
import { fileExists, readBytes, realPathOf, replaceKeepingRights, statOf } from '../platform/files.ts'
import { reasonOf } from '../platform/system-error.ts'

/** A settings file of another program. It is read whole and replaced in one step. */
export interface SettingsFile {
  /** Path as the client names it. */
  readonly path: string
  /** Path after links are resolved. */
  readonly target: string
  readonly isThere: boolean
  /** Text without the byte order mark; empty if there is no file. */
  readonly text: string
  readonly mark: '\ufeff' | ''
}

/**
 * Reads a settings file.
 *
 * @throws SvcError `forbidden` if it is not UTF-8 text or cannot be read
 */
export async function readSettings(path: string): Promise<SettingsFile> {
  try {
    const target = await realPathOf(path)
    const isThere = await fileExists(target)
    const bytes = isThere ? readBytes(target) : new Uint8Array()
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
    const mark = text.startsWith('\ufeff') ? '\ufeff' : ''
    return { path, target, isThere, text: text.slice(mark.length), mark }
  } catch (error) {
    throw unchangedError(
      path,
      error instanceof TypeError ? 'is not text in UTF-8' : `cannot be used: ${reasonOf(error)}`,
      error,
    )
  }
}

/**
 * Writes the changed text; `undefined` deletes the file.
 *
 * @throws SvcError `forbidden` if it cannot be written, or if another program has written it since it was
 * read
 */
export async function writeSettings(file: SettingsFile, text: string | undefined): Promise<void> {
  const { path, target, mark } = file
  const found = await statOf(target)
  // Replacing a read-only file would make it writable, against its owner's intention.
  if (found && (found.mode & 0o200) === 0) throw unchangedError(path, 'is read-only')
  if ((await readSettings(path)).text !== file.text)
    throw unchangedError(path, 'was changed by another program at the same time')
  try {
    if (text === undefined) return await rm(target)
    if (!found) await mkdir(dirname(target), { recursive: true, mode: 0o700 })
    await replaceKeepingRights(target, mark + text)
  } catch (error) {
    throw unchangedError(path, `cannot be used: ${reasonOf(error)}`, error)
  }
}

/** Returns the error for a file that was left unchanged. */
export const unchangedError = (path: string, why: string, cause?: unknown): SvcError =>
  new SvcError('forbidden', `${path} ${why}; svc did not change it`, {
    hint: `Fix that and try again, or edit ${basename(path)} yourself.`,
    cause,
  })
