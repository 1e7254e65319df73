/**
 * `./scripts/release VERSION|major|minor|patch`: makes a release of main's last commit.
 *
 * The script works in a worktree. Main, its tag and dist/release change last, after everything has passed.
 * Nothing leaves this machine. `--rebuild FOLDER` makes the files of a release again, and compares.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import process from 'node:process'
import { parseArgs } from 'node:util'
import { sumsFile } from './build/sums.ts'
import { planRebuild, planRelease, RejectedRelease } from './releasing/checks.ts'
import { notesOf, type TrialResult } from './releasing/notes.ts'
import { build, partNames, type ReleaseJob, tryOut } from './releasing/parts.ts'
import { describeOutput, readRequest } from './releasing/provenance.ts'
import { runCommand, Stopped, stop } from './releasing/run.ts'
import { checkSignature, signSums, tryKey } from './releasing/signature.ts'
import { findOwnTarget } from './releasing/trials.ts'
import {
  closeWorkshop,
  commitAndTag,
  commitIn,
  expectUnchanged,
  moveOutput,
  openWorkshop,
} from './releasing/workshop.ts'

const help = `./scripts/release VERSION|major|minor|patch [--sign KEY] [--dry-run] [--url ADDRESS] [--only PART,…]
./scripts/release --rebuild FOLDER [--unsigned]

Sets the version, builds and tries everything, runs the tests, and writes the notes. When all of it has passed, it commits
and tags. The files are then in dist/release, and the remaining steps are printed. If anything fails, nothing has changed.

  --sign KEY     signs the sums with this SSH key, which scripts/releasing/signers must name
  --dry-run      neither commits nor tags; the files go to dist/release-dry-run
  --skip-tests   runs no tests; only in a dry run
  --url ADDRESS  the future address of the files, for the installer and the notes
  --only PART,…  builds only these parts: ${partNames.join(', ')}

With --rebuild it checks the signature of a released FOLDER, makes its files again from the commit that it names, which must be
checked out, and compares their sums. --unsigned does not ask for a signature.`

interface ReleaseRequest {
  wanted: string
  dryRun: boolean
  skipTests: boolean
  url: string | undefined
  parts: readonly string[]
  /** The path of the key. */
  sign: string | undefined
}

interface RebuildRequest {
  /** The folder with the released files. */
  released: string
  unsigned: boolean
}

