/** Puts a service in its place, and takes it away. */

import { chmod, chown, mkdir, rm, rmdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import { SvcError } from '../model/error.ts'
import { readText, replaceKeepingRights, statOf } from '../platform/files.ts'
import { launchdService } from './launchd.ts'
import {
  definitionOf,
  type ServiceFolders,
  type ServiceManager,
  type ServiceName,
  type ServicePlan,
} from './plan.ts'
import { systemdService } from './systemd.ts'

/**
 * The manager of a platform, for one service.
 *
 * @param command how svc would be started there, for the platform that has none
 * @throws SvcError where there is none that svc knows
 */
export function managerOf(
  platform: string,
  service: ServiceName,
  folders: ServiceFolders,
  command: readonly string[],
): ServiceManager {
  if (platform === 'linux') return systemdService(service, folders)
  if (platform === 'darwin') return launchdService(service, folders)
  const line = command.map(word => (/[\s"]/.test(word) ? `\\"${word}\\"` : word)).join(' ')
  const hint =
    platform === 'win32'
      ? `Let the Task Scheduler start it when you log in: schtasks /Create /TN svc /SC ONLOGON /TR "${line} openapi"`
      : 'Let its init system start svc openapi, as a user of its own.'
  throw new SvcError(
    'internal',
    `svc installs services of systemd and launchd, and ${platform} has neither`,
    { hint },
  )
}

/**
 * Writes the files of the plan, and starts the service with them, now and with the machine. Nothing is undone when it does
 * not start: its log says why, and the next install replaces it.
 *
 * @returns whether it is new
 * @throws SvcError `forbidden` for a definition that svc did not write, `internal` with what the manager said
 */
export async function install(plan: ServicePlan, manager: ServiceManager): Promise<boolean> {
  const isNew = (await ownText(manager)) === undefined
  await manager.ensureReachable()
  const files = manager.files.of(plan)
  for (const path of manager.files.paths)
    if (!files.some(file => file.path === path)) await rm(path, { force: true })
  for (const { path, text, mode, owner } of files) {
    await mkdir(dirname(path), { recursive: true })
    await replaceKeepingRights(path, text)
    await chmod(path, mode)
    if (owner) await chown(path, owner.uid, owner.gid)
  }
  await manager.start()
  return isNew
}

/**
 * Stops the service and removes its files; its data stay. @returns whether there was one
 *
 * @throws SvcError `forbidden` for one that svc did not install
 */
export async function uninstall(manager: ServiceManager): Promise<boolean> {
  if ((await ownText(manager)) === undefined) return false
  await manager.ensureReachable()
  const { paths, tokenPath } = manager.files
  await manager.stop(async () => {
    for (const path of paths) await rm(path, { force: true })
    // Files of other services may be in it.
    await rmdir(dirname(tokenPath)).catch(() => {})
  })
  return true
}

/** The definition, if svc wrote it. @throws SvcError `forbidden` when somebody else did, or no file lies where one of the service belongs */
export async function ownText(manager: ServiceManager): Promise<string | undefined> {
  for (const path of manager.files.paths) {
    // In a folder that may not be entered nothing is judged.
    const found = await statOf(path).catch(() => undefined)
    if (found?.isFile() !== false) continue
    const what = found.isDirectory() ? 'a folder' : 'a pipe, a socket or a device'
    throw new SvcError('forbidden', `${path} is ${what}, not a file of a service`, {
      hint: 'Choose another name with --name, or move that away.',
    })
  }
  const path = definitionOf(manager)
  const text = await readText(path)
  if (text === undefined || manager.files.commandOf(text)) return text
  throw new SvcError('forbidden', `${path} was not written by svc`, {
    hint: 'Choose another name with --name, or move that file away.',
  })
}
