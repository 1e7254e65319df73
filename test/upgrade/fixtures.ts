/** Data directories of earlier releases, unpacked for one test each. */
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { ended } from '../support/ended.ts'
import type { Left } from './life.ts'

const folder = join(import.meta.dirname, 'fixtures')

/** The names of all, oldest first. */
export const fixtures: readonly string[] = (await readdir(folder))
  .flatMap(name => (name.endsWith('.tar.gz') ? [name.slice(0, -'.tar.gz'.length)] : []))
  .sort(new Intl.Collator('en', { numeric: true }).compare)

export interface Unpacked extends AsyncDisposable {
  /** The data directory, a copy. */
  dir: string
  left: Left
}

export async function unpacked(name: string): Promise<Unpacked> {
  const place = await mkdtemp(join(tmpdir(), 'svc-upgrade-'))
  const { status, stderr } = await ended(['tar', '-xzf', join(folder, `${name}.tar.gz`)], {
    cwd: place,
    env: { PATH: process.env.PATH ?? '' },
  })
  if (status !== 0) throw new Error(`${name}: ${stderr}`)
  return {
    dir: join(place, 'data'),
    left: JSON.parse(await readFile(join(place, 'left.json'), 'utf8')),
    [Symbol.asyncDispose]: () => rm(place, { recursive: true, force: true }),
  }
}
