/** Puts a service in its place and takes it away: all of it, or nothing. */

import type { Stats } from 'node:fs'
import { chmod, chown, mkdir, rmdir, unlink } from 'node:fs/promises'
import { dirname } from 'node:path'
import { SvcError } from '../model/error.ts'
import { errorCodeOf, readText, replaceKeepingRights, statOf } from '../platform/files.ts'
import { Failed, type ServiceFile, type ServiceManager, type ServicePlan } from './plan.ts'

/** What became of it. */
export type Installed = 'installed' | 'changed' | 'started' | 'nothing'

/** A file as it was before. */
interface Before {
  readonly path: string
  /** Absent: there was none. */
  readonly text?: string
  readonly mode: ServiceFile['mode']
  readonly owner?: Pick<Stats, 'uid' | 'gid'>
}

export interface InstallOptions {
  /** Whether what runs is what is wanted, where the files are so already. */
  isRunning(): Promise<boolean>
  /** Resolves when the service works. @throws Failed when it does not */
  works(): Promise<void>
}

/**
 * Installs, or brings up to date, and starts. What fails leaves everything as it was.
 *
 * @throws SvcError of what is in the way, or with what the manager and the service said
 */
export async function install(
  plan: ServicePlan,
  manager: ServiceManager,
  { isRunning, works }: InstallOptions,
): Promise<Installed> {
  await manager.check()
  const was = await ownText(manager)
  const other = was === undefined ? await manager.elsewhere() : undefined
  if (other !== undefined) throw taken(plan.name, other)
  const files = manager.files(plan)
  const wanted = new Set(files.map(({ path }) => path))
  const before: Before[] = []
  for (const { path, mode } of everyFile(manager)) {
    const [text, owner] = [await readText(path), await statOf(path)]
    before.push({ path, mode, ...(text !== undefined && { text }), ...(owner && { owner }) })
  }
  const isSame = before.every(({ path, text }) => text === files.find(file => file.path === path)?.text)
  if (isSame && (await isRunning())) return 'nothing'
  const begun = Date.now()
  try {
    for (const file of files) await put(file)
    for (const { path } of before) if (!wanted.has(path)) await removed(path)
    await manager.start()
    await works()
  } catch (error) {
    const said = error instanceof Failed ? await saidBy(manager, begun, error) : ''
    const left = await putBack(manager, before, was !== undefined)
    if (!(error instanceof Failed)) throw error
    throw new SvcError('internal', `the service does not start: ${said}`, { hint: left, cause: error })
  }
  return was === undefined ? 'installed' : isSame ? 'started' : 'changed'
}

/**
 * Stops the service and removes its files; its data stay. @returns whether there was one
 *
 * @throws SvcError `forbidden` for one that svc did not install
 */
export async function uninstall(manager: ServiceManager, name: string): Promise<boolean> {
  await manager.check()
  if ((await ownText(manager)) === undefined) {
    const other = await manager.elsewhere()
    if (other !== undefined) throw taken(name, other)
    for (const { path } of everyFile(manager).slice(0, -1)) await removed(path)
    return false
  }
  await manager.stop()
  for (const { path } of everyFile(manager)) await removed(path)
  await withoutFolder(manager)
  await manager.forget()
  return true
}

/** What the service said before it ended; if nothing, what its manager says of that. */
async function saidBy(manager: ServiceManager, begun: number, { message }: Failed): Promise<string> {
  const words = await manager.lastWords(begun).catch(() => [])
  const errors = words.filter(line => line.startsWith('error: '))
  // Started several times, it says the same several times.
  const told = [...new Set(errors.length > 0 ? errors : words)].join(' / ')
  return (told || message).replace(/^error: |\.$/g, '')
}

/** The definition, if svc wrote it. @throws SvcError `forbidden` when somebody else did */
export async function ownText(manager: ServiceManager): Promise<string | undefined> {
  const text = await readText(manager.path)
  if (text === undefined || manager.commandOf(text)) return text
  throw new SvcError('forbidden', `${manager.path} was not written by svc`, {
    hint: 'Choose another name with --name, or move that file away.',
  })
}

const taken = (name: string, path: string) =>
  new SvcError('forbidden', `there is a service ${name} already, at ${path}, which svc did not install`, {
    hint: 'Use that one, or choose another name with --name.',
  })

/** Those that there may be; the definition is the last. */
const everyFile = (manager: ServiceManager): { path: string; mode: ServiceFile['mode'] }[] => [
  { path: manager.tokenPath, mode: 0o600 },
  { path: manager.environmentPath, mode: 0o600 },
  { path: manager.path, mode: 0o644 },
]

async function put({ path, text, mode, owner }: Before & { text: string }): Promise<void> {
  await mkdir(dirname(path), { recursive: true })
  await replaceKeepingRights(path, text)
  await chmod(path, mode)
  if (owner) await chown(path, owner.uid, owner.gid)
}

async function removed(path: string): Promise<void> {
  await unlink(path).catch(error => {
    if (errorCodeOf(error) !== 'ENOENT') throw error
  })
}

/** Of other services there may be more in it. */
const withoutFolder = (manager: ServiceManager) => rmdir(dirname(manager.tokenPath)).catch(() => {})

/** @returns what is there now, for people */
async function putBack(
  manager: ServiceManager,
  before: readonly Before[],
  wasThere: boolean,
): Promise<string> {
  if (!wasThere) await manager.stop().catch(() => {})
  for (const { text, ...file } of before) {
    if (text === undefined) await removed(file.path)
    else await put({ ...file, text })
  }
  if (!wasThere) {
    await withoutFolder(manager)
    await manager.forget().catch(() => {})
    return 'Nothing was installed. Mend that, then install again.'
  }
  const isBack = await manager.start().then(
    () => true,
    () => false,
  )
  return isBack
    ? 'The service runs as it did before. Mend that, then install again.'
    : 'The files are as they were before, but it does not start with them either.'
}
