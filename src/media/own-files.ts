/**
 * Protects svc's own files (logins, tokens, the message log): no caller may name them, not even the user's
 * own programs.
 */
import { realpath } from 'node:fs/promises'
import { join, parse, resolve } from 'node:path'
import process from 'node:process'
import type { Call } from '../model/call.ts'
import { isSvcError, SvcError } from '../model/error.ts'
import { keyIdOf, type Principal } from '../model/principal.ts'
import { isInside, realPathOf, resolveInside, toDiskForm } from '../platform/files.ts'
import { findHomeFolder } from '../platform/process.ts'

/** Folders, as real paths. */
export interface MediaFolders {
  /** Folder of svc's own files. Only the media root inside is open to callers. */
  readonly dataDir: string
  /** Folder that remote callers may send from and save to. */
  readonly mediaRoot: string
  /** Folder of the working folders of agents. */
  readonly agents: string
}

/** Returns the folder in which the downloads of a caller are saved. Each key has its own. */
export const downloadsFolderOf = (mediaRoot: string, by: Principal): string =>
  join(mediaRoot, 'downloads', keyIdOf(by) ?? '')

/** Whether a file in the media root is a download, an upload or a queued file of another caller than this key. */
function isOfAnother(mediaRoot: string, path: string, by: Principal): boolean {
  if (keyIdOf(by) === undefined || isInside(downloadsFolderOf(mediaRoot, by), path)) return false
  return ['downloads', 'uploads', 'outbox'].some(name => isInside(join(mediaRoot, name), path))
}

/**
 * Returns the folders besides the media root whose files a program that started svc may name. That is the
 * working folder, unless it is a whole disk, or contains the user's home or svc's data.
 */
export async function listWorkingFolders(dataDir: string): Promise<string[]> {
  try {
    const folder = await realpath(process.cwd())
    // If the home folder does not exist, nothing can be in it.
    const closed = [parse(folder).root, await realPathOf(findHomeFolder()), await realpath(dataDir)]
    return closed.some(path => isInside(folder, path)) ? [] : [folder]
  } catch {
    return []
  }
}

/**
 * Returns the real path that a caller names to send or to save to. Checks that `local` (see `Call`) covers
 * it and that it is not one of svc's own files: an agent under an attacker's influence would otherwise send
 * the user's login away. A caller with a key does not get the files that svc keeps for others.
 *
 * @param refusal error text for svc's own files; `field` is the argument to name
 * @throws SvcError `forbidden`
 */
export async function requireAllowedPath(
  { path, field, refusal }: { path: string; field: string; refusal: string },
  { agents, dataDir, mediaRoot }: MediaFolders,
  { by, local }: Pick<Call, 'by' | 'local'>,
): Promise<string> {
  const real = await resolveAllowed(path, field, mediaRoot, local)
  // A media root that contains the whole data directory does not open it.
  const isMedia = mediaRoot !== dataDir && isInside(dataDir, mediaRoot) && isInside(mediaRoot, real)
  const isClosed = isInside(dataDir, real) && !isMedia && !isInside(agents, real)
  if (!isClosed && !isOfAnother(mediaRoot, real, by)) return real
  throw new SvcError('forbidden', refusal, {
    field,
    hint: 'Name a path outside the data directory, or inside its media folder.',
  })
}

async function resolveAllowed(
  callerPath: string,
  field: string,
  mediaRoot: string,
  local: Call['local'],
): Promise<string> {
  if (local === false) return resolveInside(mediaRoot, callerPath, field)
  // Opening a broken link fails later, with the reason.
  if (local === true) {
    const path = await toDiskForm(resolve(callerPath), field)
    return realPathOf(path).catch(() => path)
  }
  const path = resolve(local[0] ?? mediaRoot, callerPath)
  for (const folder of [...local, mediaRoot]) {
    try {
      return await resolveInside(folder, path, field)
    } catch (error) {
      if (!isSvcError(error, 'forbidden')) throw error
    }
  }
  throw new SvcError('forbidden', 'the path lies outside the folders whose files this client may name', {
    field,
    hint: `Copy the file into ${[...local, mediaRoot].join(' or ')} and name the copy, or let the user start "svc mcp" with --any-file.`,
  })
}
