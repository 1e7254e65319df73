/**
 * Where a release is made: a worktree of its own under dist/, so that a failure, at whatever moment, leaves the checkout
 * as it was, and that nothing but what is committed gets in.
 */
import { mkdir, readdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import process from 'node:process'
import type { Planned } from './checks.ts'
import { gitIn, run, tried } from './run.ts'

const prefix = '.release-'

export interface Workshop {
  folder: string
  /** Where the files that go out are put. */
  output: string
}

const isAtWork = (pid: number) => {
  try {
    return pid !== process.pid && process.kill(pid, 0)
  } catch (error) {
    // Somebody else's.
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

// What was started in there may still write for a moment.
const remove = (folder: string) =>
  rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 })

/** Takes away the worktrees of releases that were killed. */
async function clearAbandoned(root: string): Promise<void> {
  const dist = join(root, 'dist')
  for (const name of await readdir(dist)) {
    if (!name.startsWith(prefix) || isAtWork(Number(name.slice(prefix.length)))) continue
    await remove(join(dist, name))
  }
  await gitIn(root)('worktree', 'prune')
}

/** A worktree of the commit, with what it needs installed, and with the version and the changelog written. */
export async function openWorkshop(
  root: string,
  { base, packageJson, changelog }: Planned,
): Promise<Workshop> {
  await mkdir(join(root, 'dist'), { recursive: true })
  await clearAbandoned(root)
  const folder = join(root, 'dist', `${prefix}${process.pid}`)
  await gitIn(root)('worktree', 'add', '--quiet', '--detach', folder, base)
  await writeFile(join(folder, 'package.json'), packageJson)
  await writeFile(join(folder, 'CHANGELOG.md'), changelog)
  // Runtimes that were fetched before are taken again; each build holds them against their sums.
  await mkdir(join(root, '.bun/runtimes'), { recursive: true })
  await mkdir(join(folder, '.bun'))
  await symlink(join(root, '.bun/runtimes'), join(folder, '.bun/runtimes'))
  await run(['sh', '-c', '. "$0"', 'scripts/setup'], { cwd: folder })
  return { folder, output: join(folder, 'dist', 'release') }
}

/** Also when it was opened only in part. */
export async function closeWorkshop(root: string): Promise<void> {
  await remove(join(root, 'dist', `${prefix}${process.pid}`))
  await Bun.spawn(['git', 'worktree', 'prune'], { cwd: root }).exited
}

/** The commit of the release, on no branch yet; the present one when it says all of that already. */
export async function commitIn({ folder }: Workshop, version: string): Promise<string> {
  const git = gitIn(folder)
  if ((await git('status', '--porcelain')) !== '') {
    await git('commit', '--quiet', '--message', `release ${version}`, '--', 'package.json', 'CHANGELOG.md')
  }
  return git('rev-parse', 'HEAD')
}

/** @throws when making the release has changed what git follows */
export async function expectUnchanged({ folder }: Workshop, but: readonly string[] = []): Promise<void> {
  const status = await gitIn(folder)('status', '--porcelain')
  const changed = status.split('\n').filter(line => line !== '' && !but.includes(line.slice(3)))
  if (changed.length > 0) {
    throw new Error(`building and testing changed files that git follows: ${changed.join(', ')}`)
  }
}

/** Puts the files where they are found, in place of those of another release. Gives the way back. */
export async function handOver({ output }: Workshop, folder: string): Promise<() => Promise<void>> {
  const before = `${output}-before`
  await rename(folder, before).catch(error => {
    if (error.code !== 'ENOENT') throw error
  })
  await rename(output, folder)
  return async () => {
    await rename(folder, output)
    await rename(before, folder).catch(() => {})
  }
}

/**
 * Moves main to the commit and tags it. Nothing has been changed in the checkout when it throws.
 *
 * @param message file with what the tag says
 */
export async function commitAndTag(
  root: string,
  { base, version }: Planned,
  commit: string,
  message: string,
): Promise<void> {
  const git = gitIn(root)
  const present = await git('rev-parse', 'HEAD')
  if (present !== base || (await git('branch', '--show-current')) !== 'main') {
    throw new Error(
      'main has moved on in the meantime; begin again, so that what is released is what was tested',
    )
  }
  await git('merge', '--quiet', '--ff-only', commit)
  const tag = await tried(
    ['git', 'tag', '--annotate', '--cleanup=verbatim', `--file=${message}`, `v${version}`, commit],
    { cwd: root },
  )
  if (tag.status !== 0) {
    await git('reset', '--quiet', '--keep', base)
    throw new Error(`git tag failed: ${tag.stderr.trim()}`)
  }
}
