/** Checks that a data directory may be used by this gateway, before anything in it is opened. */
import { access, constants, mkdir, rmdir, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import process from 'node:process'
import { localFilesOf } from '../config/local-files.ts'
import type { Config } from '../config.ts'
import { badArgument, SvcError } from '../model/error.ts'
import { errorCodeOf, isInside } from '../platform/files.ts'
import type { Sealer } from '../platform/sealing.ts'
import { reasonOf } from '../platform/system-error.ts'
import { rejectClosed } from '../storage/sqlite/closed-mark.ts'
import { claimDataDirectory, readContents } from '../storage/sqlite/directory-claim.ts'
import { openSealer } from '../storage/sqlite/secret-state.ts'

export { mapSecretFile } from '../storage/sealed-places.ts'
export { setStoreAside } from '../storage/sqlite/exclusive.ts'

import { scrubFile } from '../storage/sqlite/scrub.ts'

/** Option names for error texts: flags (`--base-path`) for commands, keys (`basePath`) for the library. */
interface OptionNames {
  basePath: string
  sandbox: string
  mediaRoot: string
}
const flags: OptionNames = { basePath: '--base-path', sandbox: '--sandbox', mediaRoot: '--media-root' }

/**
 * Claims a data directory. It belongs either to real accounts or to the sandbox, permanently: mixing them
 * would poll WeChat with tokens of the sandbox, or give its users to a real bot. Creates the directory if
 * it does not exist, and also a named media root. Keeps the permissions of existing folders. If they cannot
 * be used, removes the folders it created.
 *
 * @returns whether the directory was created
 * @throws SvcError `invalid_arguments` for the wrong kind of directory; `store_unavailable` if it cannot
 *   be used, if a newer version wrote it, or if its store is in a database whose address is not given
 */
export async function claimDirectory(
  {
    basePath,
    sandbox,
    mediaRoot,
    storeUrl,
  }: Pick<Config, 'basePath' | 'sandbox'> & Partial<Pick<Config, 'mediaRoot' | 'storeUrl'>>,
  called: OptionNames = flags,
): Promise<boolean> {
  let [made, madeMedia]: (string | undefined)[] = []
  try {
    made = await makeUsable(basePath)
    const { isEmpty, isOurs, isSandbox, isUsed, sessions } = await readContents(basePath)
    if (!isOurs && !isEmpty && (await isShared(basePath))) {
      throw badArgument(called.basePath, `${basePath} is a shared folder with other files`, {
        hint: 'The data directory is made private: choose a new or an empty folder.',
      })
    }
    // A restore that was killed is to be repeated, whatever it has written so far.
    await rejectClosed(basePath, storeUrl !== undefined)
    if (sandbox && sessions > 0 && !isSandbox) {
      throw badArgument(called.sandbox, `${basePath} holds real sessions`, {
        hint: `Choose another folder with ${called.basePath}.`,
      })
    }
    // A sandbox directory always has the mark. A used directory without it has real sessions, or will have.
    if (sandbox && !isSandbox && isUsed) {
      throw badArgument(
        called.sandbox,
        `${basePath} was used without it, or its folder sandbox/ was removed`,
        {
          hint: `Leave ${called.sandbox} out, or choose another folder with ${called.basePath}. If that folder was removed, stop the svc that works here, and remove the rest too.`,
        },
      )
    }
    if (!sandbox && isSandbox) {
      // If it has a session, removing the sandbox would send that session's token to WeChat.
      const advice =
        sessions === 0
          ? ` For real accounts here, move away ${localFilesOf(basePath).sandbox} once nothing uses it.`
          : ''
      throw badArgument(called.basePath, `${basePath} belongs to the sandbox`, {
        hint: `Add ${called.sandbox}, or choose another folder.${advice}`,
      })
    }
    if (mediaRoot !== undefined)
      madeMedia = await makeUsable(mediaRoot).catch(error => {
        throw unusableError(`the media root ${mediaRoot}`, called.mediaRoot, error)
      })
    await claimDataDirectory(basePath, sandbox)
    return made !== undefined
  } catch (error) {
    if (madeMedia !== undefined) await removeEmpty(madeMedia, mediaRoot ?? '')
    if (made !== undefined) await removeEmpty(made, basePath)
    if (error instanceof SvcError) throw error
    throw unusableError(`the data directory ${basePath}`, called.basePath, error)
  }
}

/** Returns what seals the secrets of a data directory. @throws SvcError `store_unavailable` without its key */
export const openSecrets = ({
  basePath,
  secretKey,
}: {
  basePath: string
  secretKey?: string | undefined
}): Promise<Sealer> => openSealer(basePath, secretKey)
/** Rewrites the store of a data directory, for another process that erased a user. @throws SvcError `store_unavailable` */
export const scrubStore = (basePath: string): Promise<void> => scrubFile(localFilesOf(basePath).store)

/** Creates the folder if needed, and checks its permissions. @returns the first folder that was created */
async function makeUsable(folder: string): Promise<string | undefined> {
  const first = await mkdir(folder, { recursive: true, mode: 0o700 })
  await access(folder, constants.R_OK | constants.W_OK | constants.X_OK)
  return first
}

/** Removes the empty folders among those from `first` to `last`. */
async function removeEmpty(first: string, last: string): Promise<void> {
  for (let folder = last; isInside(first, folder); folder = dirname(folder))
    await rmdir(folder).catch(() => {})
}

/** Whether other users have access. If /tmp or a shared home became private, they would be locked out. */
const isShared = async (folder: string) =>
  process.platform !== 'win32' && ((await stat(folder)).mode & 0o077) !== 0

function unusableError(what: string, option: string, error: unknown): SvcError {
  const user = process.getuid?.()
  // A user who mounts a folder into a container knows the container's user by number, if at all.
  const isRefused = ['EACCES', 'EPERM'].includes(errorCodeOf(error) ?? '')
  const or = isRefused && user !== undefined ? `, or give this one to the user ${user}` : ''
  return new SvcError('store_unavailable', `${what} cannot be used: ${reasonOf(error)}`, {
    hint: `Choose a folder you may write to with ${option}${or}.`,
    cause: error,
  })
}
