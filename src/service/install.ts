/** Installs and removes a service. */

import { chmod, chown, mkdir, rm, rmdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import { SvcError } from '../model/error.ts'
import { readText, replaceKeepingRights, statOf } from '../platform/files.ts'
import { launchdService } from './launchd.ts'
import type { ServiceFolders, ServiceManager, ServiceName, ServicePlan } from './plan.ts'
import { systemdService } from './systemd.ts'

/**
 * Returns the service manager of a platform.
 *
 * @param command how to start svc; used in the error for a platform without a supported manager
 * @throws SvcError for a platform that has neither systemd nor launchd
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
 * Writes the plan's files, starts the service, and makes it start with the machine. If it does not start,
 * nothing is undone: its log tells the reason, and the next install replaces the files.
 *
 * @returns true if the service is new
 * @throws SvcError `forbidden` for a definition that svc did not write, `internal` with the manager's
 * message
 */
export async function install(plan: ServicePlan, manager: ServiceManager): Promise<boolean> {
  const isNew = (await readOwnDefinition(manager)) === undefined
  await manager.ensureReachable()
  const files = manager.files.createFiles(plan)
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
 * Stops the service and removes its files; its data stay.
 *
 * @returns false if there was no service
 * @throws SvcError `forbidden` for a service that svc did not install
 */
export async function uninstall(manager: ServiceManager): Promise<boolean> {
  if ((await readOwnDefinition(manager)) === undefined) return false
  await manager.ensureReachable()
  const { paths, tokenPath } = manager.files
  await manager.stop(async () => {
    for (const path of paths) await rm(path, { force: true })
    // Fails, as intended, while files of other services are in it.
    await rmdir(dirname(tokenPath)).catch(() => {})
  })
  return true
}

/**
 * Returns the installed definition; undefined if there is none.
 *
 * @throws SvcError `forbidden` if svc did not write it, or if one of the service's paths is not a file
 */
export async function readOwnDefinition(manager: ServiceManager): Promise<string | undefined> {
  for (const path of manager.files.paths) {
    // A folder that may not be entered hides what is in it: skip the check.
    const found = await statOf(path).catch(() => undefined)
    if (found?.isFile() !== false) continue
    const what = found.isDirectory() ? 'a folder' : 'a pipe, a socket or a device'
    throw new SvcError('forbidden', `${path} is ${what}, not a file of a service`, {
      hint: 'Choose another name with --name, or move that away.',
    })
  }
  const { definitions, isOwn } = manager.files
  const texts = await Promise.all(definitions.map(readText))
  for (const [nth, path] of definitions.entries())
    if (texts[nth] !== undefined && !isOwn(texts[nth]))
      throw new SvcError('forbidden', `${path} was not written by svc`, {
        hint: 'Choose another name with --name, or move that file away.',
      })
  return texts.at(-1)
}
