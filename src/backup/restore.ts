/** Restores a backup into an empty data directory. Nothing is written before the whole backup was read and checked. */
import { mkdir, rm, rmdir, unlink } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { Config } from '../config.ts'
import { dataFiles } from '../model/data-files.ts'
import { badArgument, SvcError } from '../model/error.ts'
import { openFolderBelow } from '../platform/below.ts'
import type { Clock } from '../platform/clock.ts'
import { attempt } from '../platform/fields.ts'
import { keepStream } from '../platform/file-stream.ts'
import {
  createDurably,
  ensurePrivateDir,
  isInside,
  readText,
  statOf,
  syncDir,
  writeDurably,
} from '../platform/files.ts'
import { FreeSpace } from '../platform/free-space.ts'
import { openLock } from '../platform/lock.ts'
import type { NewAuditLine } from '../storage/audit.ts'
import type { StandingStill } from '../storage/nouns/stand-still.ts'
import { readClosedMark } from '../storage/sqlite/closed-mark.ts'
import { readContents } from '../storage/sqlite/directory-claim.ts'
import { prepareRestoredStore } from '../storage/sqlite/restored-store.ts'
import { writeSecretState } from '../storage/sqlite/secret-state.ts'
import { damageError, type OpenedArchive, openArchive } from './archive.ts'
import { checkArchive } from './check.ts'
import { accessFiles, isArchivedName, type Manifest, manifestName, placeOf } from './manifest.ts'

interface RestoreOptions {
  /** Path of the backup. */
  path: string
  config: Pick<Config, 'basePath' | 'mediaRoot' | 'keepFreeBytes' | 'sandbox'>
  clock: Clock
  passphrase: string | undefined
  /** Whether keys and the tokens of the service stay valid. */
  keepKeys: boolean
  /** Line of the audit log of the restored store, without a subject. */
  line?: NewAuditLine
}

/** What was restored. */
export interface RestoreResult {
  manifest: Manifest
  still: StandingStill
}

/**
 * Restores a backup.
 *
 * @throws SvcError `invalid_arguments` for a backup that cannot be restored, and for a directory that is not empty;
 * `store_unavailable` for the disk. Nothing of the restore stays then
 */
export async function restoreBackup(options: RestoreOptions): Promise<RestoreResult> {
  const { config, passphrase, path } = options
  await rejectUsed(config.basePath)
  await using archive = await openArchive(path, passphrase)
  const manifest = await checkArchive(archive)
  if (manifest.sandbox !== config.sandbox)
    throw badArgument('--sandbox', `the backup is ${manifest.sandbox ? '' : 'not '}one of a sandbox`, {
      hint: manifest.sandbox ? 'Add --sandbox.' : 'Leave --sandbox and SVC_SANDBOX out.',
    })
  await rejectFullDisk(config, manifest)
  return { manifest, still: await write(archive, manifest, options) }
}

/** @throws SvcError `invalid_arguments` for a directory with files, except those of an interrupted restore */
async function rejectUsed(dir: string): Promise<void> {
  const found = await statOf(dir)
  if (found === undefined) return
  const isEmpty = found.isDirectory() && (await readContents(dir)).isEmpty
  if (isEmpty || (found.isDirectory() && (await readClosedMark(dir))?.why === 'restore')) return
  throw badArgument('--base-path', `${dir} is not empty`, { hint: 'Restore into a new or an empty folder.' })
}

/** @throws SvcError `store_unavailable` */
async function rejectFullDisk({ basePath, keepFreeBytes }: RestoreOptions['config'], { files }: Manifest) {
  let folder = basePath
  while (!(await statOf(folder))) folder = dirname(folder)
  const size = files.reduce((sum, file) => sum + file.size, 0)
  await new FreeSpace(folder, keepFreeBytes).startCheck(folder, size)
}

