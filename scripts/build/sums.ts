/** Writes the list of the files of a release with their sums. */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { chmod, readdir, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'

export interface ReleasedFile {
  name: string
  bytes: number
  sha256: string
}

/** Every release has this file, and no other folder has it. */
export const sumsFile = 'SHA256SUMS'

/**
 * Writes the sums of all files in `folder`, in the form that `sha256sum --check` reads.
 *
 * @returns the entries
 */
export async function writeSums(folder: string): Promise<ReleasedFile[]> {
  const files: ReleasedFile[] = []
  for (const name of (await readdir(folder)).sort()) {
    if (name === sumsFile) continue
    const hash = createHash('sha256')
    await pipeline(createReadStream(join(folder, name)), hash)
    files.push({ name, bytes: (await stat(join(folder, name))).size, sha256: hash.digest('hex') })
  }
  const path = join(folder, sumsFile)
  await writeFile(path, files.map(({ name, sha256 }) => `${sha256}  ${name}\n`).join(''))
  // With a tight umask, a web server could not read the list otherwise.
  await chmod(path, 0o644)
  return files
}
