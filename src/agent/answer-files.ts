/** The files of an answer: those in the agent's folder that it names, and long code that becomes a file. */
import { Buffer } from 'node:buffer'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { fileTypeFromBuffer } from 'file-type'
import type { AnswerPart } from '../index.ts'
import { openFileBelow, openFolderBelow } from '../platform/below.ts'
import { attempt } from '../platform/fields.ts'
import { createUnique } from '../platform/files.ts'
import { decodeUri } from '../platform/header.ts'
import { randomBytes } from '../platform/lazy-crypto.ts'

export type AnswerFile = Extract<AnswerPart, { path: string }>

/** Most pictures of an answer whose bytes are their addresses. */
const mostInline = 10

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
  if (/^file:/i.test(address)) return [attempt(() => fileURLToPath(address)) ?? address]
  if (/^[a-z][a-z0-9+.-]+:/i.test(address)) return []
  return [...new Set([address, decodeUri(address) ?? address])]
}

async function openFile(named: string, folder: string): Promise<AnswerFile | undefined> {
  const { handle: opened, path } = await openFileBelow(folder, named)
  await using handle = opened
  const { buffer, bytesRead } = await handle.read(new Uint8Array(4100), 0, 4100, 0)
  if (bytesRead === 0) return undefined
  const type = await fileTypeFromBuffer(buffer.subarray(0, bytesRead))
  return { path, kind: kinds[type?.mime ?? ''] ?? 'file', name: basename(named) }
}

/** A picture in Markdown whose bytes are its address. */
const inlinePicture =
  /!\[([^\]\n]{0,1000})\]\(<?data:[^,()<>\s]{0,200},([^()<>\s]*)>?(?:[ \t]+"[^"\n]{0,1000}")?\)/gi

/** Replaces pictures whose bytes are their addresses by their descriptions. */
export const withoutInlinePictures = (text: string): string => text.replace(inlinePicture, '![$1](picture)')

/**
 * Writes pictures whose bytes are their addresses as files. Those in code stay.
 *
 * @returns the text, which names the files, and how many could not be read
 */
export async function writeInlinePictures(
  text: string,
  folder: string,
): Promise<{ text: string; leftOut: number }> {
  const pieces: string[] = []
  let [end, written, leftOut, fences] = [0, 0, 0, 0]
  for (const { 0: all, 1: alt = '', 2: data = '', index } of text.matchAll(inlinePicture)) {
    const before = text.slice(end, index)
    fences += before.match(/^\s*```/gm)?.length ?? 0
    const isCode = fences % 2 === 1 || before.endsWith('`')
    const bytes = Buffer.from(data, 'base64')
    const type = isCode || written >= mostInline ? undefined : await fileTypeFromBuffer(bytes)
    const name = `${randomBytes(8).toString('hex')}.${type?.ext}`
    const file = type && (await writeToOutbox(folder, name, bytes).catch(() => undefined))
    written += Number(file !== undefined)
    leftOut += Number(file === undefined && !isCode)
    pieces.push(before, file ? `\n\n![${alt}](outbox/${file.name})\n\n` : isCode ? all : alt)
    end = index + all.length
    if (file) while (text[end] === ' ') end += 1
  }
  return { text: pieces.join('') + text.slice(end), leftOut }
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
  return { path: join(held.name, own), kind: 'file', name: own }
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
