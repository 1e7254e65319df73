/** The user that a service of the machine runs as, and the folders that belong to it. */

import { chown, mkdir } from 'node:fs/promises'
import { dirname, isAbsolute } from 'node:path'
import { badArgument, SvcError } from '../model/error.ts'
import { statOf } from '../platform/files.ts'
import { shellWord } from '../platform/format.ts'
import { runProgram } from '../platform/process.ts'
import type { Account } from './plan.ts'

/** The user that an installed definition names, of systemd or of launchd. */
export function userOf(definition: string): string | undefined {
  const found = /^User=(.+)$|<key>UserName<\/key>\s*<string>(.+)<\/string>/m.exec(definition)
  return found?.[1] ?? found?.[2]
}

/**
 * An existing user, who is not root.
 *
 * @param home for the command that makes the user
 * @throws SvcError `invalid_arguments` with that command
 */
export async function accountOf(name: string, platform: string, home: string): Promise<Account> {
  // `name:password:uid:gid:…:home:shell`; macOS has three fields more before the home.
  const { stdout } = await (platform === 'darwin'
    ? runProgram('id', ['-P', name])
    : runProgram('getent', ['passwd', name]))
  const fields = stdout.trim().split(':')
  const [uid, gid, own] = [Number(fields[2]), Number(fields[3]), fields.at(-2) ?? '']
  if (fields[0] !== name || !Number.isInteger(uid) || !Number.isInteger(gid) || !isAbsolute(own)) {
    const command = `sudo useradd --system --user-group --no-create-home --home-dir ${shellWord(home)} --shell /usr/sbin/nologin ${shellWord(name)}`
    throw badArgument('--user', `there is no user ${name}`, {
      hint: `Name an existing one${platform === 'darwin' ? '.' : `, or make it, then install again: ${command}`}`,
    })
  }
  if (uid === 0) throw runsAsRoot()
  return { name, uid, gid, home: own }
}

/** svc never runs as root. */
export const runsAsRoot = (): SvcError =>
  badArgument('--user', 'svc needs no rights of root, and is not run as root', { hint: 'Name another user.' })

/**
 * Makes the folders that are not there, for the user.
 *
 * @param isLeft whether the manager makes this one itself. systemd gives it to the user with all that is in it
 * @throws SvcError `forbidden` for one of another user
 */
export async function ensureFolders(
  { name, uid, gid }: Account,
  paths: readonly string[],
  isLeft: (path: string) => boolean,
): Promise<void> {
  for (const path of paths) {
    const found = await statOf(path)
    if (found && found.uid !== uid)
      throw new SvcError('forbidden', `${path} does not belong to ${name}, the user of the service`, {
        hint: `Choose another folder, name its owner with --user, or, if it holds svc’s data, give it away: chown -R ${name}: ${path}`,
      })
    if (found || isLeft(path)) continue
    // Everybody may enter the folders above it, as everywhere on the machine.
    await mkdir(dirname(path), { recursive: true })
    await mkdir(path, { mode: 0o700 })
    await chown(path, uid, gid)
  }
}
