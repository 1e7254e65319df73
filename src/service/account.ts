/** Whom a service of the machine runs as, and folders that belong to it. */

import { chown, mkdir } from 'node:fs/promises'
import { dirname, isAbsolute } from 'node:path'
import process from 'node:process'
import { SvcError } from '../model/error.ts'
import { statOf } from '../platform/files.ts'
import { runProgram } from '../platform/process.ts'
import type { Account } from './plan.ts'

/** The user of its own that svc makes on Linux. */
export const ownUser = 'svc'
/** Below it users are the system's. */
const firstPerson = 1000

/** The user of that name. */
export async function findAccount(name: string, platform: NodeJS.Platform): Promise<Account | undefined> {
  // `name:password:uid:gid:…:home:shell`; macOS has three fields more before the home.
  const { stdout } = await (platform === 'darwin'
    ? runProgram('id', ['-P', name])
    : runProgram('getent', ['passwd', name]))
  const fields = stdout.trim().split(':')
  const [uid, gid, home] = [Number(fields[2]), Number(fields[3]), fields.at(-2) ?? '']
  if (fields[0] !== name || !Number.isInteger(uid) || !Number.isInteger(gid) || !isAbsolute(home))
    return undefined
  return { name, uid, gid, home }
}

/** What may stand in a unit as it is. */
const isUserName = (name: string) => /^[\p{L}_][\p{L}\p{N}_.@\\-]*\$?$/u.test(name)

/** Nobody's yet: of a user that is not there, or is not looked for. */
const unknown = -1
/** Whether `madeAccount` is to make him. */
export const isToBeMade = ({ uid }: Account): boolean => uid === unknown
/** By which a user that svc made is known. */
const comment = 'svc service'

/**
 * The user `wanted`, or svc's own, whom `madeAccount` makes when he is not there.
 *
 * @param isLookedFor else one is taken to be there
 * @throws SvcError when there is none, or it is somebody's
 */
export async function accountFor(
  wanted: string | undefined,
  home: string,
  isLookedFor: boolean,
): Promise<Account> {
  const name = wanted ?? ownUser
  const nobody = { name, uid: unknown, gid: unknown, home }
  if (!isUserName(name)) return ordinary(name, undefined)
  if (!isLookedFor) return ordinary(name, name === 'root' ? { ...nobody, uid: 0 } : nobody)
  const found = await findAccount(name, 'linux')
  if (wanted !== undefined) return ordinary(wanted, found)
  if (!found) return nobody
  if (found.uid < firstPerson) return ordinary(ownUser, found)
  throw new SvcError('forbidden', `the user ${ownUser} of this machine is somebody’s, not a service’s`, {
    hint: `Name whom svc is to run as with --run-as, or --run-as ${ownUser} if that is right.`,
  })
}

/** @throws SvcError when the user cannot be made */
export async function madeAccount(account: Account): Promise<Account> {
  if (!isToBeMade(account)) return account
  const { status, stderr } = await runProgram('useradd', [
    ...['--system', '--user-group', '--no-create-home', '--home-dir', account.home],
    ...['--shell', '/usr/sbin/nologin', '--comment', comment, account.name],
  ])
  const made = status === 0 ? await findAccount(account.name, 'linux') : undefined
  if (made) return made
  throw new SvcError(
    'internal',
    `the user ${account.name} cannot be made: ${stderr.trim() || 'no useradd here'}`,
    {
      hint: `Make it as this system does, or name an existing one with --run-as.`,
    },
  )
}

/** Whether there is a user that svc made: not one of that name whom the system, or a person, had before. */
export async function isOwnUserMade(): Promise<boolean> {
  const { stdout } = await runProgram('getent', ['passwd', ownUser])
  const fields = stdout.trim().split(':')
  return fields[0] === ownUser && fields[4] === comment
}

/** @throws SvcError for nobody, and for root */
export function ordinary(name: string, found: Account | undefined): Account {
  if (!found)
    throw new SvcError('invalid_arguments', `--run-as: there is no user ${name}`, {
      hint: 'Name one that exists.',
    })
  if (found.uid === 0)
    throw new SvcError('invalid_arguments', '--run-as: svc needs no rights of root, and is not run as root', {
      hint: 'Name another user.',
    })
  return found
}

/**
 * To be asked of what systemd is told to keep for a user too: it gives him all that is in there, whosever it was.
 *
 * @returns whether the folder is there
 * @throws SvcError `forbidden` when it is another user's
 */
export async function notOfAnother({ name, uid }: Account, path: string): Promise<boolean> {
  const found = await statOf(path)
  if (found && found.uid !== uid && process.geteuid?.() === 0)
    throw new SvcError(
      'forbidden',
      `${path} belongs to another user than ${name}, as whom the service runs`,
      {
        hint: `Choose another folder, name its owner with --run-as, or, if it holds svc’s data, give it away: chown -R ${name}: ${path}`,
      },
    )
  return found !== undefined
}

/**
 * Makes a folder for the user, if it is not there.
 *
 * @throws SvcError `forbidden` when it is another user's
 */
export async function ensureFolderOf(account: Account, path: string): Promise<void> {
  if (await notOfAnother(account, path)) return
  const { uid, gid } = account
  // The way to it is open to all, as everywhere on the machine.
  await mkdir(dirname(path), { recursive: true })
  await mkdir(path, { mode: 0o700 })
  await chown(path, uid, gid)
}

/**
 * The first file or folder on the way to `path` that keeps the user out.
 *
 * @param isProgram whether it is to be run, and not only read
 */
export async function barrier(
  account: Account,
  path: string,
  isProgram: boolean,
): Promise<string | undefined> {
  const way = path.split('/').map((_part, at, parts) => parts.slice(0, at + 1).join('/') || '/')
  for (const one of way) {
    const found = await statOf(one)
    if (!found) return one
    const rights = one === path && !isProgram ? 4 : one === path ? 5 : 1
    const shift = found.uid === account.uid ? 6 : found.gid === account.gid ? 3 : 0
    if (((found.mode >> shift) & rights) !== rights) return one
  }
  return undefined
}
