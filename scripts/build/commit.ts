/** The commit that a build is made from. */
import { resolve } from 'node:path'
import process from 'node:process'

const root = resolve(import.meta.dirname, '../..')

export interface Commit {
  /** All 40 digits. */
  id: string
  /** When it was made, in seconds since 1970: the only time that goes into a release. */
  seconds: number
  /** Whether tracked files differ from it. */
  isModified: boolean
}

/** Returns the commit of these sources; undefined without git, and outside a repository of their own. */
export function findCommit(folder = root): Commit | undefined {
  const git = (...args: string[]) => {
    if (!Bun.which('git', { PATH: process.env.PATH ?? '' })) return undefined
    const { stdout, success } = Bun.spawnSync(['git', ...args], { cwd: folder, stderr: 'ignore' })
    return success ? stdout.toString().trimEnd() : undefined
  }
  // A folder inside somebody else's repository has a prefix.
  if (git('rev-parse', '--show-prefix') !== '') return undefined
  const [id, seconds] = git('log', '-1', '--no-show-signature', '--format=%H %ct')?.split(' ') ?? []
  if (id === undefined || seconds === undefined) return undefined
  const isModified = git('status', '--porcelain', '--untracked-files=no') !== ''
  return { id, seconds: Number(seconds), isModified }
}

/**
 * Returns what `src/version.ts` adds to the version. `BUILD_COMMIT` names the commit where there is no
 * repository, as in a container.
 */
export function commitLabel(): string | undefined {
  const found = findCommit()
  const given = process.env.BUILD_COMMIT || undefined
  if (!found && given !== undefined && !/^[0-9a-f]{12,40}(\.modified)?$/.test(given))
    throw new Error(`BUILD_COMMIT: expected a commit, 12 to 40 digits, got ${given}`)
  const id = found ? `${found.id}${found.isModified ? '.modified' : ''}` : given
  return id?.replace(/^(.{12})[0-9a-f]*/, '$1')
}

/** For `define` of a build. */
export function commitDefine(): Record<string, string> {
  const label = commitLabel()
  return label === undefined ? {} : { svcCommit: JSON.stringify(label) }
}
