/**
 * Git repositories for the tests of releases: each has one commit with the project's files, and the test
 * may change it.
 */
import { mkdtempSync, readdirSync } from 'node:fs'
import { mkdir, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { type Ended, ended } from './ended.ts'

export const root = join(import.meta.dir, '../..')

/** Content of their changelog. */
export const changes =
  '# Changes\n\n## Unreleased\n\n- pigeons carry messages too\n\n## 0.0.1 – 2026-01-02\n\n- an egg\n'

/** Replaces all the tests, which include those of releases. */
const fewTests = '#!/bin/sh\necho "(skip) needs the moon"\necho "7 passed, 0 failed"\n'

interface Repository {
  path: string
  git(...args: string[]): Promise<string>
  /** Writes a file and commits it. */
  commit(file: string, content: string): Promise<void>
  release(...args: string[]): Promise<Ended>
  /**
   * Everything that a failed release must not change: branch, tags, files, worktrees, and earlier releases.
   */
  state(): Promise<Record<'head' | 'branch' | 'refs' | 'status' | 'worktrees', string> & { dist: string[] }>
}

export interface Repositories {
  /** Environment without GIT_ and SVC_ variables of the user who runs the tests. */
  env: Record<string, string>
  fresh(name: string): Promise<Repository>
  remove(): Promise<void>
}

export async function repositories(): Promise<Repositories> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-release-'))
  const env = Object.fromEntries(
    Object.entries(process.env).filter(
      (entry): entry is [string, string] => entry[1] !== undefined && !/^(GIT|SVC)_/.test(entry[0]),
    ),
  )
  const git = async (cwd: string, ...args: string[]): Promise<string> => {
    const { status, stdout, stderr } = await ended(['git', ...args], { cwd, env })
    if (status !== 0) throw new Error(`git ${args.join(' ')}: ${stderr}`)
    return stdout.trim()
  }
  const introduce = async (path: string) => {
    await git(path, 'config', 'user.name', 'Somebody')
    await git(path, 'config', 'user.email', 'somebody@example.org')
  }

  const seed = join(folder, 'seed')
  await mkdir(seed)
  await git(seed, 'init', '--quiet', '--initial-branch=main')
  await introduce(seed)
  await git(seed, '--git-dir=.git', `--work-tree=${root}`, 'add', '--all')
  await git(seed, 'commit', '--quiet', '--message=as it lies here')
  await git(seed, 'reset', '--quiet', '--hard')
  await writeFile(join(seed, 'CHANGELOG.md'), changes)
  await writeFile(join(seed, 'scripts/test'), fewTests)
  await git(seed, 'commit', '--quiet', '--all', '--message=changes, and few tests')

  const fresh = async (name: string): Promise<Repository> => {
    const path = join(folder, name)
    await git(folder, 'clone', '--quiet', seed, path)
    await introduce(path)
    await git(path, 'remote', 'remove', 'origin')
    // The fetched runtimes are shared by a link.
    await mkdir(join(root, '.bun/runtimes'), { recursive: true })
    await mkdir(join(path, '.bun'))
    await symlink(join(root, '.bun/runtimes'), join(path, '.bun/runtimes'))
    await mkdir(join(path, 'dist'))
    const inside = (...args: string[]) => git(path, ...args)
    return {
      path,
      git: inside,
      async commit(file, content) {
        await writeFile(join(path, file), content)
        await inside('commit', '--quiet', '--message=a change', '--', file)
      },
      release: (...args) =>
        ended([process.execPath, 'scripts/release.ts', ...args], { cwd: path, env, withinMs: 100_000 }),
      state: async () => ({
        head: await inside('rev-parse', 'HEAD'),
        branch: await inside('branch', '--show-current'),
        refs: await inside('for-each-ref'),
        status: await inside('status', '--porcelain'),
        worktrees: (await inside('worktree', 'list', '--porcelain')).match(/^worktree .*/gm)?.join() ?? '',
        dist: readdirSync(join(path, 'dist')),
      }),
    }
  }
  return { env, fresh, remove: () => rm(folder, { recursive: true, force: true }) }
}
