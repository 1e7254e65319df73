/** The parts of a release: how each is built from a checkout, and how it is tested before the release. */
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { installed } from '../../test/support/agents.ts'
import { type Target, targets } from '../build/targets.ts'
import { billFile } from './bill.ts'
import { tryElsewhere, type Way, withoutNetwork } from './elsewhere.ts'
import type { TrialResult } from './notes.ts'
import { expectNoPaths } from './paths.ts'
import { run } from './run.ts'
import { findOwnMachine, findOwnTarget, inspectBinary, type Trial, trialOf } from './trials.ts'
import { findVulnerabilities } from './vulnerabilities.ts'

const nameOf = (target: Target) => target.name.slice('bun-'.length)

/** The names that `--only` accepts. */
export const partNames: readonly string[] = [...targets.map(nameOf), 'deno', 'package']

export interface ReleaseJob {
  /** The sources, with the version of the release. */
  folder: string
  output: string
  version: string
  parts: readonly string[]
  url?: string | undefined
}

const bun = process.execPath

/** Builds every part into `output`. */
export async function build({ folder, output, parts, url, version }: ReleaseJob): Promise<void> {
  const inSources = { cwd: folder, printsOutput: true }
  const binaries = targets.filter(target => parts.includes(nameOf(target)))
  if (binaries.length > 0) {
    const chosen = binaries.map(({ name }) => `--target=${name}`)
    const address = url === undefined ? [] : [`--url=${url}`]
    await run([bun, 'scripts/build.ts', `--outdir=${output}`, ...chosen, ...address], inSources)
  }
  await mkdir(output, { recursive: true })
  if (parts.includes('deno')) {
    await run([bun, 'scripts/bundle.ts', `--outfile=${join(output, 'svc.mjs')}`], inSources)
  }
  if (parts.includes('package')) {
    await cp(join(folder, 'src/server/svc.py'), join(output, 'svc.py'))
    await run(['npm', 'pack', '--loglevel=error', `--pack-destination=${output}`], inSources)
    // npm compresses as the Node of this machine does. Bun, whose version is fixed, does it the same everywhere.
    const tarball = Bun.file(join(output, `svc-${version}.tgz`))
    await tarball.write(Bun.gzipSync(Bun.gunzipSync(await tarball.bytes()), { library: 'libdeflate' }))
  }
  await run([bun, 'scripts/releasing/bill.ts', output], inSources)
}

/** Installs the package in a new project, with a program that uses it. */
async function installPackage(tarball: string, project: string): Promise<void> {
  await mkdir(project)
  await writeFile(join(project, 'package.json'), '{ "private": true }\n')
  await run([bun, 'add', tarball], { cwd: project, printsOutput: true })
  await cp(join(import.meta.dirname, '../smoke/talk.mjs'), join(project, 'talk.mjs'))
}

/** Returns the ways to start files of a release here. */
async function listWays({ folder, output, parts, version }: ReleaseJob, workshop: string): Promise<Way[]> {
  const ways: Way[] = []
  const own = findOwnTarget()
  if (own && parts.includes(nameOf(own)))
    ways.push({
      file: own.file,
      by: `on ${nameOf(own)}`,
      program: ['/svc'],
      files: { '/svc': join(output, own.file) },
    })
  // There is no Deno for some machines that have Bun.
  const [deno] = new Bun.Glob('node_modules/@deno/*/deno').scanSync({ cwd: folder, absolute: true })
  const runDeno = ['/deno', 'run', '--allow-all']
  if (parts.includes('deno')) {
    const files = { '/deno': deno, '/svc.mjs': join(output, 'svc.mjs') }
    ways.push({ file: 'svc.mjs', by: 'by Deno', program: [...runDeno, '--no-config', '/svc.mjs'], files })
  }
  if (parts.includes('package')) {
    const file = `svc-${version}.tgz`
    const project = join(workshop, 'project')
    await installPackage(join(output, file), project)
    const node = await installed('node@24', 'node')
    const nodePath = 'folder' in node ? join(node.folder, 'node_modules/node/bin/node') : undefined
    const main = '/project/node_modules/svc/lib/svc.js'
    const files = { '/project': project }
    ways.push(
      { file, by: 'installed, by Bun', program: ['/bun', main], files: { ...files, '/bun': bun } },
      { file, by: 'installed, by Deno', program: [...runDeno, main], files: { ...files, '/deno': deno } },
      {
        file,
        by: 'as a library, by Node 24',
        program: ['/node', '/project/talk.mjs'],
        files: { ...files, '/node': nodePath },
        isLibrary: true,
      },
    )
  }
  return ways
}

