/**
 * Opens files and folders below a folder in which another program writes, such as an agent. Below it no link is followed,
 * at any step, and what was checked is what is used.
 *
 * The runtimes have no `openat`. On Linux each step is opened by the handle of the step before it, through
 * `/proc/self/fd`. Elsewhere, where no agent is isolated, each step is checked just before it is used. So it is under
 * Deno without all rights, which has no access to `/proc/self`.
 */
import { Buffer } from 'node:buffer'
import { constants } from 'node:fs'
import { type FileHandle, lstat, mkdir, open, realpath, stat } from 'node:fs/promises'
import { basename, dirname, join, relative, resolve, sep } from 'node:path'
import process from 'node:process'
import { SvcError } from '../model/error.ts'
import { isInside, readOnlyFlags, rejectNonFile, returnIfAbsent, toDiskForm } from './files.ts'

/** A folder that stays the same one until it is disposed of, whatever happens to its name. */
export interface HeldFolder extends AsyncDisposable {
  /** For system calls, and only until it is disposed of. */
  readonly path: string
  /** As people name it. */
  readonly name: string
}

const { O_DIRECTORY = 0, O_NOFOLLOW = 0, O_RDONLY } = constants

/**
 * Opens a folder below another one.
 *
 * @param root may be named by a link, and lie behind links
 * @param path relative to `root`, or absolute
 * @param options.create creates what is absent of it below `root`, 0700
 * @throws SvcError `forbidden` if it lies outside; the system's error, such as ENOTDIR for a link
 */
export async function openFolderBelow(
  root: string,
  path: string,
  { create = false }: { create?: boolean } = {},
): Promise<HeldFolder> {
  const below = await pathBelow(root, path)
  let held = await hold(resolve(root), resolve(root), stat, 0)
  for (const step of below.split(sep).filter(Boolean)) {
    await using parent = held
    const at = join(parent.path, step)
    if (create) await mkdir(at, { mode: 0o700 }).catch(returnIfAbsent(undefined, ['EEXIST']))
    held = await hold(at, join(parent.name, step), lstat, O_NOFOLLOW)
  }
  return held
}

/**
 * Opens a regular file below a folder, for reading.
 *
 * @returns its handle, and its path with the names as they are on the disk
 * @throws SvcError `forbidden` if it lies outside; the system's error, such as ELOOP or EFTYPE for a link
 */
export async function openFileBelow(
  root: string,
  path: string,
): Promise<{ handle: FileHandle; path: string }> {
  const below = await pathBelow(root, path)
  await using folder = await openFolderBelow(root, dirname(below))
  const at = join(folder.path, basename(below))
  // Opening a device may have an effect.
  rejectNonFile(path, await lstat(at))
  const handle = await open(at, readOnlyFlags | O_NOFOLLOW)
  try {
    rejectNonFile(path, await handle.stat())
    return { handle, path: join(folder.name, basename(below)) }
  } catch (error) {
    await handle.close()
    throw error
  }
}

/**
 * Reads a file below a folder.
 *
 * @returns its size, and its bytes unless there are more than `maxBytes`; undefined if there is none that can be read
 */
export async function readBelow(
  root: string,
  path: string,
  maxBytes: number,
): Promise<{ size: number; bytes?: Buffer } | undefined> {
  const opened = await openFileBelow(root, path).catch(() => undefined)
  if (!opened) return undefined
  await using handle = opened.handle
  const { size } = await handle.stat()
  if (size > maxBytes) return { size }
  // Its writer may make it longer at any moment.
  const bytes = Buffer.alloc(size)
  const { bytesRead } = await handle.read(bytes, 0, size, 0)
  return { size, bytes: bytes.subarray(0, bytesRead) }
}

/** Returns a path relative to a folder that it lies in, with the names as they are on the disk. */
async function pathBelow(root: string, path: string): Promise<string> {
  for (const folder of [resolve(root), await realpath(root)]) {
    const at = resolve(folder, path)
    // It finds names only: what they lead to is opened step by step.
    if (isInside(folder, at))
      return relative(folder, await toDiskForm(at, 'path', found => isInside(folder, found)))
  }
  throw new SvcError('forbidden', `the path lies outside ${root}`)
}

/** @param look describes the folder where there are no handles of folders */
async function hold(path: string, name: string, look: typeof stat, flags: number): Promise<HeldFolder> {
  if (process.platform === 'linux') {
    const handle = await open(path, O_RDONLY | O_DIRECTORY | flags)
    const held = `/proc/self/fd/${handle.fd}`
    if (process.versions.bun || (await stat(held).catch(() => undefined)))
      return { path: held, name, [Symbol.asyncDispose]: () => handle.close() }
    await handle.close()
  }
  if (!(await look(path)).isDirectory())
    throw Object.assign(new Error(`${name} is no folder`), { code: 'ENOTDIR', path: name })
  return { path, name, [Symbol.asyncDispose]: async () => {} }
}
