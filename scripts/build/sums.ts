/** The files of a release and their sums. */
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

/** It lies in every release, and in nothing else. */
export const sumsFile = 'SHA256SUMS'

/** Puts one list over all files in `folder`, as `sha256sum --check` reads it, and gives what is in it. */
export async function sumUp(folder: string): Promise<ReleasedFile[]> {
  const files: ReleasedFile[] = []
  for (const name of (await readdir(folder)).sort()) {
    if (name === sumsFile) continue
    const hash = createHash('sha256')
    await pipeline(createReadStream(join(folder, name)), hash)
    files.push({ name, bytes: (await stat(join(folder, name))).size, sha256: hash.digest('hex') })
  }
  const path = join(folder, sumsFile)
  await writeFile(path, files.map(({ name, sha256 }) => `${sha256}  ${name}\n`).join(''))
  // Else the list of who builds with a tight umask could not be read by a web server.
  await chmod(path, 0o644)
  return files
}