function parseRequest(): ReleaseRequest | RebuildRequest | undefined {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      'dry-run': { type: 'boolean', default: false },
      'skip-tests': { type: 'boolean', default: false },
      url: { type: 'string' },
      only: { type: 'string', multiple: true },
      sign: { type: 'string' },
      rebuild: { type: 'string' },
      unsigned: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  if (values.help) return undefined
  const { rebuild, unsigned, ...others } = values
  if (rebuild !== undefined) {
    const given = Object.values(others).some(value => value !== undefined && value !== false)
    if (given || positionals.length > 0) throw new Error('--rebuild takes no version and only --unsigned')
    return { released: resolve(rebuild), unsigned }
  }
  if (unsigned) throw new Error('--unsigned is for --rebuild; without --sign a release is unsigned')
  const [wanted, ...more] = positionals
  if (wanted === undefined || more.length > 0)
    throw new Error('one version is needed, or major, minor or patch')
  if (values['skip-tests'] && !values['dry-run']) {
    throw new Error('--skip-tests is only for a dry run, because a release must have passed its tests')
  }
  if (values.url !== undefined && !/^https:\/\/[^\s'\\]+$/.test(values.url)) {
    throw new Error(`--url: expected an address like https://example.org/svc, got ${values.url}`)
  }
  const parts = values.only?.flatMap(names => names.split(',')) ?? partNames
  const unknown = parts.filter(part => !partNames.includes(part))
  if (unknown.length > 0) {
    throw new Error(`unknown part ${unknown.join(', ')}; the parts are ${partNames.join(', ')}`)
  }
  const sign = values.sign === undefined ? undefined : resolve(values.sign)
  return { wanted, dryRun: values['dry-run'], skipTests: values['skip-tests'], url: values.url, parts, sign }
}

const started = performance.now()

function printLine(line: string): void {
  console.log(`${((performance.now() - started) / 1000).toFixed(0).padStart(4)} s  ${line}`)
}

/** Runs the tests. The result also names the tests that this machine could not run. */
async function runTestsIn(folder: string): Promise<TrialResult[]> {
  const { status, stdout, stderr } = await runCommand(['./scripts/test'], { cwd: folder, printsOutput: true })
  if (status !== 0) throw new Error('the tests fail; the lines above show which')
  const passed = stdout.trimEnd().split('\n').at(-1) ?? ''
  const skipped = new Set([...`${stdout}${stderr}`.matchAll(/^\(skip\) (.+)$/gm)].map(match => match[1]!))
  return [
    { what: 'types, lint and tests', how: passed, ran: true },
    ...[...skipped].map(what => ({ what, how: 'a test that was skipped', ran: false })),
  ]
}

async function release(
  root: string,
  { wanted, dryRun, skipTests, url, parts, sign }: ReleaseRequest,
): Promise<void> {
  const plan = await planRelease(root, wanted, new Date().toISOString().slice(0, 10))
  const { version } = plan
  printLine(`svc ${version}${dryRun ? ', a dry run' : ''}: the checks have passed`)
  try {
    const workshop = await openWorkshop(root, plan)
    const { folder, output } = workshop
    if (sign !== undefined) await tryKey(sign, folder)
    const commit = dryRun ? undefined : await commitIn(workshop, version)

    const untested = { what: 'types, lint and tests', how: 'left out of this dry run', ran: false }
    if (!skipTests) printLine('running the tests')
    const tests = skipTests ? [untested] : await runTestsIn(folder)
    printLine('building')
    const making: ReleaseJob = { folder, output, version, parts, url }
    await build(making)
    printLine('trying what was built')
    const all = [...(await tryOut(making, printLine)), ...tests]
    await expectUnchanged(workshop, commit === undefined ? ['package.json', 'CHANGELOG.md'] : [])

    const files = await describeOutput(making)
    if (sign !== undefined) await signSums(output, sign)
    const isSigned = sign !== undefined
    const notes = notesOf({ version, changes: plan.notes, files, tried: all, url, isSigned })
    const notesFile = join(output, 'NOTES.md')
    await writeFile(notesFile, notes)

    // The rest takes milliseconds. A stop in the middle would be worse than a late one.
    for (const signal of signals) process.removeAllListeners(signal).on(signal, () => {})
    const target = join(root, 'dist', dryRun ? 'release-dry-run' : 'release')
    await mkdir(join(root, 'dist'), { recursive: true })
    const takeBack = await moveOutput(workshop, target)
    if (commit !== undefined) {
      await commitAndTag(root, plan, commit, join(target, 'NOTES.md')).catch(async error => {
        await takeBack()
        throw error
      })
    }
    if (sign === undefined) printLine('this release is unsigned: --sign KEY signs it')
    printLine(
      commit === undefined ? 'done; nothing was committed or tagged' : `committed and tagged v${version}`,
    )
    console.log(formatRemainingSteps(version, target, commit !== undefined))
  } finally {
    await closeWorkshop(root)
  }
}

/** Makes the files of a release again. @throws Error when they are not the same */
async function rebuild(root: string, { released, unsigned }: RebuildRequest): Promise<void> {
  if (unsigned) printLine('the signature is not checked')
  else await checkSignature(released, root)
  const { commit, parts, url, version } = await readRequest(released)
  const plan = await planRebuild(root, commit, version)
  try {
    const workshop = await openWorkshop(root, plan)
    const making: ReleaseJob = { ...workshop, version, parts, url }
    await build(making)
    await describeOutput(making)
    const target = join(root, 'dist/release-rebuilt')
    await moveOutput(workshop, target)
    const [theirs, ours] = await Promise.all(
      [released, target].map(async folder => (await readFile(join(folder, sumsFile), 'utf8')).split('\n')),
    )
    const different = theirs!.filter(line => !ours!.includes(line)).map(line => line.split('  ')[1])
    const more = ours!.length - theirs!.length
    if (different.length > 0 || more !== 0)
      throw new Error(`the files in ${target} are others: ${different.join(', ') || `${more} more`}`)
    printLine(`the same ${theirs!.length - 1} files come from ${commit}`)
  } finally {
    await closeWorkshop(root)
  }
}

function formatRemainingSteps(version: string, folder: string, committed: boolean): string {
  if (!committed) return `\nThe files and NOTES.md are in ${folder}.`
  return `
Nothing has left this machine. What is left for you (more in scripts/releasing/README.md):
  git push --follow-tags
  upload the files in ${folder}; NOTES.md is the text for them
  ./scripts/image --platform linux/amd64,linux/arm64 -t ADDRESS --push
  bun test/upgrade/make-fixture.ts ${version} ${join(folder, findOwnTarget()?.file ?? 'svc')}
    and commit the four files that it makes: every later version is tested on the data of this one
To undo the release before that:
  git tag -d v${version} && git reset --keep HEAD~1`
}

const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

let chosen: ReleaseRequest | RebuildRequest | undefined
try {
  chosen = parseRequest()
} catch (error) {
  console.error(`error: ${(error as Error).message}\nhint: ./scripts/release --help`)
  process.exit(2)
}
if (!chosen) {
  console.log(help)
  process.exit(0)
}
for (const signal of signals) process.on(signal, () => stop(signal))
// Fixed file modes: the archives have the same bytes on every machine.
process.umask(0o022)
try {
  const root = resolve(import.meta.dirname, '..')
  await ('released' in chosen ? rebuild(root, chosen) : release(root, chosen))
} catch (error) {
  if (error instanceof RejectedRelease) {
    console.error('error: nothing was changed; fix this first:')
    for (const problem of error.problems) console.error(`  - ${problem}`)
  } else {
    const why = error instanceof Error ? error.message : String(error)
    console.error(`error: ${'released' in chosen ? 'not made again' : 'no release'}: ${why}`)
    if (!(error instanceof Stopped) && !('released' in chosen))
      console.error('hint: nothing was changed; fix it and start again')
  }
  process.exitCode = 1
}