/** Writes all files, and removes them again on any failure. */
async function write(
  archive: OpenedArchive,
  manifest: Manifest,
  { clock, config, keepKeys, line }: RestoreOptions,
): Promise<StandingStill> {
  const { basePath: dir, mediaRoot } = config
  const mark = join(dir, dataFiles.restoring)
  const first = await mkdir(dir, { recursive: true, mode: 0o700 })
  await ensurePrivateDir(dir)
  await createDurably(mark, '[]\n')
  const lock = await openLock(join(dir, dataFiles.backupLock))
  if (!(await lock.tryLock())) {
    await lock.close()
    throw new SvcError('store_unavailable', `another restore into ${dir} is running`)
  }
  const names = manifest.files.map(({ name }) => name)
  let written: readonly string[] = []
  try {
    await clear(config, parseNames(await readText(mark)))
    await rejectOthersFiles(config, names)
    written = names
    await writeDurably(mark, `${JSON.stringify(names)}\n`)
    const left = keepKeys ? [] : accessFiles
    await writeFiles(archive, manifest, { config, left })
    const still = await prepareRestoredStore(join(dir, dataFiles.store), {
      clock,
      keepKeys,
      line: line && { ...line, subject: `backup_of=${new Date(manifest.created_at).toISOString()}` },
    })
    if (manifest.secret_key !== null) await writeSecretState(dir, { key: manifest.secret_key })
    for (const folder of new Set(names.map(name => dirname(placeOf(name, { dir, mediaRoot })))))
      await syncDir(folder)
    await unlink(mark)
    await syncDir(dir)
    await lock.close()
    return still
  } catch (error) {
    await clear(config, written)
    await lock.close()
    for (const name of [dataFiles.backupLock, dataFiles.restoring]) await rm(join(dir, name), { force: true })
    for (let folder = dir; first !== undefined && isInside(first, folder); folder = dirname(folder))
      await rmdir(folder).catch(() => {})
    throw damageError(error)
  }
}

/** @throws SvcError `invalid_arguments` for a media root that another svc uses, perhaps the original */
async function rejectOthersFiles(
  { basePath: dir, mediaRoot }: RestoreOptions['config'],
  names: readonly string[],
) {
  for (const place of names.map(name => placeOf(name, { dir, mediaRoot })))
    if (await statOf(place))
      throw badArgument('--media-root', `${place} is there already: another svc may need it`, {
        hint: 'Name another folder for the files of the restored copy.',
      })
}

interface Writing {
  config: RestoreOptions['config']
  /** Names of files that are not restored. */
  left: readonly string[]
}

async function writeFiles(
  archive: OpenedArchive,
  { files }: Manifest,
  { config, left }: Writing,
): Promise<void> {
  const { basePath: dir, keepFreeBytes, mediaRoot } = config
  const space = new FreeSpace(dir, keepFreeBytes)
  let nth = 0
  for await (const { name, body } of archive.files()) {
    const listed = files[nth++]
    // A name that was not checked must not be used.
    if (name !== (listed?.name ?? manifestName)) throw changedError()
    if (left.includes(name) || name === manifestName) {
      // After `cancel` the archive waits forever in the next large file.
      await drain(body)
      continue
    }
    const place = placeOf(name, { dir, mediaRoot })
    const root = name.startsWith(`${dataFiles.media}/`) ? mediaRoot : dir
    await ensurePrivateDir(root)
    await using held = await openFolderBelow(root, dirname(place), { create: true })
    const path = join(held.path, basename(place))
    const { digests, size } = await keepStream(body, path, { digests: ['sha256'], space, durable: true })
    if (size !== listed?.size || digests.sha256 !== listed.sha256) throw changedError()
  }
  if (nth <= files.length) throw changedError()
}

async function drain(body: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of body);
}

const changedError = () => badArgument('file', 'it changed while it was read')

/** Removes the files of a restore, and the folders that are empty then. */
async function clear({ basePath: dir, mediaRoot }: RestoreOptions['config'], names: readonly string[]) {
  const places = names.map(name => placeOf(name, { dir, mediaRoot }))
  const store = join(dir, dataFiles.store)
  const besides = ['-wal', '-shm', '-journal'].map(suffix => store + suffix)
  const locks = [dataFiles.dataLock, dataFiles.pollLock].map(name => join(dir, name))
  for (const path of [...places, ...besides, ...locks]) await rm(path, { force: true })
  const folders = new Set(places.map(dirname))
  for (const folder of [...folders, ...[...folders].map(dirname)])
    if (folder !== dir && isInside(dir, folder)) await rmdir(folder).catch(() => {})
}

/** Returns the names in the mark of an interrupted restore. */
function parseNames(text = '[]'): string[] {
  const names = attempt<unknown>(() => JSON.parse(text))
  return Array.isArray(names) ? names.filter(name => typeof name === 'string' && isArchivedName(name)) : []
}
