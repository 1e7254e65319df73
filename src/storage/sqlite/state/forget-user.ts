/** Erases a user from the files of the data directory. What `messages.db` has is erased by `nouns/people.ts`. */
import { readdir, unlink } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { isSessionFolder } from '../../../model/data-files.ts'
import { lstatOf, readText, replaceFile } from '../../../platform/files.ts'
import type { FileLock } from '../../../platform/lock.ts'
import type { Sealer } from '../../../platform/sealing.ts'
import { mapSecretFile } from '../../sealed-places.ts'
import type { ContextFiles } from './contexts.ts'
import type { SessionFiles } from './sessions.ts'
import { translateErrors } from './token-file.ts'

/** Files that a killed writer left, and files that did not parse. */
const [halfWritten, setAside] = [/\.json\.[0-9a-f]{12}\.tmp$/, /\.json\.corrupt-\d+$/]
/** Larger files are none of these. */
const maxRemainsBytes = 64 * 1024 * 1024

/** Erases the user from the contexts and credentials of all sessions, and from what is left of such files. */
export const forgetUser = (
  dir: string,
  { lock, sealer }: { lock: Pick<FileLock, 'run'>; sealer: Sealer },
  files: { sessions: Pick<SessionFiles, 'removeUser'>; contexts: Pick<ContextFiles, 'remove'> },
  user: string,
): Promise<void> =>
  translateErrors(() =>
    // Under the lock no process writes these files.
    lock.run(async () => {
      const found = await readdir(dir, { withFileTypes: true })
      for (const { name } of found.filter(one => one.isDirectory() && isSessionFolder(one.name))) {
        await files.contexts.remove(name, user)
        await files.sessions.removeUser(name, user)
        for (const file of await readdir(join(dir, name)))
          await eraseFromRemains(join(dir, name, file), user, sealer)
      }
    }),
  )

async function eraseFromRemains(path: string, user: string, sealer: Sealer): Promise<void> {
  if (!halfWritten.test(path) && !setAside.test(path)) return
  const info = await lstatOf(path)
  if (!info?.isFile() || info.size > maxRemainsBytes) return
  const name = basename(path)
  const text = mapSecretFile((await readText(path)) ?? '', name, sealer.open)
  const erased = [user, user.toLowerCase()].reduce((rest, id) => rest.replaceAll(id, ''), text)
  if (erased === text) return
  if (halfWritten.test(path)) await unlink(path)
  else await replaceFile(path, mapSecretFile(erased, name, sealer.seal))
}
