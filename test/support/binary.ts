/** The compiled svc. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { ended } from './ended.ts'

const script = join(import.meta.dir, '../../scripts/build.ts')

export interface Binary extends Disposable {
  readonly path: string
  /** Where it lies, alone; goes with it. */
  readonly folder: string
}

/** Builds it as a release does, for this machine or for `target`; takes some seconds. */
export async function buildBinary(target?: string): Promise<Binary> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-binary-'))
  const path = join(folder, 'svc')
  const remove = () => rmSync(folder, { recursive: true, force: true })
  const built = await ended(
    [process.execPath, script, `--outfile=${path}`, ...(target === undefined ? [] : [`--target=${target}`])],
    // The network may be slow: the first build for another target fetches its runtime.
    { cwd: folder, env: { ...process.env } as Record<string, string>, withinMs: 120_000 },
  )
  if (built.status === 0) return { path, folder, [Symbol.dispose]: remove }
  remove()
  throw new Error(`no binary for ${target ?? 'this machine'}:\n${built.stdout}${built.stderr}`)
}
