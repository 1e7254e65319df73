/** Builds the compiled svc, also for other platforms. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { fetchVerifiedPackage } from '../../scripts/build/runtime.ts'
import type { Target } from '../../scripts/build/targets.ts'
import { ended } from './ended.ts'

const script = join(import.meta.dir, '../../scripts/build.ts')

/** Returns true if the runtimes for a build can be fetched, or were fetched earlier. */
export function canBuild(targets: readonly Target[]): Promise<boolean> {
  const env = { ...process.env, npm_config_fetch_retries: '0', npm_config_fetch_timeout: '60000' }
  return Promise.all(targets.map(({ runtime }) => fetchVerifiedPackage(runtime, { env }))).then(
    () => true,
    () => false,
  )
}

export interface Binary extends Disposable {
  readonly path: string
  /** Folder that contains only the binary, under its release name. Dispose removes it. */
  readonly folder: string
}

/** Builds the binary as a release does. Takes some seconds. */
export async function buildBinary({ name, file }: Target): Promise<Binary> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-binary-'))
  const path = join(folder, file)
  const remove = () => rmSync(folder, { recursive: true, force: true })
  const built = await ended([process.execPath, script, `--outfile=${path}`, `--target=${name}`], {
    cwd: folder,
    env: { ...process.env } as Record<string, string>,
    withinMs: 120_000,
  })
  if (built.status === 0) return { path, folder, [Symbol.dispose]: remove }
  remove()
  throw new Error(`no binary for ${name}:\n${built.stdout}${built.stderr}`)
}
