/** The parts of a release: how each is built from a checkout, and how it is tested before the release. */
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { type Target, targets } from '../build/targets.ts'
import { billFile } from './bill.ts'
import type { TrialResult } from './notes.ts'
import { run, runCommand } from './run.ts'
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
  const inSources = { cwd: folder, shown: true }
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
    await run(['npm', 'pack', '--loglevel=error', `--pack-destination=${output}`], inSources)
    // npm compresses as the Node of this machine does. Bun, whose version is fixed, does it the same everywhere.
    const tarball = Bun.file(join(output, `svc-${version}.tgz`))
    await tarball.write(Bun.gzipSync(Bun.gunzipSync(await tarball.bytes()), { library: 'libdeflate' }))
  }
  await run([bun, 'scripts/releasing/bill.ts', output], inSources)
}

/** Installs the package in a new project. @returns the path of its program */
async function installPackage(tarball: string, project: string): Promise<string> {
  await mkdir(project)
  await writeFile(join(project, 'package.json'), '{ "private": true }\n')
  await run([bun, 'add', tarball], { cwd: project, printsOutput: true })
  return join(project, 'node_modules/.bin/svc')
}

/** Returns a trial for every part, with the command that starts it if it can start here. */
async function listTrials(
  { folder, output, parts, version }: ReleaseJob,
  workshop: string,
): Promise<Trial[]> {
  const found = targets
    .filter(target => parts.includes(nameOf(target)))
    .map(target => trialOf(target, output))
  if (parts.includes('deno')) {
    const deno = join(folder, 'node_modules/.bin/deno')
    // There is no Deno for some machines that have Bun.
    const { status } = await runCommand([deno, '--version'], { cwd: folder })
    const command = [deno, 'run', '--allow-all', '--no-config', join(output, 'svc.mjs')]
    const where =
      status === 0 ? { command, where: 'by Deno' } : { where: 'needs Deno, which does not run here' }
    found.push({ file: 'svc.mjs', ...where })
  }
  if (parts.includes('package')) {
    const file = `svc-${version}.tgz`
    const program = await installPackage(join(output, file), join(workshop, 'project'))
    found.push({ file, command: [program], where: `installed in an empty project, by Bun ${Bun.version}` })
  }
  return found
}

/**
 * Runs the whole conversation with every part that starts here.
 *
 * @throws Error when one of them fails
 */
export async function tryOut(making: ReleaseJob, say: (line: string) => void): Promise<TrialResult[]> {
  const all: TrialResult[] = []
  const workshop = await mkdtemp(join(tmpdir(), 'svc-trial-'))
  try {
    for (const { file, command, where, patience = 1 } of await listTrials(making, workshop)) {
      if (!command) {
        const target = targets.find(candidate => candidate.file === file)
        const inspection = target
          ? `; inspected without a start: ${await inspectBinary(target, making.output, making.version)}`
          : ''
        all.push({ what: file, how: `${where}${inspection}`, ran: false })
        continue
      }
      say(`${file}, ${where}`)
      const options = [`--expect-version=${making.version}`, `--patience=${patience}`]
      const printed = await run([bun, 'scripts/smoke.ts', ...options, '--', ...command], {
        cwd: making.folder,
        printsOutput: true,
      })
      const steps = printed.split('\n').filter(line => line.startsWith('ok ')).length
      all.push({ what: file, how: `a whole conversation in ${steps} steps, ${where}`, ran: true })
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
