/** Reads files that are part of the program's own text: a bundle is one file and has no folder of assets. */
import { readFile } from 'node:fs/promises'
import { packedFiles } from './packed-files.ts'

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
