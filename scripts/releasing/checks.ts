/** Checks what must be true before a release starts. Changes nothing. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type ChangelogNotes, findNotes } from './changelog.ts'
import { gitIn, runCommand } from './run.ts'
import { compareVersions, readStatedVersion, versionOf, withVersion } from './version.ts'

export interface ReleasePlan extends ChangelogNotes {
  version: string
  /** The commit from which it is made. */
  base: string
  packageJson: string
}

/** All problems that prevent the release, each as `what; what to do`. */
export class RejectedRelease extends Error {
  readonly problems: readonly string[]

  constructor(problems: readonly string[]) {
    super(problems.join('\n'))
    this.problems = problems
  }
}

const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error))

/** Returns lines `file:line:text` of tracked files that state the version a second time. */
export async function findStatedElsewhere(root: string, version: string): Promise<string[]> {
  const words = `(svc|version)[^[:alnum:]]{0,4}v?${version.replaceAll('.', '\\.')}([^0-9A-Za-z.-]|\\.?$)`
  // The changelog is about versions, the next two list versions of others, and tests use their own.
  const besides = ['CHANGELOG.md', 'package.json', 'bun.lock', 'test'].map(name => `:(exclude)${name}`)
  const { status, stdout, stderr } = await runCommand(
    ['git', 'grep', '--no-color', '-nIiE', '-e', words, '--', '.', ...besides],
    { cwd: root },
  )
  if (status > 1) throw new Error(`git grep failed: ${stderr.trim()}`)
  return stdout.split('\n').filter(line => line !== '')
}

async function findTreeProblems(root: string): Promise<string[]> {
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
  const behind = await runCommand(['git', 'rev-list', '--count', 'HEAD..@{upstream}'], { cwd: root })
  if (behind.status === 0 && Number(behind.stdout) > 0) {
    problems.push(`upstream is ahead by ${behind.stdout.trim()}, as of the last fetch; git pull --ff-only`)
  }
  const person = await runCommand(['git', 'var', 'GIT_COMMITTER_IDENT'], { cwd: root })
  if (person.status !== 0) {
    problems.push('git does not know who you are; set git config user.name and git config user.email')
  }
  if (!Bun.which('npm')) {
    problems.push('npm, which fetches runtimes and packs, is not on the PATH; install Node.js 20 or later')
  }
  return problems
}

/**
 * Returns the plan of a release that was made before.
 *
 * @throws Error when another commit is checked out
 */
export async function planRebuild(root: string, commit: string, version: string): Promise<ReleasePlan> {
  const git = gitIn(root)
  const base = await git('rev-parse', 'HEAD')
  if (base !== commit)
    throw new Error(`it is from ${commit}, and this is ${base}; git switch --detach ${commit}`)
  const show = async (name: string) => `${await git('show', `HEAD:${name}`)}\n`
  const [packageJson, changelog] = [await show('package.json'), await show('CHANGELOG.md')]
  if (readStatedVersion(packageJson) !== version)
    throw new Error(`it says ${version}, and its commit says ${readStatedVersion(packageJson)}`)
  return { base, version, packageJson, changelog, notes: '' }
}

/**
 * Checks everything and returns what the release will be.
 *
 * @param requested a version, or major, minor, patch
 * @param day the date of the release, 2026-01-31
 * @throws Refused with all problems at once
 */
export async function planRelease(root: string, requested: string, day: string): Promise<ReleasePlan> {
  const git = gitIn(root)
  const read = (name: string) => readFile(join(root, name), 'utf8')
  const problems = await findTreeProblems(root)
  const packageJson = await read('package.json')
  const present = readStatedVersion(packageJson)

  let version: string | undefined
  let about: ChangelogNotes | undefined
  try {
    version = versionOf(requested, present)
  } catch (error) {
    problems.push(messageOf(error))
  }
  if (version !== undefined) {
    const isTagged = async (name: string) => (await git('tag', '--list', `v${name}`)) !== ''
    const order = compareVersions(version, present)
    if (await isTagged(version)) {
      problems.push(
        `the tag v${version} exists already, and a release must not change: choose a higher version`,
      )
    } else if (order < 0) {
      problems.push(`${version} is lower than ${present}, which package.json states; choose a higher one`)
    }
    try {
      about = findNotes(await read('CHANGELOG.md'), version, day)
    } catch (error) {
      problems.push(messageOf(error))
    }
  }
  for (const place of await findStatedElsewhere(root, present)) {
    problems.push(`the version is stated a second time, at ${place.trim()}; read it from package.json there`)
  }
  if (problems.length > 0 || version === undefined || about === undefined) throw new RejectedRelease(problems)
  const base = await git('rev-parse', 'HEAD')
  return { version, base, packageJson: withVersion(packageJson, version), ...about }
}
