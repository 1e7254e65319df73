/** Finds the parts of the program: its files and its scripts. A bundle is one file and has no folder of assets. */
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { dirname, extname, join } from 'node:path'
import process from 'node:process'
import { fileURLToPath } from 'node:url'
import { packedFiles } from './packed-files.ts'
import { findBun, findOwnCommand, isCompiled, program } from './process.ts'

/** Whether this program is a bundle. */
export const isBundle: boolean = Object.keys(packedFiles).length > 0

/**
 * Returns the names that begin with `folder`, without that prefix. Empty when run from source or as a binary.
 */
export const listBundledFiles = (folder: string): string[] =>
  Object.keys(packedFiles).flatMap(name => (name.startsWith(folder) ? [name.slice(folder.length)] : []))

/** Returns a file in its brotli form; undefined when there is no file of this name. */
export function bundledBrotliOf(name: string): Uint8Array | undefined {
  const text = Object.hasOwn(packedFiles, name) ? packedFiles[name] : undefined
  return text === undefined ? undefined : Buffer.from(text, 'base64')
}

/**
 * Reads a file in its brotli form: from the bundle, from its place in the sources, or from the binary, which embeds what it
 * imports.
 */
export async function readBrotli(
  name: string,
  path: string,
  embedded: () => Promise<{ readonly default: string }>,
): Promise<Uint8Array> {
  const inSources = () => readFile(path).catch(() => undefined)
  return bundledBrotliOf(name) ?? (await inSources()) ?? (await readFile((await embedded()).default))
}

export async function unpackBrotli(packed: Uint8Array): Promise<Uint8Array> {
  const [{ brotliDecompress }, { promisify }] = await Promise.all([import('node:zlib'), import('node:util')])
  return promisify(brotliDecompress)(packed)
}

/** Returns a file, decompressed; undefined when there is no file of this name. */
export async function readBundledFile(name: string): Promise<Uint8Array | undefined> {
  const packed = bundledBrotliOf(name)
  return packed && (await unpackBrotli(packed))
}

/**
 * Returns the command that runs a part of svc as a process of its own: its script, or svc with the part's word. Under Deno a
 * script has few permissions.
 *
 * @param url of a module beside the script
 * @throws Error in a program that packed the library into itself
 */
export function partCommand(word: string, url: string, ...permissions: string[]): [string, ...string[]] {
  // The bundle is svc by itself; it has a copy of `program` of its own, since Bun doubles what its first module imports.
  if (isBundle || (isCompiled && program.isSvc)) return [...findOwnCommand(), word]
  const script = url.startsWith('file:') && join(dirname(fileURLToPath(url)), `${word}${extname(url)}`)
  if (!script || !existsSync(script)) throw new Error(`this program has no part ${word}`)
  const allowed = ['run', '--no-prompt', '--allow-read', '--allow-env', ...permissions]
  if ('Deno' in globalThis) return [process.execPath, ...allowed, script]
  return [process.versions.bun ? findBun() : process.execPath, script]
}
