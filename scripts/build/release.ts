/**
 * Builds the folder of a release: binaries, their compressed forms, the installer, and the sums of all files.
 */
import { chmod, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import pkg from '../../package.json' with { type: 'json' }
import { buildPanel } from '../panel.ts'
import { commitLabel } from './commit.ts'
import { compile } from './compile.ts'
import type { RuntimeSource } from './runtime.ts'
import { sumsFile, writeSums } from './sums.ts'
import type { Target } from './targets.ts'

const root = resolve(import.meta.dirname, '../..')

export interface ReleaseOptions {
  outdir: string
  targets: readonly Target[]
  /** The future address of the files. Without it, the installer takes them from its own folder. */
  url?: string
  runtimes?: RuntimeSource
  /** Compression level, from 0 (none) to 12. */
  level?: number
  print(line: string): void
}

/**
 * Builds a release. A failure changes nothing. It replaces the folder only if that holds an earlier release.
 */
export async function buildRelease(options: ReleaseOptions): Promise<void> {
  const { outdir, targets, print } = options
  await checkReplaceable(outdir)
  const script = await createInstaller(options.url)
  await mkdir(dirname(outdir), { recursive: true })
  const workshop = await mkdtemp(join(dirname(outdir), `.${basename(outdir)}-`))
  try {
    const panel = join(workshop, 'panel')
    await buildPanel(panel)
    const release = join(workshop, 'release')
    await mkdir(release)
    // With a tight umask, a web server could not read the files otherwise.
    await chmod(release, 0o755)
    for (const target of targets) {
      const outfile = join(release, target.file)
      await compile({ outfile, panel, target, runtimes: options.runtimes })
      await chmod(outfile, 0o755)
      const content = await readFile(outfile)
      const packed = compress(content, options.level)
      await writeWithMode(`${outfile}.gz`, packed, 0o644)
      print(`${target.file} (${formatMegabytes(content)} MB, compressed ${formatMegabytes(packed)})`)
    }
    await writeWithMode(join(release, 'install.sh'), script, 0o755)
    await writeSums(release)
    await replace(outdir, release, join(workshop, 'before'))
  } finally {
    await rm(workshop, { recursive: true, force: true })
  }
  print(outdir)
}

/** Only a folder that a build made may be replaced. */
async function checkReplaceable(outdir: string): Promise<void> {
  const names: string[] = await readdir(outdir).catch(error => {
    if (error.code === 'ENOENT') return []
    throw error
  })
  if (names.length === 0 || names.includes(sumsFile)) return
  throw new Error(
    `${outdir} contains something that is not a release (${names[0]}): name another folder with --outdir.`,
  )
}

async function replace(outdir: string, release: string, before: string): Promise<void> {
  await rename(outdir, before).catch(error => {
    if (error.code !== 'ENOENT') throw error
  })
  await rename(release, outdir)
}

async function writeWithMode(path: string, content: Uint8Array | string, mode: number): Promise<void> {
  await writeFile(path, content)
  await chmod(path, mode)
}

// libdeflate compresses better than zlib's best level, in a third of the time. The output holds no name and
// no time.
const compress = (content: Uint8Array<ArrayBuffer>, level = 6) =>
  Bun.gzipSync(content, { library: 'libdeflate', level: level as 6 })

const formatMegabytes = (content: Uint8Array) => (content.length / 1e6).toFixed(1)

/** Returns the installer with the version and the address of this release in its first lines. */
async function createInstaller(url = ''): Promise<string> {
  const script = await readFile(join(root, 'scripts/install.sh'), 'utf8')
  const set = (text: string, name: string, value: string) => {
    const line = `\n${name}=''\n`
    if (value.includes("'")) throw new Error(`${name} has a quote: ${value}`)
    if (!text.includes(line)) throw new Error(`scripts/install.sh has no line ${line.trim()}`)
    return text.replace(line, () => `\n${name}='${value}'\n`)
  }
  if (!/^(https:\/\/[^\s'\\]+)?$/.test(url))
    throw new Error(`--url: expected an https address without blanks and quotes, got ${url}`)
  const keys = async (name: string) =>
    (await readFile(join(root, 'scripts/releasing', name), 'utf8')).replace(/^#.*\n/gm, '').trim()
  const [signers, revoked] = [await keys('signers'), await keys('revoked')]
  const commit = commitLabel()
  const version = commit === undefined ? pkg.version : `${pkg.version}+${commit}`
  const values = { version, address: url.replace(/\/+$/, ''), signers, revoked }
  return Object.entries(values).reduce((text, [name, value]) => set(text, name, value), script)
}
