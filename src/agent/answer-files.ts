/** The files of an answer: those in the agent's folder that it names, and long code that becomes a file. */
import { lstat, open, realpath, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { fileTypeFromBuffer } from 'file-type'
import type { AnswerPart } from '../index.ts'
import { createUnique, ensurePrivateDir, readOnlyFlags, resolveInside } from '../platform/files.ts'

export type AnswerFile = Extract<AnswerPart, { path: string }>

/** Folder for files that svc makes of an answer, inside the folder of the agent. */
const outbox = 'outbox'
/** What WeChat shows as a picture or a video. Anything else is sent as a file. */
const kinds: Readonly<Record<string, AnswerFile['kind']>> = {
  'image/png': 'image',
  'image/jpeg': 'image',
  'image/gif': 'image',
  'image/webp': 'image',
  'image/bmp': 'image',
  'video/mp4': 'video',
  'video/quicktime': 'video',
}

/**
 * Finds the file that an address or a path of an answer names.
 *
 * @returns undefined if it is none, or lies outside the folder; symbolic links count by where they lead
 */
export async function findFile(address: string, folder: string): Promise<AnswerFile | undefined> {
  for (const path of pathsOf(address)) {
    const found = await openFile(path, folder).catch(() => undefined)
    if (found) return found
  }
  return undefined
}

/** Returns the paths that an address may mean. */
function pathsOf(address: string): string[] {
  if (address === '' || address.startsWith('#')) return []
  try {
    if (/^file:/i.test(address)) return [fileURLToPath(address)]
    if (/^[a-z][a-z0-9+.-]+:/i.test(address)) return []
    return [...new Set([address, decodeURIComponent(address)])]
  } catch {
    return [address]
  }
}

async function openFile(path: string, folder: string): Promise<AnswerFile | undefined> {
  const real = await resolveInside(folder, path)
  const info = await stat(real)
  if (!info.isFile() || info.size === 0) return undefined
  const handle = await open(real, readOnlyFlags)
  try {
    const { buffer, bytesRead } = await handle.read(new Uint8Array(4100), 0, 4100, 0)
    const type = await fileTypeFromBuffer(buffer.subarray(0, bytesRead))
    return { path: real, kind: kinds[type?.mime ?? ''] ?? 'file', name: basename(path) }
  } finally {
    await handle.close()
  }
}

/**
 * Writes a text to a new file in the folder `outbox` of the agent.
 *
 * @throws Error if that folder leads elsewhere, or the disk is full
 */
export async function writeText(folder: string, name: string, text: string): Promise<AnswerFile> {
  const dir = join(await realpath(folder), outbox)
  const found = await lstat(dir).catch(() => undefined)
  // The agent may have put a symbolic link there.
  if (found && !found.isDirectory()) throw new Error(`${dir} is no folder`)
  await ensurePrivateDir(dir, { parents: false })
  const at = name.lastIndexOf('.')
  const { handle, path } = await createUnique(dir, mark => `${name.slice(0, at)}${mark}${name.slice(at)}`)
  try {
    await handle.writeFile(text)
    await handle.sync()
  } finally {
    await handle.close()
  }
  return { path, kind: 'file', name: basename(path) }
}

/** Returns the extension of the files of a language, as a code block names it. */
export function extensionOf(language: string): string {
  const word = language.trim().split(/\s/, 1)[0]!.toLowerCase()
  return Object.hasOwn(extensions, word) ? extensions[word]! : /^[a-z0-9]{1,5}$/.test(word) ? word : 'txt'
}

const extensions: Readonly<Record<string, string>> = {
  bash: 'sh',
  'c#': 'cs',
  'c++': 'cpp',
  csharp: 'cs',
  golang: 'go',
  javascript: 'js',
  kotlin: 'kt',
  latex: 'tex',
  markdown: 'md',
  perl: 'pl',
  plain: 'txt',
  powershell: 'ps1',
  python: 'py',
  python3: 'py',
  ruby: 'rb',
  rust: 'rs',
  shell: 'sh',
  text: 'txt',
  typescript: 'ts',
  zsh: 'sh',
}