/** Returns a trial for every part, with the command that starts it if it can start here. */
async function listTrials(job: ReleaseJob, workshop: string, stack: DisposableStack): Promise<Trial[]> {
  const others = targets.filter(target => target !== findOwnTarget() && job.parts.includes(nameOf(target)))
  const ways = await listWays(job, workshop)
  return [...ways.map(way => tryElsewhere(way, stack)), ...others.map(target => trialOf(target, job.output))]
}

/**
 * Runs the whole conversation with every part that starts here.
 *
 * @throws Error when one of them fails
 */
export async function tryOut(making: ReleaseJob, say: (line: string) => void): Promise<TrialResult[]> {
  const all: TrialResult[] = []
  // A home directly below the root, such as /root, is a word that others write too.
  const paths = [making.folder, homedir()].filter(path => path.split('/').length > 2)
  await expectNoPaths(making.output, paths)
  const workshop = await mkdtemp(join(tmpdir(), 'svc-trial-'))
  using stack = new DisposableStack()
  try {
    for (const trial of await listTrials(making, workshop, stack)) {
      const { file, command, where, patience = 1, data, isLibrary } = trial
      if (!command) {
        const target = targets.find(candidate => candidate.file === file)
        const inspection = target
          ? `; inspected without a start: ${await inspectBinary(target, making.output, making.version)}`
          : ''
        all.push({ what: file, how: `${where}${inspection}`, ran: false })
        continue
      }
      say(`${file}, ${where}`)
      const options = [`--expect-version=${making.version}`, `--patience=${patience}`, '--thorough']
      if (data) options.push(`--data=${data.outside}`, `--data-inside=${data.inside}`)
      const script = isLibrary
        ? ['scripts/smoke/library.ts', data?.inside ?? join(workshop, 'library')]
        : ['scripts/smoke.ts', ...options]
      const smoke = [bun, ...script, '--', ...command]
      const started = performance.now()
      const printed = await run(data ? withoutNetwork(smoke) : smoke, {
        cwd: making.folder,
        printsOutput: true,
      })
      const seconds = ((performance.now() - started) / 1000).toFixed(0)
      const steps = printed.split('\n').filter(line => line.startsWith('ok ')).length
      all.push({ what: file, how: `a conversation in ${steps} steps and ${seconds} s, ${where}`, ran: true })
    }
  } finally {
    await rm(workshop, { recursive: true, force: true })
  }
  if (!findOwnTarget()) {
    all.push({ what: 'the binary of this machine', how: `there is none for ${findOwnMachine()}`, ran: false })
  }
  const bill = await readFile(join(making.output, billFile), 'utf8')
  const { checked, text } = await findVulnerabilities(bill, making.folder)
  say(`known vulnerabilities: ${text}`)
  all.push({ what: 'known vulnerabilities', how: text, ran: checked })
  const absent = partNames.filter(part => !making.parts.includes(part))
  all.push({
    what: 'the container image',
    how: 'made from the same sources, by ./scripts/image',
    ran: false,
  })
  if (absent.length > 0) all.push({ what: absent.join(', '), how: 'not made this time', ran: false })
  return all
}
