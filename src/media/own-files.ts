/** svc's own files: logins, tokens, the message log. No caller may name them, not even the user's own programs. */
import { realpath } from 'node:fs/promises'
import { parse, resolve } from 'node:path'
import process from 'node:process'
import type { Call } from '../model/call.ts'
import { isSvcError, SvcError } from '../model/error.ts'
import { insideDir, liesIn, onDisk, realWay } from '../platform/files.ts'
import { homeFolder } from '../platform/process.ts'

/** Two folders, by their real paths. */
export interface Folders {
  /** Everything in it is svc's own, but for the media root. */
  readonly dataDir: string
  /** What remote callers may send from and save to. */
  readonly mediaRoot: string
}

/**
 * The folders that a program which started svc may name files in, besides the media root: the working folder, unless that
 * is a whole disk, or holds the user's home or svc's data.
 */
export async function workingFolders(dataDir: string): Promise<string[]> {
  try {
    const folder = await realpath(process.cwd())
    // A home that is not there holds nothing.
    const closed = [parse(folder).root, await realWay(homeFolder()), await realpath(dataDir)]
    return closed.some(path => liesIn(folder, path)) ? [] : [folder]
  } catch {
    return []
  }
}

/**
 * The real path of what a caller names to send or to save to, if `local` (see `Call`) covers it and it is none of svc's
 * own files. An agent that was talked into it would else send its user's login to the attacker.
 *
 * @param given the argument that holds it, and what the error says of svc's own
 * @throws SvcError `forbidden`
 */
export async function allowedPath(
  { path, field, refusal }: { path: string; field: string; refusal: string },
  { dataDir, mediaRoot }: Folders,
  { local }: Pick<Call, 'local'>,
): Promise<string> {
  const real = await reached(path, field, mediaRoot, local)
  // A media root that holds the whole data directory does not open it.
  const isMedia = mediaRoot !== dataDir && liesIn(dataDir, mediaRoot) && liesIn(mediaRoot, real)
  if (!liesIn(dataDir, real) || isMedia) return real
  throw new SvcError('forbidden', refusal, {
    field,
    hint: 'Name a path outside the data directory, or inside its media folder.',
  })
}

async function reached(
  given: string,
  field: string,
  mediaRoot: string,
  local: Call['local'],
): Promise<string> {
  if (local === false) return insideDir(mediaRoot, given, field)
  // A link that leads nowhere fails when it is opened, with its reason.
  if (local === true) {
    const path = await onDisk(resolve(given), field)
    return realWay(path).catch(() => path)
  }
  const path = resolve(local[0] ?? mediaRoot, given)
  for (const folder of [...local, mediaRoot]) {
    try {
      return await insideDir(folder, path, field)
    } catch (error) {
      if (!isSvcError(error, 'forbidden')) throw error
    }
  }
  throw new SvcError('forbidden', 'the path lies outside the folders whose files this client may name', {
    field,
    hint: `Copy the file into ${[...local, mediaRoot].join(' or ')} and name the copy, or let the user start "svc mcp" with --any-file.`,
  })
}
