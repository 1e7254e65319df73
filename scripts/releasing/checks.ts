/** Checks what must be true before a release starts. Changes nothing. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Noted, noted } from './changelog.ts'
import { gitIn, tried } from './run.ts'
import { statedVersion, versionOf, versionOrder, withVersion } from './version.ts'

export interface Planned extends Noted {
  version: string
  /** The commit from which it is made. */
  base: string
  packageJson: string
}

/** All problems that prevent the release, each as `what; what to do`. */
export class Refused extends Error {
  readonly problems: readonly string[]

  constructor(problems: readonly string[]) {
    super(problems.join('\n'))
    this.problems = problems
  }
}

const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error))

/** Returns lines `file:line:text` of tracked files that state the version a second time. */
export async function statedElsewhere(root: string, version: string): Promise<string[]> {
  const words = `(svc|version)[^[:alnum:]]{0,4}v?${version.replaceAll('.', '\\.')}([^0-9A-Za-z.-]|\\.?$)`
  // The changelog is about versions, the next two list versions of others, and tests use their own.
  const besides = ['CHANGELOG.md', 'package.json', 'bun.lock', 'test'].map(name => `:(exclude)${name}`)
  const { status, stdout, stderr } = await tried(
    ['git', 'grep', '--no-color', '-nIiE', '-e', words, '--', '.', ...besides],
    { cwd: root },
  )
  if (status > 1) throw new Error(`git grep failed: ${stderr.trim()}`)
  return stdout.split('\n').filter(line => line !== '')
}

async function treeProblems(root: string): Promise<string[]> {
  const git = gitIn(root)
  const problems: string[] = []
  const branch = await git('branch', '--show-current')
  if (branch !== 'main') {
    problems.push(
      `this is ${branch ? `the branch ${branch}` : 'no branch'}; releases come from main: git switch main`,
    )
  }
  const changed = (await git('status', '--porcelain')).split('\n').filter(line => line !== '')
  if (changed.length > 0) {
    const listed = changed.slice(0, 5).map(line => line.slice(3))
    const more = changed.length > 5 ? ` and ${changed.length - 5} more` : ''
    problems.push(`not committed: ${listed.join(', ')}${more}; commit it, or put it away with git stash -u`)
  }
  // Only as of the last fetch. A branch without an upstream has nothing to miss.
  const behind = await tried(['git', 'rev-list', '--count', 'HEAD..@{upstream}'], { cwd: root })
  if (behind.status === 0 && Number(behind.stdout) > 0) {
    problems.push(`upstream is ahead by ${behind.stdout.trim()}, as of the last fetch; git pull --ff-only`)
  }
  const person = await tried(['git', 'var', 'GIT_COMMITTER_IDENT'], { cwd: root })
  if (person.status !== 0) {
    problems.push('git does not know who you are; set git config user.name and git config user.email')
  }
  if (!Bun.which('npm')) {
    problems.push('npm, which fetches runtimes and packs, is not on the PATH; install Node.js 20 or later')
  }
  return problems
}

/**
 * Checks everything and returns what the release will be.
 *
 * @param requested a version, or major, minor, patch
 * @param day the date of the release, 2026-01-31
 * @throws Refused with all problems at once
 */
export async function planned(root: string, requested: string, day: string): Promise<Planned> {
  const git = gitIn(root)
  const read = (name: string) => readFile(join(root, name), 'utf8')
  const problems = await treeProblems(root)
  const packageJson = await read('package.json')
  const present = statedVersion(packageJson)

  let version: string | undefined
  let about: Noted | undefined
  try {
    version = versionOf(requested, present)
  } catch (error) {
    problems.push(messageOf(error))
  }
  if (version !== undefined) {
    const isTagged = async (name: string) => (await git('tag', '--list', `v${name}`)) !== ''
    const order = versionOrder(version, present)
    if (await isTagged(version)) {
      problems.push(
        `the tag v${version} exists already, and a release must not change: choose a higher version`,
      )
    } else if (order < 0) {
      problems.push(`${version} is lower than ${present}, which package.json states; choose a higher one`)
    }
    try {
      about = noted(await read('CHANGELOG.md'), version, day)
    } catch (error) {
      problems.push(messageOf(error))
    }
  }
  for (const place of await statedElsewhere(root, present)) {
    problems.push(`the version is stated a second time, at ${place.trim()}; read it from package.json there`)
  }
  if (problems.length > 0 || version === undefined || about === undefined) throw new Refused(problems)
  const base = await git('rev-parse', 'HEAD')
  return { version, base, packageJson: withVersion(packageJson, version), ...about }
}
