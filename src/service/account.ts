/** The operating-system user that a machine's service runs as, and its folders. */

import { chown, mkdir } from 'node:fs/promises'
import { dirname, isAbsolute } from 'node:path'
import { badArgument, SvcError } from '../model/error.ts'
import { statOf } from '../platform/files.ts'
import { quoteForShell } from '../platform/format.ts'
import { runProgram } from '../platform/process.ts'
import type { ServiceAccount } from './plan.ts'

/** Returns the user named in an installed definition of systemd or launchd. */
export function parseServiceUser(definition: string): string | undefined {
  const found = /^User=(.+)$|<key>UserName<\/key>\s*<string>(.+)<\/string>/m.exec(definition)
  return found?.[1] ?? found?.[2]
}

/**
 * Finds an existing user, who must not be root.
 *
 * @param home home folder in the command that creates the user
 * @throws SvcError `invalid_arguments` with that command
 */
export async function findAccount(name: string, platform: string, home: string): Promise<ServiceAccount> {
  // `name:password:uid:gid:…:home:shell`; macOS has three more fields before the home.
  const { stdout } = await (platform === 'darwin'
    ? runProgram('id', ['-P', name])
    : runProgram('getent', ['passwd', name]))
  const fields = stdout.trim().split(':')
  const [uid, gid, own] = [Number(fields[2]), Number(fields[3]), fields.at(-2) ?? '']
  if (fields[0] !== name || !Number.isInteger(uid) || !Number.isInteger(gid) || !isAbsolute(own)) {
    const command = `sudo useradd --system --user-group --no-create-home --home-dir ${quoteForShell(home)} --shell /usr/sbin/nologin ${quoteForShell(name)}`
    throw badArgument('--user', `there is no user ${name}`, {
      hint: `Name an existing user${platform === 'darwin' ? '.' : `, or create it, then install again: ${command}`}`,
    })
  }
  if (uid === 0) throw rootError()
  return { name, uid, gid, home: own }
}

/** Returns the error for a service that would run as root. */
export const rootError = (): SvcError =>
  badArgument('--user', 'svc must not run as root', { hint: 'Name another user.' })

/**
 * Creates the missing folders for the user.
 *
 * @param isLeft returns true for a folder that the manager creates itself; systemd also changes the owner
 * of its content
 * @throws SvcError `forbidden` for a folder of another user
 */
export async function ensureFolders(
  { name, uid, gid }: ServiceAccount,
  paths: readonly string[],
  isLeft: (path: string) => boolean,
): Promise<void> {
  for (const path of paths) {
    const found = await statOf(path)
    if (found && found.uid !== uid)
      throw new SvcError('forbidden', `${path} does not belong to ${name}, the user of the service`, {
        hint: `Choose another folder, or name its owner with --user. If it holds svc’s data, change its owner: chown -R ${name}: ${path}`,
      })
    if (found || isLeft(path)) continue
    // The folders above get the default mode, so that all users may enter them.
    await mkdir(dirname(path), { recursive: true })
    await mkdir(path, { mode: 0o700 })
    await chown(path, uid, gid)
  }
}
