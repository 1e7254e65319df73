/** Makes a backup: one file with everything of a data directory that a restore needs. */
import { Buffer } from 'node:buffer'
import { open, readdir, rename, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { Config } from '../config.ts'
import { dataFiles } from '../model/data-files.ts'
import { badArgument, SvcError } from '../model/error.ts'
import type { Clock } from '../platform/clock.ts'
import { parseFields } from '../platform/fields.ts'
import {
  errorCodeOf,
  fileExists,
  readBytes,
  returnIfAbsent,
  statOf,
  sweep,
  syncDir,
} from '../platform/files.ts'
import { FreeSpace } from '../platform/free-space.ts'
import { randomBytes } from '../platform/lazy-crypto.ts'
import { openLock } from '../platform/lock.ts'
import { isOwnName } from '../platform/own-names.ts'
import { reasonOf } from '../platform/system-error.ts'
import type { NewAuditLine } from '../storage/audit.ts'
import type { KnownBackup } from '../storage/backups.ts'
import { rejectClosed } from '../storage/sqlite/closed-mark.ts'
import { readContents, sessionFolders } from '../storage/sqlite/directory-claim.ts'
import { rejectOtherForm } from '../storage/sqlite/migrations.ts'
import { readSecretState } from '../storage/sqlite/secret-state.ts'
import {
  copyDatabase,
  listKeptFiles,
  newCopyPath,
  noteBackup,
  sweepCopies,
} from '../storage/sqlite/store-copy.ts'
import { type AddFile, blocksOf, writeArchive } from './archive.ts'
import {
  type ArchivedFile,
  createManifest,
  keptFileName,
  manifestName,
  placeOf,
  sessionFiles,
  smallFiles,
  worldName,
} from './manifest.ts'

export interface BackupOptions {
  /** Absolute path of the new file. */
  path: string
  config: Pick<Config, 'basePath' | 'mediaRoot' | 'keepFreeBytes'>
  clock: Clock
  passphrase: string | undefined
  /** Whether an existing file may be replaced. */
  force: boolean
  /** Line of the audit log. */
  line?: NewAuditLine | undefined
}

/**
 * Makes a backup of a data directory. It works while services use the directory.
 *
 * @returns where it is; the store knows it too
 * @throws SvcError `invalid_arguments` for the path; `not_found` if there is nothing to back up; `store_unavailable`
 */
export async function makeBackup(options: BackupOptions): Promise<KnownBackup> {
  const { clock, config, force, line, passphrase, path } = options
  const began = clock.monotonic()
  const dir = config.basePath
  await rejectTaken(path, force)
  await rejectUnusable(dir)
  await using lock = await openLock(join(dir, dataFiles.backupLock))
  if (!(await lock.tryLock())) throw busyError(dir)
  await sweepCopies(dir)
  const unfinished = new RegExp(`^${RegExp.escape(basename(path))}\\.[0-9a-f]{12}\\.tmp$`)
  await sweep(dirname(path), unfinished, Number.POSITIVE_INFINITY)
  const copies: string[] = []
  const temporary = `${path}.${randomBytes(6).toString('hex')}.tmp`
  try {
    const space = new FreeSpace(dir, config.keepFreeBytes)
    const created_at = clock.now()
    const size = await writeArchive(temporary, { passphrase, space }, add =>
      fill(add, { config, space, created_at, copies }),
    )
    await rejectTaken(path, force)
    await rename(temporary, path)
    await syncDir(dirname(path))
    const backup = { path, created_at, size, took_ms: Math.round(clock.monotonic() - began) }
    await noteBackup(dir, backup, line)
    return backup
  } finally {
    for (const file of [...copies, temporary]) await rm(file, { force: true })
  }
}

/** @throws SvcError `invalid_arguments` for a path where no new file can be */
export async function rejectTaken(path: string, force: boolean): Promise<void> {
  const found = await statOf(path).catch(error => {
    throw badArgument('file', `${path} cannot be written: ${reasonOf(error)}`)
  })
  if (found === undefined) {
    if (await fileExists(dirname(path))) return
    throw badArgument('file', `the folder ${dirname(path)} is not there`)
  }
  if (!found.isFile()) throw badArgument('file', `${path} is not a file`, { hint: 'Name the new file.' })
  if (!force)
    throw badArgument('file', `${path} is there already`, { hint: 'Name another file, or add --force.' })
}

/** @throws SvcError `not_found`, `store_unavailable` */
async function rejectUnusable(dir: string): Promise<void> {
  await rejectClosed(dir)
  const path = join(dir, dataFiles.store)
  if (!(await fileExists(path).catch(() => true)))
    throw new SvcError('not_found', `there is nothing to back up in ${dir}`, {
      hint: 'Name the data directory with -d.',
    })
  await rejectOtherForm(path)
}

const busyError = (dir: string) =>
  new SvcError('store_unavailable', `another process is making a backup of ${dir}`, {
    hint: 'Call again when it is done.',
  })

interface Filling {
  config: BackupOptions['config']
  space: FreeSpace
  created_at: number
  /** Copies of databases, to remove afterwards. */
  copies: string[]
}

/**
 * Adds the session files before the messages, so that no cursor is ahead of its messages. A message that is polled
 * twice is recognized.
 */
async function fill(add: AddFile, { config, space, created_at, copies }: Filling): Promise<void> {
  const { basePath: dir, mediaRoot } = config
  const files: ArchivedFile[] = []
  const state = await readSecretState(dir)
  if (!('key' in state)) throw changingError()
  const accounts: { session: string; bot_id: string }[] = []
  const { isSandbox } = await readContents(dir)
  for (const { name, bytes } of await readSmallFiles(dir)) {
    files.push(await add(name, bytes.length, [bytes]))
    const [session = '', file] = name.split('/')
    if (file === dataFiles.token) accounts.push({ session, bot_id: botIdOf(bytes) })
  }
  const copy = async (source: string) => {
    const sizes = await Promise.all(
      [source, `${source}-wal`].map(async file => (await statOf(file))?.size ?? 0),
    )
    await space.startCheck(dir, sizes[0]! + sizes[1]!)
    const path = newCopyPath(dir)
    copies.push(path, `${path}-journal`)
    return { path, schema: await copyDatabase(source, path) }
  }
  const store = await copy(join(dir, dataFiles.store))
  if (JSON.stringify(await readSecretState(dir)) !== JSON.stringify(state)) throw changingError()
  for (const name of (await listKeptFiles(store.path))
    .filter(name => isOwnName('media', name))
    .map(keptFileName))
    files.push(...(await addFile(add, name, placeOf(name, { dir, mediaRoot }))))
  if (isSandbox) files.push(...(await addSandbox(add, dir, copy)))
  files.push(...(await addFile(add, dataFiles.store, store.path)))
  const facts = {
    schema: store.schema,
    created_at,
    secret_key: state.key,
    sandbox: isSandbox,
    accounts,
    files,
  }
  const text = Buffer.from(`${JSON.stringify(createManifest(facts), null, 2)}\n`)
  await add(manifestName, text.length, [text])
}

const changingError = () =>
  new SvcError('store_unavailable', 'svc secrets is changing this data directory', {
    hint: 'Wait until it is done. If it was interrupted, run the same svc secrets command again.',
  })

/** Reads the small files under the data lock, so that all are of the same moment. Absent ones are left out. */
async function readSmallFiles(dir: string): Promise<{ name: string; bytes: Uint8Array }[]> {
  await using lock = await openLock(join(dir, dataFiles.dataLock))
  return await lock.run(async () => {
    const sessions = sessionFolders(await readContents(dir)).filter(name => isOwnName('session', name))
    const names = [
      ...smallFiles,
      ...sessions.flatMap(session => sessionFiles.map(file => `${session}/${file}`)),
    ]
    return names.flatMap(name => {
      try {
        return { name, bytes: readBytes(join(dir, ...name.split('/'))) }
      } catch (error) {
        if (errorCodeOf(error) === 'ENOENT') return []
        throw error
      }
    })
  })
}

/** Returns the id of the account in a token.json; '' for one that does not parse. */
const botIdOf = (bytes: Uint8Array): string =>
  String(parseFields(Buffer.from(bytes).toString('utf8'))?.bot_id ?? '')

/** Adds the simulated WeChat. It is copied after the store, so it may contain messages that the store does not. */
async function addSandbox(
  add: AddFile,
  dir: string,
  copy: (source: string) => Promise<{ path: string }>,
): Promise<ArchivedFile[]> {
  const world = join(dir, dataFiles.sandbox, 'world.db')
  if (!(await fileExists(world))) return []
  const files = await addFile(add, worldName, (await copy(world)).path)
  const media = await readdir(join(dir, dataFiles.sandbox, 'media')).catch(() => [])
  for (const name of media.filter(name => !name.endsWith('.part')))
    files.push(
      ...(await addFile(
        add,
        `${dataFiles.sandbox}/media/${name}`,
        join(dir, dataFiles.sandbox, 'media', name),
      )),
    )
  return files
}

/** Adds a file. Leaves out a file that was sent or replaced in the meantime, and is gone. */
async function addFile(add: AddFile, name: string, path: string): Promise<ArchivedFile[]> {
  await using handle = await open(path).catch(returnIfAbsent(undefined))
  if (!handle) return []
  const { size } = await handle.stat()
  return [await add(name, size, blocksOf(handle, size))]
}
