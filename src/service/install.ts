/** Puts a service in its place, and takes it away. */

import { chmod, chown, mkdir, readdir, rm, rmdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { SvcError } from '../model/error.ts'
import { readText, replaceKeepingRights, statOf } from '../platform/files.ts'
import { launchdService } from './launchd.ts'
import {
  definitionOf,
  Failed,
  isServiceName,
  type ServiceFile,
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
  throw new SvcError(
    'internal',
    `svc installs services of systemd and launchd, and ${platform} has neither`,
    {
      hint:
        platform === 'win32'
          ? `Let the Task Scheduler start it when you log in: schtasks /Create /TN svc /SC ONLOGON /TR "${line} openapi"`
          : 'Let its init system start svc openapi, as a user of its own.',
    },
  )
}

/** What became of it. */
export type Installed = 'installed' | 'changed' | 'started' | 'nothing'

export interface InstallOptions {
  /** Whether the service runs as it should; asked where the files are as wanted already. */
  isRunning(): Promise<boolean>
  /** Resolves when the service works. @throws Failed when it does not */
  works(): Promise<void>
}

/**
 * Installs, or brings up to date, and starts. When that fails, a new service is removed, and an older one gets its files
 * back and is started with them.
 *
 * @throws SvcError `forbidden` for a definition that svc did not write, else with what the manager and the service said
 */
export async function install(
  plan: ServicePlan,
  manager: ServiceManager,
  { isRunning, works }: InstallOptions,
): Promise<Installed> {
  const isNew = (await ownText(manager)) === undefined
  const files = manager.files.of(plan)
  const before = await Promise.all(
    manager.files.paths.map(async path => ({ path, text: await readText(path) })),
  )
  const isSame = before.every(({ path, text }) => text === files.find(file => file.path === path)?.text)
  if (isSame && (await isRunning())) return 'nothing'
  const begun = Date.now()
  try {
    for (const file of files) await put(file)
    for (const { path } of before)
      if (!files.some(file => file.path === path)) await rm(path, { force: true })
    await manager.start()
    await works()
  } catch (error) {
    const said = error instanceof Failed ? await saidBy(manager, begun, error) : ''
    if (isNew) await remove(manager).catch(() => removeFiles(manager))
    else {
      for (const { path, text } of before)
        await (text === undefined ? rm(path, { force: true }) : replaceKeepingRights(path, text))
      await manager.start().catch(() => {})
    }
    if (!(error instanceof Failed)) throw error
    throw new SvcError('internal', `the service does not start: ${said}`, {
      hint: `${isNew ? 'Nothing was installed.' : 'The files are as they were before.'} Mend that, then install again.`,
      cause: error,
    })
  }
  return isNew ? 'installed' : isSame ? 'started' : 'changed'
}

/**
 * Stops the service and removes its files; its data stay. @returns whether there was one
 *
 * @throws SvcError `forbidden` for one that svc did not install
 */
export async function uninstall(manager: ServiceManager): Promise<boolean> {
  if ((await ownText(manager)) === undefined) return false
  await remove(manager)
  return true
}

const remove = (manager: ServiceManager) => manager.stop(() => removeFiles(manager))

async function removeFiles({ files }: ServiceManager): Promise<void> {
  for (const path of files.paths) await rm(path, { force: true })
  // Files of other services may be in it.
  await rmdir(dirname(files.tokenPath)).catch(() => {})
}

/** What the service logged before it ended; if nothing, what its manager said. */
async function saidBy(manager: ServiceManager, begun: number, { message }: Failed): Promise<string> {
  const words = await manager.lastWords(begun).catch(() => [])
  const errors = words.filter(line => line.startsWith('error: '))
  // A service that was started several times says the same several times.
  const told = [...new Set(errors.length > 0 ? errors : words)].join(' / ')
  return (told || message).replace(/^error: |\.$/g, '')
}

/** The definition, if svc wrote it. @throws SvcError `forbidden` when somebody else did */
export async function ownText(manager: ServiceManager): Promise<string | undefined> {
  const path = definitionOf(manager)
  const text = await readText(path)
  if (text === undefined || manager.files.commandOf(text)) return text
  throw new SvcError('forbidden', `${path} was not written by svc`, {
    hint: 'Choose another name with --name, or move that file away.',
  })
}

async function put({ path, text, mode, owner }: ServiceFile): Promise<void> {
  await mkdir(dirname(path), { recursive: true })
  await replaceKeepingRights(path, text)
  await chmod(path, mode)
  if (owner) await chown(path, owner.uid, owner.gid)
}

/** The names of the services that svc wrote beside this one, in order. */
export async function installedNames(manager: ServiceManager): Promise<string[]> {
  const folder = dirname(definitionOf(manager))
  const found: string[] = []
  for (const file of await readdir(folder).catch(() => [])) {
    const name = /^(?:local\.)?(.+)\.(?:service|plist)$/.exec(file)?.[1] ?? ''
    const path = join(folder, file)
    // A unit may be a link to anything.
    if (!isServiceName(name) || !(await statOf(path).catch(() => undefined))?.isFile()) continue
    const text = await readText(path).catch(() => undefined)
    if (text !== undefined && manager.files.commandOf(text)) found.push(name)
  }
  return found.sort()
}
