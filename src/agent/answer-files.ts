/** The files of an answer: those in the agent's folder that it names, and long code that becomes a file. */
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { fileTypeFromBuffer } from 'file-type'
import type { AnswerPart } from '../index.ts'
import { openFileBelow, openFolderBelow } from '../platform/below.ts'
import { createUnique } from '../platform/files.ts'

export type AnswerFile = Extract<AnswerPart, { path: string }>

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
 * Finds the file that an address or a path in an answer names.
 *
 * @returns undefined if it names no file, one outside the folder, or one behind a link
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

async function openFile(named: string, folder: string): Promise<AnswerFile | undefined> {
  const { handle: opened, path } = await openFileBelow(folder, named)
  await using handle = opened
  const { buffer, bytesRead } = await handle.read(new Uint8Array(4100), 0, 4100, 0)
  if (bytesRead === 0) return undefined
  const type = await fileTypeFromBuffer(buffer.subarray(0, bytesRead))
  return { path, folder, kind: kinds[type?.mime ?? ''] ?? 'file', name: basename(named) }
}

/**
 * Writes a new file in the folder `outbox` of the agent.
 *
 * @throws Error if that folder is a link, or the disk is full
 */
export async function writeToOutbox(
  folder: string,
  name: string,
  content: string | Uint8Array,
): Promise<AnswerFile> {
  await using held = await openFolderBelow(folder, 'outbox', { create: true })
  const at = name.lastIndexOf('.')
  const created = await createUnique(held.path, mark => `${name.slice(0, at)}${mark}${name.slice(at)}`)
  await using handle = created.handle
  await handle.writeFile(content)
  await handle.sync()
  const own = basename(created.path)
  return { path: join(held.name, own), folder, kind: 'file', name: own }
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
