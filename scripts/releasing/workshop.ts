/**
 * Makes a release in its own worktree under dist/. So a failure at any moment leaves the checkout as it was,
 * and only what is committed gets into the release.
 */
import { mkdir, readdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import process from 'node:process'
import type { ReleasePlan } from './checks.ts'
import { gitIn, run, runCommand } from './run.ts'

const prefix = '.release-'

export interface Workshop {
  folder: string
  /** The folder for the files of the release. */
  output: string
}

const isRunning = (pid: number) => {
  try {
    return pid !== process.pid && process.kill(pid, 0)
  } catch (error) {
    // A process of another user.
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

// A process that was started in the folder may still write for a moment.
const remove = (folder: string) =>
  rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 })

/** Removes the worktrees of releases that were killed. */
async function clearAbandoned(root: string): Promise<void> {
  const dist = join(root, 'dist')
  for (const name of await readdir(dist)) {
    if (!name.startsWith(prefix) || isRunning(Number(name.slice(prefix.length)))) continue
    await remove(join(dist, name))
  }
  await gitIn(root)('worktree', 'prune')
}

/** Makes a worktree of the commit, installs what it needs, and writes the version and the changelog. */
export async function openWorkshop(
  root: string,
  { base, packageJson, changelog }: ReleasePlan,
): Promise<Workshop> {
  await mkdir(join(root, 'dist'), { recursive: true })
  await clearAbandoned(root)
  const folder = join(root, 'dist', `${prefix}${process.pid}`)
  await gitIn(root)('worktree', 'add', '--quiet', '--detach', folder, base)
  await writeFile(join(folder, 'package.json'), packageJson)
  await writeFile(join(folder, 'CHANGELOG.md'), changelog)
  // Reuse runtimes that were fetched before. Each build checks their sums.
  await mkdir(join(root, '.bun/runtimes'), { recursive: true })
  await mkdir(join(folder, '.bun'))
  await symlink(join(root, '.bun/runtimes'), join(folder, '.bun/runtimes'))
  await run(['sh', '-c', '. "$0"', 'scripts/setup'], { cwd: folder })
  return { folder, output: join(folder, 'dist', 'release') }
}

/** Removes the worktree, also when it was opened only in part. */
export async function closeWorkshop(root: string): Promise<void> {
  await remove(join(root, 'dist', `${prefix}${process.pid}`))
  await Bun.spawn(['git', 'worktree', 'prune'], { cwd: root }).exited
}

/**
 * Makes the commit of the release, on no branch yet.
 *
 * @returns its id; the present commit if there is nothing to change
 */
export async function commitIn({ folder }: Workshop, version: string): Promise<string> {
  const git = gitIn(folder)
  if ((await git('status', '--porcelain')) !== '') {
    await git('commit', '--quiet', '--message', `release ${version}`, '--', 'package.json', 'CHANGELOG.md')
  }
  return git('rev-parse', 'HEAD')
}

/** @throws Error when making the release has changed tracked files */
export async function expectUnchanged({ folder }: Workshop, but: readonly string[] = []): Promise<void> {
  const status = await gitIn(folder)('status', '--porcelain')
  const changed = status.split('\n').filter(line => line !== '' && !but.includes(line.slice(3)))
  if (changed.length > 0) {
    throw new Error(`building and testing changed tracked files: ${changed.join(', ')}`)
  }
}

/**
 * Moves the files to their final folder, in place of those of an earlier release.
 *
 * @returns a function that undoes it
 */
export async function moveOutput({ output }: Workshop, folder: string): Promise<() => Promise<void>> {
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
 * Moves main to the commit and tags it. When it throws, nothing has changed in the checkout.
 *
 * @param message file with the text of the tag
 */
export async function commitAndTag(
  root: string,
  { base, version }: ReleasePlan,
  commit: string,
  message: string,
): Promise<void> {
  const git = gitIn(root)
  const present = await git('rev-parse', 'HEAD')
  if (present !== base || (await git('branch', '--show-current')) !== 'main') {
    throw new Error('main has moved on in the meantime; start again, so that the release is what was tested')
  }
  await git('merge', '--quiet', '--ff-only', commit)
  const tag = await runCommand(
    ['git', 'tag', '--annotate', '--cleanup=verbatim', `--file=${message}`, `v${version}`, commit],
    { cwd: root },
  )
  if (tag.status !== 0) {
    await git('reset', '--quiet', '--keep', base)
    throw new Error(`git tag failed: ${tag.stderr.trim()}`)
  }
}
